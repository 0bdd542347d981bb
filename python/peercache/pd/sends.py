"""Sends that wait for a CUDA event before their pages may be read, off the scheduler's thread."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, NamedTuple, Optional

logger = logging.getLogger("peercache.pd")

QUERY_SECONDS = 0.0005
LONGEST_QUERY_SECONDS = 0.005
"""Pauses between two questions to the events that are waited for: the first after news, and the longest, since each
question keeps the scheduler from Python for a moment."""


class WaitingSend(NamedTuple):
    room: int
    """The room's name at the worker."""
    event: Optional[Any]
    send: Callable[[], None]
    fail: Callable[[str], None]
    """Fails the room with a reason."""
    has_ended: Callable[[], bool]
    """Whether the room has ended, so that nobody needs the send."""
    deadline: float
    """The time, of time.monotonic(), at which the room fails if its event is not done by then."""


class WaitingSends:
    """Carries the sends of each room out in their order, each after its event; one thread, which begins with the first
    of them. A room whose event is not done keeps no other room waiting, so events are asked and not waited for.
    Threads: any. Deadlines: a send ends by its own. Errors: an event that raises fails its room."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rooms: Dict[int, Deque[WaitingSend]] = {}
        """The sends of each room that has some, the one that is waited for or under way first."""
        self._has_news = False
        """Whether a send was added since the thread last looked."""
        self._thread: Optional[threading.Thread] = None

    def has(self, room: int) -> bool:
        """Whether a send of this room waits or is under way: a later one must not overtake it."""
        with self._changed:
            return room in self._rooms

    def add(self, work: WaitingSend) -> None:
        """Queues a send. Its room fails where no thread can be started for it."""
        try:
            with self._changed:
                self._start_thread()
                self._rooms.setdefault(work.room, deque()).append(work)
                self._has_news = True
                self._changed.notify()
        except RuntimeError as why:
            work.fail(f"no thread waits for the event of prefill: {why}")

    def _start_thread(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="peercache-sends", daemon=True)
            thread.start()
            self._thread = thread

    def _run(self) -> None:
        pause = QUERY_SECONDS
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._rooms)
                self._has_news = False
            if self._turn() or self._has_news_within(pause):
                pause = QUERY_SECONDS
            else:
                pause = min(2 * pause, LONGEST_QUERY_SECONDS)

    def _has_news_within(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._has_news, seconds)

    def _turn(self) -> bool:
        """Looks at the first send of each room. Returns whether one of them has ended. No local variable of the thread
        keeps a send while it waits."""
        with self._changed:
            firsts = [works[0] for works in self._rooms.values()]
        ended = [work for work in firsts if _has_ended(work)]
        with self._changed:
            for work in ended:
                self._rooms[work.room].popleft()
                if not self._rooms[work.room]:
                    del self._rooms[work.room]
        return bool(ended)


def _has_ended(work: WaitingSend) -> bool:
    """Carries a send out if its event is done, or fails its room. Returns whether one of both was done, or the room has
    ended."""
    try:
        if work.has_ended():
            return True
        if work.event is None or work.event.query():
            work.send()
        elif time.monotonic() >= work.deadline:
            _fail(work, "the event that prefill waits for is not done in time")
        else:
            return False
    except Exception as why:  # noqa: BLE001 - the thread serves all rooms, and must live
        logger.exception("a send that waited for the forward has failed")
        _fail(work, f"the event that prefill waits for has failed: {why}")
    return True


def _fail(work: WaitingSend, why: str) -> None:
    try:
        work.fail(why)
    except Exception:  # noqa: BLE001 - the thread serves all rooms, and must live
        logger.exception("a room could not be failed")
