"""PeerCache as the L3 of SGLang HiCache; loads without SGLang and without torch."""

from peercache.hicache.store import PeerCacheStore

__all__ = ["PeerCacheStore"]
