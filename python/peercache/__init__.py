"""PeerCache for Python: the cluster's shared memory for KV pages.

`Client` is the cache for any program; `peercache.hicache.PeerCacheStore` is the L3 backend of SGLang's
HiCache. A miss is always allowed, a wrong byte never is, and no call outlives its deadline.
"""

from peercache._native import Error, KeySpace
from peercache.client import (
    Client,
    FlushResult,
    Memory,
    Option,
    Options,
    Origin,
    Page,
    PageResult,
    Status,
    option_names,
)

__all__ = [
    "Client",
    "Error",
    "FlushResult",
    "KeySpace",
    "Memory",
    "Option",
    "Options",
    "Origin",
    "Page",
    "PageResult",
    "Status",
    "option_names",
]
