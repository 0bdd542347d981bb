"""The thread that asks the directory for the chunks that a scheduler step looked up, in one batch."""

from __future__ import annotations

import logging
import queue
import threading
import time
from typing import Any, Callable, Optional, Sequence

from peercache import guard
from peercache._native import KeySpace, Results
from peercache.client import Status
from peercache.vllm.verdicts import Batch, Verdicts

logger = logging.getLogger("peercache.vllm")

ASKED_SHARE = 0.8
"""The share of a batch's time that its question may take: when a part of the directory hangs, what its other parts have
said by then is still in time."""

MissingCall = Callable[[Sequence[bytes]], None]
"""Is called with the keys that nobody has, as the directory itself says."""


def missing_keys(keys: Sequence[bytes], results: Results) -> "list[bytes]":
    """The keys that nobody has, without those that could not be asked about."""
    return [key for key, status in zip(keys, results.statuses) if status == Status.NOT_FOUND]


class Lookups:
    """Answers the batches of `verdicts`, one after the other. Threads: `step_end` any, and one of its own from the
    constructor to `close`. Deadlines: a batch whose deadline has passed is not asked for. Errors: none; keys that
    cannot be asked for are misses."""

    def __init__(
        self, native: Any, space: Callable[[], KeySpace], verdicts: Verdicts, missing: MissingCall, hold_s: float = 0.0
    ) -> None:
        """`hold_s`: seconds for which chunks that are found are kept from eviction."""
        self._hold_s = hold_s
        self._native, self._space, self._verdicts, self._missing = native, space, verdicts, missing
        self._batches: "queue.SimpleQueue[Optional[Batch]]" = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="peercache-vllm-lookup", daemon=True)
        self._thread.start()

    def step_end(self) -> None:
        """Makes the thread ask the directory for the keys that were looked up since the last
        step."""
        batch = self._verdicts.take(time.monotonic())
        if batch is not None:
            self._batches.put(batch)

    def close(self) -> None:
        """Ends the thread; returns when it has ended. Keys that still wait are misses."""
        self._batches.put(None)
        self._thread.join()

    def _run(self) -> None:
        for batch in iter(self._batches.get, None):
            self._verdicts.answer(batch, self._ask(batch))

    def _note_late(self, pages: int) -> None:
        """Notes chunks that have their verdict by the deadline and not by an answer, for `peercache why`."""
        if pages:
            self._native.note_unasked(self._space(), "lookup_late", pages)

    def _ask(self, batch: Batch) -> Sequence[bool]:
        keys = batch.keys()
        seconds = batch.deadline - time.monotonic()
        try:
            if seconds <= 0:
                self._note_late(len(keys))
                return ()  # The verdicts are given up when they are next looked at.
            results = self._native.exists([self._space()], keys, seconds * ASKED_SHARE, self._hold_s)
            self._missing(missing_keys(keys, results))
            found: Sequence[bool] = results.ok
            if time.monotonic() > batch.deadline:
                self._note_late(sum(found))
            return found
        except Exception:  # noqa: BLE001 - whatever it is, the thread goes on
            guard.say(logger, "a look-up")
            return [False] * len(keys)
