"""Where all pages of a host pool lie: asked once, when the pool is registered, and not with every call."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Sequence, Tuple

from peercache._native import PageRows

Parts = Tuple[Sequence[int], Sequence[int]]
"""Addresses and bytes."""

PAGES_ASKED = 1024
PARTS_ASKED_MAX = 1 << 22
"""Parts of all pages that a pool is asked for, 1,024 pages at a time; with more it is asked in each call."""


@dataclass(frozen=True)
class Rows:
    """A pool whose pages lie in rows: each part of a page is as far from the same part of the page before."""

    rows: PageRows
    page_sizes: List[int]
    """Bytes of one page's parts."""
    page_tokens: int
    int64: Any
    """torch.int64, the type of indices."""

    def parts(self, indices: Any, pages: int) -> Optional[Parts]:
        """The parts of the pages that these tokens are. None: they are not whole pages of the pool, or no tensor
        that can be looked into."""
        if getattr(indices, "dtype", None) is not self.int64 or indices.numel() != pages * self.page_tokens:
            return None
        if not (indices.is_cpu and indices.is_contiguous()):
            return None
        addresses = self.rows.addresses(indices.data_ptr(), pages)
        return None if addresses is None else (addresses, self.page_sizes * pages)


def rows_of(ask: Callable[[Any, int], Parts], page_tokens: int, count: int) -> Optional[Rows]:
    """None when one of the pool's `count` pages is not where the first two let expect it. `ask` tells the
    parts of some pages. Errors: what it raises."""
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
    """Indices as a pool takes them, without a tensor."""

    def tolist(self) -> List[Any]:
        return self


def probed_indices(end: int, begin: int = 0) -> Any:
    """Indices as SGLang hands them over: some pools reckon with tensors only. A pool whose memory is
    tensors has torch loaded; nothing else here needs it."""
    torch = sys.modules.get("torch")
    return ProbedIndices(range(begin, end)) if torch is None else torch.arange(begin, end)
