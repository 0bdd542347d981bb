"""Rounds of questions about announced blocks, and the events that their answers make. No thread, no clock, no network."""

from __future__ import annotations

import logging
import threading
from collections import deque
from dataclasses import dataclass
from typing import Deque, List, NamedTuple, Optional, Sequence, Tuple

from peercache._native import KeySpace
from peercache.kv_events.block_watch import BlockWatch, Tokens, media_of
from peercache.kv_events.dialects import ObjectKeys, blocks_allowed
from peercache.kv_events.journal import Journal
from peercache.kv_events.messages import Event, Stored, with_removals_joined
from peercache.kv_events.publisher import HOST, EventSettings, with_port_offset

logger = logging.getLogger("peercache.kv_events")

ASK_KEYS, ASK_PAGES = 2048, 8192
"""Keys, and pages of all ranks, that a round asks about at most: no more pages than the client looks up at once."""
UNKNOWN = 0x80
"""The bit in the tiers of a page that says that the directory has not answered about this page."""


@dataclass(frozen=True)
class EngineFacts:
    """The facts about the engine that events carry with its blocks."""

    spaces: Sequence[KeySpace]
    """The key spaces of all ranks of the TP group; a block is where all of its pages are."""
    page_tokens: int
    object_keys: ObjectKeys
    model: str = ""
    """The name of the model that the engine serves."""
    dp_rank: int = 0


class Pages(NamedTuple):
    """Consecutive pages of a prompt that were set or read."""

    keys: List[str]
    parent: Optional[str]
    tokens: Tokens
    was_read: bool


class PageQueue:
    """Pages on their way to the thread of the events. Threads: any. Bound: `limit` pages, or one run if that has more;
    beyond it the oldest runs are dropped."""

    def __init__(self, limit: int) -> None:
        self._lock = threading.Lock()
        self._limit, self._waiting, self._dropped = limit, 0, 0
        self._runs: Deque[Pages] = deque()

    def put(self, run: Pages) -> None:
        with self._lock:
            self._runs.append(run)
            self._waiting += len(run.keys)
            while self._waiting > self._limit and len(self._runs) > 1:
                oldest = len(self._runs.popleft().keys)
                self._waiting -= oldest
                self._dropped += oldest

    def take_all(self) -> Tuple[Sequence[Pages], int]:
        """Takes all runs. Returns them, and how many pages were dropped since the last call."""
        with self._lock:
            taken = self._runs, self._dropped
            self._runs, self._waiting, self._dropped = deque(), 0, 0
            return taken


class Rounds:
    """Asks about the blocks that an engine announces, round by round: `begin` names the keys to look up, and `end` takes
    their tiers and returns the events. A round ends before the next one begins.

    Threads: `stored` and `read` any; the others one at a time. Units: seconds of any clock that is the same in all
    rounds.
    """

    def __init__(self, settings: EventSettings, engine: EngineFacts) -> None:
        self._of_host = settings.attribution == HOST
        self._width = len(engine.spaces)
        limit = blocks_allowed(settings.encoding, settings.blocks_max, engine.object_keys)
        if limit < settings.blocks_max:
            logger.warning("KV events: %d blocks at a time, since Dynamo takes no more of their objects", limit)
        self._watch = BlockWatch(limit, settings.check_s, settings.stale_s)
        self._queue = PageQueue(settings.blocks_max)
        self._journal = self._open_journal(settings, engine.dp_rank)

    def _open_journal(self, settings: EventSettings, dp_rank: int) -> Optional[Journal]:
        if not settings.journal:
            return None
        path = with_port_offset(settings.journal, dp_rank)
        try:
            return Journal(path, settings.blocks_max)
        except OSError as why:
            logger.error("KV events without their journal %s: %s", path, why)
            return None

    def stored(self, keys: Sequence[str], ok: Sequence[bool], parent: Optional[str], tokens: Tokens = ()) -> None:
        """Notes the pages of a set: consecutive pages of a prompt, the key of the page before them, and the tokens of
        each page where the engine tells them."""
        self._put(keys, ok, parent, tokens, was_read=False)

    def _put(
        self, keys: Sequence[str], ok: Sequence[bool], parent: Optional[str], tokens: Tokens, was_read: bool
    ) -> None:
        first = 0
        for end in [index for index, there in enumerate(ok) if not there] + [len(keys)]:
            if end > first:
                self._queue.put(Pages(list(keys[first:end]), parent, tokens[first:end], was_read))
            if end < len(keys):
                first, parent = end + 1, keys[end]

    def read(self, keys: Sequence[str], ok: Sequence[bool], parent: Optional[str], tokens: Tokens = ()) -> None:
        """Notes the pages of a get: this host may have a copy of them now, which is this engine's to announce where
        blocks are attributed by host."""
        if self._of_host:
            self._put(keys, ok, parent, tokens, was_read=True)

    def begin(self, now: float) -> List[str]:
        """Begins a round. Returns the keys whose tiers are to be looked up."""
        runs, dropped = self._queue.take_all()
        if dropped:
            logger.warning("no KV events about %d blocks: they came faster than the directory was asked", dropped)
        for pages in runs:
            self._watch.add(pages.keys, pages.parent, now, pages.tokens, pages.was_read)
        return self._watch.due(min(ASK_KEYS, max(1, ASK_PAGES // self._width)), now)

    def end(self, asked: Sequence[str], tiers: Optional[bytes], now: float) -> List[Event]:
        """Ends the round that began at `now`. Returns the events to send, in their order.

        asked: the keys that `begin` returned. tiers: one byte for each key and key space, the spaces of a key side by
        side (`_native.Client.tiers`); None: there is no answer.
        """
        if tiers is not None:
            for index, key in enumerate(asked):
                self._take(key, tiers[index * self._width : (index + 1) * self._width], now)
        self._watch.expire(now)
        events = self._watch.take()
        self._note(events)
        return with_removals_joined(events)

    def _take(self, key: str, tiers: bytes, now: float) -> None:
        """Takes the tiers of a key's pages, one of each space. The key is nowhere when one of its pages is."""
        known = [mask >> 2 if self._of_host else mask for mask in tiers if not mask & UNKNOWN]
        if len(known) < len(tiers) and 0 not in known:
            self._watch.unanswered(key, now)
        else:
            self._watch.answer(key, media_of(known), now)

    def forget_all(self) -> List[Event]:
        """The last events: all blocks are taken back, because nobody watches them afterwards."""
        self._watch.forget_all()
        return with_removals_joined(self._watch.take())

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()

    def recall(self, now: float) -> None:
        """Reads what the previous publisher has announced, which is asked about first. Afterwards the journal has only
        these blocks, and no broken end."""
        if self._journal is None:
            return
        try:
            blocks = self._journal.read()
            self._watch.recall(blocks, now)
            self._journal.rewrite(blocks)
        except OSError as why:
            self._give_journal_up(why)

    def _note(self, events: Sequence[Event]) -> None:
        """Notes announced blocks in the journal. A journal that cannot be written is given up: the events go on."""
        new = [event.block for event in events if isinstance(event, Stored)]
        if self._journal is None or not new:
            return
        try:
            self._journal.add(new)
            if self._journal.is_full:
                self._journal.rewrite(self._watch.announced())
        except OSError as why:
            self._give_journal_up(why)

    def _give_journal_up(self, why: OSError) -> None:
        logger.error("KV events go on without their journal: %s", why)
        if self._journal is not None:
            self._journal.close()
            self._journal = None
