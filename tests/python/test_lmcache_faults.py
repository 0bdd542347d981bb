"""Tests of LMCache's connector while nodes die and freeze: every future completes by its deadline, and no byte is written
into a buffer after its batch was drained."""

import logging

import pytest
from lmcache_engines import Server, fresh_keys, params_of
from local_nodes import LATE_SECONDS, late_watch, until

CHUNK_BYTES = 1 << 20
SECONDS = {"get": 0.4, "set": 0.4, "delete": 0.4, "exists": 0.2}
PARAMS = {"timeout_s": 0.4, "lookup_timeout_s": 0.2}


@pytest.fixture(autouse=True)
def nothing_raised(caplog):
    """Checks after each test that no call raised an exception, not even one that the connector caught."""
    yield
    assert [each for each in caplog.records if each.exc_info] == []


@pytest.fixture
def apart(fragile_ring, lmcache_server):
    """Two nodes, an LMCache server at the first node, and keys of pages that only the second node has."""
    ring, keys = fragile_ring(2, pool="128MiB"), fresh_keys(16)
    sizes = {"chunk_bytes": CHUNK_BYTES, "chunks": 16}
    writer = lmcache_server(ring[1], 2, **sizes)
    reader = lmcache_server(ring[0], 2, params=PARAMS, **sizes)
    writer.put(keys)
    assert until(lambda: reader.run("exists", keys) == [True] * 16)
    return ring, reader, keys


def in_time(server, kind, keys, rows=()):
    """Runs a batch and checks that it completed by its deadline."""
    with late_watch() as watch:
        batch = server.submit(kind, keys, rows)
        assert batch.done.wait(30)
    took = batch.ended - batch.began
    assert took < SECONDS[kind] + LATE_SECONDS + watch.stood_still(batch.began, batch.ended)
    return batch.there


@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_a_node_that_is_lost_after_the_look_up_ends_each_future_in_time(apart, fault):
    ring, reader, keys = apart
    getattr(ring[1], fault)()
    assert in_time(reader, "get", keys, range(16)) == [False] * 16
    for kind in ("exists", "delete"):
        assert len(in_time(reader, kind, fresh_keys(64))) == 64
    if fault == "freeze":
        ring[1].thaw()
        rest = reader.rows.copy()
        assert until(lambda: all(reader.run("exists", keys))), "by then the thawed node has sent what it would send"
        assert (reader.rows == rest).all()
    assert reader.late_writes() == []


def test_what_the_thawed_node_still_sends_is_written_nowhere(apart):
    ring, reader, keys = apart
    for _ in range(3):
        ring[1].freeze()
        assert in_time(reader, "get", keys[:8], range(8)) == [False] * 8
        ring[1].thaw()
        assert until(lambda: reader.run("get", keys[8:], range(8, 16)) == [True] * 8)
        assert reader.late_writes() == []


def test_the_own_node_may_hang_and_die(fragile_ring, lmcache_server):
    ring = fragile_ring(1, pool="128MiB")
    server = lmcache_server(ring[0], params=PARAMS, chunk_bytes=CHUNK_BYTES)
    server.put(fresh_keys(4))
    for fault in (ring[0].freeze, ring[0].kill):
        fault()
        for kind in ("exists", "get", "set", "delete"):
            assert len(in_time(server, kind, fresh_keys(2), [0, 1] if kind in ("get", "set") else ())) == 2
    ring.restart(0)
    assert until(lambda: server.run("set", fresh_keys(1), [0]) == [True], 20)


def test_many_batches_behind_one_that_hangs_complete_by_their_deadlines(apart):
    """Submits more batches than there are threads: waiting batches must complete in time, too."""
    ring, reader, keys = apart
    ring[1].freeze()
    with late_watch() as watch:
        batches = [reader.submit("get", [key], [row]) for row, key in enumerate(keys)]
        for batch in batches:
            assert batch.done.wait(30)
    last = max(batch.ended for batch in batches)
    assert last - watch.begin < SECONDS["get"] + LATE_SECONDS + watch.stood_still(watch.begin, last)
    assert [batch.there for batch in batches] == [[False]] * 16
    ring[1].thaw()
    assert until(lambda: all(reader.run("exists", keys))) and reader.late_writes() == []


def test_closing_with_work_in_flight_ends_by_the_deadline_and_completes_all(apart, lmcache_server):
    ring, reader, keys = apart
    other = lmcache_server(ring[0], 2, chunk_bytes=CHUNK_BYTES)
    ring[1].freeze()
    batches = [reader.submit("get", [key], [row]) for row, key in enumerate(keys)]
    reader.ended.set()
    reader.thread.join()
    with late_watch() as watch:
        reader.connector.close()
    assert watch.seconds < SECONDS["get"] + 2 * LATE_SECONDS + watch.stalled
    reader.take()
    assert all(batch.done.is_set() and batch.there == [False] for batch in batches) and reader.faults == []
    ring[1].thaw()
    assert until(lambda: other.fetch(keys) == 16), "by then the thawed node has sent what it would send"
    assert reader.late_writes() == []


def test_a_server_without_a_node_misses_and_finds_it_later(fragile_ring, caplog):
    ring = fragile_ring(1)
    params = params_of(ring[0], **{"client.timeout": "1s"})
    ring[0].kill()
    with caplog.at_level(logging.ERROR):
        server = Server(params)
    assert "all is a miss until this is mended" in caplog.text
    keys = fresh_keys(1)
    assert server.run("exists", keys) == [False] and server.run("set", keys, [0]) == [False]
    ring.restart(0)
    assert until(lambda: server.run("set", keys, [0]) == [True], 20)
    server.close()
