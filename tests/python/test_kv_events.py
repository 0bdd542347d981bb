"""Tests of KV events in SGLang's form: what routers hear of pages in the cache's memory (L3) and on its disks (L4)."""

import gc
import random
import time

import msgpack
import pytest
import zmq
from engines import fresh_keys, make_store, put
from host_pools import MhaPool
from local_nodes import until
from peercache.kv_events import DISK, EXTERNAL, block_hash
from peercache.kv_events.block_watch import BlockWatch, media_of
from peercache.kv_events.messages import Block, Cleared, Removed, Stored, with_removals_joined
from peercache.kv_events.publisher import EventSettings, with_port_offset
from peercache.kv_events.rounds import ASK_KEYS, UNKNOWN, EngineFacts, Rounds

END = (-1).to_bytes(8, "big", signed=True)


class Router:
    """A router that keeps a table of blocks by the events it receives, and checks the form and order of all events.
    As real routers do, it asks for a replay when it finds a gap, or has received nothing for a while."""

    def __init__(self, folder):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.SUB)
        self.socket.connect(f"ipc://{folder}/events")
        self.socket.subscribe(b"kv")
        self.missed = self.context.socket(zmq.DEALER)
        self.missed.connect(f"ipc://{folder}/replay")
        self.table, self.last, self.events = {}, -1, []
        self.heard = time.monotonic()

    def hear(self):
        while self.socket.poll(0):
            topic, seq, payload = self.socket.recv_multipart()
            assert topic == b"kv" and len(seq) == 8
            number = int.from_bytes(seq, "big")
            if number > self.last + 1:
                self.replay()
            if number > self.last:
                self.apply(number, payload)
        if time.monotonic() - self.heard > 0.5:
            self.replay()

    def replay(self):
        self.missed.send_multipart([b"", (self.last + 1).to_bytes(8, "big")])
        while self.missed.poll(5000):
            _, seq, payload = self.missed.recv_multipart()
            if seq == END:
                break
            self.apply(int.from_bytes(seq, "big"), payload)
        self.heard = time.monotonic()

    def apply(self, number, payload):
        assert number == self.last + 1
        self.last, self.heard = number, time.monotonic()
        stamp, events, dp_rank = msgpack.unpackb(payload)
        assert abs(time.time() - stamp) < 60 and dp_rank == 0
        for event in events:
            self.events.append(event)
            if event[0] == "BlockStored":
                _, blocks, parent, tokens, size, lora, medium = event
                assert tokens == [] and size == 4 and lora is None
                for block in blocks:
                    self.table[block, medium] = parent
            elif event[0] == "BlockRemoved":
                for block in event[1]:
                    del self.table[block, event[2]]  # Raises KeyError when the block was not announced before.
            else:
                assert event == ["AllBlocksCleared"]
                self.table.clear()

    def has(self, medium):
        self.hear()
        return {block for block, where in self.table if where == medium}

    def close(self):
        self.socket.close(0)
        self.missed.close(0)
        self.context.term()


@pytest.fixture
def router(tmp_path):
    made = Router(tmp_path)
    yield made
    made.close()


@pytest.fixture
def settings(tmp_path):
    return {"kv_events": {"endpoint": f"ipc://{tmp_path}/events", "topic": "kv", "check_s": 0.3,
                          "replay_endpoint": f"ipc://{tmp_path}/replay"}}


def hashes(keys):
    return {block_hash(key) for key in keys}


def test_a_hash_is_the_first_64_bits_signed():
    assert block_hash("7fffffffffffffff" + "0" * 48) == (1 << 63) - 1
    assert block_hash("ffffffffffffffff" + "0" * 48) == -1
    assert block_hash("8000000000000000" + "f" * 48) == -(1 << 63)
    assert block_hash("0" * 64 + ".draft") is None and block_hash("x" * 64) is None


