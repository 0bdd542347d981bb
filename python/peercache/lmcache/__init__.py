"""PeerCache as an L2 adapter of LMCache's multiprocess mode; loads without LMCache."""

from peercache.lmcache.connector import PeerCacheConnector

__all__ = ["PeerCacheConnector"]
