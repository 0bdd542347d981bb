"""Tests of vLLM's tier while nodes die and freeze: verdicts and ends of jobs must come by their deadlines, without an
exception or a late write."""

import logging
import threading
import time

import pytest
from local_nodes import LATE_SECONDS, late_watch, until
from vllm_engines import Engine, LookupResult, entry_of, fresh_keys, request

ROW_BYTES = 1 << 20
LOAD_SECONDS = 0.4
LOOKUP_SECONDS = 0.05


@pytest.fixture(autouse=True)
def nothing_raised(caplog):
    """Checks after each test that no call raised an exception, not even one that the tier caught."""
    yield
    assert [each for each in caplog.records if each.exc_info] == []


@pytest.fixture
def apart(fragile_ring, vllm_engine):
    """Two nodes, an engine at the first node, and keys of chunks that only the second node has."""
    ring, keys = fragile_ring(2, pool="128MiB"), fresh_keys(16)
    sizes = {"row_bytes": ROW_BYTES, "chunks": 32}
    writer = vllm_engine(ring[1], 2, **sizes)
    entry = {"load_timeout_s": LOAD_SECONDS, "store_timeout_s": LOAD_SECONDS}
    reader = vllm_engine(ring[0], 2, entry=entry, **sizes)
    writer.put(keys)
    return ring, reader, keys


def loaded_by_the_deadline(reader, wanted=1):
    """Ends the scheduler step, waits until the loads have ended as vLLM's sweep does, and checks that they ended in
    time."""
    before = len(reader.results)
    with late_watch() as watch:
        reader.step()
        end = time.monotonic() + 30
        while len(reader.results) < before + wanted:
            reader.sweep()
            assert time.monotonic() < end, "a load that never ends"
            time.sleep(0.001)
    took = reader.heard - watch.begin
    assert took < LOAD_SECONDS + LATE_SECONDS + watch.stood_still(watch.begin, reader.heard)
    return reader.results[before:]


def promise(reader, keys):
    """Looks the keys up until the next step would load them all."""
    context = request()
    assert {reader.lookup(key, context) for key in keys} == {LookupResult.RETRY}
    reader.step()
    assert until(lambda: reader.tier.lookup(keys[-1], context) is not LookupResult.RETRY)
    assert {reader.lookup(key, context) for key in keys} == {LookupResult.HIT_PENDING}
    return context


@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_a_node_that_is_lost_between_look_up_and_load_ends_the_load_in_time(apart, fault):
    ring, reader, keys = apart
    context = promise(reader, keys)
    getattr(ring[1], fault)()
    (result,) = loaded_by_the_deadline(reader)
    assert not result.success and not result.successful_keys
    assert reader.right(keys) == 0
    assert {reader.lookup(key, context) for key in keys} == {LookupResult.MISS}, "flipped: the request computes them"
    if fault == "freeze":
        ring[1].thaw()
        assert until(lambda: reader.fetch(keys) == 16), "by then the thawed node has sent all that it would send"
    assert reader.late_writes() == []


def test_what_the_thawed_node_still_sends_is_written_nowhere(apart):
    ring, reader, keys = apart
    for _ in range(3):
        promise(reader, keys)
        ring[1].freeze()
        loaded_by_the_deadline(reader)
        ring[1].thaw()
        assert until(lambda: reader.fetch(keys) == 16)
        assert reader.late_writes() == []
        reader.evict()
    assert reader.late_writes() == []


def test_the_step_goes_on_while_a_node_hangs_and_each_key_has_its_verdict(apart):
    """The keys are new, so their look-ups also ask the frozen node's part of the directory."""
    ring, reader, _ = apart
    ring[1].freeze()
    for _ in range(5):
        context, keys = request(), fresh_keys(64)
        with late_watch() as watch:
            assert {reader.lookup(key, context) for key in keys} == {LookupResult.RETRY}
            reader.step()
            begin = time.monotonic()
        assert watch.seconds < LATE_SECONDS + watch.stalled, "no call of the step waits"
        assert until(lambda: time.monotonic() >= begin + LOOKUP_SECONDS)
        assert {reader.lookup(key, context) for key in keys} == {LookupResult.MISS}
    ring[1].thaw()


