"""Tests of how a storage backend starts from an engine's JSON, with and without a node, SGLang and torch."""

import json
import pathlib
import reprlib
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest
from engines import config_of, fresh_keys, knows, make_store, put
from host_pools import FlatOnlyPool, MhaPool
from local_nodes import until
from peercache import Client
from peercache.client import option_texts
from peercache.hicache import PeerCacheStore
from peercache.hicache.backend import options_of_embedded
from peercache.hicache.contract import Ranks
from peercache.hicache.settings import READ_KEYS, settings_of
from peercache.kv_events.publisher import EventSettings


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
    for text, why in (("[1, 2]", "no JSON object"), ("{", "no JSON: "), (b"\xff", "no JSON: ")):
        with pytest.raises(ValueError, match="extra config of the storage backend is " + why):
            settings_of(text)
    with pytest.raises(ValueError, match="tp_lcm_size"):
        make_store(ring[0], tp_size=4, tp_lcm_size=6)


NAN = float("nan")
WRONG = {
    "a text": [("space", 0), ("space", False), ("space", {}), ("space", {"a": 1}), ("space", "\ud800"), ("gpu_events", 1),
               ("kv_events.endpoint", 0), ("kv_events.topic", ["kv"]),
               ("cluster.name", False), ("cluster.name", NAN), ("client.node_host", ["a"])],
    "true or false is allowed": [("own_pages_only", "yes"), ("embedded", "false"), ("embedded", 2), ("embedded", []), ("embedded", {"a": 1}),
                                 ("interface_v1", "0"), ("interface_v1", 2), ("interface_v1", [])],
    "one text, number": [("client.node_port", [1]), ("client.node_port", {}), ("client.timeout", ["1s"])],
    "a text or a list of texts": [("discovery.seeds", {"a": 1}), ("discovery.seeds", [1]), ("rdma.devices", 1)],
    "a number of seconds from 0": [("prefetch_timeout_base", []), ("prefetch_timeout_base", NAN),
                                   ("prefetch_timeout_base", -1), ("prefetch_timeout_base", True),
                                   ("prefetch_timeout_per_ki_token", "soon"),
                                   ("prefetch_timeout_max", float("inf")), ("prefetch_timeout_max", 10**400),
                                   ("kv_events.check_s", -1), ("kv_events.stale_s", "1s")],
    "a whole number from 1": [("tp_lcm_size", 0), ("tp_lcm_size", -2), ("tp_lcm_size", 1.5), ("tp_lcm_size", True),
                              ("tp_lcm_size", "8"), ("tp_lcm_size", 1 << 40), ("kv_events.blocks_max", 0)],
    "a whole number from 0": [("kv_events.buffer_steps", -1), ("kv_events.hwm", "many")],
}


@pytest.mark.parametrize("key, value, allowed", [(*pair, allowed) for allowed in WRONG for pair in WRONG[allowed]])
def test_a_value_of_a_wrong_form_is_told_with_what_is_allowed(key, value, allowed):
    for extra in ({key: value}, json.loads(json.dumps({key: value})), nested(key, value)):
        with pytest.raises(ValueError) as told:
            settings_of(extra)
        for part in (f" {key}: ", reprlib.repr(value), allowed):
            assert part in str(told.value)


def nested(key, value):
    """Returns the setting `key` as nested tables, one for each part of the dotted key."""
    first, _, rest = key.partition(".")
    return {first: nested(rest, value) if rest else value}


def test_what_is_null_is_as_if_it_were_not_there():
    nulls = dict.fromkeys([*READ_KEYS, "client.node_port", "cluster.name"])
    assert settings_of(nulls) == settings_of({}) == settings_of({"space": ""})
    events = {"endpoint": "tcp://*:1", "replay_endpoint": None, "hwm": None}
    assert settings_of({"kv_events": events}).events == EventSettings("tcp://*:1")


