"""Dying, frozen and restarted nodes under the storage backend: misses in time, never anything else."""

import ctypes
import threading
import time
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from engines import fresh_keys, published, put
from host_pools import FlatOnlyPool, MhaPool, MlaPool
from local_nodes import LATE_SECONDS, until
from peercache.hicache import guard

PATTERN = 0xEE


def big_pool(pages):
    """Pages of 2 MiB: two parts of 1 MiB."""
    return MhaPool(pages=pages, page_size=16, layers=16, heads=8, head_dim=256)


def first_bytes(pool, page):
    return ctypes.string_at(pool.get_page_buffer_meta(pool.indices([page]))[0][0], 4096)


def is_untouched(pool, pages):
    return all(pool.bytes_of(p).strip(bytes([PATTERN])) == b"" for p in pages)


def get_in_thread(store, pool, keys, pages):
    """Begins a get; what `join` gives is the answer and the seconds it took."""
    done = []

    def get():
        begin = time.monotonic()
        answer = store.batch_get_v1(keys, pool.indices(pages), None)
        done.append((answer, time.monotonic() - begin))

    thread = threading.Thread(target=get)
    thread.start()

    def join():
        thread.join(30)
        return done[0]

    return join


class Traffic:
    """Repeats each of the calls in a thread of its own, inside `with`."""

    def __init__(self, calls):
        self.rounds = [0] * len(calls)
        self.raised = []
        self._calls, self._stop = calls, threading.Event()
        self._threads = [threading.Thread(target=self._repeat, args=(i,), daemon=True)
                         for i in range(len(calls))]

    def _repeat(self, index):
        while not self._stop.is_set():
            try:
                self._calls[index]()
            except Exception as fault:  # noqa: BLE001 - none may come out of a store, whatever it is
                self.raised.append(repr(fault))
                return
            self.rounds[index] += 1

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(10)


def wipe_and_watch(pool, pages, meanwhile):
    """SGLang's next use of the pages: nothing but it writes to them, whatever arrives late."""
    pool.wipe(pages)
    for _ in range(3):
        meanwhile()
        assert is_untouched(pool, pages)


def test_a_node_that_dies_in_the_middle_of_a_get_writes_nothing_afterwards(fragile_ring, engine):
    ring = fragile_ring(2, pool="128MiB")
    source, pool = big_pool(32), big_pool(64)
    cut_short = 0
    for attempt in range(10):
        if cut_short == 2:
            break
        writer = engine(ring[1], source, 2)
        reader = engine(ring[0], pool, 2, extra={"client.timeout": "2s"})
        keys, targets = fresh_keys(32), list(range(32, 64))
        put(writer, source, keys, list(range(32)))
        wanted = [source.bytes_of(p) for p in range(32)]
        assert until(lambda: reader.batch_exists(keys) == 32)
        pool.wipe(targets)
        join = get_in_thread(reader, pool, keys, targets)
        reached = targets[cut_short * 10]
        assert until(lambda: first_bytes(pool, reached).strip(bytes([PATTERN])), 5)
        ring[1].kill()
        answer, seconds = join()
        assert len(answer) == 32 and seconds < 2 + LATE_SECONDS
        for there, page, bytes_wanted in zip(answer, targets, wanted):
            assert not there or pool.bytes_of(page) == bytes_wanted
        cut_short += not all(answer)
        wipe_and_watch(pool, targets, lambda: reader.batch_exists(keys[:1]))
        ring.restart(1)
    assert cut_short == 2, "no get was cut short"


def test_a_frozen_peer_is_a_list_of_false_before_the_deadline(fragile_ring, engine):
    ring = fragile_ring(2, pool="128MiB")
    source, pool = big_pool(16), big_pool(16)
    writer = engine(ring[1], source, 2)
    reader = engine(ring[0], pool, 2, extra={"client.timeout": "400ms"})
    keys, pages = fresh_keys(16), list(range(16))
    put(writer, source, keys, pages)
    assert until(lambda: reader.batch_exists(keys) == 16)
    ring[1].freeze()
    begin = time.monotonic()
    assert reader.batch_get_v1(keys, pool.indices(pages)) == [False] * 16
    assert time.monotonic() - begin < 0.4 + LATE_SECONDS
    begin = time.monotonic()
    assert reader.batch_exists(keys) <= 16
    assert time.monotonic() - begin < 0.4 + LATE_SECONDS
    pool.wipe(pages)
    ring[1].thaw()
    assert until(lambda: writer.batch_exists(keys) == 16)
    assert is_untouched(pool, pages), "what the thawed node still sends arrives nowhere"
    assert until(lambda: reader.batch_get_v1(keys, pool.indices(pages)) == [True] * 16)
    assert [pool.bytes_of(p) for p in pages] == [source.bytes_of(p) for p in pages]


