"""Tests of the queue of jobs that engines submit: each job must end by its deadline and be reported once."""

import random
import threading
import time
import weakref

import pytest
from local_nodes import LATE_SECONDS, late_watch, until
from peercache.jobs import Job, Jobs

LOAD, STORE = "load", "store"


class Copies:
    """A fake function that moves pages: it blocks until the test releases it, and records which moves are running."""

    class Results:
        def __init__(self, count):
            self.ok = [True] * count

    def __init__(self):
        self.running, self.go, self.lock = [], threading.Event(), threading.Lock()

    def __call__(self, job, seconds):
        with self.lock:
            self.running.append(job.id)
        self.go.wait(seconds)
        return self.Results(len(job.keys))


@pytest.fixture
def queue():
    """A function that makes queues, which are closed at the end of the test."""
    made = []

    def make(move, ended=lambda _: None, loads=1, stores=1, ready=lambda: None):
        made.append(Jobs(move, {LOAD: loads, STORE: stores}, "test", ended=ended, ready=ready))
        return made[-1]
    yield make
    for each in made:
        each.close()


def job_of(number, kind=LOAD, seconds=10.0):
    now = time.monotonic()
    return Job(number, kind, [b"key"], [0], [1], now, now + seconds)


def test_where_a_thread_cannot_be_started_none_is_left_behind(queue, monkeypatch):
    start, started = threading.Thread.start, []

    def third_is_refused(thread):
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", third_is_refused)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        queue(Copies(), loads=2, stores=2)
    assert len(started) == 2 and not any(thread.is_alive() for thread in started)


def test_a_job_ends_by_its_deadline_though_all_threads_are_busy(queue):
    move = Copies()
    held = queue(move)
    held.submit(job_of(0, seconds=20))
    assert until(lambda: move.running == [0])
    with late_watch() as watch:
        held.submit(job_of(1, seconds=0.1))
        assert held.take() == [] and held.unreported() == 2
        assert until(lambda: [ended.job.id for ended in held.take()] == [1])
    assert 0.1 <= watch.seconds < 0.1 + LATE_SECONDS + watch.stalled
    move.go.set()
    assert until(lambda: [list(ended.ok) for ended in held.take()] == [[True]])
    assert move.running == [0] and held.unreported() == 0


def test_waiting_for_idle_lets_jobs_end_and_keeps_their_results(queue):
    move, told = Copies(), []
    held = queue(move, told.append)
    with late_watch() as watch:
        for number, kind, seconds in ((0, LOAD, 0.3), (1, LOAD, 0.1), (2, STORE, 0.2)):
            held.submit(job_of(number, kind, seconds))
        held.wait_idle()
    assert watch.seconds < 0.3 + LATE_SECONDS + watch.stalled
    assert sorted(ended.job.id for ended in held.take()) == [0, 1, 2]
    assert sorted(move.running) == [0, 2] and len(told) == 3


def test_closing_ends_what_waits_and_waits_for_what_runs(queue):
    move = Copies()
    held = queue(move)
    for number in range(3):
        held.submit(job_of(number, seconds=0.3))
    assert until(lambda: move.running == [0])
    held.close()
    held.submit(job_of(3))
    assert {ended.job.id: list(ended.ok) for ended in held.take()} == {0: [True], 1: [False], 2: [False], 3: [False]}
    assert move.running == [0]


def test_others_may_use_the_queue_while_somebody_is_told_of_an_end(queue):
    told, go = threading.Event(), threading.Event()

    def slowly(_):
        told.set()
        assert go.wait(20)
    held = queue(lambda *_: Copies.Results(1), slowly)
    held.submit(job_of(0))
    assert told.wait(20)
    held.submit(job_of(1, STORE))
    assert held.take() == [] and held.unreported() == 2
    go.set()
    held.wait_idle()
    assert sorted(ended.job.id for ended in held.take()) == [0, 1]


def test_what_has_ended_can_be_taken_when_the_queue_says_that_it_is_ready(queue):
    found = []
    held = queue(lambda *_: Copies.Results(1), ready=lambda: found.extend(held.take()))
    held.submit(job_of(0))
    held.submit(job_of(1, STORE, seconds=0))
    assert until(lambda: (held.take(), len(found) == 2)[1])


def test_a_queue_that_waits_keeps_no_memory_of_its_jobs(queue):
    class Memory:
        pass
    memory = Memory()
    gone = weakref.ref(memory)
    held = queue(lambda *_: Copies.Results(1))
    now = time.monotonic()
    held.submit(Job(0, LOAD, [b"key"], [0], [1], now, now + 10, memory))
    del memory
    assert until(lambda: held.take() or gone() is None and held.unreported() == 0)
    assert until(lambda: gone() is None)


def test_a_move_that_raises_ends_its_job_and_no_thread(queue):
    def move(job, _):
        if job.id % 2:
            raise RuntimeError("a test's")
        return Copies.Results(1)
    held, ended = queue(move), []
    for number in range(6):
        held.submit(job_of(number))
    held.wait_idle()
    ended = {each.job.id: list(each.ok) for each in held.take()}
    assert ended == {number: [number % 2 == 0] for number in range(6)}


@pytest.mark.parametrize("broken", ["ended", "ready"])
def test_what_raises_at_the_end_of_a_job_keeps_no_job_back_and_ends_no_thread(queue, broken):
    def raises(*_):
        raise RuntimeError("a test's")
    held, ended = queue(lambda *_: Copies.Results(1), **{broken: raises}), []
    for number in range(3):
        held.submit(job_of(number))
    assert until(lambda: ended.extend(each.job.id for each in held.take()) or len(ended) == 3, 5)
    held.wait_idle()
    assert sorted(ended) == [0, 1, 2] and held.unreported() == 0


def test_each_job_is_reported_once_whatever_happens(queue):
    """Submits jobs with random deadlines and lengths while another thread takes ended jobs: none may come twice, none
    be lost."""
    pick, reported = random.Random(3), []
    held = queue(lambda job, seconds: time.sleep(min(seconds, pick.random() / 500)) or Copies.Results(1), loads=2)

    def submit():
        for number in range(600):
            held.submit(job_of(number, pick.choice([LOAD, STORE]), pick.random() / 50))
    thread = threading.Thread(target=submit)
    thread.start()
    assert until(lambda: reported.extend(each.job.id for each in held.take()) or len(reported) >= 600)
    thread.join()
    assert sorted(reported) == list(range(600)) and held.unreported() == 0
