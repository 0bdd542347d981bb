"""Tests of attaching and detaching the backend at run time: it must leave nothing behind in the engine's process."""

import gc
import os
import pathlib
import threading
from types import SimpleNamespace

import pytest
from connector_engines import Engine, fresh_model
from engines import fresh_keys, make_store, published, put
from host_pools import MhaPool, StatePool
from local_nodes import until
from natives import CountedNative, Registrations
from peercache import _native
from peercache.hicache import backend

CYCLES = 100
STATES = StatePool()


def belongings():
    """Returns how much of each kind of resource that a store uses this process has: threads, descriptors, shared
    memory."""
    maps = pathlib.Path("/proc/self/maps").read_text()
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "python threads": threading.active_count(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "mapped pools": sum("/dev/shm/" in line for line in maps.splitlines()),
    }


def no_more_than(before):
    """Whether this process has no more of any kind of resource than `before`. It may have less, because leftovers of
    other tests may have ended."""
    now = belongings()
    return all(now[kind] <= count for kind, count in before.items())


def resident_kib():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


@pytest.fixture
def held(monkeypatch):
    """Counts how often each address is registered by the clients that the test makes."""
    counts, native = Registrations(), _native.Client
    monkeypatch.setattr(_native, "Client", lambda *arguments: CountedNative(native(*arguments), counts))
    return counts


def cycle(ring, pool, index):
    store = make_store(ring[index % 2], pool)
    keys = fresh_keys(2)
    put(store, pool, keys, [0, 1])
    assert store.batch_get_v1(keys, pool.indices([2, 3])) == [True] * 2
    store.close()


def cycle_v2(ring, pool, index):
    """Attaches a store with two named pools (the host pool and a pool of states), uses it, and detaches it."""
    store, keys = make_store(ring[index % 2], pool), fresh_keys(2)
    for name, each in (("kv", pool), ("mamba", STATES)):
        store.register_mem_host_pool_v2(each, name)

    def transfers(pages):
        return [SimpleNamespace(name=name, keys=keys, host_indices=each.indices(pages), hit_policy="all_pages")
                for name, each in store.registered_pools.items()]

    assert store.batch_set_v2(transfers([0, 1])) == {"kv": [True] * 2, "mamba": [True] * 2}
    published(store)
    assert store.batch_get_v2(transfers([2, 3])) == {"kv": [True] * 2, "mamba": [True] * 2}
    store.close()


@pytest.mark.parametrize("one", [cycle, cycle_v2])
def test_a_hundred_attachments_leave_nothing_behind(ring, held, one):
    pool = MhaPool()
    for index in range(4):  # The first rounds also allocate memory that the process allocates only once.
        one(ring, pool, index)
    gc.collect()
    before, memory = belongings(), resident_kib()
    for index in range(CYCLES):
        one(ring, pool, index)
        assert held and set(held.values()) == {0}, "memory that stays registered"
        assert held.registrations >= index + 1
    gc.collect()
    assert until(lambda: no_more_than(before), 30), (before, belongings())
    assert resident_kib() - memory < 64 << 10


def test_a_store_that_nobody_closed_ends_with_its_last_reference(ring):
    pool = MhaPool()
    cycle(ring, pool, 0)
    gc.collect()
    before = belongings()
    store = make_store(ring[0], pool)
    assert belongings()["threads"] > before["threads"]
    del store
    gc.collect()
    assert until(lambda: no_more_than(before), 30), (before, belongings())


def test_what_a_store_registers_it_gives_back(ring, held):
    pools = [MhaPool() for _ in range(3)]
    first, second, named = [pool.kv_buffer.data_ptr() for pool in pools]
    store = make_store(ring[0], pools[0])
    store.register_mem_host_pool_v2(pools[0], "kv")
    store.register_mem_host_pool_v2(pools[2], "swa")
    assert held == {first: 1, named: 1}
    store.register_mem_host_pool_v2(pools[1], "swa")
    assert held == {first: 1, second: 1, named: 0}, "another pool of that name"
    store.register_mem_host_pool_v2(pools[0], "swa")
    store.register_mem_host_pool_v2(pools[2], "swa")
    assert held == {first: 1, second: 0, named: 1}, "the first one's memory is that of kv as well"
    store.register_mem_pool_host(pools[1])
    assert held == {first: 0, second: 1, named: 0}
    store.register_mem_host_pool_v2(pools[2], "swa")
    assert held == {first: 0, second: 1, named: 1}
    store.close()
    store.close()
    assert held == {first: 0, second: 0, named: 0}


