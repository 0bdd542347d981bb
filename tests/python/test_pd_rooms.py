"""Tests of rooms between prefill and decode engines of any shape, with schedulers like SGLang's. Every byte is
compared."""

import gc
import random

import numpy as np
import pytest
from local_nodes import until
from pd_engines import KVPoll, Model, PrefillScheduler, Rank, Request, kv_class, right, utils
from pd_memory import POISON, RankMemory

PAGE = Model().page_tokens


def requests(count, seed=0, first_room=100):
    rng = random.Random(seed)
    return [Request(first_room + i, rng.randrange(1 << 30), rng.randrange(1, 12 * PAGE)) for i in range(count)]


SHAPES = {
    "one rank": ({}, {}),
    "tp 2 to 2": ({"tp": 2}, {"tp": 2}),
    "tp 2 to 1": ({"tp": 2}, {}),
    "tp 1 to 2": ({}, {"tp": 2}),
    "pp 2 to 1": ({"pp": 2}, {}),
    "pp 2 to 2": ({"pp": 2}, {"pp": 2}),
    "tp 2, pp 2 to 1": ({"tp": 2, "pp": 2}, {}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_kv_of_a_prompt_arrives(pairs, shape):
    pair = pairs(prefill=SHAPES[shape][0], decode=SHAPES[shape][1])
    assert pair.run(*requests(8)) == ["ok"] * 8
    assert right(pair)
    assert pair.rooms() == ([0] * len(pair.prefill.ranks), [0] * len(pair.decode.ranks))


@pytest.mark.parametrize("shape", ["tp 2 to 2", "tp 2 to 1", "tp 1 to 2", "pp 2 to 1"])
def test_latents_of_mla_arrive_and_dummies_end(pairs, shape):
    pair = pairs(Model(is_mla=True), prefill=SHAPES[shape][0], decode=SHAPES[shape][1])
    assert pair.run(*requests(4)) == ["ok"] * 4
    assert right(pair)


def test_context_parallel_ranks_that_send_nothing_end_by_themselves(pairs):
    pair = pairs(prefill={"cp_size": 2})
    assert pair.prefill.ranks[1].manager.is_dummy_cp_rank
    assert pair.run(*requests(4)) == ["ok"] * 4
    assert right(pair)


def test_only_what_decode_lacks_travels(pairs):
    pair = pairs()
    request = Request(7, 7, 10 * PAGE + 1, prefix_tokens=6 * PAGE)
    assert pair.run(request) == ["ok"]
    assert right(pair)
    (metric,) = pair.prefill.metrics[0]
    page = sum(b[0].nbytes for b in pair.prefill.ranks[0].memory.buffers)
    assert page * 5 <= metric.transfer_total_bytes < page * 6
    assert metric.transfer_latency_s > 0


def test_a_full_prefix_brings_the_row_alone(pairs):
    pair = pairs()
    assert pair.run(Request(7, 7, 4 * PAGE, prefix_tokens=4 * PAGE)) == ["ok"]
    assert right(pair)


def test_decode_finds_the_dp_rank_of_a_room(pairs):
    pair = pairs(prefill={"dp": 0, "dp_size": 2})
    second = Rank(RankMemory(Model()), utils.DisaggregationMode.PREFILL, pair.server.port, dp=1, dp_size=2,
                  load_balance_method="round_robin")
    pair.prefill.ranks[0].manager.server_args.load_balance_method = "round_robin"
    other = PrefillScheduler([second], pair.decode.bootstrap_addr)
    request = Request(11, 3, 5 * PAGE)
    other.add(request)
    known = kv_class("RECEIVER").query_prefill_dp_ranks(pair.decode.bootstrap_addr, [11, 12])
    assert known == {"11": 1}
    request.dp_rank = known["11"]
    pair.decode.add(request)
    pair.prefill.ranks.append(second)  # Added so that it is closed with prefill's other ranks.

    def ended():
        other.turn()
        return len(request.ended) == 2
    pair.prefill.turn = lambda: None
    pair.turn_until(ended)
    assert request.ended == {"prefill": "ok", "decode": "ok"}
    assert right(pair)


def test_a_room_of_another_dp_rank_fails_with_the_conflict(pairs):
    pair = pairs(prefill={"dp": 0, "dp_size": 2})
    request = Request(13, 3, PAGE)
    pair.prefill.add(request)
    pair.prefill.turn()
    assert request.ended["prefill"] == [("follow_bootstrap_room conflict", False)]


def test_the_same_room_again_after_a_success_is_another_turn(pairs):
    """When SGLang retracts a request, decode asks the same prefill engine for the same room once more."""
    pair = pairs(prefill={"tp": 2})
    request = Request(5, 1, 6 * PAGE)
    for seed in range(20):
        request.seed = seed
        assert pair.run(request) == ["ok"]
    assert right(pair)


def test_a_number_that_is_open_is_not_opened_twice(pairs):
    pair = pairs()
    first, second = Request(5, 1, PAGE), Request(5, 2, PAGE)
    pair.decode.add(first)
    pair.decode.add(second)
    pair.turn_until(lambda: "decode" in second.ended)
    ((reason, is_others),) = second.ended["decode"]
    assert "5" in reason and not is_others
    pair.prefill.add(first)
    pair.turn_until(lambda: len(first.ended) == 2)
    assert first.ended["decode"] == "ok"
    assert right(pair)


def test_an_abort_in_the_middle_of_a_chunked_prefill_frees_the_pages_at_once(pairs):
    pair = pairs(prefill={"tp": 2})
    aborted = [Request(i, i, 10 * PAGE, abort_prefill_after=2) for i in range(1, 9)]
    whole = requests(8)
    pair.run(*[each for both in zip(aborted, whole) for each in both])
    assert [r.ended["prefill"] for r in aborted] == ["aborted"] * 8
    assert all("Aborted by AbortReq" in reason for r in aborted for reason, _ in r.ended["decode"])
    assert [r.ended["decode"] for r in whole] == ["ok"] * 8
    assert right(pair)
    gc.collect()
    assert pair.rooms() == ([0, 0], [0]), "a sender that SGLang drops leaves no room behind"


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_an_abort_of_decode_fails_prefill(pairs, turns):
    pair = pairs(decode={"tp": 2})
    # Requests so long that decode's client aborts while prefill still sends.
    aborted = [Request(i, i, 30 * PAGE, abort_decode_after=turns) for i in range(1, 4)]
    for request in aborted:
        pair.run(request)
        assert request.ended["decode"] == [("Aborted by AbortReq.", False)] * 2
        assert all("Aborted by AbortReq." in reason for reason, _ in request.ended["prefill"])
    assert right(pair)


def test_the_failure_of_one_rank_ends_the_others_which_did_nothing(pairs):
    pair = pairs(prefill={"tp": 2}, decode={"tp": 2})
    request = Request(3, 3, 30 * PAGE)
    pair.begin(request)
    pair.turn_until(lambda: pair.decode.transfer)
    pair.decode.transfer[0]["receivers"][1].abort()
    pair.turn_until(lambda: len(request.ended) == 2)
    first, second = request.ended["decode"]
    assert second == ("Aborted by AbortReq.", False)
    assert first[1], "the log of a rank that only heard of it is muted"
    assert right(pair)


def test_a_rank_that_hears_of_another_s_failure_from_prefill_is_muted_too(pairs):
    pair = pairs(prefill={"tp": 2}, decode={"tp": 2})
    pair.prefill.chunks_max = 1
    request = Request(3, 3, 30 * PAGE)
    pair.begin(request)
    pair.turn_until(lambda: pair.decode.transfer and pair.prefill.inflight)
    first, second = pair.decode.transfer[0]["receivers"]
    senders = pair.prefill.inflight[0]["senders"]
    second.abort()
    assert until(lambda: senders[1].poll() == KVPoll.Failed)
    assert [others for _, others in pair.prefill.failures(senders)] == [True, False]
    assert until(lambda: first.poll() == KVPoll.Failed)
    pair.decode.turn()
    assert [others for _, others in request.ended["decode"]] == [True, False]
    assert right(pair)


def test_failed_is_said_only_when_nothing_is_written_any_longer(pairs):
    """Once `poll` says Failed, the engine may give the room's pages away. So `poll` must not say it while a transfer
    writes; failure_exception, which would wait, is not called."""
    pages = 64
    pair = pairs(Model(layers=2, heads=1, head_bytes=256 << 10, page_tokens=1, pages=pages))
    prefill, decode = pair.prefill.ranks[0], pair.decode.ranks[0]
    for buffer in prefill.memory.buffers:
        buffer[:] = 0x55
    all_pages = np.arange(pages, dtype=np.int32)
    for room in range(1, 21):
        pair.begin(Request(room, room, pages))
        sender = pair.prefill.bootstrap.pop()["senders"][0]
        receiver = pair.decode.prealloc.pop()["receivers"][0]
        assert decode.manager.try_ensure_parallel_info(pair.decode.bootstrap_addr)
        receiver.init(0)
        assert until(lambda: receiver.poll() == KVPoll.WaitingForInput)
        receiver.send_metadata(all_pages, 0)
        assert until(lambda: sender.poll() == KVPoll.WaitingForInput)
        sender.init(pages, 0)
        sender.send(all_pages)
        assert until(lambda: receiver.poll() in (KVPoll.Transferring, KVPoll.Success))
        receiver.abort()
        while receiver.poll() not in (KVPoll.Failed, KVPoll.Success):
            pass
        marks = [buffer[:, 0, 0, 0] for buffer in decode.memory.buffers]
        for mark in marks:
            mark[:] = POISON
        sender.abort()
        assert not until(lambda: any((mark != POISON).any() for mark in marks), 0.01)
        sender.clear()
        receiver.clear()


def test_five_percent_of_failures_leave_no_wrong_byte(pairs):
    """SGLANG_TEST_DISAGG_FAILURE_PROB: all ranks hear Failed while their transfers go on."""
    pair = pairs(prefill={"tp": 2}, decode={"tp": 2}, failure_prob=0.05)
    ended = []
    for group in range(30):
        ended += pair.run(*requests(10, seed=group, first_room=1000 * group))
    assert len(ended) == 300
    assert 0 < ended.count("ok") < 300
    assert right(pair)
    assert until(lambda: pair.rooms() == ([0, 0], [0, 0]))


def test_memory_that_is_given_back_is_lent_again(pairs):
    pair = pairs(prefill={"tp": 2})
    lost = Request(1, 1, 30 * PAGE)
    pair.begin(lost)
    pair.turn_until(lambda: pair.decode.transfer)
    for rank in pair.prefill.ranks + pair.decode.ranks:
        rank.manager.deregister_buffer_to_engine()
    pair.turn_until(lambda: len(lost.ended) == 2)
    # Decode's reason is not checked: it is the abort or a refused read, whichever decode hears of first.
    assert lost.ended["prefill"][0] == ("prefill gives its memory back", False)
    assert len(lost.ended["decode"]) == 1
    refused = Request(2, 2, PAGE)
    pair.run(refused)
    assert all("memory is given back" in reason for reason, _ in refused.ended["decode"])
    for rank in pair.prefill.ranks + pair.decode.ranks:
        rank.manager.register_buffer_to_engine()
    assert pair.run(*requests(4)) == ["ok"] * 4
    assert right(pair)
