"""Finds how long the stored prefix of a chain of pages is, exactly and with few questions."""

from __future__ import annotations

from typing import Callable, List, Sequence

Ask = Callable[[Sequence[int]], Sequence[bool]]
"""A question to the directory: given indices of pages, whether the cache has each page, in the order of the indices. The
indices increase, and answers after the first no are of no use."""

PROBES = 15
"""Pages that one round of the search asks for while its range is wide."""

FEW = 128
"""The search ends when its range has so few pages that one question can ask for all of them."""

BATCH = 2048
"""Pages of one question, at most."""


def _bound(pages: int, ask: Ask) -> int:
    """The index of a missing page that a search of few questions has found; `pages` when it found none. Pages before
    that index may be missing, too."""
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
    """How many pages the cache has from the first one on, without a gap; `pages` is the length of the chain.

    A search of PROBES pages per round finds a page that is missing. The pages before it are then all asked for:
    eviction may have taken a page out of the middle, and without that question the search would promise too much. So
    the answer is that of an exact index, and a long chain of which little is stored costs only a few small
    questions.
    """
    bound, first = _bound(pages, ask), 0
    while first < bound:
        batch = range(first, min(bound, first + BATCH))
        answers: List[bool] = list(ask(batch))
        if not all(answers):
            return first + answers.index(False)
        first = batch.stop
    return bound
