"""Tests, without nodes, of the queue of the connector's transfers: their order, turns and deadlines, and that it leaves
nothing behind."""

import random
import threading
import time
from collections import Counter

import pytest
from local_nodes import until
from peercache.client import Status
from peercache.connector.transfers import Transfer, TransferQueue


def test_any_mix_of_submits_cancels_and_deadlines_ends_in_order_and_leaves_nothing():
    queue, numbers, guard, running = TransferQueue(3, 2, 10**6), random.Random(9), threading.Lock(), set()
    moved, futures, chunks = {f"r{i}": [] for i in range(5)}, [], []

    def submit(request, pages, deadline=1e12):
        """Submits a transfer and notes, in `chunks`, how many chunks of two pages it has."""
        transfer = Transfer(move_of(request, len(futures)), [""] * len(pages), pages, 4, deadline)
        futures.append(queue.submit(request, transfer))
        chunks.append((len(pages) + 1) // 2)

    def move_of(request, number):
        def move(keys, pages, seconds):
            with guard:
                assert request not in running, "two chunks of one request at the same time"
                running.add(request)
                moved[request].append(number)
            time.sleep(0.0002)
            with guard:
                running.remove(request)
            return [Status.STORED] * len(pages)
        return move

    def traffic(seed):
        own = random.Random(seed)
        for number in range(300):
            request = f"r{own.randrange(5)}"
            with guard:
                soon = time.monotonic() + own.uniform(0, 0.01)
                submit(request, list(range(own.randrange(6))), own.choice([1e12, 1e12, soon]))
            if own.random() < 0.3:
                own.choice(futures).cancel()
            if own.random() < 0.05:
                assert queue.finish(request, 5)

    threads = [threading.Thread(target=traffic, args=(numbers.random(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for request in moved:  # No thread cancels these last transfers.
        submit(request, list(range(5)))
    assert len(futures) == 905 and {f.result(10).reason for f in futures} == {"", "cancelled", "deadline"}
    assert all(f.result(0).ok for f in futures[900:])
    count = Counter(number for order in moved.values() for number in order)
    assert all(count[i] == chunks[i] for i, f in enumerate(futures) if f.result(0).ok), "moved once, all of it"
    assert all(sorted(order) == order for order in moved.values())
    assert queue.close(5) and queue.waiting() == (0, 0)


def test_a_waiting_transfer_ends_by_its_deadline_and_a_moved_one_with_its_chunk():
    queue, began = TransferQueue(1, 1, 100), threading.Event()
    gates = {name: threading.Event() for name in "ac"}

    def held(name):
        def move(keys, pages, seconds):
            began.set()
            return [Status.STORED] if gates[name].wait(10) else []
        return move

    def too_slow(keys, pages, seconds):
        slow.deadline = time.monotonic()
        return [Status.STORED]

    def made(move, seconds):
        return Transfer(move, ["", ""], [0, 1], 4, time.monotonic() + seconds)

    first = queue.submit("a", made(held("a"), 1e12))
    assert began.wait(10)
    slow = made(too_slow, 1000)
    cut, last = queue.submit("b", slow), queue.submit("c", made(held("c"), 1e12))
    late = [queue.submit(request, made(held("a"), seconds))
            for request, seconds in [("a", 0.04), ("d", 0.02), ("d", 0.06)]]
    assert [f.result(10) for f in late] == [(False, 0, 0, "deadline")] * 3
    assert not first.done() and queue.waiting()[1] == 6, "the thread was busy all the time"
    gates["a"].set()
    assert cut.result(5) == (False, 1, 4, "deadline"), "without another turn, for which it would wait"
    gates["c"].set()
    assert first.result(10).ok and last.result(10).ok
    assert queue.close(5) and queue.waiting() == (0, 0)
    assert until(lambda: not any("connector-timer" in each.name for each in threading.enumerate()))


def no_more_threads(monkeypatch, after=0):
    """Makes every start of a thread fail, beginning with the one behind the next `after`."""
    start, started = threading.Thread.start, []

    def refused(thread):
        started.append(thread)
        if len(started) > after:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)


def stored(keys, pages, seconds):
    return [Status.STORED] * len(pages)


def test_a_process_that_can_start_no_more_threads_transfers_all_the_same(monkeypatch):
    queue = TransferQueue(2, 1, 100)
    no_more_threads(monkeypatch)
    futures = [queue.submit(request, Transfer(stored, [""] * 3, [0, 1, 2], 4, time.monotonic() + 1000))
               for request in "aab"]
    assert [future.result(10) for future in futures] == [(True, 3, 12, "")] * 3
    assert queue.close(5) and queue.waiting() == (0, 0)


def test_a_deadline_ends_a_waiting_transfer_in_a_process_that_can_start_no_more_threads(monkeypatch):
    queue, gate = TransferQueue(1, 1, 100), threading.Event()
    no_more_threads(monkeypatch)

    def held(keys, pages, seconds):
        gate.wait(20)
        return stored(keys, pages, seconds)

    first = queue.submit("a", Transfer(held, [""], [0], 4, time.monotonic() + 1000))
    late = queue.submit("b", Transfer(stored, [""], [0], 4, time.monotonic() + 0.02))
    assert late.result(10).reason == "deadline" and not first.done()
    gate.set()
    assert first.result(10).ok and queue.close(5)


@pytest.mark.parametrize("after", [1, 2], ids=["for-chunks", "for-deadlines"])
def test_a_queue_that_gets_no_threads_is_not_made_and_leaves_none(monkeypatch, after):
    before = set(threading.enumerate())
    no_more_threads(monkeypatch, after)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        TransferQueue(2, 1, 100)
    assert until(lambda: set(threading.enumerate()) <= before)