def test_a_thread_for_each_kind_of_call_at_once(ring, engine):
    """Prefetch, IO and backup threads and the scheduler, on one store, for as long as it takes to do
    all of it many times; every page that is read is what was put."""
    pool = MhaPool(pages=64, layers=8, heads=8, head_dim=64, page_size=16)
    store = engine(ring[0], pool, 2, enable_storage_metrics=True)
    other = engine(ring[1], pool, 2)
    keys = fresh_keys(16)
    put(other, pool, keys, list(range(16)))
    wanted = [pool.bytes_of(p) for p in range(16)]
    faults = []
    written = fresh_keys(400)

    def check(holds, what):
        if not holds:
            faults.append(what)

    def reads():
        check(store.batch_get_v1(keys, pool.indices(range(16, 32))) == [True] * 16, "get")
        check([pool.bytes_of(p) for p in range(16, 32)] == wanted, "bytes")

    def sets():
        for first in range(0, len(written), 16):
            check(all(store.batch_set_v1(written[first : first + 16], pool.indices(range(16)))), "set")

    def flat():
        page = pool.get_data_page(0)
        check(store.batch_set(keys[:2], [page, page]) is True, "flat set")

    calls = [reads, sets, flat, lambda: check(store.batch_exists(keys) == 16, "exists"),
             lambda: check(store.batch_exists_v2(keys, []).kv_hit_pages == 16, "exists v2"),
             lambda: check(store.get_stats() is not None, "stats")]
    with Traffic(calls) as traffic:
        assert until(lambda: min(traffic.rounds) >= 5, 30), traffic.raised
    assert faults == [] == traffic.raised


def test_all_nodes_die_under_traffic_and_it_works_again_by_itself(fragile_ring, engine, caplog, monkeypatch):
    monkeypatch.setattr(guard, "_said_at", {})  # What another test made it say, it would say here again.
    ring = fragile_ring(2, pool="128MiB")
    pools = [big_pool(16), big_pool(16)]
    timeout = 0.5
    stores = [engine(ring[i], pool, 2, extra={"client.timeout": "500ms"}) for i, pool in enumerate(pools)]
    slowest, strange = [0.0], []

    def timed(call, *arguments):
        begin = time.monotonic()
        answer = call(*arguments)
        slowest[0] = max(slowest[0], time.monotonic() - begin)
        return answer

    def one_round(store, pool):
        keys, wanted = fresh_keys(4), [pool.bytes_of(p) for p in range(4)]
        answers = [timed(store.batch_set_v1, keys, pool.indices(range(4))),
                   timed(store.batch_get_v1, keys, pool.indices(range(4, 8)))]
        found = timed(store.batch_exists, keys)
        if not all(isinstance(a, list) and len(a) == 4 for a in answers) or not 0 <= found <= 4:
            strange.append((answers, found))
        for page, there in enumerate(answers[1]):
            if there and pool.bytes_of(4 + page) != wanted[page]:
                strange.append("wrong bytes")

    def works(writer, reader):
        keys = fresh_keys(2)
        stores[writer].batch_set_v1(keys, pools[writer].indices([8, 9]))
        return until(lambda: stores[reader].batch_get_v1(keys, pools[reader].indices([10, 11])) == [True] * 2, 0.3)

    with Traffic([partial(one_round, *each) for each in zip(stores, pools)]) as traffic:
        assert until(lambda: min(traffic.rounds) > 3)
        for node in ring.nodes:
            node.kill()
        dead = list(traffic.rounds)
        assert until(lambda: all(now > then + 3 for now, then in zip(traffic.rounds, dead)))
        for index in range(2):
            ring.restart(index)
        assert until(lambda: works(0, 1) and works(1, 0), 15)
    assert strange == [] == traffic.raised
    assert slowest[0] < timeout + LATE_SECONDS
    assert "failed, and counts as a miss" not in caplog.text


NAMED = {"kv": MhaPool, "indexer": MlaPool, "mamba": FlatOnlyPool, "swa": MhaPool}


def with_named_pools(engine, node, members=2, timeout="300ms", **extra):
    store = engine(node, MhaPool(), members, extra={"client.timeout": timeout, **extra})
    for name, kind in NAMED.items():
        store.register_mem_host_pool_v2(kind(), name)
    return store


def transfers(store, keys, first=0):
    pages = range(first, first + len(keys))
    return [SimpleNamespace(name=name, keys=keys, host_indices=pool.indices(pages), hit_policy="all_pages",
                            indices_from_pool=None) for name, pool in store.registered_pools.items()]


class SlowNative:
    """The native client when every question takes a while, or all the time that it is given."""

    def __init__(self, native, pause):
        self._native, self._pause = native, pause
        self.given = []

    def __getattr__(self, name):
        call = getattr(self._native, name)
        return partial(self._ask, call) if name in ("get", "set", "exists", "remove") else call

    def _ask(self, call, *arguments):
        seconds = arguments[-1] if isinstance(arguments[-1], float) else self._native.timeout
        self.given.append(seconds)
        time.sleep(min(self._pause, seconds))
        return call(*arguments)


