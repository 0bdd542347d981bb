"""Tests of the connector for LMCache's `native_plugin` at real nodes."""

import random
import select
import threading
import time
from types import SimpleNamespace

import pytest
from lmcache_engines import Server, connector_of, fresh_keys, params_of
from peercache import guard
from peercache.client import Status
from peercache.jobs import Ended, Job
from peercache.lmcache import connector

CHUNK_BYTES, CHUNKS = 16 << 20, 80
LOCK_SHARE_MAX = 0.02


@pytest.mark.parametrize("there", [0, 1], ids=["one-node", "two-nodes"])
def test_what_is_set_is_found_got_and_deleted(ring, lmcache_server, there):
    writer, reader = lmcache_server(ring[there], 2), lmcache_server(ring[0], 2)
    keys = fresh_keys(8)
    assert reader.run("exists", keys) == [False] * 8 and reader.fetch(keys) == 0
    writer.put(keys[:6])
    assert reader.run("exists", keys) == [True] * 6 + [False] * 2
    assert reader.fetch(keys) == 6
    assert reader.run("delete", keys[4:]) == [True] * 4, "what nobody has is gone as well"
    assert writer.run("exists", keys) == [True] * 4 + [False] * 4
    assert reader.late_writes() == []


def test_a_connector_that_gets_no_threads_closes_its_client(ring, monkeypatch):
    opened, closed = connector.open_or_miss, []

    def refused(_):
        raise RuntimeError("can't start new thread")

    def watched(*arguments):
        client = opened(*arguments)
        close = client.close
        monkeypatch.setattr(client, "close", lambda: (closed.append(client), close()))
        monkeypatch.setattr(threading.Thread, "start", refused)
        return client

    monkeypatch.setattr(connector, "open_or_miss", watched)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        connector_of(params_of(ring[0]))
    assert len(closed) == 1


def test_a_set_that_failed_is_said_and_an_exists_is_not(caplog):
    for kind in ("set", "exists"):
        job = Job(1, kind, ["a", "b"], (), (), 0.0, 1.0)
        results = SimpleNamespace(statuses=bytes([Status.STORED, Status.BAD_SIZE]), ok=[True, False])
        guard._said_at.clear()
        connector._say_why(Ended(job, results.ok, results, 0.1))
    assert [line.getMessage() for line in caplog.records] == ["a set has failed: 1 of 2 keys: 1 bad_size"]


def test_a_batch_completes_though_its_end_can_be_neither_noted_nor_told(ring, lmcache_server, monkeypatch):
    def raises(*_):
        raise RuntimeError("a test's")
    server, keys = lmcache_server(ring[0]), fresh_keys(2)
    monkeypatch.setattr(connector, "_say_why", raises)
    assert server.run("set", keys[:1], [0], seconds=5) == [True]
    monkeypatch.setattr(connector, "_words_of", raises)
    assert server.run("get", keys[1:], [1], seconds=5) == [False]


def test_each_batch_says_whether_all_of_it_is_a_success_and_why_not(ring, lmcache_server):
    server = lmcache_server(ring[0])
    keys = fresh_keys(4)
    server.put(keys[:3])
    for kind, ok, error in (("get", False, "1 of 4 keys: 1 not_found"), ("exists", True, ""), ("delete", True, "")):
        batch = server.submit(kind, keys, range(4) if kind == "get" else ())
        assert batch.done.wait(30)
        assert (batch.ok, batch.error) == (ok, error)


def test_a_value_of_another_length_is_not_got(ring, lmcache_server):
    writer, reader = lmcache_server(ring[0]), lmcache_server(ring[0], chunk_bytes=8192)
    keys = fresh_keys(2)
    writer.put(keys)
    assert reader.run("exists", keys) == [True, True]
    assert reader.fetch(keys) == 0


def test_buffers_of_one_batch_may_differ_in_length(ring):
    connector = connector_of(params_of(ring[0]))
    keys, values = fresh_keys(3), [bytes([65 + i]) * (100 * (i + 1)) for i in range(3)]

    def run(future):
        while True:
            select.select([connector.event_fd()], [], [], 5)
            for completion in connector.drain_completions():
                assert completion[0] == future
                return completion
    assert run(connector.submit_batch_set(keys, [memoryview(value) for value in values]))[1]
    buffers = [bytearray(len(value)) for value in values]
    assert run(connector.submit_batch_get(keys, [memoryview(buffer) for buffer in buffers]))[3] == [True] * 3
    assert buffers == values
    connector.close()