def test_a_block_without_an_answer_keeps_nothing_from_the_others():
    rounds = Rounds(EventSettings("", check_s=1, stale_s=3), EngineFacts([None], 1, lambda _: ()))
    keys = fresh_keys(2)
    rounds.stored(keys, [True, True], None)
    asked = rounds.begin(0)
    assert [event.block.key for event in rounds.end(asked, bytes([1, UNKNOWN]), 0)] == keys[:1]
    assert rounds.end(rounds.begin(1), bytes([UNKNOWN, UNKNOWN | 1]), 1) == []
    for now, removed in (2, []), (3.1, keys[:1]):
        asked = rounds.begin(now)
        events = rounds.end(asked, bytes([UNKNOWN] * len(asked)), now)
        assert [block.key for event in events for block in event.blocks] == removed


def test_a_block_is_nowhere_when_one_of_its_pages_is_whatever_is_known_of_the_others():
    rounds = Rounds(EventSettings("", check_s=1, stale_s=9), EngineFacts([None, None], 1, lambda _: ()))
    rounds.stored(fresh_keys(1), [True], None)
    assert [event.medium for event in rounds.end(rounds.begin(0), bytes([1, 1]), 0)] == [EXTERNAL]
    assert rounds.end(rounds.begin(1), bytes([1, UNKNOWN]), 1) == []
    assert [event.medium for event in rounds.end(rounds.begin(2), bytes([UNKNOWN, 0]), 2)] == [EXTERNAL]


@pytest.mark.parametrize("seconds", [30, 1])
def test_blocks_without_answers_take_nobodys_turn(seconds):
    """More blocks than a round asks about get no answer, from the first second on or later; the others stay, and new ones
    are announced."""
    rounds = Rounds(EventSettings("", check_s=1, stale_s=3), EngineFacts([None], 1, lambda _: ()))
    silent, well = fresh_keys(2 * ASK_KEYS), fresh_keys(2 * ASK_KEYS)
    rounds.stored(silent, [True] * len(silent), None)
    rounds.stored(well, [True] * len(well), None)
    silent, there, new = set(silent), set(), []
    for step in range(400):
        now = step / 10
        if step % 100 == 50:
            new = fresh_keys(100)
            rounds.stored(new, [True] * len(new), None)
        asked = rounds.begin(now)
        tiers = bytes(UNKNOWN if now >= seconds and key in silent else 1 for key in asked)
        for event in rounds.end(asked, tiers, now):
            for block in [event.block] if isinstance(event, Stored) else event.blocks:
                (there.add if isinstance(event, Stored) else there.discard)(block.key)
        if now >= 3:
            assert there >= set(well)
        if step % 100 == 70:
            assert there >= set(new)
    assert not there & silent


def test_what_was_set_is_announced_with_its_parents(ring, engine, settings, router):
    pool, keys = MhaPool(), fresh_keys(4)
    store = engine(ring[0], pool, extra=settings)
    put(store, pool, keys, [0, 1, 2, 3])
    assert until(lambda: router.has(EXTERNAL) == hashes(keys))
    parents = [router.table[block_hash(key), EXTERNAL] for key in keys]
    assert parents == [None, *map(block_hash, keys[:3])]


def test_what_left_the_cluster_is_announced_as_removed(ring, engine, settings, router):
    pool, keys = MhaPool(), fresh_keys(4)
    store, other = engine(ring[0], pool, 2, extra=settings), engine(ring[1], pool, 2)
    put(store, pool, keys, [0, 1, 2, 3])
    assert until(lambda: router.has(EXTERNAL) == hashes(keys))
    space = other._pools["kv"].own
    other._backend.client.native.remove(space, keys[2:])
    assert until(lambda: router.has(EXTERNAL) == hashes(keys[:2]))
    removals = [event for event in router.events if event[0] == "BlockRemoved"]
    assert {block for event in removals for block in event[1]} == hashes(keys[2:])
    assert {event[2] for event in removals} == {EXTERNAL}


