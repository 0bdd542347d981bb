"""The announced blocks and the events about them to send next. No thread, no clock, no network."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import islice
from typing import FrozenSet, List, Optional, Sequence

from peercache.kv_events.messages import DISK, EXTERNAL, Block, Event, Removed, Stored, block_hash, token_ids

NOWHERE: FrozenSet[str] = frozenset()
MEDIA = (EXTERNAL, DISK)

Tokens = Sequence[Sequence[int]]
"""The ids of the tokens of pages, one list for each page."""

GRACE_SECONDS = 2.0
"""After this many seconds a page that was set has either reached the directory, which takes milliseconds, or never
will."""

LOST_CHECKS = 6
"""A block that is nowhere is asked about this many times as seldom as a block that is somewhere. Such a block may come
back, as with the disk of a node that restarts, or with the link to this host's node."""


def media_of(tiers: Sequence[int]) -> FrozenSet[str]:
    """The media of a block whose pages (one for each rank of the TP group) are in the tiers `tiers`: bit 0 memory,
    bit 1 disk. The block is in memory when all of its pages are; it is on disk when all pages are on disk, or when
    only memory and disk together hold all of them."""
    in_memory, on_disk = all(t & 1 for t in tiers), all(t & 2 for t in tiers)
    if not in_memory and all(tiers):
        on_disk = True
    return frozenset(m for m, there in ((EXTERNAL, in_memory), (DISK, on_disk)) if there)


@dataclass
class _Watched:
    block: Block
    added: float
    """When the block was last set or read."""
    asked: float
    """When the directory was last asked about the block, or when the block came to its place in the order."""
    media: FrozenSet[str] = NOWHERE
    confirmed: float = 0.0
    """When an answer last named the media, or when the block was recalled."""
    was_read: bool = False
    """Whether this process has read the block and not set it: a copy here, if there is one, may come later."""
    was_found: bool = False
    is_recalled: bool = False
    """Whether an earlier publisher has announced the block, and this publisher has heard nothing of it yet."""


