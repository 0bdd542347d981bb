"""Tests of the tables of vLLM's tier, without nodes: verdicts and announcements."""

import threading
import time

import pytest
from local_nodes import until
from peercache.vllm import verdicts
from peercache.vllm.lookups import Lookups
from peercache.vllm.news import Announcements
from peercache.vllm.verdicts import Verdicts


def test_a_verdict_is_the_answer_or_comes_by_the_deadline():
    table = Verdicts(0.05)
    assert [table.of(key, "one", 1.0) for key in (b"a", b"b", b"c")] == [None] * 3
    batch = table.take(2.0)
    assert batch.keys() == [b"a", b"b", b"c"] and table.take(2.0) is None
    assert table.of(b"a", "one", 2.04) is None
    table.answer(batch, [True, False])
    assert [table.of(key, "one", 2.04) for key in (b"a", b"b", b"c")] == [True, False, False]
    assert batch.keys() == [], "what was answered keeps no table of a request"
    assert table.take_counts() == (1, 1, 1) and table.take_counts() == (0, 0, 0)


def test_an_answer_that_comes_after_the_verdict_changes_nothing():
    table = Verdicts(0.05)
    assert table.of(b"a", "one", 1.0) is None
    batch = table.take(2.0)
    assert table.of(b"a", "one", 2.05) is False
    table.answer(batch, [True])
    assert table.of(b"a", "one", 2.06) is False


def test_a_failed_load_flips_the_verdicts_of_all_requests_between_look_ups():
    """A load of many chunks fails that was promised to many requests, while the scheduler makes look-ups."""
    table, keys = Verdicts(60.0), [str(number).encode() for number in range(400)]
    for request in range(400):
        assert table.of(keys[request], str(request), 1.0) is None
    table.answer(table.take(1.0), [True] * 400)
    thread = threading.Thread(target=table.flip, args=(keys,))
    thread.start()
    while thread.is_alive():
        assert table.of(keys[0], "0", 1.0) in (True, False)
    thread.join()
    assert not any(table.of(keys[request], str(request), 1.0) for request in range(400))


def flip_seconds(requests):
    """Returns the shortest time of a flip of verdicts while this number of other requests were promised other keys."""
    table = Verdicts(60.0)
    for request in range(requests):
        table.of(str(request).encode(), str(request), 1.0)
    table.answer(table.take(1.0), [True] * requests)
    times = []
    for _ in range(20):
        begin = time.perf_counter()
        table.flip([b"nobody's"])
        times.append(time.perf_counter() - begin)
    return min(times)


def test_a_failed_load_costs_no_more_beside_many_requests():
    assert flip_seconds(20_000) < 50 * flip_seconds(20)


def test_requests_that_have_ended_leave_nothing():
    table = Verdicts(60.0)
    for request in ("one", "two", "three"):
        assert table.of(b"a", request, 1.0) is None and table.of(b"b", request, 1.0) is None
    batch = table.take(1.0)
    table.forget("one")
    table.answer(batch, [True, True])
    table.flip([b"a"])
    for request in ("two", "three"):
        table.forget(request)
    assert table.take_counts().hits == 4 and not table._promised and not table._requests


def test_a_step_that_never_ends_has_its_verdicts_all_the_same():
    table = Verdicts(0.05)
    assert table.of(b"a", "one", 1.0) is None
    assert table.of(b"a", "one", 1.06) is False


def test_requests_have_verdicts_of_their_own_and_one_question():
    table = Verdicts(0.05)
    for request in ("one", "two"):
        assert table.of(b"a", request, 1.0) is None
    batch = table.take(1.0)
    assert batch.keys() == [b"a"]
    assert table.of(b"a", "three", 1.0) is None
    table.answer(batch, [True])
    assert [table.of(b"a", request, 1.0) for request in ("one", "two", "three")] == [True, True, None]
    table.forget("one")
    assert table.of(b"a", "one", 1.0) is None
    table.flip([b"a", b"b"])
    assert [table.of(b"a", request, 1.0) for request in ("two", "three")] == [False, None]
    table.answer(table.take(1.0), [True])
    assert [table.of(b"a", request, 1.0) for request in ("one", "three")] == [True, True], "asked after the failure"


def test_verdicts_have_limits(monkeypatch):
    monkeypatch.setattr(verdicts, "STEP_KEYS_MAX", 2)
    monkeypatch.setattr(verdicts, "REQUESTS_MAX", 2)
    table = Verdicts(0.05)
    assert [table.of(key, "one", 1.0) for key in (b"a", b"b", b"c")] == [None, None, False]
    table.answer(table.take(1.0), [True, True])
    assert table.of(b"a", "two", 1.0) is None
    assert table.of(b"a", "three", 1.0) is None
    assert table.of(b"a", "two", 1.0) is None and table.take(1.0).keys() == [b"a"]
    assert table.of(b"a", "one", 1.0) is None, "the oldest request was forgotten"


@pytest.mark.timed
def test_a_question_that_takes_all_of_its_time_is_answered_before_the_deadline():
    """When a node hangs, a client's call may end up to 50 ms after its deadline; its answers must still count."""
    class Hangs:
        statuses, ok = bytes(2), [True, True]

        def exists(self, spaces, keys, seconds, hold):
            time.sleep(seconds + 0.05)
            return self
    table = Verdicts(0.5)
    lookups = Lookups(Hangs(), lambda: None, table, lambda keys: None)
    answers = []

    def known():
        answers[:] = [table.of(key, "one", time.monotonic()) for key in (b"a", b"b")]
        lookups.step_end()
        return None not in answers
    assert until(known) and answers == [True, True]
    lookups.close()


def test_announcements_are_of_what_was_stored_and_bounded():
    told = Announcements(limit=3)
    told.stored([b"a", b"b"])
    told.stored([b"b", b"c"])
    told.gone([b"b", b"x"])
    assert told.take() == [(False, [b"a", b"b", b"c"]), (True, [b"b"])] and told.take() == []
    told.stored([b"d", b"e"])
    assert told.take() == [(False, [b"d", b"e"]), (True, [b"a"])]
