"""How a page that is larger than the cache takes is cut into pieces."""

from __future__ import annotations

from typing import Dict, List

from peercache.hicache.page_rows import Parts

PIECE_BYTES = 16 << 20
"""Small enough that a pool that is nearly full finds room for them."""

LARGE_PAGE_BYTES_MAX = 1 << 30
SLICE_ALIGNMENT = 64


def pieces_of(page_bytes: int) -> int:
    """How many pieces a page of this length has."""
    return -(-page_bytes // PIECE_BYTES)


def bounds_of(size: int, pieces: int) -> List[int]:
    """Where a part of this many bytes is cut: piece i has those from bounds[i] to bounds[i + 1]."""
    unit = SLICE_ALIGNMENT if size >= SLICE_ALIGNMENT * pieces else 1
    return [*(size * i // pieces // unit * unit for i in range(pieces)), size]


def cut(places: Parts, parts: int, pieces: int) -> Parts:
    """The slices of pages with so many parts each: of a page those of its first piece, then of its second
    one, ...; every piece has a slice of every part."""
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
