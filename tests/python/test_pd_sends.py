"""Tests of sends that wait until a forward pass has written their pages (SGLang's early send of a cached prefix)."""

import threading
import time

import pytest
from pd_engines import Model, Pair, Request

PAGE = Model().page_tokens


class Event:
    """A fake CUDA event. `finish` writes the pages of the forward pass before the event, and completes the event."""

    def __init__(self):
        self.before_done = lambda: None
        self._done = threading.Event()
        self.waited_in = set()

    def synchronize(self):
        self.waited_in.add(threading.current_thread())
        self._done.wait()

    def finish(self):
        self.before_done()
        self._done.set()


class QueriedEvent(Event):
    """A fake event that can be queried, but not waited for."""

    synchronize = None

    def __init__(self):
        super().__init__()
        del self.waited_in

    def query(self):
        return self._done.is_set()

    def __getattribute__(self, name):
        if name == "synchronize":
            raise AttributeError(name)
        return super().__getattribute__(name)


class BrokenEvent(Event):
    def synchronize(self):
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


@pytest.mark.parametrize("kind", [Event, QueriedEvent])
def test_pages_are_not_read_before_their_forward_is_done(pair, kind):
    request = Request(1, 1, 9 * PAGE, early_event=kind())
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
    pair.turn_until(lambda: request.early_event.waited_in)
    assert threading.current_thread() not in request.early_event.waited_in
    request.early_event.finish()
    pair.turn_until(lambda: len(request.ended) == 2)
    assert right(pair)


def test_a_room_that_is_aborted_meanwhile_offers_nothing(pair):
    request = Request(1, 1, 9 * PAGE, early_event=Event(), abort_prefill_after=2)
    pair.begin(request)
    pair.turn_until(lambda: len(request.ended) == 2)
    request.early_event.finish()
    assert pair.run(Request(2, 2, 9 * PAGE)) == ["ok"]
    assert right(pair)


def test_an_event_that_fails_fails_the_room_and_no_other(pair):
    request = Request(1, 1, 9 * PAGE, early_event=BrokenEvent())
    pair.run(request)
    assert any("illegal memory access" in reason for reason, _ in request.ended["prefill"])
    assert pair.run(Request(2, 2, 9 * PAGE)) == ["ok"]
    assert right(pair)
