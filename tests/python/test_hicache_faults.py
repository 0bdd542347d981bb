"""Tests of the storage backend while nodes die, freeze and restart: calls must return in time, and pages that cannot be
had must be misses."""

import ctypes
import threading
import time
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from engines import fresh_keys, knows, published, put
from host_pools import FlatOnlyPool, MhaPool, MlaPool
from local_nodes import LATE_SECONDS, late_watch, until
from natives import SlowNative
from peercache import guard
from peercache.hicache import host_pool, pieces
from traffic import Traffic

PATTERN = 0xEE


def big_pool(pages):
    """Returns a pool with pages of 2 MiB, in two parts of 1 MiB."""
    return MhaPool(pages=pages, page_size=16, layers=16, heads=8, head_dim=256)


def first_bytes(pool, page):
    return ctypes.string_at(pool.get_page_buffer_meta(pool.indices([page]))[0][0], 4096)


def is_untouched(pool, pages):
    return all(pool.bytes_of(p).strip(bytes([PATTERN])) == b"" for p in pages)


def get_in_thread(store, pool, keys, pages):
    """Begins a get in a thread. Returns a function that waits for the get and returns its answer and the time of the
    answer."""
    done = []

    def get():
        answer = store.batch_get_v1(keys, pool.indices(pages), None)
        done.append((answer, time.monotonic()))

    thread = threading.Thread(target=get)
    thread.start()

    def join():
        thread.join(30)
        return done[0]

    return join


def read_beside(reader, pool, keys, pages):
    """Reads into other pages until all are hits: by then an earlier get has written all that it would still write."""
    assert until(lambda: reader.batch_get_v1(keys, pool.indices(pages)) == [True] * len(keys), 60)


def killed_within(ring, reader, pool, keys, targets, reached):
    """Runs a get and kills its peer when the first byte of page `reached` has come, or when the get has ended.
    Returns its answer."""
    pool.wipe(targets)
    with late_watch() as watch:
        begin, join = time.monotonic(), get_in_thread(reader, pool, keys, targets)
        while first_bytes(pool, reached).strip(bytes([PATTERN])) == b"" and time.monotonic() < begin + 5:
            pass  # Without a pause, which would take longer than the rest of the get.
        ring[1].kill()
        answer, end = join()
    assert end - begin < 2 + LATE_SECONDS + watch.stood_still(begin, end)
    return answer


def test_a_node_that_dies_in_the_middle_of_a_get_writes_nothing_afterwards(fragile_ring, engine):
    ring = fragile_ring(2, pool="128MiB")
    source, pool = big_pool(32), big_pool(64)
    reader = engine(ring[0], pool, 2, extra={"client.timeout": "2s"})
    wanted, others, targets = [source.bytes_of(p) for p in range(32)], list(range(32)), list(range(32, 64))
    writer, cut_short, end = engine(ring[1], source, 2), 0, time.monotonic() + 120
    while cut_short < 2 and time.monotonic() < end:
        keys = fresh_keys(32)
        put(writer, source, keys, others)
        assert until(lambda: reader.batch_exists(keys) == 32)
        answer = killed_within(ring, reader, pool, keys, targets, targets[cut_short * 10])
        assert len(answer) == 32
        for there, page, bytes_wanted in zip(answer, targets, wanted):
            assert not there or pool.bytes_of(page) == bytes_wanted
        cut_short += not all(answer)
        pool.wipe(targets)  # Wipes the pages, as when SGLang gives them to other tokens after the get.
        ring.restart(1)
        writer = engine(ring[1], source, 2)
        put(writer, source, keys, others)
        read_beside(reader, pool, keys, others)
        assert [pool.bytes_of(p) for p in others] == wanted
        assert is_untouched(pool, targets)
    assert cut_short == 2, "no get was cut short"


def test_a_frozen_peer_is_a_list_of_false_before_the_deadline(fragile_ring, engine):
    ring = fragile_ring(2, pool="128MiB")
    source, pool = big_pool(16), big_pool(32)
    writer = engine(ring[1], source, 2)
    reader = engine(ring[0], pool, 2, extra={"client.timeout": "400ms"})
    keys, pages, others = fresh_keys(16), list(range(16)), list(range(16, 32))
    put(writer, source, keys, pages)
    assert until(lambda: reader.batch_exists(keys) == 16)
    ring[1].freeze()
    with late_watch() as watch:
        assert reader.batch_get_v1(keys, pool.indices(pages)) == [False] * 16
    assert watch.seconds < 0.4 + LATE_SECONDS + watch.stalled
    with late_watch() as watch:
        assert reader.batch_exists(keys) <= 16
    assert watch.seconds < 0.4 + LATE_SECONDS + watch.stalled
    pool.wipe(pages)
    ring[1].thaw()
    read_beside(reader, pool, keys, others)
    assert [pool.bytes_of(p) for p in others] == [source.bytes_of(p) for p in pages]
    assert is_untouched(pool, pages), "what the thawed node still sends arrives nowhere"


