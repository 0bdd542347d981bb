"""Tests of signals that come while Python's main thread is in a call: their handlers must run at once, and when a
handler raises, the call must end."""

import contextlib
import signal
import socket
import threading
import time

import peercache
import pytest
from local_nodes import late_watch, until
from peercache import Status
from transfer_peers import LOOPBACK, begun

PAGE = 64 << 10
SECONDS, SIGNAL_SECONDS, AT_ONCE = 30.0, 0.2, 0.3
"""What a call may take; when the signal comes; how long its handler may have to wait, where 0.05 is meant."""


class Stop(Exception):
    """What the handlers of these tests raise."""


def stop(*_):
    raise Stop


@contextlib.contextmanager
def alarm(handler):
    """Sends this process a signal SIGNAL_SECONDS after the `with` block has begun, and handles it by `handler`."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, SIGNAL_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def opening(node):
    peercache.Client(node.options(**{"client.timeout": "30s"}))


CALLS = {
    "set": lambda client, space, node: client.set(space, [str(i) for i in range(200)], [bytearray(PAGE)] * 200, SECONDS),
    "get": lambda client, space, node: client.get(space, ["other"], [bytearray(PAGE)], SECONDS),
    "exists": lambda client, space, node: client.exists(space, ["other"], SECONDS),
    "remove": lambda client, space, node: client.remove(space, ["other"], SECONDS),
    "flush": lambda client, space, node: client.flush(SECONDS),
    "clear": lambda client, space, node: client.clear("signals", SECONDS),
    "locate": lambda client, space, node: client.native.tiers([space], ["other"], SECONDS),
    "open": lambda client, space, node: opening(node),
}


@pytest.mark.parametrize("kind", CALLS)
def test_a_handler_that_raises_ends_a_call_at_a_frozen_node(fragile_ring, connect, kind):
    node = fragile_ring(1)[0]
    node.hide_shard()
    client = connect(node)
    space = client.space("signals")
    client.set(space, ["first"], [bytearray(PAGE)])
    assert client.flush().complete
    node.freeze()
    client.set(space, ["to flush"], [bytearray(PAGE)], SECONDS)
    with late_watch() as watch, alarm(stop), pytest.raises(Stop):
        CALLS[kind](client, space, node)
    assert watch.seconds < SIGNAL_SECONDS + AT_ONCE + watch.stalled
    node.thaw()
    afterwards = client.space("afterwards")  # The ended clear may still clear its own space.
    assert until(lambda: client.set(afterwards, ["k"], [bytearray(PAGE)])[0].ok), "the client goes on"
    assert client.flush().complete
    assert client.get(afterwards, ["k"], [bytearray(PAGE)])[0].ok


def test_a_get_that_was_ended_writes_nothing_more(fragile_ring, connect):
    ring = fragile_ring(2)
    here, there = connect(ring[0], 2), connect(ring[1], 2)
    space, count = here.space("late bytes"), 64
    names = [str(i) for i in range(count)]
    assert all(r.ok for r in there.set(space, names, [b"\1" * PAGE] * count))
    assert there.flush().complete
    assert all(r.ok for r in here.exists(space, names))  # The client `here` now remembers where the pages are.
    memory = bytearray(count * PAGE)
    parts = [memoryview(memory)[i * PAGE : (i + 1) * PAGE] for i in range(count)]
    ring[1].freeze()
    with late_watch() as watch, alarm(stop), pytest.raises(Stop):
        here.get(space, names, parts, SECONDS)
    assert watch.seconds < SIGNAL_SECONDS + AT_ONCE + watch.stalled
    memory[:] = b"\2" * len(memory)
    ring[1].thaw()
    other = [bytearray(PAGE) for _ in names]
    assert until(lambda: all(r.ok for r in here.get(space, names, other)))
    assert memory == b"\2" * len(memory)


def test_a_set_that_was_ended_keeps_no_slot(fragile_ring, connect):
    node = fragile_ring(1)[0]
    node.hide_shard()
    client = connect(node)
    space, filling = client.space("slots"), lambda: node.metric("peercache_pool_pages_filling")
    client.set(space, ["first"], [bytearray(PAGE)])
    assert client.flush().complete
    assert until(lambda: filling() > 1), "slots are leased for the next set"
    leased = filling()
    node.freeze()
    with alarm(stop), pytest.raises(Stop):
        client.set(space, [str(i) for i in range(200)], [bytearray(PAGE)] * 200, SECONDS)
    node.thaw()
    pages = node.metric("peercache_pool_pages")
    assert until(lambda: client.set(space, ["last"], [bytearray(PAGE)])[0].ok)
    assert client.flush().complete
    # The node updates both metrics at the same time, so `filling` includes the last set page.
    assert until(lambda: node.metric("peercache_pool_pages") > pages and filling() <= leased), filling()


def test_a_handler_that_returns_lets_the_call_go_on(fragile_ring, connect):
    node = fragile_ring(1)[0]
    node.hide_shard()
    client = connect(node)
    space, ran = client.space("goes on"), []
    node.freeze()

    def handler(*_):
        ran.append(time.monotonic())
        assert client.exists(space, ["inner"], timeout=0.01)[0].status != Status.CLOSED

    with late_watch() as watch, alarm(handler):
        result = client.exists(space, ["k"], timeout=1.0)[0]
    assert result.status in (Status.TIMED_OUT, Status.UNREACHABLE)
    assert len(ran) == 1 and ran[0] - watch.begin < SIGNAL_SECONDS + AT_ONCE + watch.stalled


def test_a_handler_may_close_the_client_that_is_in_a_call(fragile_ring, connect):
    node = fragile_ring(1)[0]
    node.hide_shard()
    client = connect(node)
    space = client.space("closed by a handler")
    node.freeze()
    with late_watch() as watch, alarm(lambda *_: client.close()):
        result = client.exists(space, ["k"], timeout=SECONDS)[0]
    assert result.status == Status.CLOSED and client.closed
    assert watch.seconds < SIGNAL_SECONDS + AT_ONCE + 1 + watch.stalled, "the client's end takes a second at most"


def test_a_call_of_another_thread_is_not_ended(fragile_ring, connect):
    node = fragile_ring(1)[0]
    node.hide_shard()
    client = connect(node)
    space, ended = client.space("another thread"), []
    client.set(space, ["first"], [bytearray(PAGE)])  # Leases slots from the node.
    assert client.flush().complete
    node.freeze()
    other = threading.Thread(target=lambda: ended.append(client.flush(4 * SIGNAL_SECONDS)))
    client.set(space, ["to flush"], [bytearray(PAGE)])
    with alarm(stop):
        with pytest.raises(Stop):
            other.start()
            client.exists(space, ["k"], timeout=SECONDS)
        assert not ended
        other.join()
    assert not ended[0].complete


# -- tests of calls of transfer engines


@pytest.fixture
def engine():
    made = begun()
    yield made
    made.close()


@pytest.fixture
def silent():
    """The session name of a peer that accepts connections and sends nothing, which a call notices after 2 s."""
    with socket.create_server((LOOPBACK, 0)) as server:
        yield f"{LOOPBACK}:{server.getsockname()[1]}"


TRANSFERS = {
    "sync": lambda engine, session: engine.send_probe(session),
    "status": lambda engine, session: engine.get_batch_transfer_status(
        [engine.batch_transfer_async_read(session, [], [], [])]
    ),
}


@pytest.mark.parametrize("kind", TRANSFERS)
def test_a_handler_that_raises_ends_a_transfer(engine, silent, kind):
    with late_watch() as watch, alarm(stop), pytest.raises(Stop):
        TRANSFERS[kind](engine, silent)
    assert watch.seconds < SIGNAL_SECONDS + AT_ONCE + watch.stalled
    other = begun()
    assert engine.send_probe(f"{LOOPBACK}:{other.get_rpc_port()}") == 0, "the engine goes on"
    other.close()


def test_a_handler_that_returns_lets_a_transfer_go_on(engine, silent):
    ran = []
    with late_watch() as watch, alarm(lambda *_: ran.append(time.monotonic())):
        assert engine.send_probe(silent) == -1
    assert len(ran) == 1 and ran[0] - watch.begin < SIGNAL_SECONDS + AT_ONCE + watch.stalled
    assert watch.seconds > 1, "until the other side counts as lost"


def test_a_handler_may_close_the_engine_that_is_in_a_call(engine, silent):
    with late_watch() as watch, alarm(lambda *_: engine.close()):
        assert engine.send_probe(silent) == -1
    assert watch.seconds < SIGNAL_SECONDS + AT_ONCE + watch.stalled
