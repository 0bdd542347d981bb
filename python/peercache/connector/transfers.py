"""Transfers that run in chunks on threads of ours: ordered within a request, fair between requests."""

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
"""Moves some pages within so many seconds: keys, page indices -> a Status for each. When it returns,
nothing touches the pages any more."""


class TransferResult(NamedTuple):
    """The result of a transfer. True in a condition when all of it was moved."""

    ok: bool
    pages: int
    """Pages from the first one on that were moved without a gap."""
    tokens: int
    """Tokens of these pages."""
    reason: str
    """Why the transfer ended there: a Status in lower case, "cancelled", "deadline", "refused",
    "error" (see the log); "" when ok."""

    def __bool__(self) -> bool:
        return self.ok


class TransferFuture(Future[TransferResult]):
    """A future that never holds an exception. When it is done, nothing touches the pages any more.

    `cancel` keeps the chunk that is being moved and drops the rest: the future is done as soon as that
    chunk is, at once when none is. `cancelled` stays False; the result says "cancelled".
    """

    _canceller: Optional[Callable[[], bool]] = None

    def cancel(self) -> bool:
        """False when the transfer is done already, and so was not cancelled."""
        return not self.done() and self._canceller is not None and self._canceller()


class Transfer:
    """Pages on their way, in one direction. Only its queue touches it after `submit`."""

    def __init__(
        self, move: Move, keys: Sequence[str], pages: Sequence[int], page_tokens: int, deadline: float
    ) -> None:
        """`deadline` is a time of time.monotonic()."""
        self.future = TransferFuture()
        self.cancelled = False
        self.running = False
        self.pages_left = len(keys)
        self.deadline = deadline
        self._move, self._keys, self._pages = move, keys, pages
        self._page_tokens = page_tokens

    def advance(self, chunk_pages: int) -> Optional[TransferResult]:
        """Moves one chunk; the result when that was the end."""
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
        """The result of a transfer that is to move no further pages, however many it has left."""
        if self.cancelled:
            return self.result("cancelled")
        return self.result("deadline") if self.deadline <= time.monotonic() else None

    def result(self, reason: str) -> TransferResult:
        done = len(self._keys) - self.pages_left
        return TransferResult(not reason, done, done * self._page_tokens, reason)


class TransferQueue:
    """Runs transfers on `threads` threads of its own.

    Transfers of one request run one after the other, in the order of `submit`. Requests take turns,
    chunk by chunk. Limit: `pages_max` pages wait at most; a transfer beyond that ends as "refused".
    Threads: any may call; results are set by ours, or by whoever cancels. Deadlines: a transfer ends by
    its own, though all threads are busy; one that is being moved when its chunk ends, which has no more
    time than that.
    """

    def __init__(self, threads: int, chunk_pages: int, pages_max: int) -> None:
        self._chunk_pages, self._pages_max = chunk_pages, pages_max
        self._changed = threading.Condition()
        self._requests: Dict[str, Deque[Transfer]] = {}
        self._waiting_pages = 0
        self._closed = False
        self._timer: Optional[threading.Timer] = None
        self._timer_rings = math.inf
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="peercache-connector")

    def submit(self, request: str, transfer: Transfer) -> TransferFuture:
        """Queues it; the future may be done already."""
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
        """One chunk of a request; the next one follows when the others had their turn. There is one step
        for each entry of `_requests`, waiting or running, and it ends with the entry."""
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
        """Sees to it that `_expire` runs then, or before."""
        if self._closed or deadline >= self._timer_rings:
            return
        seconds = min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)
        timer = threading.Timer(seconds, self._expire)
        timer.name, timer.daemon = "peercache-connector-timer", True
        try:
            timer.start()
        except RuntimeError as why:  # No thread is to be had: transfers end when their turn comes.
            logger.warning("waiting transfers may end late: %s", why)
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_rings = timer, deadline

    def _expire(self) -> None:
        """Ends the waiting transfers whose time is over. Those that run end by themselves."""
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
        """The transfers among these that no thread is busy with; they are for the caller to end."""
        taken = [each for each in which if not each.running]
        for each in taken:
            transfers.remove(each)
            self._waiting_pages -= each.pages_left
        return taken

    def _drop(self, transfers: Deque[Transfer]) -> List[Transfer]:
        """Cancels these; those that no thread is busy with are taken out and returned."""
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
        """Cancels what the request has left, and waits until nothing touches its pages any more; False
        when that took longer than `seconds`."""
        with self._changed:
            dropped = self._drop(self._requests.get(request, deque()))
        for each in dropped:
            each.future.set_result(each.result("cancelled"))
        with self._changed:
            return self._changed.wait_for(lambda: not self._runs(request), seconds)

    def _runs(self, request: str) -> bool:
        return any(each.running for each in self._requests.get(request, ()))

    def close(self, seconds: float) -> bool:
        """Cancels all requests as `finish` does one, and refuses later ones."""
        with self._changed:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()
            dropped = [each for transfers in self._requests.values() for each in self._drop(transfers)]
        for each in dropped:
            each.future.set_result(each.result("cancelled"))
        with self._changed:
            idle = self._changed.wait_for(lambda: not any(map(self._runs, self._requests)), seconds)
        self._threads.shutdown(wait=idle)
        if idle and self._timer is not None:
            self._timer.join()
        return idle

    def waiting(self) -> Tuple[int, int]:
        """(requests, pages) that are not done."""
        with self._changed:
            return len(self._requests), self._waiting_pages
