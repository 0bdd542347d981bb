"""A host pool and the names of its pages: key spaces for each form in which they are put."""

from __future__ import annotations

import operator
from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from peercache._native import KeySpace
from peercache.hicache.contract import Ranks
from peercache.hicache.host_pool import FLAT, ZERO_COPY, HostPool, PoolFault, draft_fields, spaces_of

SUFFIX_MARK = "."
DRAFT_SHAPES_MAX = 64
"""Kinds of pages of draft models; an engine has one or two."""


def is_draft(key: str) -> bool:
    """Whether a key of the generic calls is of a draft model's page: `{hash}.draft`. A page hash is hex."""
    return SUFFIX_MARK in key


def firsts_of(places: Sequence[Tuple[int, int]]) -> List[bool]:
    """Whether each range (address, bytes) lies apart from those before it that do: what two pages are
    read into holds one of them. Some versions of SGLang give one tensor for all keys."""
    taken: List[Tuple[int, int]] = []
    firsts = []
    for begin, size in places:
        at = bisect_left(taken, (begin, begin))
        end = begin + size
        free = (at == 0 or taken[at - 1][1] <= begin) and (at == len(taken) or end <= taken[at][0])
        if free and size > 0:
            insort(taken, (begin, end))
        firsts.append(free)
    return firsts


def check_apart(starts: Sequence[int], size: int) -> None:
    """That pages of this size share nothing where they begin there: a read of one would write to another.
    Errors: PoolFault."""
    ordered = sorted(starts)
    if min(map(operator.sub, ordered[1:], ordered), default=size) < size:
        raise PoolFault("a host page is given for two keys")


class DraftSpaces:
    """Key spaces of draft pages, by the tensors that carry them. Threads: any."""

    def __init__(self, host: HostPool, ranks: Ranks, space: str) -> None:
        self._host, self._ranks, self._space = host, ranks, space
        self._spaces: Dict[Tuple[str, int], Sequence[KeySpace]] = {}

    def of(self, page: Any, size: int) -> Sequence[KeySpace]:
        """The same object for tensors of the same type and bytes. Errors: PoolFault for too many kinds."""
        kind = (str(getattr(page, "dtype", type(page).__name__)), size)
        known = self._spaces.get(kind)
        if known is not None:
            return known
        if len(self._spaces) >= DRAFT_SHAPES_MAX:
            raise PoolFault(f"drafts of more than {DRAFT_SHAPES_MAX} shapes")
        return self._spaces.setdefault(kind, [KeySpace(draft_fields(self._host, self._ranks, self._space, *kind))])

    def known(self) -> List[Sequence[KeySpace]]:
        """Of every kind seen so far."""
        return list(self._spaces.values())


@dataclass(frozen=True)
class StoredPool:
    """A host pool and the key spaces of its pages."""

    host: HostPool
    own: Sequence[KeySpace]
    """Of this rank's pages by address."""
    group: Sequence[KeySpace]
    """Of all ranks' of the TP group."""
    flat: Sequence[KeySpace]
    """Of this rank's flat pages."""
    flat_group: Sequence[KeySpace]
    drafts: DraftSpaces

    @staticmethod
    def of(host: HostPool, ranks: Ranks, space: str) -> "StoredPool":
        forms = [(ZERO_COPY, False), (ZERO_COPY, True), (FLAT, False), (FLAT, True)]
        own, group, flat, flat_group = [spaces_of(host, ranks, space, *each) for each in forms]
        return StoredPool(host, own, group, flat, flat_group, DraftSpaces(host, ranks, space))

    def asked(self, by_address: bool) -> Sequence[KeySpace]:
        """Where pages are looked for: in the form in which they are put."""
        return self.group if by_address and self.host.zero_copy else self.flat_group

    def flat_groups(
        self, keys: Sequence[str], pages: Sequence[Any], sizes: Sequence[int]
    ) -> List[Tuple[Sequence[KeySpace], List[int]]]:
        """The indices of flat pages by their key space. Pages that have no bytes are in none."""
        groups: Dict[int, Tuple[Sequence[KeySpace], List[int]]] = {}
        for index, (key, page, size) in enumerate(zip(keys, pages, sizes)):
            if is_draft(key):
                spaces = self.drafts.of(page, size)
            elif self.is_empty(key, size):
                continue
            else:
                spaces = self.flat
            groups.setdefault(id(spaces), (spaces, []))[1].append(index)
        return list(groups.values())

    def is_empty(self, key: str, size: int) -> bool:
        """A logical pool's page: nothing to move, and so always there."""
        return self.host.logical_only and size == 0 and not is_draft(key)


def tokens_of(pool: Optional[StoredPool], pages: int) -> int:
    """SGLang waits for so many of them."""
    return 0 if pool is None else pages * pool.host.page_size


def by_key(pages: List[bool], spaces: int) -> List[bool]:
    """A key is there when its pages in all spaces are."""
    if spaces == 1:
        return pages
    return [all(pages[first : first + spaces]) for first in range(0, len(pages), spaces)]