def test_an_evicted_page_is_announced_on_disk_and_no_longer_in_memory(
    fragile_ring, engine, settings, router, tmp_path
):
    pages = 96
    pool = MhaPool(pages=pages, head_dim=4096)  # Pages of 768 KiB, so that the pool of 32 MiB must evict.
    ring = fragile_ring(1, pool="32MiB", flags=[
        "--disk-path", str(tmp_path / "disk"), "--disk-size", "256MiB", "--disk-bucket-size", "8MiB"])
    store, keys = engine(ring[0], pool, extra=settings), fresh_keys(pages)
    for first in range(0, pages, 8):
        put(store, pool, keys[first : first + 8], range(first, first + 8))
        assert until(lambda: ring[0].metric("peercache_disk_records") == first + 8), "the disk keeps up"
    assert until(lambda: len(router.has(DISK)) > 48 and router.has(EXTERNAL), 20)
    gone = hashes(keys) - router.has(EXTERNAL)
    assert gone and gone & router.has(DISK)
    assert ["BlockRemoved", EXTERNAL] in [[e[0], e[-1]] for e in router.events]


def test_who_missed_something_gets_it_again(ring, engine, settings, router, tmp_path):
    pool, keys = MhaPool(), fresh_keys(3)
    store = engine(ring[0], pool, extra=settings)
    put(store, pool, keys, [0, 1, 2])
    assert until(lambda: router.has(EXTERNAL) == hashes(keys))
    late = router.context.socket(zmq.DEALER)
    late.connect(f"ipc://{tmp_path}/replay")
    late.send_multipart([b"", (0).to_bytes(8, "big")])
    seen = []
    while True:
        assert late.poll(5000)
        _, seq, payload = late.recv_multipart()
        if seq == END:
            break
        seen.append((int.from_bytes(seq, "big"), msgpack.unpackb(payload)[1]))
    late.close(0)
    assert [number for number, _ in seen] == list(range(len(seen)))
    assert seen[0][1] == [["AllBlocksCleared"]]
    assert {e[1][0] for _, events in seen[1:] for e in events} >= hashes(keys)


def test_the_end_of_an_engine_takes_all_back(ring, engine, settings, router):
    pool, keys = MhaPool(), fresh_keys(3)
    store = engine(ring[0], pool, extra=settings)
    put(store, pool, keys, [0, 1, 2])
    assert until(lambda: router.has(EXTERNAL) == hashes(keys))
    store.close()
    assert until(lambda: not router.has(EXTERNAL))


def test_a_store_that_nobody_closed_takes_all_back_too(ring, settings, router):
    pool, keys = MhaPool(), fresh_keys(3)
    store = make_store(ring[0], pool, settings)
    put(store, pool, keys, [0, 1, 2])
    assert until(lambda: router.has(EXTERNAL) == hashes(keys))
    del store
    gc.collect()
    assert until(lambda: not router.has(EXTERNAL))


def test_only_the_first_rank_speaks_and_only_when_told(ring, engine, settings):
    assert engine(ring[0], MhaPool())._events is None
    assert engine(ring[0], MhaPool(), extra=settings, tp_rank=1, tp_size=2)._events is None
    assert engine(ring[0], MhaPool(), extra=settings, tp_size=2)._events is not None


def test_an_endpoint_in_use_costs_the_events_only(ring, engine, settings):
    pool, keys = MhaPool(), fresh_keys(1)
    bad = {"kv_events": {"endpoint": "tcp://256.0.0.1:1"}}
    store = engine(ring[0], pool, extra=bad)
    assert store._events is None
    put(store, pool, keys, [0])


def test_an_unknown_key_costs_a_warning_and_not_the_engine(ring, engine, settings, router, caplog):
    pool, keys = MhaPool(), fresh_keys(2)
    store = engine(ring[0], pool, extra={"kv_events": {**settings["kv_events"], "chek_s": 2, "of_later": []}})
    put(store, pool, keys, [0, 1])
    assert until(lambda: router.has(EXTERNAL) == hashes(keys))
    assert ["chek_s, of_later;" in each.getMessage() for each in caplog.records
            if each.name == "peercache.kv_events"] == [True]