def test_values_of_the_right_form_are_taken():
    given = {"space": "a", "embedded": True, "interface_v1": True, "tp_lcm_size": 8, "client.node_port": "31998",
             "discovery.seeds": ["a:1", "b:2"], "rdma.devices": "a,b",
             "kv_events": {"endpoint": "tcp://*:1", "check_s": 2}}
    found = settings_of(given)
    assert (found.space, found.embedded, found.interface_v1, found.tp_lcm_size) == ("a", True, True, 8)
    assert found.options == {key: given[key] for key in ("client.node_port", "discovery.seeds", "rdma.devices")}
    assert found.events.check_s == 2
    assert not settings_of({"embedded": False, "interface_v1": 0}).interface_v1
    assert settings_of({"embedded": 1}).embedded is True


def test_a_node_whose_name_nobody_knows_is_a_miss():
    """The host name is too long for DNS, so no server is asked for it."""
    store = PeerCacheStore(config_of({"client.node_host": "a" * 64}), {})
    assert store.exists("a") is False
    store.close()


def test_the_word_off_is_a_truth_value_in_yaml():
    given = {"pool.mirror": False, "client.verify_rdma": False, "metrics.enabled": False}
    assert option_texts(given) == {"pool.mirror": "off", "client.verify_rdma": "off", "metrics.enabled": "false"}


def test_a_client_takes_no_list_where_one_value_is_wanted(ring):
    for wrong in ([int(ring[0].ports[0])], None, {}):
        with pytest.raises(ValueError, match="client.node_port: .* is given, one text, number"):
            Client({**ring[0].options(), "client.node_port": wrong})


@pytest.mark.parametrize("wrong, allowed", [
    ({"tp_size": 0}, "1 to 65536"), ({"tp_size": -4}, "1 to 65536"), ({"tp_size": 1.5}, "1 to 65536"),
    ({"tp_size": [1]}, "1 to 65536"), ({"pp_size": 0}, "1 to 65536"), ({"attn_cp_size": True}, "1 to 65536"),
    ({"tp_rank": 4, "tp_size": 4}, "0 to 3"), ({"tp_rank": -1}, "0 to 0"), ({"tp_rank": "a"}, "0 to 0"),
    ({"pp_rank": 2, "pp_size": 2}, "0 to 1"), ({"attn_cp_rank": 1}, "0 to 0"), ({"tp_lcm_size": 0}, "1 to 65536"),
])
def test_ranks_that_make_no_sense_fail_at_start(wrong, allowed):
    key, value = next(iter(wrong.items()))
    with pytest.raises(ValueError) as told:
        PeerCacheStore(config_of({"client.timeout": "50ms"}, **wrong), {})
    assert str(told.value) == f"{key}: {value!r} is given, a whole number from {allowed} is allowed"


def test_a_rank_without_the_size_of_its_group_is_taken():
    """An older SGLang may tell only the rank, and not the size of its group."""
    assert Ranks.of(SimpleNamespace(tp_rank=3, tp_size=4, pp_rank=1)).pp_rank == 1


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


def test_the_unified_tree_waits_for_another_time():
    base, per_ki, most = (f"prefetch_timeout_{name}" for name in ("base", "per_ki_token", "max"))
    assert settings_of(None).batch_budget_s(1024, unified=True) == 1.25
    assert settings_of(None).batch_budget_s(1 << 20, unified=True) == 257, "without a bound"
    assert settings_of({base: 3, per_ki: 1}).batch_budget_s(2048, unified=True) == 5
    assert settings_of({most: 4}).batch_budget_s(1 << 20, unified=True) == 4


def test_an_engine_may_start_before_its_node(fragile_ring):
    ring = fragile_ring(1)
    ring[0].kill()
    pool = MhaPool()
    store = make_store(ring[0], pool, extra={"client.timeout": "500ms"})
    keys = fresh_keys(2)
    assert store.batch_set_v1(keys, pool.indices([0, 1])) == [False] * 2
    ring.restart(0)
    assert until(lambda: store.batch_set_v1(keys, pool.indices([0, 1])) == [True] * 2, 60)
    assert until(lambda: store.batch_exists(keys) == 2, 60)
    store.close()


