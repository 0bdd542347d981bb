"""Tests of `peercache bench hicache`, `vllm` and `lmcache`, and of their simulators of engines, with short runs."""

import json
import os
import pathlib
import subprocess

import pytest
from peercache.hicache.simulator import SimulatedRank
from peercache.simulators.engine import SimulatedEngine
from peercache.simulators.lmcache import ConnectorDoor

NODE = os.environ.get("PEERCACHE_TEST_NODE_PROGRAM", "build/release/cli/peercache-node")
CLI = pathlib.Path(NODE).with_name("peercache")
NAMES = ["hicache_exists", "hicache_get", "hicache_get_other_host", "hicache_request_other_host", "hicache_set"]


def run(model, *words, engine="hicache"):
    """Runs `peercache bench` for an engine. Returns its rows, and its output on stderr."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PEERCACHE_")}
    short = ["--rounds", "1", "--calls", "1", "--model", model, "-o", "json"]
    done = subprocess.run([CLI, "bench", engine, *short, *words], text=True, capture_output=True, timeout=280,
                          env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)["results"], done.stderr


def test_it_measures_each_kind_of_call_and_compares_the_last_batches():
    """A run checks the bytes of its last batches: wrong bytes would end the run with an error."""
    rows, said = run("small", "--ranks", "2", "--only", ",".join(NAMES))
    assert [row["name"] for row in rows] == NAMES
    for row in rows[1:]:
        assert row["page_bytes"] == 64 << 10 and row["batch"] == 128
        assert row["bytes_per_second"] > 0 and row["limit_bytes_per_second"] > 0
        assert row["p50_us"] <= row["p99_us"] and 0 <= row.get("gil_held", 0) < 1
        assert ("gil_held" in row) == ("request" not in row["name"]), "calls of a request overlap"
        assert row["callers"] == row["limit_callers"] == 2
    assert rows[0]["keys_per_second"] > 0
    phases = ["starting two nodes", "starting 2 ranks in Python", "storing the pages that are read later"]
    lines = [line for line in said.splitlines() if line.startswith("peercache: ")]
    assert lines == [f"peercache: {phase}" for phase in phases + [f"measuring {name}" for name in NAMES]]


def test_with_mla_one_rank_writes_on_both_sides():
    rows, _ = run("small-mla", "--ranks", "2")
    assert [row["name"] for row in rows] == NAMES
    callers = {row["name"]: (row["callers"], row["limit_callers"]) for row in rows}
    assert callers == {name: (1, 1) if name == "hicache_set" else (2, 2) for name in NAMES}


@pytest.mark.parametrize("engine", ["vllm", "lmcache"])
def test_other_doors_are_measured_in_the_same_way(engine):
    rows, said = run("small", engine=engine)
    assert [row["name"] for row in rows] == [
        f"{engine}_{what}" for what in ("lookup", "load", "load_other_host", "store")]
    assert rows[0]["keys_per_second"] > 0
    for row in rows[1:]:
        assert row["page_bytes"] == 64 << 10 and row["batch"] == 128 and row["ratio"] > 0
        assert 0 <= row["gil_held"] < 1
    assert "measuring" in said


def test_a_load_that_moves_nothing_has_wrong_bytes(ring):
    engine = SimulatedEngine({"here": int(ring[0].ports[0]), "there": int(ring[1].ports[0]),
                              "cluster": ring[0].cluster,
                              "shape": {"page_size": 16, "layers": 1, "heads": 1, "head_dim": 128, "halves": 1}},
                             ConnectorDoor, lambda digest: digest.hex())
    engine.store("there", 2)
    for calls in (1, 2, 3):
        assert engine.get("there", calls)["wrong_bytes"] == 0
    engine.doors["here"].fetch = lambda keys, rows: None
    for calls in (1, 2, 3):
        assert engine.get("there", calls)["wrong_bytes"] == min(calls, 2) * 128 * 4096
    engine.close()


@pytest.fixture
def simulated(ring):
    """A function that makes simulated ranks at the ring's nodes; with `halves=1` they are ranks of an MLA model."""
    made = []

    def make(halves, ranks=1, rank=0):
        shape = {"page_size": 64, "layers": 1, "heads": 1, "head_dim": 16, "halves": halves}
        made.append(SimulatedRank({"here": int(ring[0].ports[0]), "there": int(ring[1].ports[0]), "shape": shape,
                                   "cluster": ring[0].cluster, "ranks": ranks, "rank": rank}))
        return made[-1]

    yield make
    for each in made:
        for store in each.stores.values():
            store.close()


def test_nothing_of_an_earlier_round_passes_for_a_read(simulated):
    """If gets move nothing, every byte of the last batches must be found wrong: each round must clear the memory, and
    compare each of these batches."""
    rank = simulated(halves=2)
    rank.store("here", 2)
    for calls in (1, 2, 3):
        assert rank.get("here", calls)["wrong_bytes"] == 0
    answer = rank.request("here", 2)
    assert answer["wrong_bytes"] == 0 and "gil_held" not in answer
    fetch = rank.fetch
    rank.fetch = lambda place, index, indices: fetch(place, index, indices) if index % 2 else None
    for round_of in (rank.get, rank.request):
        for calls in (1, 2, 3):
            assert round_of("here", calls)["wrong_bytes"] > 0.9 * 2 * rank.pool.piece_bytes * 128


@pytest.mark.parametrize("halves, sets", [(2, [3, 3]), (1, [6, 0])], ids=["mha", "mla"])
def test_two_ranks_read_what_is_theirs(simulated, halves, sets):
    """As under SGLang, both ranks of MLA have the same pages, and only the first one writes; other ranks have pages
    of their own."""
    ranks = [simulated(halves, ranks=2, rank=rank) for rank in range(2)]
    sources = [rank.pool.kv_buffer[:, :128] for rank in ranks]
    assert bool((sources[0] == sources[1]).all()) == (halves == 1)
    for place in ("here", "there"):
        for rank in ranks:
            rank.store(place, 2)
        for rank in ranks:
            assert rank.get(place, 2)["wrong_bytes"] == 0 == rank.request(place, 2)["wrong_bytes"]
            assert rank.exists(place, 2)["pages_per_second"] > 0
    answers = [rank.set(3) for rank in ranks]
    assert [len(answer["call_us"]) for answer in answers] == sets
    assert [answer["pages_per_second"] > 0 and "gil_held" in answer for answer in answers] == [n > 0 for n in sets]