def test_a_frozen_peer_costs_large_pages_one_deadline_together(fragile_ring, engine, monkeypatch):
    """The backend asks for large pages in several questions, and sets them in several calls, which must share one
    deadline."""
    monkeypatch.setattr(host_pool, "page_bytes_max", 1 << 20)
    monkeypatch.setattr(pieces, "PIECE_BYTES", 256 << 10)
    ring = fragile_ring(2, pool="128MiB")
    source, pool = big_pool(8), big_pool(16)
    writer = engine(ring[1], source, 2)
    reader = engine(ring[0], pool, 2, extra={"client.timeout": "400ms"})
    keys, targets, others = fresh_keys(8), list(range(8)), list(range(8, 16))
    put(writer, source, keys, range(8))
    assert reader._pools["kv"].host.pieces == 8 and until(lambda: reader.batch_exists(keys) == 8)
    theirs, ours = [source.bytes_of(p) for p in range(8)], [pool.bytes_of(p) for p in others]
    ring[1].freeze()
    pool.wipe(targets)
    calls = [lambda: reader.batch_get_v1(keys, pool.indices(targets)), lambda: reader.batch_exists(keys),
             lambda: reader.batch_set_v1(keys, pool.indices(others))]
    for call in calls:
        with late_watch() as watch:
            answer = call()
        assert watch.seconds < 0.4 + LATE_SECONDS + watch.stalled
        if call is calls[0]:
            assert answer == [False] * 8
    ring[1].thaw()
    read_beside(reader, pool, keys, others)
    assert is_untouched(pool, targets), "what the thawed node still sends arrives nowhere"
    read = [pool.bytes_of(p) for p in others]
    assert all(page in writers for page, writers in zip(read, zip(theirs, ours))), "each of one writer"


def test_all_nodes_die_under_traffic_and_it_works_again_by_itself(fragile_ring, engine, caplog, monkeypatch):
    # Another test may have logged this line within the last minute, and then it is not logged again.
    monkeypatch.setattr(guard, "_said_at", {})
    ring = fragile_ring(2, pool="128MiB")
    pools = [big_pool(16), big_pool(16)]
    timeout = 0.5
    stores = [engine(ring[i], pool, 2, extra={"client.timeout": "500ms"}) for i, pool in enumerate(pools)]
    calls, strange = [], []

    def timed(call, *arguments):
        begin = time.monotonic()
        answer = call(*arguments)
        calls.append((begin, time.monotonic()))
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
        if not all(stores[writer].batch_set_v1(keys, pools[writer].indices([8, 9]))):
            return False
        return until(lambda: stores[reader].batch_get_v1(keys, pools[reader].indices([10, 11])) == [True] * 2, 2)

    with late_watch() as watch, Traffic([partial(one_round, *each) for each in zip(stores, pools)]) as traffic:
        assert until(lambda: min(traffic.rounds) > 3, 60)
        for node in ring.nodes:
            node.kill()
        dead = list(traffic.rounds)
        assert until(lambda: all(now > then + 3 for now, then in zip(traffic.rounds, dead)), 60)
        for index in range(2):
            ring.restart(index)
        assert until(lambda: works(0, 1) and works(1, 0), 60)
    assert strange == [] == traffic.raised
    late = [(begin, end) for begin, end in calls if end - begin >= timeout + LATE_SECONDS]
    assert all(end - begin < timeout + LATE_SECONDS + watch.stood_still(begin, end) for begin, end in late), late
    assert "failed, and counts as a miss" not in caplog.text


NAMED = {"kv": MhaPool, "indexer": MlaPool, "mamba": FlatOnlyPool, "swa": MhaPool}


def with_named_pools(engine, node, timeout):
    store = engine(node, MhaPool(), 2, extra={"client.timeout": timeout})
    for name, kind in NAMED.items():
        store.register_mem_host_pool_v2(kind(), name)
    return store


def transfers(store, keys, first=0):
    pages = range(first, first + len(keys))
    return [SimpleNamespace(name=name, keys=keys, host_indices=pool.indices(pages), hit_policy="all_pages",
                            indices_from_pool=None) for name, pool in store.registered_pools.items()]