@pytest.mark.parametrize("more", [{"namespace": "test-fp8"}, {"namespace": "", "allow_empty_namespace": True}],
                         ids=["another", "none"])
def test_another_namespace_misses(ring, lmcache_server, more):
    keys = fresh_keys(2)
    lmcache_server(ring[0]).put(keys)
    assert lmcache_server(ring[0], params=more).run("exists", keys) == [False, False]


def test_a_clear_of_the_namespace_withdraws_all(ring, lmcache_server):
    server = lmcache_server(ring[0], 2, params={"namespace": "to-be-cleared"})
    keys = fresh_keys(2)
    server.put(keys)
    assert server.connector._client.clear("to-be-cleared")
    assert server.run("exists", keys) == [False, False]


@pytest.mark.parametrize("more, said", [
    ({"namespace": ""}, '"namespace" is missing'),
    ({"namespace": None}, '"namespace" is missing'),
    ({"url": "10.0.0.1"}, "have url: that is no option of PeerCache"),
    ({"timeout_s": -1}, "timeout_s: -1 is given, a number of seconds"),
    ({"client.timeout": "often"}, "client.timeout"),
])
def test_parameters_that_make_no_sense_stop_the_start(ring, more, said):
    with pytest.raises(ValueError, match=said):
        connector_of(params_of(ring[0], **more))


def test_a_batch_that_makes_no_sense_completes_as_failed(ring, lmcache_server):
    server = lmcache_server(ring[0])
    keys = fresh_keys(2)
    assert server.run("set", keys, [0]) == [False, False]
    with server.lock:
        frozen = memoryview(b"\0" * 4096)
        batch = server.pending[server.connector.submit_batch_get(keys[:1], [frozen])] = _got(keys[:1])
    assert batch.done.wait(30) and batch.there == [False] and frozen == b"\0" * 4096
    assert server.run("get", []) == [] and server.run("exists", []) == []


def _got(keys):
    from lmcache_engines import Batch
    return Batch("get", keys, [])


@pytest.mark.timed
def test_eighty_chunks_of_16_mib_come_back_and_their_copies_leave_the_lock_alone(fragile_ring, lmcache_server):
    (node,) = fragile_ring(1, pool="1600MiB").nodes
    server = lmcache_server(node, params={"timeout_s": 60}, chunks=CHUNKS, chunk_bytes=CHUNK_BYTES)
    keys, native = fresh_keys(CHUNKS), server.connector._client.native
    server.put(keys)
    assert server.run("exists", keys) == [True] * CHUNKS
    assert server.fetch(keys) == CHUNKS
    _, total, without = native.call_times()
    assert 1 - without / total < LOCK_SHARE_MAX


def test_threads_that_submit_at_once_have_each_future_once(ring):
    server = Server(params_of(ring[0]), chunks=64)
    keys, batches = fresh_keys(64), []
    server.put(keys)

    def submit(seed):
        pick = random.Random(seed)
        for _ in range(100):
            row = pick.randrange(64)
            batches.append(server.submit("exists", [keys[row]]) if pick.random() < 0.5 else
                           server.submit("set", [keys[row]], [row]))
    threads = [threading.Thread(target=submit, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(batch.done.wait(30) and batch.there == [True] for batch in batches) and len(batches) == 200
    assert server.pending == {}
    server.close()


def test_the_descriptor_rests_while_nothing_waits(ring):
    connector = connector_of(params_of(ring[0]))
    poller = select.poll()
    poller.register(connector.event_fd(), select.POLLIN)
    assert poller.poll(0) == [] and connector.drain_completions() == []
    connector.submit_batch_exists(fresh_keys(1))
    assert poller.poll(5000)
    assert len(connector.drain_completions()) == 1 and poller.poll(0) == []
    connector.close()
    connector.close()
    future = connector.submit_batch_exists(["key"])
    assert poller.poll(5000)
    ((named, ok, error, there),) = connector.drain_completions()
    assert (named, ok, there) == (future, False, [False]) and "closed" in error


@pytest.mark.timed
def test_submits_do_not_wait_for_a_call(fragile_ring, lmcache_server):
    ring = fragile_ring(1)
    server = lmcache_server(ring[0], params={"timeout_s": 1, "lookup_timeout_s": 1})
    ring[0].freeze()
    begin = time.monotonic()
    batches = [server.submit(kind, fresh_keys(1), [0] if kind in ("set", "get") else [])
               for kind in ("exists", "get", "set", "delete") * 3]
    submitted = time.monotonic() - begin
    for batch in batches:
        assert batch.done.wait(10)
    assert submitted < (time.monotonic() - begin) / 2
    ring[0].thaw()
