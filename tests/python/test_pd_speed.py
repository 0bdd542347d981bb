"""Measures what each room costs a scheduler's thread: `poll` in each turn of its loop (at most 2 us), and `send` for
each chunk (at most 100 us under the GIL for 8,192 pages)."""

import statistics
import time

import numpy as np
import pytest
from pd_engines import Pair, Request, kv_class
from pd_memory import Model

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
