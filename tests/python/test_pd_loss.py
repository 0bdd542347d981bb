"""Tests of the loss of a prefill process in each state of a room, of its return, and of the end of processes with
workers."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from types import SimpleNamespace

import pytest
from local_nodes import LATE_SECONDS, late_watch, until
from pd_engines import DecodeScheduler, Model, Request, decode_ranks
from peercache.pd.manager import KVManager

PAGE = Model().page_tokens
HERE = pathlib.Path(__file__).parent
LOSS_SECONDS = 0.1


class Prefill:
    """A process of pd_prefill.py."""

    def __init__(self, port=0, chunks_max=1 << 30):
        words = [sys.executable, "-B", str(HERE / "pd_prefill.py"), str(port), str(chunks_max)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL)
        word, port = self.process.stdout.readline().split()
        assert word == "ready"
        self.port = int(port)

    def serve(self, request):
        self.process.stdin.write(f"{request.room} {request.seed} {request.tokens}\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def decode():
    scheduler = DecodeScheduler(decode_ranks(Model(), tp=2), "nobody")
    yield scheduler
    for rank in scheduler.ranks:
        rank.close()


def turn_until(decode, holds):
    def turn():
        decode.turn()
        return holds()
    assert until(turn, 20)


def right(decode):
    return (decode.wrong, decode.touched) == (0, 0)


# For each state of a room: whether prefill has heard of the room, and how many of its chunks prefill computes.
STATES = {"bootstrapping": (False, 0), "waiting": (True, 0), "transferring": (True, 1)}


@pytest.mark.parametrize("state", STATES)
def test_a_room_fails_at_once_when_its_prefill_dies_and_new_ones_work_after_its_return(decode, state):
    knows, chunks = STATES[state]
    prefill = Prefill(chunks_max=chunks)
    decode.bootstrap_addr = f"127.0.0.1:{prefill.port}"
    lost = Request(1, 1, 20 * PAGE)
    decode.add(lost)
    if knows:
        prefill.serve(lost)
    turn_until(decode, lambda: decode.transfer)
    if chunks:
        turn_until(decode, lambda: decode.transfer[0]["receivers"][0].poll() == 3)
    with late_watch() as watch:
        prefill.kill()
        turn_until(decode, lambda: "decode" in lost.ended)
    assert watch.seconds - watch.stalled < LOSS_SECONDS + LATE_SECONDS
    # The room fails when one rank has seen the loss, which another rank may not have seen yet.
    assert any(not is_others for _, is_others in lost.ended["decode"])
    again = Prefill(prefill.port)
    try:
        # From the first request after the return on, all must succeed, because nobody may dial the old port.
        later = [Request(room, room, 9 * PAGE) for room in range(2, 6)]
        for request in later:
            decode.add(request)
            again.serve(request)
        turn_until(decode, lambda: all(request.ended for request in later))
        assert [request.ended["decode"] for request in later] == ["ok"] * 4
        assert right(decode)
    finally:
        again.kill()


def test_a_room_that_begins_while_prefill_is_away_fails(decode):
    prefill = Prefill()
    decode.bootstrap_addr = f"127.0.0.1:{prefill.port}"
    first, second = Request(1, 1, PAGE), Request(2, 2, PAGE)
    decode.add(first)
    prefill.serve(first)
    turn_until(decode, lambda: first.ended)
    # Decode has prefill's addresses in its tables before the loss is known, as in SGLang.
    entry_info = [rank.manager.try_ensure_parallel_info(decode.bootstrap_addr) for rank in decode.ranks]
    assert entry_info == [True, True]
    prefill.kill()
    decode.add(second)
    decode.prealloc[0]["inited"] = True
    for receiver in decode.prealloc[0]["receivers"]:
        receiver.init(0)
    turn_until(decode, lambda: second.ended)
    assert len(second.ended["decode"]) == 2


def test_a_frozen_prefill_fails_its_rooms_within_two_seconds(decode):
    prefill = Prefill(chunks_max=1)
    decode.bootstrap_addr = f"127.0.0.1:{prefill.port}"
    lost = Request(1, 1, 20 * PAGE)
    decode.add(lost)
    prefill.serve(lost)
    turn_until(decode, lambda: decode.transfer and decode.transfer[0]["receivers"][0].poll() == 3)
    with late_watch() as watch:
        prefill.process.send_signal(signal.SIGSTOP)
        turn_until(decode, lambda: lost.ended)
    prefill.process.send_signal(signal.SIGCONT)
    prefill.kill()
    assert watch.seconds - watch.stalled < 2.5 + LATE_SECONDS
    assert right(decode)


class OfTwoEngines(KVManager):
    """A manager that knows two prefill engines, which are both lost; SGLang cannot handle the loss of the first one."""

    def __init__(self):
        self._lost = [(("host", 1), "lost"), (("host", 2), "lost")]
        self.decode = SimpleNamespace(take_lost=self._take_lost)
        self._lost_workers, self._not_dropped = set(), set()
        self._lost_lock, self.connection_lock = threading.Lock(), threading.Lock()
        self.connection_pool = {f"engine-{port}_0_0_0": [{"rank_ip": "host", "rank_port": port}] for port in (1, 2)}
        self.addr_to_rooms_tracker = defaultdict(set, {"engine-1": {7, 9}})
        self.handled, self.raising = [], {"engine-1"}

    def _take_lost(self):
        taken, self._lost = self._lost, []
        return taken

    def _handle_node_failure(self, failed_bootstrap_addr):
        self.handled.append(failed_bootstrap_addr)
        if failed_bootstrap_addr in self.raising:
            raise KeyError("a test's")


def test_a_loss_that_sglang_cannot_handle_is_not_the_last_one_that_is_handled():
    manager = OfTwoEngines()
    manager.drop_lost(but_room=9)
    assert manager.handled == ["engine-1", "engine-2"]
    assert 9 in manager.addr_to_rooms_tracker["engine-1"], "the spared room is still known"


def test_a_loss_that_sglang_cannot_handle_is_handled_again_at_the_next_heartbeat():
    manager = OfTwoEngines()
    manager.drop_lost()
    manager.drop_lost()
    assert manager.handled == ["engine-1", "engine-2"], "not for each room, which it would fail"
    manager._on_heartbeat_success("another engine")
    assert manager.handled[2:] == ["engine-1"]
    manager.raising.clear()
    manager._on_heartbeat_success("another engine")
    manager._on_heartbeat_success("another engine")
    assert manager.handled[3:] == ["engine-1"], "once"


def test_a_loss_whose_engine_cannot_be_found_out_is_handled_later():
    manager = OfTwoEngines()
    manager.connection_pool["engine-0_0_0_0"] = [None]
    manager.drop_lost()
    assert manager.handled == []
    del manager.connection_pool["engine-0_0_0_0"]
    manager.drop_lost()
    assert manager.handled == ["engine-1", "engine-2"]


def test_a_rank_without_a_port_hides_no_loss():
    manager = OfTwoEngines()
    manager.connection_pool["engine-0_0_0_0"] = [{"rank_ip": "host", "rank_port": "none"}]
    manager.drop_lost()
    assert manager.handled == ["engine-1", "engine-2"]


ENDS = """
import atexit, os, sys, threading
workers = []
# This hook was registered before the package's own, and so runs after it.
atexit.register(lambda: None if all(worker.closed for worker in workers) else os._exit(9))
from pd_engines import Model, Pair, Request
pair = Pair(prefill={"tp": 2})
workers += [rank.manager.prefill or rank.manager.decode for rank in pair.prefill.ranks + pair.decode.ranks]
pair.run(*[Request(room, room, 9 * 4) for room in range(1, 4)])
open_room = Request(9, 9, 9 * 4)
pair.begin(open_room)

def work(side):
    while True:
        side.turn()
if "threads" in sys.argv:
    for side in (pair.prefill, pair.decode):
        threading.Thread(target=work, args=[side], daemon=True).start()
if "fork" in sys.argv:
    child = os.fork()
    if child == 0:
        assert pair.prefill.ranks[0].manager.prefill.closed and pair.decode.ranks[0].manager.decode.closed
        sys.exit(7)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
sys.exit(7)
"""


@pytest.mark.parametrize("words", [[], ["threads"], ["fork"], ["threads", "fork"]])
def test_a_process_with_workers_ends_with_its_own_status(words):
    environment = {**os.environ, "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}"}
    for _ in range(3):
        ended = subprocess.run([sys.executable, "-B", "-c", ENDS, *words], env=environment, timeout=60,
                               capture_output=True, text=True, check=False)
        assert ended.returncode == 7, ended.stderr[-1000:]
        assert "terminate called" not in ended.stderr and "Fatal Python error" not in ended.stderr
