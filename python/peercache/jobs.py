"""Runs jobs of an engine on threads: the engine submits a job and asks later how it ended. Each job ends by its
deadline."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Sequence

from peercache import guard
from peercache._native import LentMemory, Results

SPARE_SECONDS = 0.05
"""The part of a job's time that is left for its threads to wake, when others have the processor; of short times a
tenth."""


@dataclass(frozen=True)
class Job:
    """Pages that one kind of work is to be done with, such as copying."""

    id: int
    kind: str
    keys: Sequence[Any]
    """The keys of the pages, as the native client takes them: str or bytes."""
    addresses: Sequence[int]
    """Where each page lies; empty for jobs that copy nothing."""
    sizes: Sequence[int]
    begin: float
    """The time, of time.monotonic(), at which the job was submitted."""
    deadline: float
    lent: Optional[LentMemory] = None
    """What keeps the memory at `addresses` in its place, where the engine does not."""


class Ended(NamedTuple):
    """A job that has ended; nothing touches its memory now."""

    job: Job
    ok: Sequence[bool]
    """Whether each page is a success."""
    results: Optional[Results]
    """The results of the job's call; None when there was none."""
    seconds: float


Move = Callable[[Job, float], Results]
"""Does a job within a number of seconds. When it returns, nothing touches the job's memory."""


class Jobs:
    """Runs jobs on threads of its own, some for each kind.

    Threads: any may call. Deadlines: a job ends by its deadline, waiting included: a job that still waits then never
    starts, and ends when `take` or `wait_idle` is called; a job that runs gets the time that is left. Invariant:
    `take` returns each submitted job once; `ended` is called for the job before that, and `ready` as soon as `take`
    can return it. Errors: the constructor raises RuntimeError where the process can start no more threads, and leaves
    none behind; afterwards there are none, and a job whose move raises ends without a success.
    """

    def __init__(self, move: Move, threads: Dict[str, int], name: str, ended: Callable[[Ended], None] = lambda _: None,
                 ready: Callable[[], None] = lambda: None) -> None:
        """`ended` and `ready` are called from any thread, without a lock of the queue's; what they raise is logged.
        `threads` has the number of threads of each kind. The names of the threads begin with "peercache-{name}", and the
        logger is "peercache.{name}"."""
        self._move, self._told, self._ready = move, ended, ready
        self._logger = logging.getLogger(f"peercache.{name}")
        self._changed = threading.Condition()
        self._waiting: Dict[str, Deque[Job]] = {kind: deque() for kind in threads}
        self._running = 0  # Jobs that are taken out of their queue, and that `take` does not have yet.
        self._unreported = 0
        self._ended: List[Ended] = []
        self._closed = False
        self._threads: List[threading.Thread] = []
        try:
            for kind, count in threads.items():
                for i in range(count):
                    thread = threading.Thread(target=self._run, args=(kind,), name=f"peercache-{name}-{kind}-{i}",
                                              daemon=True)
                    thread.start()
                    self._threads.append(thread)
        except BaseException:
            self.close()
            raise

    def submit(self, job: Job) -> None:
        """Queues a job; after `close` it ends at once."""
        with self._changed:
            self._unreported += 1
            if not self._closed:
                self._waiting[job.kind].append(job)
                self._changed.notify_all()
                return
            self._running += 1
        self._end([_not_run(job)])

    def refuse(self, job: Job) -> None:
        """Ends a job that cannot be run."""
        with self._changed:
            self._unreported += 1
            self._running += 1
        self._end([_not_run(job)])

    def take(self) -> List[Ended]:
        """The jobs that have ended since the last `take`."""
        self._end(self._expired())
        with self._changed:
            ended, self._ended = self._ended, []
            self._unreported -= len(ended)
            return ended

    def unreported(self) -> int:
        """How many jobs `take` has still to return."""
        with self._changed:
            return self._unreported

    def wait_idle(self) -> None:
        """Returns when no job waits or runs, which is by the deadline of the last one of them. Jobs that have ended are
        left for `take`."""
        while True:
            self._end(self._expired())
            with self._changed:
                waiting = [job.deadline for jobs in self._waiting.values() for job in jobs]
                if not waiting and not self._running:
                    return
                first = min(waiting, default=None)
                self._changed.wait(None if first is None else max(0.0, first - time.monotonic()))

    def close(self) -> None:
        """Ends the jobs that wait and the threads. Returns when no job runs."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._end(self._expired(by=float("inf")))
        for thread in self._threads:
            thread.join()

    def _expired(self, by: Optional[float] = None) -> List[Ended]:
        """Takes out the waiting jobs whose deadline has passed at `by` (None: now). The caller hands them to `_end`."""
        by = time.monotonic() if by is None else by
        with self._changed:
            late = [job for jobs in self._waiting.values() for job in jobs if job.deadline <= by]
            for job in late:
                self._waiting[job.kind].remove(job)
            self._running += len(late)
        return [_not_run(job) for job in late]

    def _end(self, ended: Sequence[Ended]) -> None:
        """Reports jobs that have been taken out."""
        if not ended:
            return
        for each in ended:
            self._call(self._told, each)
        with self._changed:
            self._ended.extend(ended)
            self._running -= len(ended)
            self._changed.notify_all()
        self._call(self._ready)

    def _call(self, told: Callable[..., None], *arguments: Ended) -> None:
        """Tells the user of the queue of an end. Whatever that raises, the job is counted and the thread goes on."""
        try:
            told(*arguments)
        except Exception:  # noqa: BLE001 - the engine waits for the end of its job
            guard.say(self._logger, "what is done at the end of a job")

    def _next(self, kind: str) -> Optional[Job]:
        """Takes a job out to run it; waits for one. None: the threads are to end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._waiting[kind])
            if self._closed:
                return None
            self._running += 1
            return self._waiting[kind].popleft()

    def _run(self, kind: str) -> None:
        while self._run_one(kind):
            pass

    def _run_one(self, kind: str) -> bool:
        """Runs the next job. False: the thread is to end. No local variable keeps a job's memory while the thread
        waits."""
        job = self._next(kind)
        if job is None:
            return False
        self._end([self._moved(job)])
        del job
        return True

    def _moved(self, job: Job) -> Ended:
        seconds = job.deadline - time.monotonic()
        if seconds <= 0:
            return _not_run(job)
        try:
            results = self._move(job, seconds - min(SPARE_SECONDS, seconds / 10))
            return Ended(job, results.ok, results, time.monotonic() - job.begin)
        except Exception:  # noqa: BLE001 - whatever it is, the job must end
            guard.say(self._logger, f"a {job.kind}")
            return _not_run(job)


def _not_run(job: Job) -> Ended:
    """The end of a job of which nothing was done."""
    return Ended(job, [False] * len(job.keys), None, time.monotonic() - job.begin)
