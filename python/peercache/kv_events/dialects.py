"""The forms that routers read: vLLM's and SGLang's events as arrays and as maps, and the events of Mooncake's master.

A dialect makes the body of a message, which is packed with msgpack. `now` is the time of day in seconds.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Protocol, Sequence, Set, Tuple

from peercache.kv_events.messages import DISK, EXTERNAL, Block, Cleared, Event, Removed, Stored

ARRAY, MAP, MOONCAKE = "array", "map", "mooncake"
ENCODINGS = (ARRAY, MAP, MOONCAKE)
MOONCAKE_MEDIA: Mapping[str, str] = {EXTERNAL: "cpu", DISK: "disk"}
TENANT = "default"
MOONCAKE_OBJECTS_MAX = 900_000
"""Dynamo's index of shared blocks empties itself at a million objects, and is not told what it has lost."""

ObjectKeys = Callable[[str], Sequence[str]]
"""Returns the keys of the objects that Mooncake's store would keep for the page with this hash."""


class Dialect(Protocol):
    """A form of messages. Threads: one at a time."""

    events_max: int
    """Events of one message, at most."""

    def bodies(self, events: Sequence[Event], now: float, dp_rank: int) -> Iterator[Any]:
        """Makes the bodies of the messages that say these events, in order."""


def _pieces(events: Sequence[Any], size: int) -> Iterator[List[Any]]:
    for first in range(0, len(events), size):
        yield list(events[first : first + size])


class Arrays:
    """Arrays tagged with the name of their class: SGLang, and vLLM before 0.23."""

    events_max = 512

    def __init__(self, page_tokens: int) -> None:
        self._page_tokens = page_tokens

    def bodies(self, events: Sequence[Event], now: float, dp_rank: int) -> Iterator[Any]:
        for piece in _pieces(events, self.events_max):
            yield [now, [self.form(event) for event in piece], dp_rank]

    def form(self, event: Event) -> List[Any]:
        if isinstance(event, Stored):
            block = event.block
            return ["BlockStored", [block.hash], block.parent, list(block.tokens), self._page_tokens, None, event.medium]
        if isinstance(event, Removed):
            return ["BlockRemoved", [block.hash for block in event.blocks], event.medium]
        return ["AllBlocksCleared"]


class Maps:
    """Maps with the name of their class under "type": vLLM from 0.23 on."""

    events_max = 512

    def __init__(self, page_tokens: int) -> None:
        self._page_tokens = page_tokens

    def bodies(self, events: Sequence[Event], now: float, dp_rank: int) -> Iterator[Any]:
        for piece in _pieces(events, self.events_max):
            yield [now, [self.form(event) for event in piece], dp_rank]

    def form(self, event: Event) -> Dict[str, Any]:
        if isinstance(event, Stored):
            block = event.block
            return {"type": "BlockStored", "block_hashes": [block.hash], "parent_block_hash": block.parent,
                    "token_ids": list(block.tokens), "block_size": self._page_tokens, "lora_id": None,
                    "medium": event.medium, "lora_name": None}
        if isinstance(event, Removed):
            hashes = [block.hash for block in event.blocks]
            return {"type": "BlockRemoved", "block_hashes": hashes, "medium": event.medium}
        return {"type": "AllBlocksCleared"}


class MooncakeMaster:
    """The stream of Mooncake's master (its RFC 1527): one event for each object that its store would have. Some readers
    know no media, so a block that leaves one of its two media is announced once more as stored in the other."""

    events_max = 64

    def __init__(self, object_keys: ObjectKeys, backend: str) -> None:
        """`backend` names this cache in the events."""
        self._object_keys, self._backend = object_keys, backend
        self._next_id = 0
        # The media in which each block is stored, by its key.
        self._media: Dict[str, Set[str]] = {}

    def bodies(self, events: Sequence[Event], now: float, dp_rank: int) -> Iterator[Any]:
        stamp = int(now * 1000)
        for piece in _pieces([form for event in events for form in self._forms(event, stamp)], self.events_max):
            yield [stamp, piece, 0]

    def _forms(self, event: Event, stamp: int) -> Iterator[Dict[str, Any]]:
        if isinstance(event, Cleared):
            self._media.clear()
            yield self._form("cleared", "AllBlocksCleared", stamp, None, None, "")
        elif isinstance(event, Stored):
            self._media.setdefault(event.block.key, set()).add(event.medium)
            yield from self._stored(event.block, event.medium, stamp)
        else:
            for block in event.blocks:
                for key in self._object_keys(block.key):
                    yield {**self._form("removed", "BlockRemoved", stamp, event.medium, block, key),
                           "base_block_idx": None}
                left = self._media.pop(block.key, set()) - {event.medium}
                for medium in left:
                    self._media[block.key] = left
                    yield from self._stored(block, medium, stamp)

    def _stored(self, block: Block, medium: str, stamp: int) -> Iterator[Dict[str, Any]]:
        for key in self._object_keys(block.key):
            yield {**self._form("stored", "BlockStored", stamp, medium, block, key), "base_block_idx": 0,
                   "parent_hash": None, "token_ids": list(block.tokens) or None, "parent_block_hash": block.parent}

    def _form(self, event_type: str, legacy: str, stamp: int, medium: Optional[str], block: Optional[Block],
              key: str) -> Dict[str, Any]:
        """The fields that all events have. Their hashes are SGLang's own, so RFC 1527's `seq_hashes` are empty."""
        number, self._next_id = self._next_id, self._next_id + 1
        return {"event_id": number, "timestamp": stamp, "event_type": event_type, "type": legacy, "model_name": None,
                "block_size": None, "additional_salt": None, "lora_name": None, "tenant_id": TENANT,
                "backend_id": self._backend, "group_id": None, "medium": MOONCAKE_MEDIA[medium] if medium else None,
                "dp_rank": None, "object_key": key, "seq_hashes": [], "block_hashes": [block.hash] if block else []}


def sglang_objects(tp_size: int, is_mla: bool) -> ObjectKeys:
    """The keys that SGLang's Mooncake backend gives the objects of a page, without pipeline stages: K and V of each
    rank; of MLA one object, which all ranks share."""
    suffixes: Tuple[str, ...] = ("__k",)
    if not is_mla:
        suffixes = tuple(f"_{rank}_{half}" for rank in range(tp_size) for half in "kv")
    return lambda page: [page + suffix for suffix in suffixes]


def blocks_allowed(encoding: str, blocks_max: int, object_keys: ObjectKeys) -> int:
    """How many blocks may be announced at a time, of `blocks_max` that are wanted."""
    if encoding != MOONCAKE:
        return blocks_max
    return min(blocks_max, MOONCAKE_OBJECTS_MAX // max(1, len(object_keys(""))))


def dialect_of(encoding: str, page_tokens: int, object_keys: ObjectKeys, backend: str) -> Dialect:
    """Makes the dialect that is named `encoding`, one of ENCODINGS."""
    if encoding == MOONCAKE:
        return MooncakeMaster(object_keys, backend)
    if encoding == MAP:
        return Maps(page_tokens)
    return Arrays(page_tokens)
