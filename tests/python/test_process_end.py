"""Tests that a process ends at once and with its own exit status, in whatever way it ends, whatever calls its threads
are in, and whether its node runs, is frozen or gone. As in SGLang, daemon threads are in calls of each kind.

PEERCACHE_PROCESS_ENDS=1000 runs 1000 ends for each state of the node, instead of one of each kind.
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest
from local_nodes import LATE_SECONDS, late_watch, until
from peercache import Status

PROGRAM = pathlib.Path(__file__).with_name("ending.py")
END_SECONDS = 2.0
ROUNDS = int(os.environ.pop("PEERCACHE_PROCESS_ENDS", 0))  # Clients would refuse the variable.
OWN = 7

STATUS = {
    "return": 0, "exit": OWN, "exception": 1, "interrupt": -signal.SIGINT, "terminate": -signal.SIGTERM,
    "interrupt in a call": -signal.SIGINT, "terminate in a call": OWN, "_exit": OWN, "close": 0, "hook": 0, "fork": OWN, "fork and use": OWN, "fork and collect": OWN,
}
"""The ways in which a process ends, and the status that its parent is told. A child that the process has forked ends
first, and the process ends with the child's status."""
STATES = ("running", "frozen", "killed", "none")


class Ending:
    """A process of ending.py whose threads are in calls, and which is told to end."""

    def __init__(self, node, state, ending, threads, more=()):
        self.ending = ending
        words = [json.dumps(node.options()), ending, str(threads), *(["--no-node"] if state == "none" else []), *more]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PEERCACHE_")}
        self._process = subprocess.Popen([sys.executable, str(PROGRAM), *words], env=clean, text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def began(self):
        return self._process.stdout.readline() == "ready\n"

    def end(self, seconds=END_SECONDS):
        """Tells the process to end within `seconds`. Returns what was wrong with its end; None if nothing was."""
        with late_watch() as watch:
            try:
                _, said = self._process.communicate("end\n", timeout=10 * END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                return f"{self.ending}: no end"
        status, took = self._process.returncode, watch.seconds - watch.stalled
        faults = []
        if status != STATUS[self.ending]:
            faults.append(f"ended with {status}")
        if took > seconds + LATE_SECONDS:
            faults.append(f"took {took:.2f} s")
        if "terminate called" in said or "Fatal Python error" in said:
            faults.append(said[-300:])
        return f"{self.ending}: {', '.join(faults)}" if faults else None


def brought_to(node, state):
    if state == "frozen":
        node.freeze()
    elif state in ("killed", "none") and node.process.poll() is None:
        node.kill()


def ends(ring, state, endings, threads):
    """Ends processes in the given ways, one after the other. Returns what was wrong with their ends."""
    faults = []
    for ending in endings:
        node = ring[0]
        if node.process.poll() is not None and state != "none":
            ring.restart(0)
        node.thaw()
        if state == "none":
            brought_to(node, state)
        process = Ending(node, state, ending, threads)
        assert process.began(), ending
        brought_to(node, state)
        faults.append(process.end())
    return [fault for fault in faults if fault]


@pytest.mark.parametrize("state", STATES)
def test_a_process_ends_with_its_own_status_at_once(fragile_ring, state):
    endings = list(STATUS) if not ROUNDS else random.Random(state).choices(list(STATUS), k=ROUNDS)
    assert ends(fragile_ring(1), state, endings, threads=16) == []


@pytest.mark.parametrize("state", ["running", "frozen"])
def test_sixty_four_threads_in_calls_do_not_hold_up_the_end(fragile_ring, state):
    assert ends(fragile_ring(1), state, ["exit", "fork and use"], threads=64) == []


JOINED_SECONDS = 2.5
"""The deadline of the calls of ending.py's threads that are not daemons."""


@pytest.mark.parametrize("ending", ["interrupt", "interrupt in a call", "exit"])
def test_threads_that_are_no_daemons_end_by_the_deadlines_of_their_calls(fragile_ring, ending):
    """Before it runs the package's exit hooks, the interpreter waits for threads that are not daemons, so the process
    ends by the deadlines of their calls."""
    node = fragile_ring(1)[0]
    process = Ending(node, "frozen", ending, 16, ["--joined"])
    assert process.began()
    node.freeze()
    assert process.end(JOINED_SECONDS + END_SECONDS) is None


PAGE = 64 << 10


def pages_of(seed, count):
    return [random.Random(f"{seed} {i}").randbytes(PAGE) for i in range(count)]


def test_a_child_writes_nothing_into_its_parent_s_pages(ring, connect):
    """If a forked child filled slots that the node has lent to its parent, it would overwrite the parent's pages, which
    nobody would notice without checksums."""
    client = connect(ring[0], **{"client.verify_own_host": "off"})
    space, count = client.space("parent and child"), 120
    names, pages = [str(i) for i in range(count)], pages_of("parent", count)
    client.set(space, ["first"], pages_of("first", 1))  # Leases slots from the node.
    assert client.flush().complete
    child = os.fork()
    if child == 0:
        closed = [r.status for r in client.set(space, [f"child {i}" for i in range(count)], pages_of("child", count))]
        os._exit(0 if set(closed) == {Status.CLOSED} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert all(r.ok for r in client.set(space, names, pages))
    assert client.flush() == (True, 0, 0)
    read = [bytearray(PAGE) for _ in names]
    assert all(r.ok for r in client.get(space, names, read))
    assert [bytes(each) == page for each, page in zip(read, pages)] == [True] * count
    assert not any(r.ok for r in client.exists(space, [f"child {i}" for i in range(count)]))


LEAVES_A_CHILD = """
import json, os, signal, sys, peercache
client = peercache.Client(json.loads(sys.argv[1]))
space = client.space("left")
client.set(space, ["k"], [bytearray(65536)])
client.flush()
child = os.fork()
if child == 0:
    signal.pause()
print(child, flush=True)
signal.pause()
"""


def test_the_slots_of_a_killed_client_come_back_though_its_child_lives(fragile_ring):
    node = fragile_ring(1)[0]
    client = subprocess.Popen([sys.executable, "-c", LEAVES_A_CHILD, json.dumps(node.options())],
                              stdout=subprocess.PIPE, text=True)
    child = int(client.stdout.readline())
    try:
        assert until(lambda: node.metric("peercache_pool_pages_filling") > 0), "slots are leased"
        client.kill()
        client.wait()
        assert until(lambda: node.metric("peercache_pool_pages_filling") == 0, 20)
        assert node.metric("peercache_sessions") == 0
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)
