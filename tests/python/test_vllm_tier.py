"""Tests of vLLM's secondary tier at real nodes: stored chunks must be found, have the right bytes, and be announced."""

import pytest
from local_nodes import until
from natives import CountedNative, Registrations
from vllm_engines import Engine, entry_of, fresh_keys, request

from vllm.v1.kv_offload.base import Locality, LookupResult, Medium, RequestOffloadingContext


@pytest.mark.parametrize("there", [0, 1], ids=["one-node", "two-nodes"])
def test_chunks_come_back_after_they_were_evicted(ring, vllm_engine, there):
    writer = vllm_engine(ring[there], 2)
    reader = vllm_engine(ring[0], 2)
    keys = fresh_keys(12)
    assert reader.fetch(keys) == 0
    writer.put(keys)
    assert reader.fetch(keys) == 12 and writer.fetch(keys) == 12
    loads = [result for result in reader.results if result.transfer_bytes]
    assert sum(result.transfer_bytes for result in loads) == 12 * reader.row_bytes


def test_groups_of_one_block_are_chunks_of_their_own(ring, vllm_engine):
    engine = vllm_engine(ring[0])
    keys = [key[:-4] + (group).to_bytes(4, "big") for key in fresh_keys(2) for group in (0, 1)]
    engine.put(keys[:3])
    assert engine.fetch(keys) == 3


def test_a_step_has_one_question_and_a_request_one_verdict(ring, vllm_engine):
    engine = vllm_engine(ring[0])
    keys = fresh_keys(8)
    engine.put(keys[:4])
    asked = []
    native = engine.tier._lookups._native

    class Counting:
        def exists(self, spaces, wanted, seconds, hold):
            asked.append(list(wanted))
            return native.exists(spaces, wanted, seconds)
    engine.tier._lookups._native = Counting()
    first, second = request(), request()
    for context in (first, second):
        assert {engine.lookup(key, context) for key in keys} == {LookupResult.RETRY}
    assert asked == []
    assert engine.hits(keys, first) == 4 and engine.hits(keys, second) == 4
    assert asked == [keys]
    engine.tier.on_request_finished(first)
    engine.finish()
    engine.evict()
    assert engine.hits(keys, second) == 4 and len(asked) == 1
    assert engine.hits(keys, first) == 4 and asked[1:] == [keys[4:]], "the rest is on its way already"
    engine.finish()


def test_a_load_of_which_a_part_is_gone_has_the_rest_and_flips_its_verdict(ring, vllm_engine):
    engine = vllm_engine(ring[0])
    keys = fresh_keys(6)
    engine.put(keys)
    first, second = request(), request()
    assert engine.tier.lookup(keys[0], second) is LookupResult.RETRY
    engine.ask(keys[:1], second)
    engine.finish()
    engine.evict()
    for key in keys:
        assert engine.lookup(key, first) is LookupResult.RETRY
    engine.step()
    assert until(lambda: engine.tier.lookup(keys[-1], first) is LookupResult.HIT)
    assert all(page.ok for page in engine.tier._client.remove(engine.tier._space(), keys[::2]))
    engine.ask(keys, first)
    engine.finish()
    result = engine.results[-1]
    assert not result.success and set(result.successful_keys) == set(keys[1::2])
    assert engine.right(keys) == 3 and engine.late_writes() == []
    for context in (first, second):
        assert engine.tier.lookup(keys[0], context) is LookupResult.MISS, "not asked for again and again"
    assert engine.tier.lookup(keys[1], first) is LookupResult.HIT


def test_the_primary_view_is_registered_once_and_given_back(ring, monkeypatch):
    held = Registrations()
    from peercache.vllm import tier as module
    opened = module.open_or_miss

    def counted(*arguments):
        client = opened(*arguments)
        client.native = CountedNative(client.native, held)
        return client
    monkeypatch.setattr(module, "open_or_miss", counted)
    engine = Engine(entry_of(ring[0]))
    keys = fresh_keys(4)
    engine.put(keys)
    assert engine.fetch(keys) == 4
    address = engine.rows.__array_interface__["data"][0]
    assert held == {address: 1} and held.registrations == 1
    engine.close()
    assert held == {address: 0} and held.registrations == 1


def test_a_job_that_makes_no_sense_ends_as_failed(ring, vllm_engine):
    engine = vllm_engine(ring[0], chunks=4)
    keys = fresh_keys(2)
    for slots in ([0, 0], [0, 4], [-1, 0], [0]):
        engine._submit(engine.tier.submit_store, keys, slots, False, request())
        engine.finish()
        assert not engine.results[-1].success
    assert engine.hits(keys) == 0


