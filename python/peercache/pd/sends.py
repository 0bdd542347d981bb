"""Sends that wait for a CUDA event before their pages may be read, off the scheduler's thread."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import Counter
from typing import Any, Callable, NamedTuple, Optional

logger = logging.getLogger("peercache.pd")

QUERY_SECONDS = 0.0002
"""Pause between two questions to an event that cannot be waited for."""


class WaitingSend(NamedTuple):
    room: int
    """The room's name at the worker."""
    event: Optional[Any]
    send: Callable[[], None]
    fail: Callable[[str], None]
    """Fails the room with a reason."""


def wait_for(event: Any) -> None:
    """Waits until the work before a CUDA event is done. The GIL is given up during the wait."""
    if hasattr(event, "synchronize"):
        event.synchronize()
        return
    while not event.query():
        time.sleep(QUERY_SECONDS)


class WaitingSends:
    """Carries sends out in their order, each after its event; one thread, which begins with the first of them.
    Threads: any. Errors: an event that raises fails its room."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: "Counter[int]" = Counter()
        self._queue: "queue.SimpleQueue[WaitingSend]" = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None

    def has(self, room: int) -> bool:
        """Whether a send of this room waits or is under way: a later one must not overtake it."""
        with self._lock:
            return self._waiting[room] > 0

    def add(self, work: WaitingSend) -> None:
        with self._lock:
            self._waiting[work.room] += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="peercache-sends", daemon=True)
                self._thread.start()
        self._queue.put(work)

    def _run(self) -> None:
        while True:
            work = self._queue.get()
            try:
                if work.event is not None:
                    wait_for(work.event)
                work.send()
            except Exception as why:  # noqa: BLE001 - the thread serves all rooms, and must live
                logger.exception("a send that waited for the forward has failed")
                work.fail(f"the event that prefill waits for has failed: {why}")
            with self._lock:
                self._waiting[work.room] -= 1
                if self._waiting[work.room] <= 0:
                    del self._waiting[work.room]
            del work
