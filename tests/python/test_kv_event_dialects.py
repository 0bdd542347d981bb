"""Tests of the dialects of KV events: golden bytes of each, and the settings that choose one."""

import msgpack
import pytest
from peercache.hicache.settings import settings_of
from peercache.kv_events import DISK, EXTERNAL, EventSettings, block_hash
from peercache.kv_events.dialects import blocks_allowed, dialect_of, sglang_objects
from peercache.kv_events.messages import Block, Cleared, Removed, Stored

NOW = 1_700_000_000.25
PAGE = "7f" * 32
ONE = Block(PAGE, block_hash(PAGE), None, (1, 2, 300, 70000))
TWO = Block("ff" * 32, -1, ONE.hash)
EVENTS = [Cleared(), Stored(ONE, EXTERNAL), Stored(TWO, DISK), Removed((ONE, TWO), EXTERNAL)]

TIME = "cb41d954fc40100000"  # msgpack's float 1700000000.25
HASH = "cf7f7f7f7f7f7f7f7f"  # msgpack's integer of eight bytes
TOKENS = "940102cd012cce00011170"


def text(word):
    """A short text in msgpack's form, in hex."""
    assert len(word) < 32
    return bytes([0xA0 + len(word)]).hex() + word.encode().hex()


ARRAYS = ("93" + TIME + "94"
          + "91" + text("AllBlocksCleared")
          + "97" + text("BlockStored") + "91" + HASH + "c0" + TOKENS + "04" + "c0" + text("EXTERNAL")
          + "97" + text("BlockStored") + "91" + "ff" + HASH + "90" + "04" + "c0" + text("DISK")
          + "93" + text("BlockRemoved") + "92" + HASH + "ff" + text("EXTERNAL")
          + "03")


def stored_map(block, parent, tokens, medium):
    return ("88" + text("type") + text("BlockStored") + text("block_hashes") + "91" + block
            + text("parent_block_hash") + parent + text("token_ids") + tokens + text("block_size") + "04"
            + text("lora_id") + "c0" + text("medium") + text(medium) + text("lora_name") + "c0")


MAPS = ("93" + TIME + "94"
        + "81" + text("type") + text("AllBlocksCleared")
        + stored_map(HASH, "c0", TOKENS, "EXTERNAL") + stored_map("ff", HASH, "90", "DISK")
        + "83" + text("type") + text("BlockRemoved") + text("block_hashes") + "92" + HASH + "ff"
        + text("medium") + text("EXTERNAL")
        + "03")


@pytest.mark.parametrize("encoding, golden", [("array", ARRAYS), ("map", MAPS)])
def test_the_bytes_of_arrays_and_maps_are_the_golden_ones(encoding, golden):
    made = dialect_of(encoding, 4, sglang_objects(1, False), "node")
    assert [msgpack.packb(body).hex() for body in made.bodies(EVENTS, NOW, 3)] == [golden]


def mooncake_map(number, fields):
    """An event of Mooncake's master in msgpack, in hex; `fields` are values that differ, and more fields."""
    always = {"event_id": f"{number:02x}", "timestamp": "cf0000018bcfe568fa", "event_type": "", "type": "",
              "model_name": "c0", "block_size": "c0", "additional_salt": "c0", "lora_name": "c0",
              "tenant_id": text("default"), "backend_id": text("node"), "group_id": "c0", "medium": "c0",
              "dp_rank": "c0", "object_key": "a0", "seq_hashes": "90", "block_hashes": "90"}
    all_fields = {**always, **fields}
    head = f"8{len(all_fields):x}" if len(all_fields) < 16 else f"de{len(all_fields):04x}"
    return head + "".join(text(name) + value for name, value in all_fields.items())


def long_text(word):
    return f"d9{len(word):02x}" + word.encode().hex()


