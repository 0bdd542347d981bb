"""`mooncake.engine` as PeerCache has it (docs/transfer_engine.md)."""

from peercache.transfer_engine import TransferEngine

__all__ = ["TransferEngine"]
