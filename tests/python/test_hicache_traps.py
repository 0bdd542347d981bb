"""What kills or fools an engine that others' backends have: each trap of the contract is a test."""

import ctypes
import subprocess
import sys
import textwrap
import threading
import time
from statistics import median
from types import SimpleNamespace

import pytest
import torch
from engines import config_of, fresh_keys, json_of, knows, make_store, published, put
from host_pools import FlatOnlyPool, MhaPool
from local_nodes import LATE_SECONDS, until
from peercache.hicache import PeerCacheStore, guard
from peercache.hicache.settings import settings_of


def test_exists_is_a_leading_run_and_no_count(ring, engine):
    pool = MhaPool()
    store = engine(ring[0], pool)
    keys = fresh_keys(6)
    put(store, pool, [keys[0], keys[1], keys[3], keys[5]], [0, 1, 2, 3])
    assert store.batch_exists(keys) == 2
    assert store.batch_exists(keys[1:]) == 1
    assert store.batch_exists(keys[2:]) == 0
    assert store.batch_exists([]) == 0


def test_a_get_says_for_each_key_whether_it_is_there(ring, engine):
    pool = MhaPool()
    store = engine(ring[0], pool)
    keys = fresh_keys(5)
    put(store, pool, [keys[0], keys[2], keys[4]], [0, 1, 2])
    assert store.batch_get_v1(keys, pool.indices([5, 6, 7, 8, 9])) == [True, False, True, False, True]
    assert [pool.bytes_of(p) for p in (5, 7, 9)] == [pool.bytes_of(p) for p in (0, 1, 2)]


BROKEN_CALLS = {
    "too few indices": lambda pool, keys: (keys, pool.indices([0])),
    "too many indices": lambda pool, keys: (keys, pool.indices([0, 1, 2])),
    "no indices": lambda pool, keys: (keys, None),
    "indices beyond the pool": lambda pool, keys: (keys, pool.indices([1000, 1001])),
    "keys that are no strings": lambda pool, keys: ([1, None], pool.indices([0, 1])),
}


@pytest.mark.parametrize("kind", BROKEN_CALLS)
def test_a_broken_call_is_a_list_of_false(ring, engine, kind):
    pool = MhaPool()
    pool._pieces = lambda page: unchecked_pieces(pool, page)
    store = engine(ring[0], pool)
    keys, indices = BROKEN_CALLS[kind](pool, fresh_keys(2))
    assert store.batch_get_v1(keys, indices) == [False, False]
    assert store.batch_set_v1(keys, indices) == [False, False]
    transfer = SimpleNamespace(name="kv", keys=keys, host_indices=indices, hit_policy="all_pages")
    assert store.batch_get_v2([transfer]) == {"kv": [False, False]} == store.batch_set_v2([transfer])


BROKEN_TRANSFERS = {
    "none": (None, {}),
    "a number": (7, {}),
    "no transfers": ([None, "kv"], {}),
    "no keys": ([SimpleNamespace(name="kv", hit_policy="all_pages")], {"kv": []}),
    "keys that are a number": ([SimpleNamespace(name="kv", keys=7, hit_policy="all_pages")], {"kv": []}),
    "no indices": ([SimpleNamespace(name="kv", keys=["a"], hit_policy="all_pages")], {"kv": [False]}),
}


@pytest.mark.parametrize("kind", BROKEN_TRANSFERS)
def test_broken_transfers_are_misses(ring, engine, kind):
    store = engine(ring[0], MhaPool())
    transfers, misses = BROKEN_TRANSFERS[kind]
    assert store.batch_get_v2(transfers) == misses == store.batch_set_v2(transfers)
    assert store.batch_exists_v2(fresh_keys(1), transfers).kv_hit_pages == 0


def unchecked_pieces(pool, page):
    """Addresses as SGLang computes them: beyond the pool as well."""
    size = pool.size_per_token * pool.page_size // 2
    base = pool.kv_buffer.data_ptr()
    v_offset = pool.kv_buffer[0].numel() * pool.itemsize
    return [FakePiece(base + page * size, size), FakePiece(base + v_offset + page * size, size)]