def test_the_own_node_may_hang_and_die(fragile_ring, vllm_engine):
    ring = fragile_ring(1, pool="128MiB")
    entry = {"load_timeout_s": LOAD_SECONDS, "store_timeout_s": LOAD_SECONDS}
    engine = vllm_engine(ring[0], entry=entry, row_bytes=ROW_BYTES, chunks=32)
    keys = fresh_keys(8)
    engine.put(keys)
    for fault in (ring[0].freeze, ring[0].kill):
        fault()
        context, others = request(), fresh_keys(4)
        for key in others:
            engine.lookup(key, context)
        engine.compute(others)
        loaded_by_the_deadline(engine)
        assert until(lambda: engine.tier.lookup(others[0], context) is LookupResult.MISS, 2 * LOOKUP_SECONDS)
        engine.evict()
    ring.restart(0)

    def stored():
        engine.compute(fresh_keys(1))
        engine.finish()
        return engine.results[-1].success
    assert until(stored, 20)
    assert engine.late_writes() == []


def test_draining_while_a_load_hangs_ends_by_its_deadline(apart):
    ring, reader, keys = apart
    promise(reader, keys)
    ring[1].freeze()
    reader.step()
    with late_watch() as watch:
        reader.tier.drain_jobs()
    assert watch.seconds < LOAD_SECONDS + LATE_SECONDS + watch.stalled
    assert reader.tier.has_pending_work()
    reader.sweep()
    assert not reader.results[-1].success and not reader.tier.has_pending_work()
    ring[1].thaw()
    assert until(lambda: reader.fetch(keys) == 16) and reader.late_writes() == []


def test_closing_while_a_load_hangs_ends_by_its_deadline_and_lets_go_of_the_view(apart):
    ring, reader, keys = apart
    promise(reader, keys)
    ring[1].freeze()
    reader.step()
    with late_watch() as watch:
        reader.tier.shutdown()
    assert watch.seconds < LOAD_SECONDS + 2 * LATE_SECONDS + watch.stalled
    reader.sweep()
    assert not reader.results[-1].success
    ring[1].thaw()
    assert reader.tier.lookup(keys[0], request()) is LookupResult.RETRY
    reader.compute(fresh_keys(1))
    reader.step()
    assert not reader.results[-1].success, "a job after the end fails at once"
    assert reader.late_writes() == []


def test_an_engine_without_a_node_misses_and_finds_it_later(fragile_ring, vllm_engine, caplog):
    ring = fragile_ring(1)
    entry = entry_of(ring[0], **{"client.timeout": "1s"})
    ring[0].kill()
    with caplog.at_level(logging.ERROR):
        engine = Engine(entry)
    assert "all is a miss until this is mended" in caplog.text
    keys = fresh_keys(4)
    assert engine.hits(keys) == 0
    engine.compute(keys)
    engine.finish()
    assert not engine.results[-1].success
    ring.restart(0)

    def stored():
        engine.evict()
        engine.compute(keys)
        engine.finish()
        return engine.results[-1].success
    assert until(stored, 20)
    engine.evict()
    assert until(lambda: engine.fetch(keys) == 4)
    engine.close()


def test_sweeps_and_steps_at_once_report_each_job_once(ring, vllm_engine):
    """A control thread sweeps ended jobs while the scheduler submits new ones, as in vLLM."""
    engine = vllm_engine(ring[0], chunks=64)
    results, ended = [], threading.Event()

    def sweep():
        while not ended.is_set():
            results.extend(engine.tier.get_finished_jobs())
    thread = threading.Thread(target=sweep)
    thread.start()
    jobs = []
    for _ in range(50):
        jobs.append(engine.compute(fresh_keys(1)).job_id)
        engine.pinned.clear()
        engine.tier.on_schedule_end(None)
    assert until(lambda: len(results) >= len(jobs))
    ended.set()
    thread.join()
    assert sorted(each.job_id for each in results) == jobs
    engine.jobs.clear()


def test_what_healthy_nodes_know_is_a_hit_though_another_one_hangs(apart):
    """All look-ups of a step are made in one call, of which the part at the frozen node stays unanswered."""
    ring, reader, _ = apart
    own = fresh_keys(16)
    reader.put(own)
    ring[1].freeze()
    for _ in range(3):
        context, others = request(), fresh_keys(64)
        for key in others + own:
            assert reader.tier.lookup(key, context) is LookupResult.RETRY
        reader.tier.on_schedule_end(None)
        answers = []

        def known():
            answers[:] = [reader.tier.lookup(key, context) for key in others + own]
            return LookupResult.RETRY not in answers
        assert until(known)
        assert answers == [LookupResult.MISS] * 64 + [LookupResult.HIT] * 16
    ring[1].thaw()