class BlockWatch:
    """A bounded memory of announced blocks, by key. Threads: one at a time. Units: seconds of any clock.

    Invariant: a block is announced in a medium only after an answer named that medium. It is announced as removed when
    an answer no longer names the medium, when no answer came for `stale_s`, or when the block is forgotten. While more
    than `limit` blocks are known, blocks that are nowhere are forgotten first, then the block that nobody has asked
    about for longest. A block that was only read, and never found, is forgotten as soon as it is nowhere. Blocks that
    get no answer wait for their turn like others, so that however many they are, the others are asked about.
    """

    def __init__(self, limit: int, check_s: float, stale_s: float) -> None:
        self._limit, self._check_s, self._stale_s = limit, check_s, stale_s
        # Blocks by key, the one longest without a question first.
        self._blocks: "OrderedDict[str, _Watched]" = OrderedDict()
        self._fresh: "OrderedDict[str, None]" = OrderedDict()
        # Blocks that are nowhere, the one longest without a question first.
        self._lost: "OrderedDict[str, _Watched]" = OrderedDict()
        # Blocks that are announced here or by an earlier publisher, the one longest without an answer first.
        self._confirmed: "OrderedDict[str, _Watched]" = OrderedDict()
        self._events: List[Event] = []

    def __len__(self) -> int:
        return len(self._blocks) + len(self._lost)

    def add(
        self, keys: Sequence[str], parent: Optional[str], now: float, tokens: Tokens = (), was_read: bool = False
    ) -> None:
        """Notes pages that were set or read, each the child of the previous one. Keys that are not hashes are left
        out. The tokens are those of each page, or none at all where the engine does not tell them."""
        last = block_hash(parent) if parent else None
        for index, key in enumerate(keys):
            value = block_hash(key)
            if value is None:
                continue
            watched = self._blocks.get(key) or self._found_again(key, now)
            if watched is None:
                own = token_ids(tokens[index]) if tokens else ()
                self._blocks[key] = _Watched(Block(key, value, last, own), now, now, was_read=was_read)
            else:
                watched.added, watched.was_read = now, watched.was_read and was_read
            self._fresh[key] = None
            last = value
        while len(self) > self._limit:
            self._forget(next(iter(self._lost or self._blocks)))

    def recall(self, blocks: Sequence[Block], now: float) -> None:
        """Notes blocks that an earlier publisher had announced: the directory is asked about them next. Each is taken
        back in the media that it is not in, since a subscriber may not have heard that all was cleared."""
        for block in blocks[-self._limit :]:
            recalled = _Watched(block, now, now, confirmed=now, is_recalled=True)
            self._confirmed[block.key] = self._blocks.setdefault(block.key, recalled)
            self._fresh[block.key] = None

    def announced(self) -> List[Block]:
        """The blocks that are announced in some medium."""
        return [watched.block for watched in self._blocks.values() if watched.media]

    def due(self, count: int, now: float) -> List[str]:
        """The keys to ask the directory about next: first blocks that were set and not found yet, or read and not asked
        about yet, then blocks not asked about for `check_s`, then blocks that are nowhere. The first take more than half
        of the places only where nobody else is due."""
        fresh = list(islice(self._fresh, count))
        keys, more = fresh[: count // 2], fresh[count // 2 :]
        for blocks, pause in ((self._blocks, self._check_s), (self._lost, LOST_CHECKS * self._check_s)):
            for key, block in blocks.items():
                if len(keys) >= count or block.asked > now - pause:
                    break
                if key not in self._fresh:
                    keys.append(key)
        return keys + more[: count - len(keys)]

    def answer(self, key: str, media: FrozenSet[str], now: float) -> None:
        """Notes the directory's answer: the media that a block is in."""
        block = self._blocks.get(key) or (self._found_again(key, now) if media else self._lost.get(key))
        if block is None:
            return
        block.asked, block.confirmed, block.was_found = now, now, block.was_found or bool(media)
        self._become(block, media)
        if not media and now - block.added > GRACE_SECONDS:
            self._lose(key, block)
            return
        self._blocks.move_to_end(key)
        if media or block.was_read:
            self._fresh.pop(key, None)

    def unanswered(self, key: str, now: float) -> None:
        """Notes that the directory was asked about a block and has not answered: the block waits for its next turn."""
        blocks = self._blocks if key in self._blocks else self._lost
        block = blocks.get(key)
        if block is None:
            return
        block.asked = now
        blocks.move_to_end(key)
        if key in self._fresh:
            self._fresh.move_to_end(key)
            if now - block.added > GRACE_SECONDS:
                del self._fresh[key]

    def expire(self, now: float) -> None:
        """Takes back blocks that no answer has confirmed for `stale_s`; a later answer announces them again."""
        while self._confirmed:
            block = next(iter(self._confirmed.values()))
            if block.confirmed > now - self._stale_s:
                return
            self._become(block, NOWHERE)

    def forget_all(self) -> None:
        for key in [*self._blocks, *self._lost]:
            self._forget(key)

    def take(self) -> List[Event]:
        """Returns the events to send, in their order, and forgets them."""
        events, self._events = self._events, []
        return events

    def _forget(self, key: str) -> None:
        if self._lost.pop(key, None) is None:
            self._become(self._blocks.pop(key), NOWHERE)
        self._fresh.pop(key, None)

    def _lose(self, key: str, block: _Watched) -> None:
        self._blocks.pop(key, None)
        self._lost.pop(key, None)
        self._fresh.pop(key, None)
        if block.was_found or not block.was_read:
            self._lost[key] = block

    def _found_again(self, key: str, now: float) -> Optional[_Watched]:
        """Takes a block out of the blocks that are nowhere; None when it is not one of them."""
        block = self._lost.pop(key, None)
        if block is not None:
            block.asked = now
            self._blocks[key] = block
        return block

    def _become(self, watched: _Watched, media: FrozenSet[str]) -> None:
        """Moves a block to `media`. The event about the new place comes first, then the one about the old place: a
        block that moves is never announced as nowhere. A block of an earlier publisher is announced, once, as removed
        from the media that it is not in."""
        for medium in MEDIA:
            if medium in media - watched.media:
                self._events.append(Stored(watched.block, medium))
        left = frozenset(MEDIA) if watched.is_recalled else watched.media
        for medium in MEDIA:
            if medium in left - media:
                self._events.append(Removed((watched.block,), medium))
        watched.media, watched.is_recalled = media, False
        self._confirmed.pop(watched.block.key, None)
        if media:
            self._confirmed[watched.block.key] = watched