def test_the_bytes_of_mooncakes_stream_are_the_golden_ones():
    made = dialect_of("mooncake", 4, sglang_objects(1, True), "node")
    page = long_text(PAGE + "__k")
    stored = {"event_type": text("stored"), "type": text("BlockStored"), "medium": text("cpu"), "object_key": page,
              "block_hashes": "91" + HASH, "base_block_idx": "00", "parent_hash": "c0", "token_ids": TOKENS,
              "parent_block_hash": "c0"}
    removed = {"event_type": text("removed"), "type": text("BlockRemoved"), "medium": text("cpu"),
               "object_key": page, "block_hashes": "91" + HASH, "base_block_idx": "c0"}
    golden = ("93" + "cf0000018bcfe568fa" + "93"
              + mooncake_map(0, {"event_type": text("cleared"), "type": text("AllBlocksCleared")})
              + mooncake_map(1, stored) + mooncake_map(2, removed) + "00")
    events = [Cleared(), Stored(ONE, EXTERNAL), Removed((ONE,), EXTERNAL)]
    assert [msgpack.packb(body).hex() for body in made.bodies(events, NOW, 3)] == [golden]


def test_a_reader_of_mooncakes_stream_that_knows_no_media_keeps_what_is_left_in_one():
    made, there = dialect_of("mooncake", 4, sglang_objects(1, False), "node"), {}

    def hear(*events):
        for body in made.bodies(events, NOW, 0):
            for event in body[1]:
                there[event["object_key"]] = event["event_type"] == "stored" and event["medium"]
        return list(there.values())

    assert hear(Stored(ONE, EXTERNAL), Stored(ONE, DISK), Removed((ONE,), EXTERNAL)) == ["disk", "disk"]
    assert hear(Stored(ONE, EXTERNAL), Removed((ONE,), DISK)) == ["cpu", "cpu"]
    assert hear(Removed((ONE,), EXTERNAL)) == [False, False]


def test_mooncakes_stream_has_fewer_objects_than_empty_dynamos_index():
    assert blocks_allowed("mooncake", 131072, sglang_objects(8, False)) * 16 <= 900_000
    assert blocks_allowed("mooncake", 1000, sglang_objects(8, False)) == 1000
    assert blocks_allowed("map", 1 << 21, sglang_objects(8, False)) == 1 << 21


def test_mooncakes_objects_are_those_of_sglangs_backend_for_it():
    assert sglang_objects(2, False)("ab") == ["ab_0_k", "ab_0_v", "ab_1_k", "ab_1_v"]
    assert sglang_objects(2, True)("ab") == ["ab__k"]


def test_no_message_has_more_events_than_its_dialect_allows():
    blocks = [Block(f"{i:064x}", i, None) for i in range(1000)]
    events = [Removed(tuple(blocks), DISK), *[Stored(block, EXTERNAL) for block in blocks]]
    for encoding, most, total in (("array", 512, 1001), ("map", 512, 1001), ("mooncake", 64, 4000)):
        made = dialect_of(encoding, 4, sglang_objects(1, False), "node")
        sizes = [len(body[1]) for body in made.bodies(events, NOW, 0)]
        assert max(sizes) == most and sum(sizes) == total


def test_settings_that_exclude_each_other_are_refused():
    end = {"endpoint": "tcp://*:1"}
    for more, why in (({"encoding": "json"}, "array, map, mooncake"), ({"topic": "a", "pod": "b"}, "a topic and a pod"),
                      ({"encoding": "mooncake", "pod": "b"}, "empty topic"),
                      ({"attribution": "pod"}, "cluster, host")):
        with pytest.raises(ValueError, match=why):
            settings_of({"kv_events": {**end, **more}})
    made = settings_of({"kv_events": {**end, "pod": "10.0.0.7:8000", "encoding": "map"}}).events
    assert made.topic_for("m@1") == "kv@10.0.0.7:8000@m@1"
    assert EventSettings("a", pod="p", model="other").topic_for("m") == "kv@p@other"
