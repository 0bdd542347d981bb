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
    """What the backend needs to know of SGLang's MHATokenToKVPoolHost in the layout page_first."""

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


def main(what: str, extra: dict[str, Any]) -> None:
    store = PeerCacheStore(Config(extra), {})
    indices = torch.arange(PAGES * PAGE_TOKENS)
    if what in ("set", "both"):
        store.register_mem_pool_host(HostPool(fill=7))
        stored = store.batch_set_v1(KEYS, indices)
        print(f"set: {sum(stored)} of {PAGES} pages")
    if what in ("get", "both"):
        pool = HostPool(fill=0)
        store.register_mem_pool_host(pool)
        end = time.monotonic() + 5
        while (run := store.batch_exists(KEYS)) < PAGES and what == "both" and time.monotonic() < end:
            time.sleep(0.01)  # What was just set is found as soon as it is published.
        read = store.batch_get_v1(KEYS[:run], indices[: run * PAGE_TOKENS])
        right = bool((pool.kv_buffer[:, : run * PAGE_TOKENS] == 7).all())
        print(f"get: {sum(read)} of {PAGES} pages, bytes {'right' if right else 'WRONG'}")
        assert right and (run == PAGES or what == "get")
    store.close()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if len(sys.argv) == 3:
        main(sys.argv[1], json.loads(sys.argv[2]))
    else:
        ports = {f"net.{name}_port": 0 for name in ("control", "data", "http", "lookup")}
        main("both", {"embedded": True, "pool.size": "64MiB", "log.level": "error", **ports})