def test_settings_are_checked(caplog):
    assert EventSettings.of({}) is None
    made = EventSettings.of({"kv_events.endpoint": "tcp://*:1", "kv_events.check_s": 2, "other": 1})
    assert made.check_s == 2.0 and made.buffer_steps == 10000
    assert not caplog.records
    assert EventSettings.of({"kv_events.endpiont": "x"}) is None and "no endpiont" in caplog.text
    with pytest.raises(ValueError, match="kv_events: .*soon"):
        EventSettings.of({"kv_events.endpoint": "x", "kv_events.check_s": "soon"})
    assert with_port_offset("tcp://*:5567", 2) == "tcp://*:5569"
    assert with_port_offset("ipc:///a", 0) == "ipc:///a" and with_port_offset("ipc:///a", 1) == "ipc:///a_dp1"


def removals(count, medium=EXTERNAL):
    return [Removed((Block(f"{number:064x}", number, None),), medium) for number in range(count)]


def test_neighbouring_removals_are_joined_and_the_order_stays():
    first, on_disk = removals(3), removals(2, DISK)
    stored = Stored(first[0].blocks[0], EXTERNAL)
    assert with_removals_joined([Cleared(), *first, stored, *on_disk, *first[:1]]) == [
        Cleared(), Removed(tuple(each.blocks[0] for each in first), EXTERNAL), stored,
        Removed(tuple(each.blocks[0] for each in on_disk), DISK), first[0]]


def test_joining_removals_costs_as_much_for_each():
    def seconds(events):
        began = time.thread_time()
        assert len(with_removals_joined(events)) == 1
        return time.thread_time() - began

    many = removals(131072)
    few = min(seconds(many[:8192]) for _ in range(5))
    assert seconds(many) < 4 * 16 * few, "16 times as many"


def test_a_block_is_where_all_of_its_ranks_are():
    assert media_of([1, 1]) == {EXTERNAL} and media_of([3, 3]) == {EXTERNAL, DISK}
    assert media_of([1, 2]) == {DISK} == media_of([2, 3]) and media_of([1, 0]) == frozenset()


def test_a_block_that_was_read_is_asked_about_once_and_again_when_others_are():
    """After a set, the engine asks the directory about the block until it is found. After a read it asks once only,
    because a read block may have no mirror at this host, and engines read many blocks."""
    watch, (was_set, was_read) = BlockWatch(limit=9, check_s=5.0, stale_s=15.0), (f"{i:064x}" for i in (1, 2))
    watch.add([was_set], None, 0.0)
    watch.add([was_read], None, 0.0, was_read=True)
    assert watch.due(9, 0.1) == [was_set, was_read]
    for key in (was_set, was_read):
        watch.answer(key, frozenset(), 0.1)
    assert watch.due(9, 0.2) == [was_set]
    assert watch.due(9, 5.2) == [was_set, was_read]
    watch.answer(was_read, frozenset({EXTERNAL}), 5.2)
    assert [event.block.key for event in watch.take()] == [was_read]
    watch.add([was_read], None, 6.0)
    watch.answer(was_read, frozenset(), 6.1)
    assert was_read in watch.due(9, 6.2), "it was set since"
    watch.answer(was_set, frozenset(), 9.0)
    assert len(watch) == 2 and was_set not in watch.due(9, 9.1), "it is nowhere, and asked about later"


def test_a_block_that_is_nowhere_is_asked_about_again_and_announced_when_it_is_back():
    watch, (one, two, three) = BlockWatch(limit=2, check_s=1.0, stale_s=3.0), (f"{i:064x}" for i in (1, 2, 3))
    watch.add([one], None, 0.0)
    watch.answer(one, frozenset({DISK}), 0.1)
    watch.answer(one, frozenset(), 4.0)
    assert [type(event) for event in watch.take()] == [Stored, Removed]
    assert watch.due(9, 9.9) == [] and watch.due(9, 10.1) == [one]
    watch.answer(one, frozenset(), 10.1)
    assert watch.due(9, 16.0) == [] and watch.due(9, 16.2) == [one]
    watch.answer(one, frozenset({DISK}), 16.2)
    assert [(type(event), event.medium) for event in watch.take()] == [(Stored, DISK)]
    watch.answer(one, frozenset(), 17.5)
    watch.add([two, three], None, 17.6)
    assert len(watch) == 2 and one not in watch.due(9, 99.0), "there is no room for what is nowhere"


