"""Blocks and the events about them, before a dialect gives them a form."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import groupby
from typing import Any, List, Optional, Sequence, Tuple, Union

EXTERNAL, DISK = "EXTERNAL", "DISK"
"""SGLang's names of media: the memory of the cluster (L3), and its disks (L4)."""

HASH_DIGITS = 16


def block_hash(key: str) -> Optional[int]:
    """A page's hash as routers know it: the first 64 bits of SGLang's page hash, signed (its
    hash_str_to_int64). None for a key that is not such a hash: pages of drafts and of named pools."""
    if len(key) != 64:
        return None
    try:
        value = int(key[:HASH_DIGITS], 16)
    except ValueError:
        return None
    return value - (1 << 64) if value >= 1 << 63 else value


def token_ids(given: Sequence[Any]) -> Tuple[int, ...]:
    """The ids of a block's tokens as messages and journals can hold them: numbers of 32 bits, as SGLang hashes them.
    None at all where one is something else: the block is then announced by its hash alone."""
    try:
        return tuple(array("I", given))
    except (TypeError, ValueError, OverflowError):
        return ()


@dataclass(frozen=True)
class Block:
    """A block as events name it."""

    key: str
    """The key of its pages: SGLang's page hash, in hex."""
    hash: int
    parent: Optional[int]
    """The hash of the block before it in the prompt; None: there is none, or it is not known."""
    tokens: Tuple[int, ...] = ()
    """The ids of its tokens; empty where the engine gives hashes only."""


@dataclass(frozen=True)
class Stored:
    block: Block
    medium: str


@dataclass(frozen=True)
class Removed:
    blocks: Tuple[Block, ...]
    medium: str


@dataclass(frozen=True)
class Cleared:
    """Says that the blocks of all earlier events are gone."""


Event = Union[Stored, Removed, Cleared]

NAMED_BLOCKS = 3


def name_of(event: Event) -> str:
    """An event in words for a log: its kind, and the keys of its first blocks."""
    if isinstance(event, Cleared):
        return "cleared"
    blocks = (event.block,) if isinstance(event, Stored) else event.blocks
    keys = [block.key for block in blocks[:NAMED_BLOCKS]]
    more = [f"{len(blocks) - NAMED_BLOCKS} more"] if len(blocks) > NAMED_BLOCKS else []
    return f"{type(event).__name__.lower()} {event.medium}: {', '.join([*keys, *more])}"


def with_removals_joined(events: Sequence[Event]) -> List[Event]:
    """Joins neighbouring events that remove from the same medium to one event; the order stays."""
    joined: List[Event] = []
    for medium, run in groupby(events, lambda event: event.medium if isinstance(event, Removed) else None):
        if medium is None:
            joined.extend(run)
        else:
            joined.append(Removed(tuple(block for event in run for block in _blocks_of(event)), medium))
    return joined


def _blocks_of(event: Event) -> Tuple[Block, ...]:
    return event.blocks if isinstance(event, Removed) else ()
