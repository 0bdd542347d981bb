"""The form of KV events (SGLang: disaggregation/kv_events.py): arrays tagged with the name of their class."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

EXTERNAL, DISK = "EXTERNAL", "DISK"
"""SGLang's names of media: the memory of the cluster (L3), and its disks (L4)."""

Event = List[Any]

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


def block_stored(block: int, parent: Optional[int], page_tokens: int, medium: str) -> Event:
    """The event that a block is stored in a medium. Its list of tokens is empty, since SGLang gives a backend hashes
    only."""
    return ["BlockStored", [block], parent, [], page_tokens, None, medium]


def block_removed(blocks: Sequence[int], medium: str) -> Event:
    return ["BlockRemoved", list(blocks), medium]


def all_blocks_cleared() -> Event:
    return ["AllBlocksCleared"]


def with_removals_joined(events: Sequence[Event]) -> List[Event]:
    """Joins neighbouring events that remove from the same medium to one event; the order stays."""
    joined: List[Event] = []
    for event in events:
        last = joined[-1] if joined else None
        if last and event[0] == last[0] == "BlockRemoved" and event[2] == last[2]:
            last[1].extend(event[1])
        else:
            joined.append(event)
    return joined
