"""Transfers of pages that run in chunks on threads of a queue: ordered within a request, fair between requests."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Callable, Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple

from peercache.client import Status

logger = logging.getLogger("peercache.connector")

Move = Callable[[Sequence[str], Sequence[int], float], Sequence[int]]
"""Moves some pages within a number of seconds: keys, page indices, seconds -> a Status for each page. When it returns,
nothing touches the pages."""


class TransferResult(NamedTuple):
    """The result of a transfer. True in a condition when all pages were moved."""

    ok: bool
    pages: int
    """Pages that were moved, from the first one on without a gap."""
    tokens: int
    """Tokens of the pages that were moved."""
    reason: str
    """Why the transfer ended: a Status in lower case, "cancelled", "deadline", "refused" or "error" (see the log);
    empty when all pages were moved."""

    def __bool__(self) -> bool:
        return self.ok


class TransferFuture(Future[TransferResult]):
    """The future of a transfer; it never holds an exception. When it is done, nothing touches the pages.

    `cancel` lets the chunk that is being moved end and drops the rest: the future is done as soon as that chunk is,
    at once when none is being moved. `cancelled` stays False; the result says "cancelled".
    """

    _canceller: Optional[Callable[[], bool]] = None

    def cancel(self) -> bool:
        """Cancels the transfer. False when it is done already, and so was not cancelled."""
        return not self.done() and self._canceller is not None and self._canceller()


class Transfer:
    """Pages to move in one direction. Only the transfer's queue touches it after `submit`."""

    def __init__(
        self, move: Move, keys: Sequence[str], pages: Sequence[int], page_tokens: int, deadline: float
    ) -> None:
        """`deadline` is the time, of time.monotonic(), at which the transfer ends."""
        self.future = TransferFuture()
        self.cancelled = False
        self.running = False
        self.pages_left = len(keys)
        self.deadline = deadline
        self._move, self._keys, self._pages = move, keys, pages
        self._page_tokens = page_tokens

    def advance(self, chunk_pages: int) -> Optional[TransferResult]:
        """Moves one chunk. Returns the result of the whole transfer when that chunk was the last one."""
        done = len(self._keys) - self.pages_left
        if self.pages_left == 0:
            return self.result("")
        seconds = self.deadline - time.monotonic()
        if self.cancelled or seconds <= 0:
            return self.over()
        chunk = slice(done, done + chunk_pages)
        try:
            statuses = self._move(self._keys[chunk], self._pages[chunk], seconds)
        except Exception:  # noqa: BLE001 - whatever it is, the future must end
            logger.exception("a transfer failed")
            return self.result("error")
        for status in statuses:
            if status > Status.DUPLICATE:
                return self.result(Status(status).name.lower())
            self.pages_left -= 1
        return self.result("") if self.pages_left == 0 else None

    def over(self) -> Optional[TransferResult]:
        """The result when no further pages may be moved, because of a cancel or the deadline; None when the transfer
        goes on."""
        if self.cancelled:
            return self.result("cancelled")
        return self.result("deadline") if self.deadline <= time.monotonic() else None

    def result(self, reason: str) -> TransferResult:
        done = len(self._keys) - self.pages_left
        return TransferResult(not reason, done, done * self._page_tokens, reason)


def _started(threads: int) -> ThreadPoolExecutor:
    """A pool whose threads all run already: without a thread that could be started, a later step would have none, and
    the transfers behind it no end but their deadline. Errors: RuntimeError where a thread cannot be started."""
    pool = ThreadPoolExecutor(threads, thread_name_prefix="peercache-connector")
    # Each waits for all, so that none is idle and the pool starts another one.
    all_run = threading.Barrier(threads + 1)
    try:
        for _ in range(threads):
            pool.submit(all_run.wait)
    except RuntimeError:
        all_run.abort()
        pool.shutdown(wait=False)
        raise
    all_run.wait()
    return pool


def _started_timer(run: Callable[[], None], pool: ThreadPoolExecutor) -> threading.Thread:
    """A thread that waits for deadlines, from the start on as the threads of `pool`. Errors: RuntimeError where it cannot
    be started; the pool is then over, too."""
    timer = threading.Thread(target=run, name="peercache-connector-timer", daemon=True)
    try:
        timer.start()
    except RuntimeError:
        pool.shutdown(wait=False)
        raise
    return timer