def put_all(store, keys):
    """Sets the pages of all named pools and waits until the directory has them."""
    assert all(map(all, store.batch_set_v2(transfers(store, keys)).values()))
    published(store)


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
    store, keys = with_named_pools(engine, ring[0], timeout="300ms"), fresh_keys(2)
    put_all(with_named_pools(engine, ring[0], timeout="10s"), keys)
    backend = store._backend
    slow = backend.client.native = SlowNative(backend.client.native, pause=0.2)
    CALLS[call](store, keys)
    # The first question took 0.2 s of the deadline of 0.3 s, so later ones may get at most 0.1 s.
    assert len(slow.given) >= 2 and max(slow.given) <= 0.3 and max(slow.given[1:]) <= 0.1


def test_a_frozen_peer_costs_named_pools_one_deadline_together(fragile_ring, engine):
    ring = fragile_ring(2)
    writer = with_named_pools(engine, ring[1], timeout="10s")
    reader, keys = with_named_pools(engine, ring[0], timeout="400ms"), fresh_keys(2)
    put_all(writer, keys)
    assert until(lambda: reader.batch_exists_v2(keys, transfers(reader, keys)).kv_hit_pages == 2)
    ring[1].freeze()
    with late_watch() as watch:
        answer = reader.batch_get_v2(transfers(reader, keys, 4))
    assert watch.seconds < 0.4 + LATE_SECONDS + watch.stalled
    assert answer == {name: [False] * 2 for name in NAMED}
    ring[1].thaw()