def test_jobs_of_vllm_before_september_2026_have_block_ids(ring, vllm_engine):
    from peercache.vllm import contract
    from types import SimpleNamespace
    assert contract.slots_of(SimpleNamespace(block_ids=[3, 1])) == [3, 1]


def test_events_say_what_is_stored_and_what_nobody_has(ring, vllm_engine):
    engine = vllm_engine(ring[0], events=True, entry={"enable_kv_events": True})
    keys = fresh_keys(4)
    engine.put(keys)
    engine.compute(keys[:2])
    engine.finish()
    (stored,) = engine.tier.take_events()
    assert stored.keys == keys and not stored.removed
    assert stored.medium is Medium.STORAGE is engine.tier.medium and stored.locality is Locality.REMOTE
    assert list(engine.tier.take_events()) == []
    engine.evict()
    engine.tier._client.remove(engine.tier._space(), keys[:1])
    assert engine.hits(keys) == 3
    engine.finish()
    (removed,) = engine.tier.take_events()
    assert removed.keys == keys[:1] and removed.removed


@pytest.mark.parametrize("events, enabled", [(True, False), (False, True), (False, False)])
def test_events_are_off_unless_both_sides_want_them(ring, vllm_engine, events, enabled):
    engine = vllm_engine(ring[0], events=events, entry={"enable_kv_events": enabled})
    engine.put(fresh_keys(1))
    assert list(engine.tier.take_events()) == []


def test_metrics_are_vllms_and_add_up(ring, vllm_engine):
    engine = vllm_engine(ring[0])
    keys = fresh_keys(6)
    definitions = engine.tier.build_metric_definitions({"type": "PeerCacheTier"})
    engine.put(keys[:4])
    assert engine.fetch(keys) == 4
    stats = engine.tier.get_stats().data
    assert engine.tier.get_stats() is None
    prefix = "vllm:kv_offload_peercache_"
    assert stats[prefix + "lookups"] == {("hit",): 4, ("miss",): 2}
    assert stats[prefix + "chunks"] == {("store", "stored"): 4, ("load", "hit"): 4}
    assert stats[prefix + "bytes"] == {("store",): 4 * 4096, ("load",): 4 * 4096}
    assert stats[prefix + "jobs"] == {("store", "ok"): 1, ("load", "ok"): 1}
    for name, series in stats.items():
        assert all(len(labels) == len(definitions[name].labelnames) for labels in series)


def test_a_call_with_nonsense_is_a_miss_and_raises_nothing(ring, vllm_engine, caplog):
    tier = vllm_engine(ring[0]).tier
    assert tier.lookup(b"key", None) is LookupResult.MISS
    for call in (tier.on_request_finished, tier.submit_store, tier.submit_load):
        assert call(None) is None
    assert "lookup failed, and counts as a miss" in caplog.text
    assert not tier.has_pending_work()


def test_a_job_whose_result_cannot_be_told_has_failed(ring, vllm_engine, monkeypatch):
    engine = vllm_engine(ring[0])
    maker = engine.tier._result
    make, first, second = maker.make, *[engine.compute(fresh_keys(1)).job_id for _ in range(2)]

    def fragile(job_id, success, keys, seconds, size):
        if job_id == first and size:
            raise ValueError("a test's")
        return make(job_id, success, keys, seconds, size)
    monkeypatch.setattr(maker, "make", fragile)
    engine.tier.drain_jobs()
    ended = {result.job_id: result.success for result in engine.tier.get_finished_jobs()}
    assert ended == {first: False, second: True}, "vLLM waits for each of its jobs"


def test_a_job_whose_end_cannot_be_told_keeps_no_other_back(ring, vllm_engine, monkeypatch):
    engine = vllm_engine(ring[0])
    maker = engine.tier._result
    make, first, *others = maker.make, *[engine.compute(fresh_keys(1)).job_id for _ in range(3)]

    def fragile(job_id, *more):
        if job_id == first:
            raise ValueError("a test's")
        return make(job_id, *more)
    monkeypatch.setattr(maker, "make", fragile)
    engine.tier.drain_jobs()
    assert sorted(result.job_id for result in engine.tier.get_finished_jobs()) == others
    assert not engine.tier.has_pending_work()


def test_small_answers(ring, vllm_engine):
    engine = vllm_engine(ring[0])
    assert isinstance(engine.tier.on_new_request(request()), RequestOffloadingContext)
    engine.compute(fresh_keys(1))
    assert engine.tier.has_pending_work()
    engine.finish()
    assert not engine.tier.has_pending_work()
    engine.tier.touch([], request())
