"""The thread that asks the directory where announced blocks are, and publishes what changed."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Deque, List, NamedTuple, Optional, Sequence, Tuple

from peercache._native import KeySpace
from peercache.client import Client
from peercache.kv_events.block_watch import BlockWatch, Tokens, media_of
from peercache.kv_events.dialects import ObjectKeys, blocks_allowed, dialect_of
from peercache.kv_events.journal import Journal
from peercache.kv_events.messages import Cleared, Event, Stored, with_removals_joined
from peercache.kv_events.publisher import HOST, EventPublisher, EventSettings, with_port_offset

logger = logging.getLogger("peercache.kv_events")

STEP_SECONDS = 0.1
ASK_KEYS = 2048
ASK_SECONDS = 1.0
CLOSE_SECONDS = 5.0
REPEAT_SECONDS = 60.0


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


class _Pages(NamedTuple):
    """Consecutive pages of a prompt that were set or read."""

    keys: List[str]
    parent: Optional[str]
    tokens: Tokens
    was_read: bool


class _Queue:
    """Pages on their way to the thread of the events. Threads: any. Bound: `limit` pages, or one run if that has more;
    beyond it the oldest runs are dropped."""

    def __init__(self, limit: int) -> None:
        self._lock = threading.Lock()
        self._limit, self._waiting, self._dropped = limit, 0, 0
        self._runs: Deque[_Pages] = deque()

    def put(self, run: _Pages) -> None:
        with self._lock:
            self._runs.append(run)
            self._waiting += len(run.keys)
            while self._waiting > self._limit and len(self._runs) > 1:
                oldest = len(self._runs.popleft().keys)
                self._waiting -= oldest
                self._dropped += oldest

    def take_all(self) -> Tuple[Sequence[_Pages], int]:
        """Takes all runs. Returns them, and how many pages were dropped since the last call."""
        with self._lock:
            taken = self._runs, self._dropped
            self._runs, self._waiting, self._dropped = deque(), 0, 0
            return taken


class KVEvents:
    """Announces the blocks that this process has set, while the directory says that the cache has them; or those that
    it has set or read, while the directory says that this host's node has them.

    Threads: `stored` may be called from any thread, it only queues; one thread of this object asks and sends.
    Bounds: a block is announced some 0.1 s after it can be found. When the block is gone from a medium, that is
    announced within `check_s` plus 0.1 s for each 2048 blocks, plus what the directory itself needs to know of it;
    when the directory does not answer, within `stale_s` plus a second. Ownership: the client is the caller's, and
    open until `close` has returned. Errors: the constructor raises ImportError or zmq.ZMQError; later errors go to
    the log.
    """

    def __init__(self, settings: EventSettings, client: Client, engine: EngineFacts) -> None:
        self._client, self._spaces = client, engine.spaces
        self._of_host = settings.attribution == HOST
        limit = blocks_allowed(settings.encoding, settings.blocks_max, engine.object_keys)
        if limit < settings.blocks_max:
            logger.warning("KV events: %d blocks at a time, since Dynamo takes no more of their objects", limit)
        self._watch = BlockWatch(limit, settings.check_s, settings.stale_s)
        self._queue = _Queue(settings.blocks_max)
        self._ended = threading.Event()
        dialect = dialect_of(settings.encoding, engine.page_tokens, engine.object_keys, client.node_address)
        self._publisher = EventPublisher(settings, dialect, engine.model, engine.dp_rank)
        self._said_at = -REPEAT_SECONDS
        self._journal = self._open_journal(settings, engine.dp_rank)
        self._thread = threading.Thread(target=self._run, name="peercache-kv-events", daemon=True)
        self._thread.start()

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
                self._queue.put(_Pages(list(keys[first:end]), parent, tokens[first:end], was_read))
            if end < len(keys):
                first, parent = end + 1, keys[end]

    def read(self, keys: Sequence[str], ok: Sequence[bool], parent: Optional[str], tokens: Tokens = ()) -> None:
        """Notes the pages of a get: this host may have a copy of them now, which is this engine's to announce where
        blocks are attributed by host."""
        if self._of_host:
            self._put(keys, ok, parent, tokens, was_read=True)

    def close(self) -> None:
        """Announces all blocks as removed, because nobody watches the blocks afterwards."""
        self._ended.set()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            # A publisher before this one may have announced blocks here that nobody looks after now, so all are cleared
            # first.
            self._send([Cleared()])
            self._recall()
            while not self._ended.is_set():
                self._publisher.serve_replays(STEP_SECONDS)
                self._step_safely()
            self._watch.forget_all()
            self._send(self._watch.take())
        except Exception:  # noqa: BLE001 - a thread's end, and no reason for the engine's
            logger.exception("KV events have ended")
        finally:
            self._publisher.close()
            if self._journal is not None:
                self._journal.close()

    def _recall(self) -> None:
        """Reads what the previous publisher has announced. Afterwards the file has only these blocks, and no broken
        end."""
        if self._journal is None:
            return
        try:
            blocks = self._journal.read()
            self._watch.recall(blocks, time.monotonic())
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

    def _step_safely(self) -> None:
        try:
            self._step(time.monotonic())
        except Exception:  # noqa: BLE001
            if time.monotonic() - self._said_at > REPEAT_SECONDS:
                self._said_at = time.monotonic()
                logger.exception("a round of KV events failed")

    def _step(self, now: float) -> None:
        runs, dropped = self._queue.take_all()
        if dropped:
            logger.warning("no KV events about %d blocks: they came faster than the directory was asked", dropped)
        for pages in runs:
            self._watch.add(pages.keys, pages.parent, now, pages.tokens, pages.was_read)
        asked = self._watch.due(ASK_KEYS, now)
        tiers = self._client.native.tiers(self._spaces, asked, ASK_SECONDS) if asked else None
        if tiers is not None:
            width = len(self._spaces)
            for index, key in enumerate(asked):
                each = tiers[index * width : (index + 1) * width]
                self._watch.answer(key, media_of([mask >> 2 for mask in each] if self._of_host else each), now)
        self._watch.expire(now)
        events = self._watch.take()
        self._note(events)
        self._send(events)

    def _send(self, events: Sequence[Event]) -> None:
        self._publisher.send(with_removals_joined(events))


def start(settings: Optional[EventSettings], client: Client, engine: EngineFacts) -> Optional[KVEvents]:
    """Starts the events. None when they are off, or cannot be started: an engine serves without events."""
    if settings is None:
        return None
    try:
        return KVEvents(settings, client, engine)
    except Exception as why:  # noqa: BLE001 - zmq's own errors have no type before it is loaded
        logger.error("no KV events: %s (python3-zmq and python3-msgpack are needed, and a free port)", why)
        return None
