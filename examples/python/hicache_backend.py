"""SGLang's storage backend without SGLang: pages out of one host pool, back into another.

    hicache_backend.py                      both, with a node in this process
    hicache_backend.py set '{"client.node_port": 31998}'     through a node of this host
    hicache_backend.py get '{"client.node_port": 32998}'     through another one, in another process
"""

import hashlib
import json
import logging
import sys
import time
from typing import Any

import torch
from peercache.hicache import PeerCacheStore

PAGES, PAGE_TOKENS, LAYERS, HEADS, HEAD_DIM = 32, 64, 4, 8, 128
KEYS = [hashlib.sha256(f"page {i}".encode()).hexdigest() for i in range(PAGES)]


class HostPool:
    """The part of MHATokenToKVPoolHost of SGLang, in the layout page_first, that the backend needs."""

    layout, page_size, dtype = "page_first", PAGE_TOKENS, torch.bfloat16
    size = PAGES * PAGE_TOKENS
    layer_num, head_num, head_dim = LAYERS, HEADS, HEAD_DIM

    def __init__(self, fill: int) -> None:
        self.kv_buffer = torch.full((2, self.size, LAYERS, HEADS, HEAD_DIM), fill, dtype=self.dtype)
        self.size_per_token = 2 * LAYERS * HEADS * HEAD_DIM * 2

    def get_page_buffer_meta(self, indices: Any) -> tuple[list[int], list[int]]:
        token_bytes = self.size_per_token // 2
        first = [int(token) for token in indices[:: self.page_size]]
        halves = [half.data_ptr() for half in self.kv_buffer]
        places = [half + token * token_bytes for token in first for half in halves]
        return places, [token_bytes * self.page_size] * len(places)


class Config:
    """SGLang's HiCacheStorageConfig of a single rank."""

    tp_rank = pp_rank = 0
    tp_size = pp_size = 1
    is_mla_model, model_name = False, "example"

    def __init__(self, extra: dict[str, Any]) -> None:
        self.extra_config = {"interface_v1": 1, **extra}


def read_back(store: PeerCacheStore, wait_seconds: float) -> bool:
    """Reads the pages, if they come in time. False: some did not, or have other bytes than were set."""
    pool, indices = HostPool(fill=0), torch.arange(PAGES * PAGE_TOKENS)
    store.register_mem_pool_host(pool)
    end = time.monotonic() + wait_seconds
    while (run := store.batch_exists(KEYS)) < PAGES and time.monotonic() < end:
        time.sleep(0.01)  # A page that was just set is found as soon as it is published.
    if run == 0:
        print(f"get: 0 of {PAGES} pages, nothing was found")
        return False
    read = store.batch_get_v1(KEYS[:run], indices[: run * PAGE_TOKENS])
    right = all(read) and bool((pool.kv_buffer[:, : run * PAGE_TOKENS] == 7).all())
    print(f"get: {sum(read)} of {PAGES} pages, bytes {'right' if right else 'WRONG'}")
    return right and (run == PAGES or wait_seconds == 0)


def main(what: str, extra: dict[str, Any]) -> bool:
    store = PeerCacheStore(Config(extra), {})
    done = True
    if what in ("set", "both"):
        store.register_mem_pool_host(HostPool(fill=7))
        stored = store.batch_set_v1(KEYS, torch.arange(PAGES * PAGE_TOKENS))
        print(f"set: {sum(stored)} of {PAGES} pages")
        done = all(stored)
    if what in ("get", "both"):
        done = read_back(store, wait_seconds=5 if what == "both" else 0) and done
    store.close()
    return done


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if len(sys.argv) == 1:
        ports = {f"net.{name}_port": 0 for name in ("control", "data", "http", "lookup")}
        done = main("both", {"embedded": True, "pool.size": "64MiB", "log.level": "error", **ports})
    elif len(sys.argv) == 3 and sys.argv[1] in ("set", "get"):
        done = main(sys.argv[1], json.loads(sys.argv[2]))
    else:
        sys.exit(__doc__)
    sys.exit(0 if done else 1)
