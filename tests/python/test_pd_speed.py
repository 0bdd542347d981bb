"""Measures what a scheduler's thread pays for each room: `poll` in each turn of its loop, `send` for each chunk. The
bars are those of the issue: 2 us, and 100 us under the GIL for 8,192 pages."""

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
    # Pages have one byte, since the cost of a call is not in their bytes.
    made = Pair(Model(layers=1, heads=1, head_bytes=1, page_tokens=1))
    yield made
    made.close()


def seconds_of(call, times, rounds=30):
    """The median over rounds of what one call takes."""
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
    """A worker takes nothing of a room that has ended, so all that the call still does is the part that needs the
    GIL."""
    pages = np.arange(PAGES, dtype=np.int32)
    pair.begin(Request(1, 1, 4))
    sender = pair.prefill.bootstrap[0]["senders"][0]
    sender.abort()
    sender.init(PAGES * 10_000, 0)
    seconds = seconds_of(lambda: sender.send(pages), 20)
    print(f"send of {PAGES} pages: {seconds * 1e6:.0f} us")
    assert seconds <= SEND_SECONDS


def test_a_list_of_pages_would_not_be(pair):
    """The bar SEND_SECONDS means something: a send of the same pages as a Python list, which other backends make, takes
    longer."""
    pages = list(range(PAGES))
    pair.begin(Request(1, 1, 4))
    sender = pair.prefill.bootstrap[0]["senders"][0]
    sender.abort()
    sender.init(PAGES * 10_000, 0)
    assert seconds_of(lambda: sender.send(pages), 20) > SEND_SECONDS