class FakePiece(SimpleNamespace):
    def __init__(self, address, size):
        super().__init__(data_ptr=lambda: address, numel=lambda: size // 2, is_contiguous=lambda: True)


def test_a_store_without_a_host_pool_misses(ring, engine):
    store = engine(ring[0])
    keys = fresh_keys(2)
    assert store.batch_exists(keys) == 0 and store.exists(keys[0]) is False
    assert store.batch_get_v1(keys, torch.arange(8)) == [False] * 2 == store.batch_set_v1(keys, torch.arange(8))
    assert store.batch_get(keys, None) == [None] * 2 and store.batch_set(keys, None) is False
    assert store.get(keys[0]) is None and store.set(keys[0], None) is False
    assert store.batch_exists_v2(keys, None).kv_hit_pages == 0


def test_a_pool_that_raises_is_a_miss_and_no_exception(ring, engine, caplog, monkeypatch):
    monkeypatch.setattr(guard, "_said_at", {})  # Other tests have had their minute.
    pool = MhaPool()
    store = engine(ring[0], pool)

    def broken(indices):
        raise RuntimeError("the pool is broken")

    pool.get_page_buffer_meta = broken
    no_page = pool.indices([0]).flip(0)  # Where whole pages lie, the pool has been asked before.
    for _ in range(3):
        assert store.batch_get_v1(fresh_keys(1), no_page) == [False]
    said = [r for r in caplog.records if "batch_get_v1 failed" in r.message]
    assert len(said) == 1, "a fault is told once a minute, not once a call"


def test_a_pool_of_no_known_kind_breaks_no_registration_by_name(ring, engine):
    """SGLang may name the arguments."""
    store = engine(ring[0])
    broken = SimpleNamespace(page_size="four")
    assert store.register_mem_pool_host(mem_pool_host=broken) is None
    assert store.register_mem_host_pool_v2(host_pool=broken, host_pool_name="swa") is None
    assert store.batch_exists(fresh_keys(1)) == 0


def test_a_set_has_copied_when_it_returns(ring, engine):
    """SGLang overwrites the pages as soon as a set has answered."""
    pool = MhaPool(pages=32, layers=16, heads=8, head_dim=64, page_size=16)
    store = engine(ring[0], pool)
    keys = fresh_keys(16)
    wanted = [pool.bytes_of(p) for p in range(16)]
    assert store.batch_set_v1(keys, pool.indices(range(16))) == [True] * 16
    pool.wipe(range(16))
    published(store)
    assert store.batch_get_v1(keys, pool.indices(range(16, 32))) == [True] * 16
    assert [pool.bytes_of(p) for p in range(16, 32)] == wanted


def test_all_ranks_of_a_group_say_the_same(ring, engine):
    """Rank 1 lacks pages that ranks 0 and 2 have: nobody may begin a prefetch of them alone."""
    pools = [MhaPool() for _ in range(3)]
    stores = [engine(ring[rank % 2], pool, 2, tp_rank=rank, tp_size=3) for rank, pool in enumerate(pools)]
    keys = fresh_keys(8)
    for store, pool, has in zip(stores, pools, (8, 5, 7)):
        put(store, pool, keys[:has], list(range(has)))
    assert [store.batch_exists(keys) for store in stores] == [5, 5, 5]
    transfers = [SimpleNamespace(name="kv", keys=None, host_indices=None, hit_policy="all_pages")]
    assert [s.batch_exists_v2(keys, transfers).kv_hit_pages for s in stores] == [5, 5, 5]


@pytest.mark.parametrize("tp_size", [1, 8])
def test_one_exists_asks_for_2048_keys(ring, engine, tp_size):
    pool = MhaPool(pages=2048, layers=1, heads=1, head_dim=8)
    patient = {"client.timeout": "30s"}  # What is not answered by then is a miss.
    stores = [engine(ring[0], pool, extra=patient, tp_rank=rank, tp_size=tp_size) for rank in range(tp_size)]
    keys = fresh_keys(2048)
    for store in stores:
        put(store, pool, keys, list(range(2048)))
    assert stores[-1].batch_exists_v2(keys, []).kv_hit_pages == 2048
    at_once, in_parts = [], []
    for _ in range(7):
        begin = time.monotonic()
        assert stores[0].batch_exists(keys) == 2048
        at_once.append(time.monotonic() - begin)
        begin = time.monotonic()
        for first in range(0, 2048, 128):
            assert stores[0].batch_exists(keys[first : first + 128]) == 128
        in_parts.append(time.monotonic() - begin)
    assert median(at_once) < median(in_parts), "many keys cost no more than the same in many calls"


def test_a_host_page_is_not_read_into_for_two_keys(ring, engine):
    pool = MhaPool()
    store = engine(ring[0], pool)
    keys = fresh_keys(3)
    put(store, pool, keys, [0, 1, 2])
    before = pool.bytes_of(5)
    assert store.batch_get_v1(keys, pool.indices([4, 5, 5])) == [False] * 3
    assert pool.bytes_of(5) == before
    assert store.batch_get_v1(keys, pool.indices([4, 5, 6])) == [True] * 3


def test_a_get_takes_no_longer_than_sglang_waits(fragile_ring, engine):
    ring = fragile_ring(2)
    pool = MhaPool()
    impatient = {"prefetch_timeout_base": 0.3, "prefetch_timeout_per_ki_token": 0.0001}
    writer = engine(ring[1], pool, 2)
    reader = engine(ring[0], pool, 2, extra=impatient)
    keys = fresh_keys(4)
    put(writer, pool, keys, range(4))
    assert reader.batch_exists(keys) == 4
    ring[1].freeze()
    begin = time.monotonic()
    assert reader.batch_get_v1(keys, pool.indices(range(4, 8))) == [False] * 4
    assert time.monotonic() - begin < 0.3 + LATE_SECONDS
    ring[1].thaw()


def test_unknown_keys_of_the_json_are_told_once(ring, engine, caplog):
    store = engine(ring[0], extra={"no_such_thing": 1, "another": "x", "prefetch_threshold": 256})
    said = [r for r in caplog.records if "no option of PeerCache" in r.message]
    assert len(said) == 1
    assert "another, no_such_thing" in said[0].message and "prefetch_threshold" not in said[0].message
    assert store.batch_exists([]) == 0


def test_without_interface_v1_one_line_says_what_to_add(ring, engine, caplog):
    engine(ring[0], extra={"interface_v1": 0})
    said = [r for r in caplog.records if '"interface_v1": 1' in r.message]
    assert len(said) == 1 and said[0].levelname == "WARNING"
    caplog.clear()
    engine(ring[0])
    assert '"interface_v1": 1' not in caplog.text


def test_a_json_that_makes_no_sense_fails_at_start(ring):
    for extra in ({"client.timeout": "soon"}, {"client.node_port": "x"}):
        with pytest.raises(ValueError, match="client"):
            make_store(ring[0], extra=extra)
    with pytest.raises(ValueError):
        settings_of("[1, 2]")
    with pytest.raises(ValueError, match="tp_lcm_size"):
        make_store(ring[0], tp_size=4, tp_lcm_size=6)


def test_the_json_may_be_text_or_have_tables():
    assert settings_of('{"space": "a", "client.timeout": "1s"}').space == "a"
    assert settings_of({"client": {"timeout": "1s"}}).options == {"client.timeout": "1s"}
    assert settings_of(None).options == {}


def test_a_time_of_0_is_a_time():
    base, per_ki, most = (f"prefetch_timeout_{name}" for name in ("base", "per_ki_token", "max"))
    assert settings_of(None).batch_budget_s(1024) == 2.1
    assert settings_of({base: None, per_ki: None, most: None}).batch_budget_s(1 << 20) == 30
    assert settings_of({base: 0}).batch_budget_s(2048) == 0.2
    assert settings_of({per_ki: 0}).batch_budget_s(2048) == 2
    assert settings_of({most: 0}).batch_budget_s(2048) == 0


def test_an_engine_may_start_before_its_node(fragile_ring):
    ring = fragile_ring(1)
    ring[0].kill()
    pool = MhaPool()
    store = make_store(ring[0], pool, extra={"client.timeout": "500ms"})
    keys = fresh_keys(2)
    assert store.batch_set_v1(keys, pool.indices([0, 1])) == [False] * 2
    ring.restart(0)
    assert until(lambda: store.batch_set_v1(keys, pool.indices([0, 1])) == [True] * 2)
    assert until(lambda: store.batch_exists(keys) == 2)
    store.close()


def test_ranks_with_an_embedded_node_share_the_first_ones(caplog):
    def extra(**more):
        return {"interface_v1": 1, "embedded": True, "pool.size": "16MiB", "log.level": "error",
                "cluster.name": "embedded-ranks", "net.data_port": 0, "net.http_port": 0, **more}

    pools = [MhaPool(seed=1), MhaPool(seed=2)]
    port = free_port()
    stores = [PeerCacheStore(config_of(extra(**{"net.control_port": port}), tp_rank=r, tp_size=2), {}) for r in (0, 1)]
    for store, pool in zip(stores, pools):
        store.register_mem_pool_host(pool)
        knows(store, 1)
    keys = fresh_keys(2)
    for store, pool in zip(stores, pools):
        put(store, pool, keys, [0, 1])
    assert [store.batch_exists(keys) for store in stores] == [2, 2]
    for store in reversed(stores):
        store.close()


def free_port():
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_pages_that_are_too_small_or_too_large_are_told(ring, engine, caplog):
    engine(ring[0], MhaPool(page_size=1, pages=4))
    assert "--page-size 64" in caplog.text
    pages = MhaPool(pages=1, page_size=16, layers=16, heads=64, head_dim=1040)
    copies = FlatOnlyPool()
    copies.size_per_token = 1 << 30
    state = FlatOnlyPool(page_size=1)
    state.size_per_token = 65 << 20
    for huge, cure in [(pages, "use a smaller --page-size"), (copies, "use a smaller --page-size"),
                       (state, "a larger --tp may make it smaller")]:
        caplog.clear()
        store = engine(ring[0], huge)
        assert cure in caplog.text
        assert store.batch_set_v1(fresh_keys(1), huge.indices([0])) == [False]
    modest = MhaPool()
    modest.size_per_token = 1 << 30
    assert engine(ring[0], modest).batch_set_v1(fresh_keys(1), modest.indices([0])) == [True], "its parts count"


def run_python(code, **options):
    return subprocess.run([sys.executable, "-B", "-c", textwrap.dedent(code)], check=True, text=True,
                          capture_output=True, timeout=60, **options).stdout


def test_it_loads_without_sglang_and_without_torch():
    out = run_python("""
        import sys
        for missing in ("torch", "sglang", "numpy"):
            sys.modules[missing] = None
        from peercache.hicache import PeerCacheStore
        print(PeerCacheStore.__mro__[1].__name__)
    """)
    assert out.strip() == "OwnStorageBase"


SGLANG_STORAGE = """
from abc import ABC, abstractmethod
class HiCacheStorage(ABC):
    def register_mem_pool_host(self, mem_pool_host): self.mem_pool_host = mem_pool_host
    @abstractmethod
    def get(self, key): ...
    @abstractmethod
    def batch_get(self, keys): ...
    @abstractmethod
    def set(self, key): ...
    @abstractmethod
    def batch_set(self, keys): ...
    @abstractmethod
    def exists(self, key): ...
class PoolTransferResult:
    def __init__(self, kv_hit_pages, extra_pool_hit_pages): self.kv_hit_pages = kv_hit_pages
"""
SGLANG_METRICS = """
class StorageMetrics:
    def __init__(self):
        self.prefetch_pgs, self.backup_pgs = [], []
        self.prefetch_bandwidth, self.backup_bandwidth = [], []
"""


def test_it_is_a_subclass_where_sglang_is(tmp_path):
    """SGLang's factory demands issubclass, and calls the class with (config, kwargs)."""
    pages = tmp_path / "sglang/srt/mem_cache"
    metrics = tmp_path / "sglang/srt/observability"
    for folder in (pages, metrics):
        folder.mkdir(parents=True)
    (pages / "hicache_storage.py").write_text(SGLANG_STORAGE)
    (metrics / "metrics_collector.py").write_text(SGLANG_METRICS)
    out = run_python(f"""
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        from types import SimpleNamespace
        import importlib
        from sglang.srt.mem_cache.hicache_storage import HiCacheStorage, PoolTransferResult
        from sglang.srt.observability.metrics_collector import StorageMetrics
        Class = getattr(importlib.import_module("peercache.hicache"), "PeerCacheStore")
        assert issubclass(Class, HiCacheStorage)
        config = SimpleNamespace(tp_rank=0, tp_size=1, model_name="old", is_mla_model=False,
            enable_storage_metrics=True,
            extra_config={{"interface_v1": 1, "client.node_port": 1, "client.timeout": "50ms", "log.level": "off"}})
        store = Class(config, {{}})
        assert isinstance(store.get_stats(), StorageMetrics)
        assert isinstance(store.batch_exists_v2(["a"]), PoolTransferResult)
        assert store.batch_get_v1(["a"], [0]) == [False]
        store.close()
        print("ok")
    """)
    assert out.strip() == "ok"