@pytest.mark.timed
def test_memory_that_a_call_may_write_to_stays_registered(ring, held, monkeypatch):
    """After a get that was cut short may still write, its pool's memory stays registered until the get has ended, and
    must not be taken for other memory at the same addresses."""
    monkeypatch.setattr(backend, "CLOSE_SECONDS", 0)
    pools = [MhaPool() for _ in range(4)]
    first, second, named, other = [pool.kv_buffer.data_ptr() for pool in pools]
    store, keys = make_store(ring[0], pools[0], extra={"client.timeout": "100ms"}), fresh_keys(1)
    store.register_mem_host_pool_v2(pools[2], "swa")
    with store._backend:
        store.register_mem_host_pool_v2(pools[3], "swa")
        assert held == {first: 1, named: 1, other: 1}, "it lies elsewhere"
        store.register_mem_pool_host(pools[1])
        assert held == {first: 1, named: 1, other: 1, second: 1}
        assert store.batch_set_v1(keys, pools[1].indices([0])) == [True]
        store.register_mem_pool_host(pools[0])
        assert store.batch_set_v1(keys, pools[0].indices([0])) == [False]
    store.register_mem_pool_host(pools[1])
    assert held == {first: 0, named: 0, other: 0, second: 1}
    store.register_mem_host_pool_v2(pools[3], "swa")
    with store._backend:
        store.close()
        assert held == {first: 0, named: 0, second: 1, other: 1}


def test_what_a_connector_registers_it_gives_back(ring, held):
    engine = Engine(ring[0], fresh_model())
    assert sum(held.values()) >= 1 and set(held.values()) == {1}
    engine.connector.close()
    engine.connector.close()
    assert set(held.values()) == {0}


def test_an_attached_store_is_used_by_threads_that_outlive_it(ring):
    """SGLang's threads live on when another thread detaches the backend."""
    pool = MhaPool()
    stores, go, ready = [make_store(ring[0], pool)], threading.Event(), threading.Barrier(3)

    def engine_thread():
        assert stores[0].batch_exists(fresh_keys(2)) == 0
        ready.wait(60)
        go.wait(120)

    threads = [threading.Thread(target=engine_thread) for _ in range(2)]
    for thread in threads:
        thread.start()
    ready.wait(60)
    closer = threading.Thread(target=stores[0].close)
    closer.start()
    closer.join(60)
    ended = not closer.is_alive()
    go.set()
    for thread in threads:
        thread.join(10)
    assert ended


def test_memory_of_a_group_and_its_anchor_is_registered_once(ring, held):
    """SGLang registers the KV's memory twice: as a group, and as the pool `kv` in the group. Pinning hundreds of GiB a
    second time would take seconds."""
    pool, state = MhaPool(), StatePool()
    group = SimpleNamespace(**vars(pool), anchor_entry=SimpleNamespace(host_pool=pool),
                            get_page_buffer_meta=pool.get_page_buffer_meta)
    store, keys = make_store(ring[0], group), fresh_keys(2)
    registrations = held.registrations
    store.register_mem_host_pool_v2(pool, "kv")
    store.register_mem_host_pool_v2(state, "mamba")
    store.register_mem_host_pool_v2(pool, "kv")
    assert held[pool.kv_buffer.data_ptr()] == 1 == registrations
    assert held.registrations == registrations + len(store._pools["mamba"].host.memory)
    put(store, pool, keys, [0, 1])
    assert store.batch_get_v1(keys, pool.indices([2, 3])) == [True] * 2
    store.close()
    assert set(held.values()) == {0}


def test_memory_within_what_is_registered_is_not_registered_again(ring, held):
    """Two pools are views of one allocation, and a third pool is the whole of it."""
    whole = MhaPool(pages=32)
    halves = [MhaPool() for _ in range(2)]
    for index, half in enumerate(halves):
        half.kv_buffer = whole.kv_buffer[index].view(half.kv_buffer.shape)
    store = make_store(ring[0], whole)
    for index, half in enumerate(halves):
        store.register_mem_host_pool_v2(half, f"half {index}")
    assert held == {whole.kv_buffer.data_ptr(): 1}
    store.register_mem_host_pool_v2(MhaPool(), "kv")
    assert held[whole.kv_buffer.data_ptr()] == 1, "the halves are still pools"
    store.close()
    assert set(held.values()) == {0}