def longest_wait(store, pool):
    """Returns the most seconds that `batch_exists`, `batch_exists_v2` and `batch_get_v2` give to one question in a
    prefetch of 1,024 tokens."""
    keys = fresh_keys(1024 // pool.page_size)
    native = store._backend.client.native
    watched = store._backend.client.native = SlowNative(native, pause=0)
    indices = pool.indices(range(pool.page_num)).repeat(len(keys) // pool.page_num)
    assert store.batch_set_v1(keys[:1], pool.indices([0])) == [True]
    watched.given.clear()
    store.batch_exists(keys)
    store.batch_exists_v2(keys, [])
    store.batch_set_v1(keys, indices)
    store.batch_get_v2([SimpleNamespace(name="kv", keys=keys[:1], host_indices=pool.indices([0]),
                                        hit_policy="all_pages")])
    store._backend.client.native = native
    exists, exists_v2, _, get_v2 = watched.given
    return exists, exists_v2, get_v2


def test_a_call_takes_no_longer_than_the_tree_waits_that_made_it(ring, engine):
    """SGLang's unified tree gives up a prefetch after 1 s plus 0.25 s for each 1,024 tokens, its radix tree after 2 s
    plus 0.1 s."""
    pool, timeout = MhaPool(), {"client.timeout": "10s"}
    in_radix_tree = engine(ring[0], pool, extra=timeout)
    assert [round(s, 1) for s in longest_wait(in_radix_tree, pool)] == [2.1, 2.1, 2.0]
    in_unified_tree = engine(ring[0], pool, extra=timeout)
    in_unified_tree.register_mem_host_pool_v2(pool, "kv")
    group = SimpleNamespace(**vars(pool), anchor_entry=SimpleNamespace(host_pool=pool),
                            get_page_buffer_meta=pool.get_page_buffer_meta)
    for store in (in_unified_tree, engine(ring[0], group, extra=timeout)):
        waits = longest_wait(store, pool)
        assert all(1.15 < s <= 1.25 for s in waits[:2]) and 0.9 < waits[2] <= 1.001, waits
    in_unified_tree.register_mem_pool_host(pool)
    assert longest_wait(in_unified_tree, pool)[0] > 2, "attached anew, to the other tree"


def test_copies_that_are_slow_end_with_the_deadline(ring, engine):
    """The copy of the pool's second page takes all the time of its call. Pages that are not copied by the deadline must
    be misses, with their memory untouched."""
    pool, keys, copied, limits = FlatOnlyPool(), fresh_keys(8), [], []
    store = engine(ring[0], pool)
    deadline = store._backend.deadline
    store._backend.deadline = lambda *tokens: limits.append(deadline(*tokens)) or limits[-1]
    put(engine(ring[0], pool), pool, keys, range(8))
    wanted = [pool.bytes_of(p) for p in range(8)]
    swift = {name: getattr(pool, name) for name in ("set_from_flat_data_page", "get_data_page")}

    def slow(name, *arguments, **named):
        copied.append(name)
        if len(copied) == 2:
            limits[-1]._end = time.monotonic()
        return swift[name](*arguments, **named)

    pool.set_from_flat_data_page = partial(slow, "set_from_flat_data_page")
    pool.get_dummy_flat_data_page = lambda: torch.zeros_like(swift["get_data_page"](0))
    pool.wipe(range(8, 16))
    assert store.batch_get_v1(keys, pool.indices(range(8, 16))) == [True] * 2 + [False] * 6
    assert len(copied) == 2
    for page in range(8):
        assert pool.bytes_of(8 + page) == (wanted[page] if page < 2 else bytes(len(wanted[page])))
    copied.clear()
    pool.get_data_page = partial(slow, "get_data_page")
    stored = store.batch_set_v1(fresh_keys(8), pool.indices(range(8)))
    assert len(stored) == 8 and not any(stored[2:]) and len(copied) == 2


def test_a_clear_is_false_while_a_node_is_out_that_may_come_back(fragile_ring, engine, caplog):
    """A node that was frozen until the cluster expelled it still has its pages, which are hits again once it is
    back."""
    ring = fragile_ring(3)
    pool = MhaPool()
    writer, reader, keys = engine(ring[1], pool), engine(ring[0], pool), fresh_keys(8)
    put(writer, pool, keys, range(8))
    assert until(lambda: reader.batch_get_v1(keys, pool.indices(range(8, 16))) == [True] * 8)
    native = reader._backend.client.native
    ring[1].freeze()
    assert until(lambda: len(native.members()) == 2, 30), "the cluster gives it up"
    assert reader.clear() is False
    assert "node-2 left the cluster without saying so" in caplog.text
    ring[1].thaw()
    assert until(lambda: len(native.members()) == 3, 30)
    assert until(lambda: not any(writer._backend.client.native.exists(writer._pools["kv"].own, keys).ok), 30)
    assert until(reader.clear, 30)
    for store in (reader, writer):
        assert store.batch_get_v1(keys, pool.indices(range(8, 16))) == [False] * 8


def test_of_two_clears_at_once_none_is_true_before_all_is_withdrawn(fragile_ring, engine):
    ring, pool, keys = fragile_ring(2), MhaPool(), fresh_keys(8)
    writer, reader = engine(ring[1], pool), engine(ring[0], pool, extra={"client.timeout": "500ms"})
    put(writer, pool, keys, range(8))
    assert until(lambda: reader.batch_get_v1(keys, pool.indices(range(8, 16))) == [True] * 8)
    ring[1].freeze()
    cleared = []
    first = threading.Thread(target=lambda: cleared.append(reader.clear()))
    first.start()
    while first.is_alive():
        cleared.append(reader.clear())
    first.join()
    assert cleared and not any(cleared)
    ring[1].thaw()
    assert until(reader.clear, 30)


def test_a_clear_ends_in_time_and_is_heard_of_later(fragile_ring, engine):
    ring = fragile_ring(2)
    writer = with_named_pools(engine, ring[1], timeout="10s")
    reader, keys = with_named_pools(engine, ring[0], timeout="400ms"), fresh_keys(8)
    put_all(writer, keys)
    assert until(lambda: all(map(all, reader.batch_get_v2(transfers(reader, keys)).values())))
    ring[1].freeze()
    with late_watch() as watch:
        assert reader.clear() is False
    assert watch.seconds < 0.4 + LATE_SECONDS + watch.stalled
    ring[1].thaw()
    native = writer._backend.client.native

    def found():
        pools = [reader._pools[name] for name in NAMED]
        return any(any(native.exists(spaces, keys).ok) for pool in pools for spaces in (pool.own, pool.flat))

    assert until(lambda: not found()), "without another clear"
    assert until(reader.clear)


def test_a_clear_after_a_restart_of_engine_and_node_withdraws_what_the_disk_kept(fragile_ring, engine, tmp_path):
    """A model got new weights under its old name. Neither the engine nor the node with the old pages notices that, so
    only a clear withdraws these pages."""
    flags = ["--disk-path", str(tmp_path / "disks"), "--disk-size", "256MiB", "--disk-bucket-size", "1MiB"]
    ring, pool, keys = fragile_ring(2, flags=flags), MhaPool(), fresh_keys(8)
    writer = engine(ring[1], pool)
    put(writer, pool, keys, range(8))
    assert until(lambda: ring[1].metric("peercache_disk_records") >= 8)
    writer.close()
    ring[1].kill()
    ring.restart(1)
    reader = engine(ring[0], pool, 2)
    assert until(lambda: reader.batch_get_v1(keys, pool.indices(range(8, 16))) == [True] * 8, 30), "as without a clear"
    assert until(engine(ring[0], pool, 2).clear, 30)
    for node in (0, 1):
        assert engine(ring[node], pool, 2).batch_get_v1(keys, pool.indices(range(8, 16))) == [False] * 8
    ring[1].kill()
    ring.restart(1)
    knows(reader, 2)
    late = engine(ring[1], pool, 2)
    for store in (reader, late):
        assert store.batch_get_v1(keys, pool.indices(range(8, 16))) == [False] * 8, "its disk is back again"
