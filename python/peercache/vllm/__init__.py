"""PeerCache as a secondary tier of vLLM's OffloadingConnector; loads without vLLM and without torch."""

from peercache.vllm.tier import PeerCacheTier

__all__ = ["PeerCacheTier"]
