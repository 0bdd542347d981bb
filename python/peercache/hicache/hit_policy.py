"""How much of a prefix is usable when a page is in several pools: plain functions over booleans."""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

Demand = Tuple[Sequence[bool], int]
"""The demand of one pool: for each page whether the pool has it, and how many pages it needs before the end of a
hit; 0: all from the start."""


def leading_run(has: Sequence[bool]) -> int:
    """How many values are true from the first one on."""
    for index, each in enumerate(has):
        if not each:
            return index
    return len(has)


def _ends(demand: Demand, pages: int) -> List[bool]:
    """For each length from 0 to `pages`: whether the pool of this demand supports a hit of that length."""
    has, trailing = demand
    ends, run = [True], 0
    for index in range(pages):
        run = run + 1 if index < len(has) and has[index] else 0
        needed = index + 1 if trailing == 0 else min(trailing, index + 1)
        ends.append(run >= needed)
    return ends


def usable_prefix(kv_pages: int, demands: Sequence[Demand]) -> int:
    """The longest prefix of at most `kv_pages` that every pool supports at the same end."""
    supported = [_ends(demand, kv_pages) for demand in demands]
    for length in range(kv_pages, 0, -1):
        if all(ends[length] for ends in supported):
            return length
    return 0


def all_or_none(
    keys: Dict[str, Sequence[str]], results: Dict[str, List[bool]], trailing: Sequence[str]
) -> None:
    """Marks a page that one pool lacks as missing in all pools that need it, in place.

    A pool whose policy is trailing needs all of the pages asked of it; in other pools a key counts wherever it is.
    """
    for name in trailing:
        if not all(results[name]):
            results[name] = [False] * len(results[name])
    lacking = {
        key
        for name, has in results.items()
        if name not in trailing
        for key, there in zip(keys[name], has)
        if not there
    }
    for name, has in results.items():
        if name not in trailing:
            results[name] = [there and key not in lacking for key, there in zip(keys[name], has)]
