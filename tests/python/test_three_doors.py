"""Tests of the backends for SGLang, vLLM and LMCache at one cluster whose nodes die, freeze and come back. There must
be no wrong byte and no late call: the programs (door_traffic.py) check themselves, and scripts/check_history.py checks
their histories.

PEERCACHE_DOOR_LOADS: how many pages must arrive through each backend (by default 60,000)."""

import json
import os
import pathlib
import random
import subprocess
import sys
import threading

import pytest

DOORS = ("sglang", "vllm", "lmcache")
LOADS = int(os.environ.get("PEERCACHE_DOOR_LOADS", "60000"))
HERE = pathlib.Path(__file__).parent
CHECKER = HERE.parents[1] / "scripts/check_history.py"


class Faults:
    """Kills, restarts, freezes and thaws nodes, one at a time, in a thread, while the `with` block runs."""

    def __init__(self, ring, seed):
        self._ring, self._chance = ring, random.Random(seed)
        self._ended, self._thread = threading.Event(), threading.Thread(target=self._run)
        self.done = {"kill": 0, "freeze": 0}

    def _run(self):
        while not self._ended.wait(self._chance.uniform(0.5, 1.5)):
            index = self._chance.choice([0, 1, 2, 2])
            fault = self._chance.choice(list(self.done))
            getattr(self._ring[index], fault)()
            # The cluster expels a node after two seconds of silence, so some freezes end before that and some after.
            self._ended.wait(self._chance.choice([0.1, 0.6, 3.0]))
            if fault == "kill":
                self._ring.restart(index)
            else:
                self._ring[index].thaw()
            self.done[fault] += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()


def start_door(kind, ring, history):
    ports = ",".join(node.ports[0] for node in (ring[0], ring[1]))
    words = [sys.executable, "-B", str(HERE / "door_traffic.py"), kind, "--ports", ports, "--cluster", ring[0].cluster,
             "--loads", str(LOADS), "--seed", "1", "--history", str(history)]
    # Clients refuse PEERCACHE_* variables that are not options.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PEERCACHE_")}
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean)


@pytest.fixture
def outcomes(fragile_ring, tmp_path):
    """Runs the three programs at the same time, under faults. Returns the output of each, and the faults."""
    ring = fragile_ring(3, pool="64MiB")
    running = {kind: start_door(kind, ring, tmp_path / kind) for kind in DOORS}
    try:
        with Faults(ring, 1) as faults:
            said = {kind: (*door.communicate(), door.returncode) for kind, door in running.items()}
    finally:
        for door in running.values():
            door.kill()
    return said, faults.done


def test_three_doors_at_one_cluster_under_faults(outcomes, tmp_path):
    said, faults = outcomes
    assert {kind: (words, code) for kind, (_, words, code) in said.items() if code != 0} == {}
    assert sum(faults.values()) > 0
    for kind, (counts, _, _) in said.items():
        counts = json.loads(counts)
        print(kind, counts, faults)
        assert counts["arrived"] >= LOADS
        assert counts["arrived"] > counts["missed"], "faults cost some pages, and not most"
    judged = subprocess.run([sys.executable, CHECKER, *(tmp_path / kind for kind in DOORS)], capture_output=True, text=True)
    print(judged.stdout)
    assert judged.returncode == 0, judged.stdout
