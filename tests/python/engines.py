"""Makes storage backends as SGLang does: from a config, with positional arguments, with a registered host pool."""

import hashlib
import itertools
from types import SimpleNamespace

from local_nodes import until
from peercache.hicache import PeerCacheStore

_count = itertools.count()


def config_of(extra, **changed):
    """Returns the HiCacheStorageConfig of an engine with one rank, with the attributes in `changed`."""
    fields = {
        "tp_rank": 0, "tp_size": 1, "pp_rank": 0, "pp_size": 1, "attn_cp_rank": 0, "attn_cp_size": 1,
        "is_mla_model": False, "enable_storage_metrics": False, "is_page_first_layout": True,
        "model_name": "test-model", "tp_lcm_size": None, "should_split_heads": False, **changed,
    }
    return SimpleNamespace(extra_config=extra, **fields)


def json_of(node, **more):
    """Returns the extra config (JSON) of an engine at this node, with the fields that SGLang demands."""
    return {"backend_name": "peercache", "module_path": "peercache.hicache",
            "class_name": "PeerCacheStore", "interface_v1": 1, **node.options(), **more}


def make_store(node, pool=None, extra=None, **changed):
    store = PeerCacheStore(config_of(json_of(node, **(extra or {})), **changed), {})
    if pool is not None:
        store.register_mem_pool_host(pool)
    return store


def fresh_keys(count):
    """Returns page hashes that no test has used before."""
    return [hashlib.sha256(f"{next(_count)}".encode()).hexdigest() for _ in range(count)]


def put(store, pool, keys, pages):
    """Sets the pages, and waits until the directory has their records."""
    assert store.batch_set_v1(keys, pool.indices(pages), None) == [True] * len(keys)
    published(store)


def published(store):
    flushed = store._backend.client.flush()
    assert flushed.complete and flushed.failed == 0


def knows(store, count):
    """Waits until this store's client knows `count` nodes."""
    assert until(lambda: len(store._backend.client.members()) == count)
