"""How long the stored prefix of a chain is: found with few questions, and exact."""

from __future__ import annotations

from typing import Callable, List, Sequence

Ask = Callable[[Sequence[int]], Sequence[bool]]
"""Which of these pages are there; in the order of the indices, and as many answers."""

PROBES = 15
"""Pages that one round asks for while the range is wide."""

FEW = 128
"""Pages that one question asks for rather than to narrow the range further."""

BATCH = 2048
"""Pages of one question at most."""


def _bound(pages: int, ask: Ask) -> int:
    """A page that is not there and that few pages before it can be missing with; or `pages`."""
    low, high = 0, pages
    while high - low > FEW:
        step = (high - low) / PROBES
        probes = [low + round(step * (i + 1)) - 1 for i in range(PROBES)]
        for probe, there in zip(probes, ask(probes)):
            if not there:
                high = probe
                break
            low = probe + 1
    return high


def leading_run(pages: int, ask: Ask) -> int:
    """How many of `pages` are there from the first one on, without a gap.

    A search of PROBES pages a round finds a page that is missing. What lies before it is asked for in
    full: eviction may have taken a page out of the middle, and then a search alone would promise too
    much. So the answer is that of an exact index, and a long chain of which little is stored costs a
    few small questions only.
    """
    bound, first = _bound(pages, ask), 0
    while first < bound:
        batch = range(first, min(bound, first + BATCH))
        answers: List[bool] = list(ask(batch))
        if not all(answers):
            return first + answers.index(False)
        first = batch.stop
    return bound