class TransferQueue:
    """Runs transfers on `threads` threads of its own; one more waits for deadlines, so callbacks of futures must be short.

    Transfers of one request run one after the other, in the order of `submit`. Requests take turns, chunk by chunk.
    Limit: at most `pages_max` pages wait; a transfer beyond that ends as "refused". Threads: any may call; results
    are set by the queue's threads, or by a caller that cancels. Deadlines: a waiting transfer ends by its deadline
    even when all threads are busy; a transfer that is being moved ends when its chunk does, and a chunk's calls have
    no more time than the deadline. Errors: RuntimeError from the constructor, where no threads can be started.
    """

    def __init__(self, threads: int, chunk_pages: int, pages_max: int) -> None:
        self._chunk_pages, self._pages_max = chunk_pages, pages_max
        lock = threading.RLock()
        self._changed = threading.Condition(lock)
        self._timer_changed = threading.Condition(lock)
        self._requests: Dict[str, Deque[Transfer]] = {}
        self._waiting_pages = 0
        self._closed = False
        self._timer_rings = math.inf
        self._threads = _started(threads)
        self._timer = _started_timer(self._run_timer, self._threads)

    def submit(self, request: str, transfer: Transfer) -> TransferFuture:
        """Queues the transfer and returns its future, which may be done already."""
        transfer.future._canceller = lambda: self._cancel(request, transfer)
        with self._changed:
            refused = self._closed or self._waiting_pages + transfer.pages_left > self._pages_max
            if not refused:
                self._expire_at(transfer.deadline)
                self._waiting_pages += transfer.pages_left
                if request not in self._requests:
                    self._requests[request] = deque()
                    self._threads.submit(self._step, request)
                self._requests[request].append(transfer)
        if refused:
            transfer.future.set_result(transfer.result("refused"))
        return transfer.future

    def _step(self, request: str) -> None:
        """Moves one chunk of a request; the next chunk follows when the other requests had their turn. Each entry of
        `_requests` has one step, waiting or running, until the entry is removed."""
        with self._changed:
            transfers = self._requests[request]
            if not transfers:
                del self._requests[request]
                return
            transfer = transfers[0]
            transfer.running = True
        before = transfer.pages_left
        result = transfer.advance(self._chunk_pages)
        with self._changed:
            transfer.running = False
            if result is None:
                result = transfer.over()
            self._waiting_pages -= before - transfer.pages_left
            if result is not None:
                transfers.popleft()
                self._waiting_pages -= transfer.pages_left
            self._go_on(request, transfers)
            self._changed.notify_all()
        if result is not None:
            transfer.future.set_result(result)

    def _go_on(self, request: str, transfers: Deque[Transfer]) -> None:
        if transfers:
            self._threads.submit(self._step, request)
        else:
            del self._requests[request]

    def _expire_at(self, deadline: float) -> None:
        """Makes sure that `_expire` is called at `deadline`, or earlier."""
        if deadline < self._timer_rings:
            self._timer_rings = deadline
            self._timer_changed.notify()

    def _run_timer(self) -> None:
        while self._rings():
            self._expire()

    def _rings(self) -> bool:
        """Waits until a deadline has passed. False: the timer's thread is to end."""
        with self._changed:
            while not self._closed:
                seconds = self._timer_rings - time.monotonic()
                if seconds <= 0:
                    return True
                self._timer_changed.wait(min(seconds, threading.TIMEOUT_MAX))
            return False

    def _expire(self) -> None:
        """Ends the waiting transfers whose deadline has passed. Running transfers end by themselves."""
        with self._changed:
            self._timer_rings, now = math.inf, time.monotonic()
            late: List[Transfer] = []
            for transfers in self._requests.values():
                late += self._take_out(transfers, [each for each in transfers if each.deadline <= now])
            left = (each.deadline for transfers in self._requests.values() for each in transfers)
            self._expire_at(min((deadline for deadline in left if deadline > now), default=math.inf))
        for each in late:
            each.future.set_result(each.result("deadline" if each.pages_left else ""))

    def _take_out(self, transfers: Deque[Transfer], which: List[Transfer]) -> List[Transfer]:
        """Removes from `transfers` those of the transfers `which` that no thread is moving, and returns them for the
        caller to end."""
        taken = [each for each in which if not each.running]
        for each in taken:
            transfers.remove(each)
            self._waiting_pages -= each.pages_left
        return taken

    def _drop(self, transfers: Deque[Transfer]) -> List[Transfer]:
        """Cancels all of a request's `transfers`; transfers that no thread is moving are taken out and returned."""
        for each in transfers:
            each.cancelled = True
        return self._take_out(transfers, list(transfers))

    def _cancel(self, request: str, transfer: Transfer) -> bool:
        with self._changed:
            transfers = self._requests.get(request, deque())
            if transfer not in transfers:
                return False
            transfer.cancelled = True
            waits = self._take_out(transfers, [transfer])
        if waits:
            transfer.future.set_result(transfer.result("cancelled"))
        return True

    def finish(self, request: str, seconds: float) -> bool:
        """Cancels all transfers of the request, and waits until nothing touches its pages. False when that took longer
        than `seconds`."""
        with self._changed:
            dropped = self._drop(self._requests.get(request, deque()))
        for each in dropped:
            each.future.set_result(each.result("cancelled"))
        with self._changed:
            return self._changed.wait_for(lambda: not self._runs(request), seconds)

    def _runs(self, request: str) -> bool:
        return any(each.running for each in self._requests.get(request, ()))

    def close(self, seconds: float) -> bool:
        """Cancels the transfers of all requests as `finish` does for one, and refuses later transfers."""
        with self._changed:
            self._closed = True
            self._timer_changed.notify()
            dropped = [each for transfers in self._requests.values() for each in self._drop(transfers)]
        for each in dropped:
            each.future.set_result(each.result("cancelled"))
        with self._changed:
            idle = self._changed.wait_for(lambda: not any(map(self._runs, self._requests)), seconds)
        self._threads.shutdown(wait=idle)
        if idle:
            self._timer.join()
        return idle

    def waiting(self) -> Tuple[int, int]:
        """How many (requests, pages) are not done yet."""
        with self._changed:
            return len(self._requests), self._waiting_pages
