"""Cuts a page that is larger than the cache takes into pieces."""

from __future__ import annotations

from typing import Dict, List

from peercache.hicache.page_rows import Parts

PIECE_BYTES = 16 << 20
"""Bytes of one piece, by which a page is cut: few enough that a nearly full pool finds room for a piece."""

LARGE_PAGE_BYTES_MAX = 1 << 30
SLICE_ALIGNMENT = 64


def pieces_of(page_bytes: int) -> int:
    """How many pieces a page of this length has."""
    return -(-page_bytes // PIECE_BYTES)


def bounds_of(size: int, pieces: int) -> List[int]:
    """The bounds at which a part of `size` bytes is cut: piece i has the bytes from bounds[i] to bounds[i + 1]."""
    unit = SLICE_ALIGNMENT if size >= SLICE_ALIGNMENT * pieces else 1
    return [*(size * i // pieces // unit * unit for i in range(pieces)), size]


def cut(places: Parts, parts: int, pieces: int) -> Parts:
    """The slices of pages with `parts` parts each: first the slices of a page's first piece, then those of its
    second one, ...; every piece has a slice of every part."""
    addresses: List[int] = []
    sizes: List[int] = []
    known: Dict[int, List[int]] = {}
    for first in range(0, len(places[0]), parts):
        page = [(places[0][i], known.setdefault(places[1][i], bounds_of(places[1][i], pieces)))
                for i in range(first, first + parts)]
        for piece in range(pieces):
            addresses += [address + bounds[piece] for address, bounds in page]
            sizes += [bounds[piece + 1] - bounds[piece] for _, bounds in page]
    return addresses, sizes
