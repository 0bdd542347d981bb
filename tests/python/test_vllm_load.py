"""Tests of vLLM's tier under load: large chunks, many keys in a step, and how long calls hold the GIL."""

import time

from local_nodes import until
from vllm_engines import LookupResult, fresh_keys, request

CHUNK_BYTES, CHUNKS = 16 << 20, 80
KEYS_OF_A_STEP = 10_000
LOCK_SHARE_MAX = 0.02


def test_eighty_chunks_of_16_mib_come_back_and_their_copies_leave_the_lock_alone(fragile_ring, vllm_engine):
    (node,) = fragile_ring(1, pool="1600MiB").nodes
    engine = vllm_engine(node, chunks=CHUNKS, row_bytes=CHUNK_BYTES,
                         entry={"load_timeout_s": 60, "store_timeout_s": 60})
    keys, native = fresh_keys(CHUNKS), engine.tier._client.native
    shares = []

    def measured(copy):
        _, before, without_before = native.call_times()
        copy()
        _, total, without = native.call_times()
        shares.append(1 - (without - without_before) / (total - before))
    measured(lambda: engine.put(keys))
    engine.ask(keys)
    measured(engine.finish)
    assert engine.right(keys) == CHUNKS
    assert max(shares) < LOCK_SHARE_MAX


def test_ten_thousand_keys_a_step_have_their_verdicts(ring, vllm_engine):
    """Half of the keys are stored. With pytest's -s, prints what a key costs the scheduler."""
    engine = vllm_engine(ring[0], chunks=KEYS_OF_A_STEP, row_bytes=512, entry={"lookup_timeout_s": 10})
    keys, context = fresh_keys(KEYS_OF_A_STEP), request()
    engine.put(keys[::2])

    def looked_up():
        begin = time.perf_counter()
        answers = [engine.tier.lookup(key, context) for key in keys]
        print(f"{(time.perf_counter() - begin) / len(keys) * 1e6:.2f} us a key")
        return answers
    assert set(looked_up()) == {LookupResult.RETRY}
    begin = time.perf_counter()
    engine.tier.on_schedule_end(None)
    assert until(lambda: engine.tier.lookup(keys[-1], context) is not LookupResult.RETRY)
    print(f"{(time.perf_counter() - begin) * 1e3:.0f} ms from the end of the step to its verdicts")
    assert looked_up() == [LookupResult.HIT, LookupResult.MISS] * (KEYS_OF_A_STEP // 2)
    assert engine.fetch(keys) == KEYS_OF_A_STEP // 2
