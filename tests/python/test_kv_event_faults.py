"""Tests, without nodes, of KV events that cannot be sent: routers hear of all others, above all of removed blocks."""

from types import SimpleNamespace

import msgpack
import numpy
import pytest
from engines import fresh_keys
from event_subscribers import WorkerRelay
from local_nodes import until
from peercache.kv_events import EXTERNAL, block_hash
from peercache.kv_events.dialects import Arrays
from peercache.kv_events.journal import Journal
from peercache.kv_events.messages import Block, Removed
from peercache.kv_events.publisher import EventPublisher, EventSettings
from peercache.kv_events.rounds import EngineFacts
from peercache.kv_events.service import KVEvents


class Directory:
    """A client whose directory has all pages but those in `gone`."""

    def __init__(self):
        self.node_address, self.native, self.gone = "127.0.0.1:1", self, set()

    def tiers(self, spaces, keys, seconds):
        return bytes(key not in self.gone for key in keys)


@pytest.fixture
def told(listen):
    """A function that makes a directory, the events about its blocks, and a router that hears them."""
    made = []

    def make(**more):
        relay, settings = listen(WorkerRelay, **more)
        flat = {f"kv_events.{name}": value for name, value in settings.items()}
        directory = Directory()
        made.append(KVEvents(EventSettings.of(flat), directory, EngineFacts([None], 2, lambda _: ())))
        return directory, made[-1], relay

    yield make
    for each in made:
        each.close()


def hashes(keys):
    return {block_hash(key) for key in keys}


@pytest.mark.parametrize("bad", [[1 << 70, 2], [-1, 2], [1.5, 2], [None, 2], [(1, 2), (2, 3)], 5])
def test_tokens_that_no_message_can_hold_cost_their_block_the_tokens_only(told, tmp_path, bad):
    path = tmp_path / "journal"
    _, events, relay = told(journal=str(path))
    keys = fresh_keys(3)
    events.stored(keys, [True] * 3, None, [[1, 2], bad, list(numpy.array([3, 4]))])
    assert until(lambda: relay.has(EXTERNAL) == hashes(keys))
    assert [relay.tokens[block_hash(key)] for key in keys] == [[1, 2], [], [3, 4]]
    events.close()
    journal = Journal(str(path), 9)
    assert [block.tokens for block in journal.read()] == [(1, 2), (), (3, 4)]
    journal.close()


def test_an_event_that_cannot_be_sent_keeps_no_other_back_and_is_named(told, monkeypatch, caplog):
    directory, events, relay = told()
    old, bad, new = fresh_keys(3)
    events.stored([old], [True], None)
    assert until(lambda: relay.has(EXTERNAL) == hashes([old]))
    form = Arrays.form

    def broken(dialect, event):
        if [block.key for block in getattr(event, "blocks", [getattr(event, "block", None)])] == [bad]:
            raise OverflowError("a test's")
        return form(dialect, event)

    monkeypatch.setattr(Arrays, "form", broken)
    directory.gone.add(old)
    events.stored([old, bad, new], [True] * 3, None)
    assert until(lambda: relay.has(EXTERNAL) == hashes([new])), "what was removed in the same round is removed"
    assert "KV events are sent one by one" in caplog.text
    assert until(lambda: f"a KV event could not be sent: stored EXTERNAL: {bad}" in caplog.text)


def test_a_message_that_did_not_leave_is_a_gap_and_in_the_replay(listen):
    relay, settings = listen(WorkerRelay)
    flat = {f"kv_events.{name}": value for name, value in settings.items()}
    publisher = EventPublisher(EventSettings.of(flat), Arrays(2))
    socket = publisher._pub

    def lost(_):
        raise OSError("a test's")

    blocks = [Block(key, block_hash(key), None) for key in fresh_keys(2)]
    publisher._pub = SimpleNamespace(send_multipart=lost)
    with pytest.raises(OSError):
        publisher.send([Removed(blocks[:1], EXTERNAL)])
    publisher._pub = socket
    publisher.send([Removed(blocks[1:], EXTERNAL)])
    heard = [(seq, msgpack.unpackb(payload)[1][0][1]) for seq, payload in publisher._sent]
    assert heard == [(0, [blocks[0].hash]), (1, [blocks[1].hash])]
    publisher.close()
