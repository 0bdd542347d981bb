"""The thread that asks the directory where announced blocks are, and publishes what changed."""

from __future__ import annotations

import logging
import threading
import time
from typing import Dict, Optional, Sequence

from peercache.client import Client
from peercache.kv_events.block_watch import Tokens
from peercache.kv_events.dialects import dialect_of
from peercache.kv_events.messages import Cleared, Event, name_of
from peercache.kv_events.publisher import EventPublisher, EventSettings
from peercache.kv_events.rounds import EngineFacts, Rounds

logger = logging.getLogger("peercache.kv_events")

STEP_SECONDS = 0.1
ASK_SECONDS = 1.0
CLOSE_SECONDS = 5.0
REPEAT_SECONDS = 60.0


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
        self._ended = threading.Event()
        dialect = dialect_of(settings.encoding, engine.page_tokens, engine.object_keys, client.node_address)
        self._rounds = Rounds(settings, engine)
        try:
            self._publisher = EventPublisher(settings, dialect, engine.model, engine.dp_rank)
        except BaseException:
            self._rounds.close()
            raise
        self._said_at: Dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, name="peercache-kv-events", daemon=True)
        self._thread.start()

    def stored(self, keys: Sequence[str], ok: Sequence[bool], parent: Optional[str], tokens: Tokens = ()) -> None:
        """Notes the pages of a set: consecutive pages of a prompt, the key of the page before them, and the tokens of
        each page where the engine tells them."""
        self._rounds.stored(keys, ok, parent, tokens)

    def read(self, keys: Sequence[str], ok: Sequence[bool], parent: Optional[str], tokens: Tokens = ()) -> None:
        """Notes the pages of a get: this host may have a copy of them now, which is this engine's to announce where
        blocks are attributed by host."""
        self._rounds.read(keys, ok, parent, tokens)

    def close(self) -> None:
        """Announces all blocks as removed, because nobody watches the blocks afterwards."""
        self._ended.set()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            # An earlier publisher may have announced blocks that nobody looks after now, so all are cleared first.
            self._publisher.send([Cleared()])
            self._rounds.recall(time.monotonic())
            while not self._ended.is_set():
                self._publisher.serve_replays(STEP_SECONDS)
                self._step_safely()
            self._send(self._rounds.forget_all())
        except Exception:  # noqa: BLE001 - a thread's end, and no reason for the engine's
            logger.exception("KV events have ended")
        finally:
            self._publisher.close()
            self._rounds.close()

    def _step_safely(self) -> None:
        try:
            self._step(time.monotonic())
        except Exception:  # noqa: BLE001
            self._say("a round of KV events failed")

    def _say(self, what: str, *which: str) -> None:
        """Logs the exception that is being handled; each text at most once per minute, whichever it is about."""
        now = time.monotonic()
        if now - self._said_at.get(what, -REPEAT_SECONDS) >= REPEAT_SECONDS:
            self._said_at[what] = now
            logger.exception(what, *which)

    def _step(self, now: float) -> None:
        asked = self._rounds.begin(now)
        tiers = self._client.native.tiers(self._spaces, asked, ASK_SECONDS) if asked else None
        self._send(self._rounds.end(asked, tiers, now))

    def _send(self, events: Sequence[Event]) -> None:
        """Sends events that the rounds count as told. One that cannot be sent is left out, and keeps no other back:
        routers would believe in removed blocks for ever. Those that went out before the fault go out twice, in the
        same order, which says the same."""
        try:
            self._publisher.send(events)
        except Exception:  # noqa: BLE001 - whatever it is, the other events are sent
            self._say("KV events are sent one by one, since they cannot be sent together")
            for event in events:
                self._send_alone(event)

    def _send_alone(self, event: Event) -> None:
        try:
            self._publisher.send([event])
        except Exception:  # noqa: BLE001
            self._say("a KV event could not be sent: %s", name_of(event))


def start(settings: Optional[EventSettings], client: Client, engine: EngineFacts) -> Optional[KVEvents]:
    """Starts the events. None when they are off, or cannot be started: an engine serves without events."""
    if settings is None:
        return None
    try:
        return KVEvents(settings, client, engine)
    except Exception as why:  # noqa: BLE001 - zmq's own errors have no type before it is loaded
        logger.error("no KV events: %s (python3-zmq and python3-msgpack are needed, and a free port)", why)
        return None
