"""PeerCache for Python: the cluster's shared memory for KV pages.

`Client` is the cache for any program; `peercache.hicache.PeerCacheStore` is the L3 backend of SGLang HiCache. A miss is
always allowed, a wrong byte never is, and no call outlives its deadline.
"""

from peercache._native import Error, KeySpace
from peercache.client import (
    ClearResult,
    Client,
    FlushResult,
    Memory,
    Option,
    Options,
    Origin,
    Overlap,
    Page,
    PageResult,
    Status,
    option_names,
)
from peercache.spaces import space_name

__all__ = [
    "ClearResult",
    "Client",
    "Error",
    "FlushResult",
    "KeySpace",
    "Memory",
    "Option",
    "Options",
    "Origin",
    "Overlap",
    "Page",
    "PageResult",
    "Status",
    "option_names",
    "space_name",
]
