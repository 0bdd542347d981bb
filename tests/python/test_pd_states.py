"""Tests of rooms that have more than KV: states of mamba, of sliding windows and of indices, hybrids with MLA, and
shares of context parallel ranks."""

import random

import pytest
from pd_engines import Model, Request, right

PAGE = Model().page_tokens
ALL_CP_RANKS = "SGLANG_DISAGGREGATION_ALL_CP_RANKS_TRANSFER"


def requests(count, seed=0):
    """Returns random requests; for some, decode already has a prefix of the prompt."""
    rng = random.Random(seed)
    made = []
    for i in range(count):
        tokens = rng.randrange(1, 10 * PAGE)
        prefix = rng.choice([0, rng.randrange(tokens // PAGE + 1) * PAGE])
        made.append(Request(100 + i, rng.randrange(1 << 30), tokens, prefix_tokens=prefix))
    return made


SHAPES = {
    "one rank": ({}, {}),
    "tp 2 to 2": ({"tp": 2}, {"tp": 2}),
    "tp 2 to 1": ({"tp": 2}, {}),
    "tp 1 to 2": ({}, {"tp": 2}),
    "pp 2 to 1": ({"pp": 2}, {}),
    "tp 2, pp 2 to tp 1": ({"tp": 2, "pp": 2}, {}),
    "cp 2 to 1": ({"cp_size": 2}, {}),
}


def ends_well(pair, count=8):
    assert pair.run(*requests(count)) == ["ok"] * count
    assert right(pair)
    return pair


@pytest.mark.parametrize("shape", SHAPES)
def test_states_of_mamba_arrive(pairs, shape):
    ends_well(pairs(Model(states=("mamba",)), prefill=SHAPES[shape][0], decode=SHAPES[shape][1]))


@pytest.mark.parametrize("shape", ["one rank", "tp 2 to 2", "pp 2 to 1", "cp 2 to 1"])
def test_windows_and_indices_arrive(pairs, shape):
    ends_well(pairs(Model(states=("swa", "dsa")), prefill=SHAPES[shape][0], decode=SHAPES[shape][1]))


def test_a_window_may_begin_later_at_decode(pairs):
    pair = pairs(Model(states=("swa",)))
    pair.decode.window_tokens -= PAGE
    ends_well(pair)


@pytest.mark.parametrize("shape", ["tp 2 to 2", "tp 2 to 1", "tp 1 to 2"])
def test_windows_and_indices_of_mla_arrive_whatever_the_ranks(pairs, shape):
    ends_well(pairs(Model(is_mla=True, states=("swa", "dsa")), prefill=SHAPES[shape][0], decode=SHAPES[shape][1]))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_hybrid_of_mla_takes_latents_from_one_rank_and_states_from_all(pairs, shape):
    pair = ends_well(pairs(Model(is_mla=True, states=("mamba",)), prefill=SHAPES[shape][0], decode=SHAPES[shape][1]))
    if shape == "tp 2 to 1":
        first, second = (sum(of[i].transfer_total_bytes for of in pair.prefill.metrics) for i in (0, 1))
        (tensors,) = pair.prefill.ranks[1].memory.states.components
        states = 8 * sum(tensor.items[0].nbytes for tensor in tensors)
        assert second == states < first


def test_each_context_parallel_rank_sends_its_share(pairs, monkeypatch):
    monkeypatch.setenv(ALL_CP_RANKS, "1")
    pair = pairs(Model(states=("mamba", "swa")), prefill={"cp_size": 2})
    assert not any(rank.manager.is_dummy_cp_rank for rank in pair.prefill.ranks)
    ends_well(pair)
    # Each context parallel rank sends half of the KV; the states and the aux row come from the first rank.
    assert pair.run(Request(7, 7, 10 * PAGE)) == ["ok"]
    first, second = pair.prefill.metrics[-1]
    page = sum(buffer[0].nbytes for buffer in pair.prefill.ranks[1].memory.buffers)
    assert second.transfer_total_bytes == 5 * page < first.transfer_total_bytes < 10 * page


@pytest.mark.parametrize("shape", ["tp 2 to 1", "tp 2 to 2"])
def test_shares_of_context_parallel_ranks_go_with_other_ranks(pairs, monkeypatch, shape):
    monkeypatch.setenv(ALL_CP_RANKS, "1")
    ends_well(pairs(prefill={**SHAPES[shape][0], "cp_size": 2}, decode=SHAPES[shape][1]))


def test_the_abort_of_one_side_leaves_no_states_behind(pairs):
    pair = pairs(Model(states=("mamba", "swa")), prefill={"tp": 2}, decode={"tp": 2})
    aborted = [Request(i, i, 10 * PAGE, abort_prefill_after=2) for i in range(1, 5)]
    aborted += [Request(i, i, 10 * PAGE, abort_decode_after=1) for i in range(5, 9)]
    whole = requests(8)
    pair.run(*[each for both in zip(aborted, whole) for each in both])
    assert all(request.ended["decode"] == "ok" for request in whole)
    assert right(pair)


def test_a_room_whose_states_are_missing_fails(pairs):
    pair = pairs(Model(states=("mamba",)))
    pair.decode.indices_of = lambda states: None
    request = Request(3, 3, 2 * PAGE)
    pair.run(request)
    ((reason, _),) = request.ended["decode"]
    assert "mamba" in reason
    assert pair.decode.touched == 0
