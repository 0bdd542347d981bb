"""Tests of sends that wait until a forward pass has written their pages (SGLang's early send of a cached prefix)."""

import threading
import time

import numpy as np
import pytest
from local_nodes import until
from pd_engines import Model, Pair, Request
from peercache.pd.sends import WaitingSend, WaitingSends

PAGE = Model().page_tokens


class Event:
    """A fake CUDA event. `finish` writes the pages of the forward pass before the event, and completes the event."""

    def __init__(self):
        self.before_done = lambda: None
        self._done = threading.Event()
        self.asked_in = set()

    def query(self):
        self.asked_in.add(threading.current_thread())
        return self._done.is_set()

    def finish(self):
        self.before_done()
        self._done.set()


class BrokenEvent(Event):
    def query(self):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")


@pytest.fixture
def pair():
    made = Pair(prefill={"tp": 2})
    yield made
    made.close()


def right(pair):
    return (pair.decode.wrong, pair.decode.touched) == (0, 0)


def turn_for(pair, seconds):
    """Runs both schedulers for `seconds`, in which the test expects that nothing happens."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pair.prefill.turn()
        pair.decode.turn()


def test_pages_are_not_read_before_their_forward_is_done(pair):
    request = Request(1, 1, 9 * PAGE, early_event=Event())
    other = Request(2, 2, 9 * PAGE)
    pair.begin(request)
    pair.turn_until(lambda: pair.prefill.inflight and pair.prefill.inflight[0]["sent_all"])
    pages = pair.decode.transfer[0]["pages"]
    turn_for(pair, 0.1)
    assert all(rank.memory.is_poisoned(pages) for rank in pair.decode.ranks), "later chunks wait as well"
    assert request.ended == {}
    # A room without an event must not wait for one that has an event.
    assert pair.run(other) == ["ok"]
    request.early_event.finish()
    pair.turn_until(lambda: len(request.ended) == 2)
    assert request.ended == {"prefill": "ok", "decode": "ok"}
    assert right(pair)


def test_the_scheduler_does_not_wait_itself(pair):
    request = Request(1, 1, 9 * PAGE, early_event=Event())
    pair.begin(request)
    pair.turn_until(lambda: request.early_event.asked_in)
    assert threading.current_thread() not in request.early_event.asked_in
    request.early_event.finish()
    pair.turn_until(lambda: len(request.ended) == 2)
    assert right(pair)


def test_a_room_that_is_aborted_meanwhile_offers_nothing(pair):
    request = Request(1, 1, 9 * PAGE, early_event=Event(), abort_prefill_after=2)
    pair.begin(request)
    pair.turn_until(lambda: len(request.ended) == 2)
    waiting = [rank.manager.sends for rank in pair.prefill.ranks]
    assert until(lambda: not any(sends._rooms for sends in waiting)), "nobody asks for its event"
    request.early_event.finish()
    assert pair.run(Request(2, 2, 9 * PAGE)) == ["ok"]
    assert right(pair)


def test_an_event_that_fails_fails_the_room_and_no_other(pair):
    request = Request(1, 1, 9 * PAGE, early_event=BrokenEvent())
    pair.run(request)
    assert any("illegal memory access" in reason for reason, _ in request.ended["prefill"])
    assert pair.run(Request(2, 2, 9 * PAGE)) == ["ok"]
    assert right(pair)


def all_sent(pair, room):
    return any(entry["request"].room == room and entry["sent_all"] for entry in pair.prefill.inflight)


def test_an_event_that_is_not_done_keeps_no_other_room_waiting(pair):
    stuck, other = Request(1, 1, 9 * PAGE, early_event=Event()), Request(2, 2, 9 * PAGE, early_event=Event())
    for request in (stuck, other):
        pair.begin(request)
        pair.turn_until(lambda: all_sent(pair, request.room))
    other.early_event.finish()
    pair.turn_until(lambda: len(other.ended) == 2)
    assert other.ended["decode"] == "ok" and stuck.ended == {}
    stuck.early_event.finish()
    pair.turn_until(lambda: len(stuck.ended) == 2)
    assert stuck.ended["decode"] == "ok" and right(pair)


def inflight(pair, request):
    """Begins a request. Returns once prefill is about to compute its first chunk."""
    chunks_max, pair.prefill.chunks_max = pair.prefill.chunks_max, 0
    pair.begin(request)
    pair.turn_until(lambda: pair.prefill.inflight)
    pair.prefill.chunks_max = chunks_max


def test_an_event_that_never_completes_fails_its_room_in_time(pair):
    request = Request(1, 1, 9 * PAGE, early_event=Event())
    inflight(pair, request)
    for rank in pair.prefill.ranks:
        rank.manager.bootstrap_timeout = 0.1
    pair.turn_until(lambda: len(request.ended) == 2)
    assert any("not done in time" in reason for reason, _ in request.ended["prefill"])
    assert pair.run(Request(2, 2, 9 * PAGE, early_event=None)) == ["ok"]
    assert right(pair)


def test_indices_that_are_no_pages_fail_the_room_and_do_not_raise(pair):
    request = Request(1, 1, 9 * PAGE)
    inflight(pair, request)
    pair.prefill.inflight[0]["senders"][0].send(np.array([1 << 40]))
    pair.turn_until(lambda: len(request.ended) == 2)
    assert any("whole number of 32 bits" in reason for reason, _ in request.ended["prefill"])


def send_of(room, done, failed):
    return WaitingSend(room, None, lambda: done.append(room), failed.append, lambda: False, time.monotonic() + 1000)


class Pauses(threading.Condition):
    """A condition that notes how long each wait may last at most."""

    def __init__(self):
        super().__init__()
        self.noted = []

    def wait_for(self, predicate, timeout=None):
        if timeout is not None:
            self.noted.append(timeout)
        return super().wait_for(predicate, timeout)


def test_the_thread_asks_ever_less_often_until_there_is_news():
    """Each question takes the GIL, which the scheduler needs."""
    sends, done, event = WaitingSends(), [], Event()
    pauses = sends._changed = Pauses()
    longer = [0.0005, 0.001, 0.002, 0.004, 0.005, 0.005]

    def stands_still(since):
        return until(lambda: pauses.noted[since:][-6:] == [0.005] * 6)

    sends.add(send_of(1, done, [])._replace(event=event))
    assert stands_still(0) and pauses.noted[:6] == longer
    before = len(pauses.noted)
    sends.add(send_of(2, done, [])._replace(event=Event(), has_ended=lambda: event._done.is_set()))
    assert stands_still(before + 5) and 0.0005 in pauses.noted[before:], "a send was added"
    event.finish()
    assert until(lambda: not sends.has(1) and not sends.has(2)) and done == [1]


def test_a_send_that_gets_no_thread_fails_its_room_and_no_later_one(monkeypatch):
    def refused(_):
        raise RuntimeError("can't start new thread")
    sends, done, failed = WaitingSends(), [], []
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        sends.add(send_of(1, done, failed))
    assert len(failed) == 1 and "can't start new thread" in failed[0] and not sends.has(1)
    sends.add(send_of(2, done, failed))
    assert until(lambda: done == [2]) and until(lambda: not sends.has(2))


def test_a_room_that_cannot_even_be_failed_keeps_no_other_room_waiting():
    def raises(*_):
        raise RuntimeError("a test's")
    sends, done = WaitingSends(), []
    sends.add(send_of(1, done, [])._replace(send=raises, fail=raises))
    sends.add(send_of(2, done, []))
    assert until(lambda: done == [2]) and until(lambda: not sends.has(1) and not sends.has(2))
