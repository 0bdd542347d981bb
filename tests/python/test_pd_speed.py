"""Measures what each room costs a scheduler's thread: `poll` in each turn of its loop (at most 2 us), and `send` for
each chunk (at most 100 us under the GIL for 8,192 pages). A call that has to wait holds no GIL meanwhile."""

import ctypes
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from local_nodes import until
from pd_engines import KVPoll, KVTransferError, Pair, Request, kv_class
from pd_memory import Model

HERE = pathlib.Path(__file__).parent

POLL_SECONDS, SEND_SECONDS = 2e-6, 100e-6
PAGES = 8192


@pytest.fixture
def pair():
    # Pages have one byte, because the cost of a call does not depend on their size.
    made = Pair(Model(layers=1, heads=1, head_bytes=1, page_tokens=1))
    yield made
    made.close()


def seconds_of(call, times, rounds=30):
    """Returns the median, over the rounds, of the seconds that one call takes."""
    taken = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(times):
            call()
        taken.append((time.perf_counter() - begin) / times)
    return statistics.median(taken)


def test_a_poll_is_a_memory_read(pair, record_property):
    pair.begin(Request(1, 1, 4))
    sender = pair.prefill.bootstrap[0]["senders"][0]
    receiver = pair.decode.prealloc[0]["receivers"][0]
    for name, handle in (("sender", sender), ("receiver", receiver), ("watch", sender._watch)):
        seconds = seconds_of(handle.poll, 2000)
        print(f"poll of a {name}: {seconds * 1e6:.2f} us")
        record_property(f"poll_{name}_us", seconds * 1e6)
        assert seconds <= POLL_SECONDS


def test_a_send_of_8192_pages_holds_the_gil_for_short(pair):
    """The room has ended, so the worker ignores the pages, and the call does only the part that needs the GIL."""
    pages = np.arange(PAGES, dtype=np.int32)
    pair.begin(Request(1, 1, 4))
    sender = pair.prefill.bootstrap[0]["senders"][0]
    sender.abort()
    sender.init(PAGES * 10_000, 0)
    seconds = seconds_of(lambda: sender.send(pages), 20)
    print(f"send of {PAGES} pages: {seconds * 1e6:.0f} us")
    assert seconds <= SEND_SECONDS


def test_a_list_of_pages_would_not_be(pair):
    """Shows that the limit SEND_SECONDS is not trivial: to send the same pages as a Python list, as other backends do,
    takes longer."""
    pages = list(range(PAGES))
    pair.begin(Request(1, 1, 4))
    sender = pair.prefill.bootstrap[0]["senders"][0]
    sender.abort()
    sender.init(PAGES * 10_000, 0)
    assert seconds_of(lambda: sender.send(pages), 20) > SEND_SECONDS


class Freezer:
    """Stops the threads of this process's workers from a process of its own."""

    def __init__(self):
        libc = ctypes.CDLL(None)
        libc.prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # PR_SET_PTRACER: any process of this user may.
        words = [sys.executable, "-B", str(HERE / "thread_freezer.py"), str(os.getpid()), "peercache"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        if not self.process.stdout.readline().startswith("ready"):
            pytest.skip("this process may not stop threads of another one (ptrace)")

    def ask(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def frozen_in_transfer(pair, freezer, room, pages):
    """Begins a room, and stops all threads of the workers while its bytes arrive. Returns the receiver; None where the
    threads stopped too late or too early."""
    pair.begin(Request(room, room, pages))
    sender = pair.prefill.bootstrap.pop()["senders"][0]
    receiver = pair.decode.prealloc.pop()["receivers"][0]
    all_pages = np.arange(pages, dtype=np.int32)
    assert pair.decode.ranks[0].manager.try_ensure_parallel_info(pair.decode.bootstrap_addr)
    receiver.init(0)
    assert until(lambda: receiver.poll() == KVPoll.WaitingForInput)
    receiver.send_metadata(all_pages, 0)
    assert until(lambda: sender.poll() == KVPoll.WaitingForInput)
    sender.init(pages, 0)
    sender.send(all_pages)
    while receiver.poll() == KVPoll.WaitingForInput:
        pass
    freezer.ask("stop")
    if receiver.poll() == KVPoll.Transferring:
        return receiver
    freezer.ask("go")
    sender.clear()
    receiver.clear()
    return None


def end_of(receiver):
    with pytest.raises(KVTransferError):
        receiver.failure_exception()


def test_other_threads_run_while_failure_exception_waits():
    """The threads that would end the room's reads are stopped, so the call waits; this thread runs meanwhile. If the
    call held the GIL, this thread would run only after the freezer has let the threads go on, and the call was over."""
    pages = 64
    pair = Pair(Model(layers=2, heads=1, head_bytes=256 << 10, page_tokens=1, pages=pages))
    freezer = Freezer()
    try:
        for room in range(1, 11):
            receiver = frozen_in_transfer(pair, freezer, room, pages)
            if receiver is None:
                continue
            waiting = threading.Thread(target=end_of, args=[receiver])
            waiting.start()
            waited = not until(lambda: not waiting.is_alive(), 0.2)
            freezer.ask("go")
            waiting.join()
            if waited:
                return
        pytest.fail("failure_exception never waited while this thread ran")
    finally:
        freezer.close()
        pair.close()