def test_what_an_earlier_publisher_announced_is_taken_back_where_it_is_no_more():
    """Subscribers miss what is published while they connect, for example the event "all is cleared". So blocks of an
    earlier publisher that are gone are announced as removed."""
    watch, (gone, kept) = BlockWatch(limit=9, check_s=1.0, stale_s=3.0), [each.blocks[0] for each in removals(2)]
    watch.recall([gone, kept], 0.0)
    watch.answer(gone.key, frozenset(), 0.1)
    watch.answer(kept.key, frozenset({EXTERNAL}), 0.1)
    assert watch.take() == [
        Removed((gone,), EXTERNAL), Removed((gone,), DISK), Stored(kept, EXTERNAL), Removed((kept,), DISK)]
    assert watch.due(9, 0.2) == [gone.key], "its node may have started with its engine, and still publish its pages"
    watch.answer(gone.key, frozenset(), 2.5)
    assert watch.due(9, 3.0) == [kept.key]
    watch.answer(gone.key, frozenset(), 9.0)
    watch.answer(kept.key, frozenset(), 9.0)
    assert watch.take() == [Removed((kept,), EXTERNAL)]


def test_what_an_earlier_publisher_announced_is_taken_back_when_it_is_forgotten_or_unanswered():
    everywhere = [EXTERNAL, DISK]
    watch, (old, _) = BlockWatch(limit=1, check_s=1.0, stale_s=3.0), [each.blocks[0] for each in removals(2)]
    watch.recall([old], 0.0)
    watch.add([f"{9:064x}"], None, 0.1)
    assert watch.take() == [Removed((old,), medium) for medium in everywhere], "there was no room for it"
    watch = BlockWatch(limit=9, check_s=1.0, stale_s=3.0)
    watch.recall([old], 0.0)
    watch.expire(2.9)
    assert watch.take() == []
    watch.expire(3.1)
    assert watch.take() == [Removed((old,), medium) for medium in everywhere]
    watch.answer(old.key, frozenset({DISK}), 3.2)
    assert watch.take() == [Stored(old, DISK)]


def test_a_block_that_was_read_and_never_found_is_forgotten():
    watch, key = BlockWatch(limit=9, check_s=1.0, stale_s=3.0), f"{1:064x}"
    watch.add([key], None, 0.0, was_read=True)
    watch.answer(key, frozenset(), 2.5)
    assert len(watch) == 0


def test_no_block_stays_announced_for_longer_than_the_bounds():
    """Random sets, moves and silence of the directory are compared with the places where blocks really are."""
    for seed in range(30):
        numbers, now = random.Random(seed), 0.0
        watch = BlockWatch(limit=40, check_s=1.0, stale_s=3.0)
        truth, last_true, table, keys = {}, {}, set(), [f"{i:016x}" + "0" * 48 for i in range(1, 61)]
        for step in range(600):
            now += 0.1
            silent = 200 < step < 300
            for key in numbers.sample(keys, 2):
                truth[key] = frozenset(m for m in (EXTERNAL, DISK) if numbers.random() < 0.5)
                if numbers.random() < 0.5:
                    watch.add([key], None, now)
            for key in watch.due(16, now):
                if not silent:
                    watch.answer(key, truth.get(key, frozenset()), now)
            watch.expire(now)
            for event in watch.take():
                if isinstance(event, Stored):
                    assert (event.block.hash, event.medium) not in table
                    table.add((event.block.hash, event.medium))
                else:
                    table.remove((event.blocks[0].hash, event.medium))
            assert len(watch) <= 40
            for key in keys:
                for medium in truth.get(key, ()):
                    last_true[block_hash(key), medium] = now
            for announced in table:
                assert now - last_true[announced] < (3.0 if silent else 1.0) + 0.2, seed
        watch.forget_all()
        for event in watch.take():
            table.discard((event.blocks[0].hash, event.medium))
        assert not table
