"""Tests of the journal of KV events, from which an engine announces again what its killed predecessor had announced."""

import errno
import json
import os
import pathlib
import subprocess
import sys

import pytest
from engines import fresh_keys, put
from event_subscribers import WorkerRelay
from host_pools import MhaPool
from local_nodes import until
from peercache.kv_events import EXTERNAL, block_hash
from peercache.kv_events.journal import Journal
from peercache.kv_events.messages import Block

VICTIM = """
import json, sys, time
from types import SimpleNamespace
from engines import make_store, put
from host_pools import MhaPool
options, events, keys = json.loads(sys.argv[1])
pool = MhaPool()
store = make_store(SimpleNamespace(options=lambda: options), pool, {"kv_events": events})
put(store, pool, keys, list(range(len(keys))))
print("set", flush=True)
time.sleep(600)
"""


def blocks(first, last, tokens=()):
    keys = [f"{number:064x}".replace("0", "a", 16) for number in range(first, last)]
    return [Block(key, block_hash(key), None if number == 0 else number, tuple(tokens))
            for number, key in enumerate(keys)]


@pytest.fixture
def journal(tmp_path):
    """A function that closes this test's journal and opens it again."""
    opened = []

    def make(limit=100):
        while opened:
            opened.pop().close()
        opened.append(Journal(str(tmp_path / "journal"), limit))
        return opened[-1]

    yield make
    while opened:
        opened.pop().close()


def test_a_journal_gives_back_what_was_added(journal):
    first = journal()
    assert first.read() == []
    first.rewrite(blocks(0, 3, tokens=[1, 70000]))
    first.add(blocks(3, 5))
    again = journal().read()
    assert again == blocks(0, 3, tokens=[1, 70000]) + blocks(3, 5)


def test_of_a_block_the_newest_record_counts_and_of_many_blocks_the_newest(journal):
    first = journal()
    first.rewrite(blocks(0, 5))
    first.add(blocks(0, 1))
    assert [each.key for each in journal(limit=2).read()] == [blocks(0, 5)[4].key, blocks(0, 1)[0].key]


def test_a_file_that_ends_anywhere_gives_the_records_before(journal, tmp_path):
    journal().rewrite(blocks(0, 3))
    whole = (tmp_path / "journal").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "journal").write_bytes(whole[:length])
        found = journal().read()
        assert found == blocks(0, 3)[: len(found)] and len(found) < 3


@pytest.mark.parametrize("data", [b"", b"\xc1\xc1", b"[1, 2]", bytes(100), bytes(range(256)), b"\x92\xa3abc\x01"])
def test_a_file_of_another_form_is_begun_anew(journal, tmp_path, data):
    (tmp_path / "journal").write_bytes(data)
    assert journal().read() == []
    journal().rewrite(blocks(0, 1))
    assert journal().read() == blocks(0, 1)


def test_a_full_journal_says_so_until_it_is_rewritten(journal):
    one = journal(limit=2)
    one.rewrite(blocks(0, 2))
    one.add(blocks(0, 2))
    assert not one.is_full
    one.add(blocks(0, 1))
    assert one.is_full
    one.rewrite(blocks(0, 2))
    assert not one.is_full and one.read() == blocks(0, 2)


def test_a_rewrite_that_fails_leaves_the_file_as_it_was(journal, tmp_path, monkeypatch):
    one = journal()
    one.rewrite(blocks(0, 3))

    def full(fd, data):
        raise OSError(errno.ENOSPC, "no space is left")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError):
            one.rewrite(blocks(3, 4))
    assert one.read() == blocks(0, 3)
    one.add(blocks(3, 4))
    assert journal().read() == blocks(0, 3) + blocks(3, 4)


def test_a_journal_that_cannot_be_rewritten_costs_the_journal_only(ring, engine, listen, tmp_path, caplog):
    (tmp_path / "journal.next").mkdir()
    relay, settings = listen(WorkerRelay, journal=str(tmp_path / "journal"))
    pool, keys = MhaPool(), fresh_keys(1)
    put(engine(ring[0], pool, extra={"kv_events": settings}), pool, keys, [0])
    assert until(lambda: relay.has(EXTERNAL) == {block_hash(key) for key in keys})
    assert "go on without their journal" in caplog.text


def test_a_journal_is_of_one_publisher(journal, tmp_path):
    journal().rewrite(blocks(0, 1))
    with pytest.raises(OSError):
        Journal(str(tmp_path / "journal"), 100)


def test_after_a_kill_the_union_of_events_is_what_exists_says(ring, engine, listen, tmp_path):
    relay, settings = listen(WorkerRelay, journal=str(tmp_path / "journal"))
    keys = fresh_keys(6)
    script = subprocess.Popen(
        [sys.executable, "-B", "-c", VICTIM, json.dumps([ring[0].options(), settings, keys])], stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], str(pathlib.Path(__file__).parent)])})
    try:
        assert script.stdout.readline() == b"set\n"
        assert until(lambda: relay.has(EXTERNAL) == {block_hash(key) for key in keys})
    finally:
        script.kill()
        script.wait()
        script.stdout.close()
    other, pool = engine(ring[1], MhaPool(), 2), MhaPool()
    other._backend.client.native.remove(other._pools["kv"].own, keys[4:])
    heir, later = WorkerRelay(settings["endpoint"], settings["replay_endpoint"]), fresh_keys(1)
    # The heir is a subscriber that missed the event "all is cleared", because it was still connecting.
    heir.table, heir.past, heir.hears_clear = dict(relay.table), {block for block, _ in relay.table}, False
    try:
        store = engine(ring[0], pool, extra={"kv_events": settings})
        put(store, pool, later, [0])
        there = [key for key in keys + later if store.exists(key)]
        assert there == keys[:4] + later
        assert until(lambda: heir.has(EXTERNAL) == {block_hash(key) for key in there})
        assert heir.table[block_hash(keys[3]), EXTERNAL] == block_hash(keys[2])
    finally:
        heir.close()


def test_a_journal_that_cannot_be_opened_costs_the_journal_only(ring, engine, listen, caplog):
    relay, settings = listen(WorkerRelay, journal="/nowhere/journal")
    pool, keys = MhaPool(), fresh_keys(1)
    put(engine(ring[0], pool, extra={"kv_events": settings}), pool, keys, [0])
    assert until(lambda: relay.has(EXTERNAL) == {block_hash(key) for key in keys})
    assert "without their journal /nowhere/journal" in caplog.text
