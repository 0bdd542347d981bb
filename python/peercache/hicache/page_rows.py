"""Finds out where all pages of a host pool lie: once, when the pool is registered, and not with every call."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Sequence, Tuple

from peercache._native import PageRows

Parts = Tuple[Sequence[int], Sequence[int]]
"""Parts of pages: their addresses, and their sizes in bytes."""

PAGES_ASKED = 1024
PARTS_ASKED_MAX = 1 << 22
"""A pool with no more parts in all its pages than this is asked for their addresses only once, 1,024 pages at a
time; a pool with more is asked in each call."""


@dataclass(frozen=True)
class Rows:
    """The pages of a pool that lie in rows: each part of a page has the same distance from that part of the previous
    page."""

    rows: PageRows
    page_sizes: List[int]
    """The size in bytes of each part of one page."""
    page_tokens: int
    int64: Any
    """The object torch.int64, the type that indices must have."""

    def parts(self, indices: Any, pages: int) -> Optional[Parts]:
        """The parts of the pages whose token slots are `indices`. None when the slots are not whole pages of the pool,
        or when `indices` is not a tensor whose memory can be read."""
        if getattr(indices, "dtype", None) is not self.int64 or indices.numel() != pages * self.page_tokens:
            return None
        if not (indices.is_cpu and indices.is_contiguous()):
            return None
        addresses = self.rows.addresses(indices.data_ptr(), pages)
        return None if addresses is None else (addresses, self.page_sizes * pages)


def rows_of(ask: Callable[[Any, int], Parts], page_tokens: int, count: int) -> Optional[Rows]:
    """The rows of a pool with `count` pages. None when the pages do not all have the distance that
    the first two pages have, when the pool has more than PARTS_ASKED_MAX parts, or when torch is
    not loaded. `ask` tells the parts of some pages. Errors: those of `ask`."""
    torch = sys.modules.get("torch")
    addresses, sizes = ask(probed_indices(2 * page_tokens), 2)
    parts = len(addresses) // 2
    if torch is None or count * parts > PARTS_ASKED_MAX:
        return None
    steps = [second - first for first, second in zip(addresses, addresses[parts:])]
    native = PageRows(addresses[:parts], steps, page_tokens, count)
    rows = Rows(native, list(sizes[:parts]), page_tokens, torch.int64)
    for first in range(0, count, PAGES_ASKED):
        pages = min(PAGES_ASKED, count - first)
        indices = probed_indices((first + pages) * page_tokens, first * page_tokens)
        addresses, sizes = ask(indices, pages)
        if rows.parts(indices, pages) != (list(addresses), list(sizes)):
            return None
    return rows


class ProbedIndices(List[Any]):
    """A list of token indices that stands for a tensor: pools call its `tolist`."""

    def tolist(self) -> List[Any]:
        return self


def probed_indices(end: int, begin: int = 0) -> Any:
    """Token indices in the form that SGLang passes: a tensor, since some pools reckon with tensors only. Torch is
    loaded already where a pool's memory is tensors; without torch a list stands for the tensor."""
    torch = sys.modules.get("torch")
    return ProbedIndices(range(begin, end)) if torch is None else torch.arange(begin, end)
