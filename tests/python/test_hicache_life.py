"""Attach and detach at run time: a backend leaves nothing behind in the engine's process."""

import gc
import os
import pathlib
import threading
from collections import Counter

import pytest
from connector_engines import Engine, fresh_model
from engines import fresh_keys, make_store, put
from host_pools import MhaPool
from local_nodes import until
from peercache import _native

CYCLES = 100


def belongings():
    """What this process holds of the kinds that a store takes: threads, descriptors, shared memory."""
    maps = pathlib.Path("/proc/self/maps").read_text()
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "python threads": threading.active_count(),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "mapped pools": sum("/dev/shm/" in line for line in maps.splitlines()),
    }


def resident_kib():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def cycle(ring, pool, index):
    store = make_store(ring[index % 2], pool)
    keys = fresh_keys(2)
    put(store, pool, keys, [0, 1])
    assert store.batch_get_v1(keys, pool.indices([2, 3])) == [True] * 2
    store.close()


def test_a_hundred_attachments_leave_nothing_behind(ring):
    pool = MhaPool()
    for index in range(4):  # What the process takes once.
        cycle(ring, pool, index)
    gc.collect()
    before, memory = belongings(), resident_kib()
    for index in range(CYCLES):
        cycle(ring, pool, index)
    gc.collect()
    assert until(lambda: belongings() == before, 5), (before, belongings())
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
    assert until(lambda: belongings() == before, 5), (before, belongings())


class CountedNative:
    """A native client whose registrations are seen from outside."""

    def __init__(self, native, held):
        self._native, self._held = native, held

    def __getattr__(self, name):
        return getattr(self._native, name)

    def register_memory(self, address, size):
        fault = self._native.register_memory(address, size)
        self._held[address] += fault is None
        return fault

    def unregister_memory(self, address):
        self._held[address] -= 1
        self._native.unregister_memory(address)


@pytest.fixture
def held(monkeypatch):
    """How often each address is registered by the clients that the test makes."""
    counts, native = Counter(), _native.Client
    monkeypatch.setattr(_native, "Client", lambda *arguments: CountedNative(native(*arguments), counts))
    return counts


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


def test_what_a_connector_registers_it_gives_back(ring, held):
    engine = Engine(ring[0], fresh_model())
    assert sum(held.values()) >= 1 and set(held.values()) == {1}
    engine.connector.close()
    engine.connector.close()
    assert set(held.values()) == {0}


def test_an_attached_store_is_used_by_threads_that_outlive_it(ring):
    """SGLang's threads live on when the backend is detached from another one."""
    pool = MhaPool()
    stores, go, ready = [make_store(ring[0], pool)], threading.Event(), threading.Barrier(3)

    def engine_thread():
        assert stores[0].batch_exists(fresh_keys(2)) == 0
        ready.wait(10)
        go.wait(30)

    threads = [threading.Thread(target=engine_thread) for _ in range(2)]
    for thread in threads:
        thread.start()
    ready.wait(10)
    closer = threading.Thread(target=stores[0].close)
    closer.start()
    closer.join(10)
    ended = not closer.is_alive()
    go.set()
    for thread in threads:
        thread.join(10)
    assert ended