DRAFTS = [torch.zeros(size) for size in (8, 16, 24)]
CALLS = {
    "batch_get_v2": lambda store, keys: store.batch_get_v2(transfers(store, keys, 4)),
    "batch_set_v2": lambda store, keys: store.batch_set_v2(transfers(store, fresh_keys(2))),
    "batch_exists_v2": lambda store, keys: store.batch_exists_v2(keys, transfers(store, keys)),
    "exists": lambda store, keys: store.exists(fresh_keys(1)[0]),
    "batch_get": lambda store, keys: store.batch_get([f"{keys[0]}.draft"] * 3, DRAFTS),
    "batch_set": lambda store, keys: store.batch_set([f"{keys[0]}.draft"] * 3, DRAFTS),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_has_one_deadline_however_many_questions_it_asks(ring, engine, call):
    store, keys = with_named_pools(engine, ring[0]), fresh_keys(2)
    assert all(map(all, store.batch_set_v2(transfers(store, keys)).values()))
    published(store)
    backend = store._backend
    slow = backend.client.native = SlowNative(backend.client.native, pause=0.2)
    begin = time.monotonic()
    CALLS[call](store, keys)
    assert time.monotonic() - begin < 0.3 + LATE_SECONDS
    assert len(slow.given) >= 2 and max(slow.given) <= 0.3 and slow.given[1] < 0.15


def test_a_frozen_peer_costs_named_pools_one_deadline_together(fragile_ring, engine):
    ring = fragile_ring(2)
    writer = with_named_pools(engine, ring[1], timeout="10s")
    reader, keys = with_named_pools(engine, ring[0], timeout="400ms"), fresh_keys(2)
    assert all(map(all, writer.batch_set_v2(transfers(writer, keys)).values()))
    published(writer)
    assert until(lambda: reader.batch_exists_v2(keys, transfers(reader, keys)).kv_hit_pages == 2)
    ring[1].freeze()
    begin = time.monotonic()
    answer = reader.batch_get_v2(transfers(reader, keys, 4))
    assert time.monotonic() - begin < 0.4 + LATE_SECONDS
    assert answer == {name: [False] * 2 for name in NAMED}
    ring[1].thaw()


def test_copies_that_are_slow_end_with_the_deadline(ring, engine):
    """A pool that takes its time for each page: what is not copied by then is a miss, and untouched."""
    pool, keys = FlatOnlyPool(), fresh_keys(8)
    store = engine(ring[0], pool, extra={"client.timeout": "300ms"})
    put(store, pool, keys, range(8))
    wanted = [pool.bytes_of(p) for p in range(8)]
    swift = {name: getattr(pool, name) for name in ("set_from_flat_data_page", "get_data_page")}

    def slow(name, *arguments, **named):
        time.sleep(0.1)
        return swift[name](*arguments, **named)

    pool.set_from_flat_data_page = partial(slow, "set_from_flat_data_page")
    pool.get_dummy_flat_data_page = lambda: torch.zeros_like(swift["get_data_page"](0))
    pool.wipe(range(8, 16))
    begin = time.monotonic()
    answer = store.batch_get_v1(keys, pool.indices(range(8, 16)))
    assert time.monotonic() - begin < 0.3 + 0.1 + LATE_SECONDS
    assert answer[0] and not answer[-1] and sorted(answer, reverse=True) == answer
    for page, there in enumerate(answer):
        assert pool.bytes_of(8 + page) == (wanted[page] if there else bytes(len(wanted[page])))
    pool.get_data_page = partial(slow, "get_data_page")
    begin = time.monotonic()
    stored = store.batch_set_v1(fresh_keys(8), pool.indices(range(8)))
    assert time.monotonic() - begin < 0.3 + 0.1 + LATE_SECONDS
    assert len(stored) == 8 and not stored[-1]


def test_a_clear_that_ran_out_of_time_goes_on_with_the_next(fragile_ring, engine):
    """What was read from a node that is frozen now: the clear ends in time, and a later one does the rest."""
    ring = fragile_ring(2)
    writer = with_named_pools(engine, ring[1], timeout="10s")
    reader, keys = with_named_pools(engine, ring[0], timeout="400ms"), fresh_keys(8)
    assert all(map(all, writer.batch_set_v2(transfers(writer, keys)).values()))
    published(writer)
    assert all(map(all, reader.batch_get_v2(transfers(reader, keys)).values()))
    ring[1].freeze()
    begin = time.monotonic()
    assert reader.clear() is False
    assert time.monotonic() - begin < 0.4 + LATE_SECONDS
    ring[1].thaw()
    # Whatever the node still did of the first one: the pages are there again, and remembered.
    assert until(lambda: all(map(all, writer.batch_set_v2(transfers(writer, keys)).values())))
    published(writer)
    assert until(reader.clear)
    native = reader._backend.client.native
    for name in NAMED:
        pool = reader._pools[name]
        assert not any(any(native.exists(spaces, keys).ok) for spaces in (pool.own, pool.flat)), name