@pytest.mark.parametrize("bind", ["127.0.0.1", "127.0.0.2"])
def test_ranks_with_an_embedded_node_share_the_first_ones(bind):
    extra = {"interface_v1": 1, "embedded": True, "pool.size": "16MiB", "log.level": "error", "net.bind": bind,
             "cluster.name": "embedded-ranks", "net.data_port": 0, "net.http_port": 0,
             "net.control_port": free_port()}
    pools = [MhaPool(seed=1), MhaPool(seed=2)]
    stores = [PeerCacheStore(config_of(extra, tp_rank=r, tp_size=2), {}) for r in (0, 1)]
    for store, pool in zip(stores, pools):
        store.register_mem_pool_host(pool)
        knows(store, 1)
    keys = fresh_keys(2)
    for store, pool in zip(stores, pools):
        put(store, pool, keys, [0, 1])
    assert [store.batch_exists(keys) for store in stores] == [2, 2]
    for store in reversed(stores):
        store.close()


def test_the_first_set_of_a_rank_beside_an_embedded_node_is_kept():
    """A rank may set its first pages before its client has found the node that another rank embeds."""
    extra = {"interface_v1": 1, "embedded": True, "pool.size": "16MiB", "log.level": "error",
             "cluster.name": "embedded-first-set", "net.data_port": 0, "net.http_port": 0, "net.lookup_port": 0}
    for _ in range(5):
        extra["net.control_port"] = free_port()
        pools = [MhaPool(seed=1), MhaPool(seed=2)]
        stores = []
        for rank, pool in enumerate(pools):
            stores.append(PeerCacheStore(config_of(extra, tp_rank=rank, tp_size=2), {}))
            stores[-1].register_mem_pool_host(pool)
            assert stores[-1].batch_set_v1(fresh_keys(2), pool.indices([0, 1])) == [True] * 2, rank
        for store in reversed(stores):
            store.close()


@pytest.mark.parametrize("given, host", [
    ({}, "127.0.0.1"), ({"net.bind": "10.0.0.11"}, "10.0.0.11"), ({"net.bind": "0.0.0.0"}, "127.0.0.1"),
    ({"net.bind": "::"}, "::1"), ({"net.bind": "10.0.0.11", "client.node_host": "10.0.0.12"}, "10.0.0.12")])
def test_where_an_embedded_node_of_another_rank_is_looked_for(given, host):
    found = options_of_embedded({**given, "net.control_port": 7})
    assert (found["client.node_host"], found["client.node_port"]) == (host, 7)


def free_port():
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_pages_that_are_too_small_or_too_large_are_told(ring, engine, caplog):
    engine(ring[0], MhaPool(page_size=1, pages=4))
    assert "--page-size 64" in caplog.text
    copies = FlatOnlyPool()
    copies.size_per_token = 1 << 30
    state = FlatOnlyPool(page_size=1)
    state.size_per_token = 65 << 20
    for huge, cure in [(copies, "use a smaller --page-size"), (state, "a larger --tp may make it smaller")]:
        caplog.clear()
        store = engine(ring[0], huge)
        assert cure in caplog.text
        assert store.batch_set_v1(fresh_keys(1), huge.indices([0])) == [False]
    modest = MhaPool()
    modest.size_per_token = 1 << 30
    assert engine(ring[0], modest).batch_set_v1(fresh_keys(1), modest.indices([0])) == [True], "its parts count"


def run_python(code, **options):
    return subprocess.run([sys.executable, "-B", "-c", textwrap.dedent(code)], check=True, text=True,
                          capture_output=True, timeout=250, **options).stdout


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
    """SGLang's factory demands a subclass of its own class, and calls it with (config, kwargs)."""
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


EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/python/hicache_backend.py"


def example(what, node, space):
    """Runs the example. Returns its exit code and its output."""
    extra = json.dumps({**node.options(), "space": space})
    done = subprocess.run([sys.executable, "-B", EXAMPLE, what, extra], check=False, text=True, capture_output=True,
                          timeout=100)
    return done.returncode, done.stdout


def test_the_example_says_plainly_that_nothing_was_found(ring):
    assert example("get", ring[0], "of the example") == (1, "get: 0 of 32 pages, nothing was found\n")
    assert example("set", ring[0], "of the example") == (0, "set: 32 of 32 pages\n")
    found = (0, "get: 32 of 32 pages, bytes right\n")
    assert until(lambda: example("get", ring[0], "of the example") == found, 60)
