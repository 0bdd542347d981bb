"""A host pool and the key spaces of its pages, one set for each form in which pages are put."""

from __future__ import annotations

import logging
import operator
from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from peercache._native import KeySpace
from peercache.hicache.contract import Ranks, server_argument
from peercache.hicache.host_pool import (
    FLAT, LARGE, ZERO_COPY, HostPool, PoolFault, draft_fields, piece_space_of, spaces_of)
from peercache.hicache.large_pages import LargePages
from peercache.hicache.settings import Settings

logger = logging.getLogger("peercache.hicache")

SUFFIX_MARK = "."
DRAFT_SHAPES_MAX = 64
"""Kinds of draft pages that an engine may have; usual are one or two."""

UNSAID_LINE = (
    "drafts are kept by rank, and of an MLA engine SGLang backs up the first rank's only: the others miss theirs. "
    'If the draft model has MLA as well, add "draft_is_mla": true to the JSON of the storage backend'
)


def is_draft(key: str) -> bool:
    """Whether a key of the generic calls is of a draft model's page: `{hash}.draft`. Other keys are page hashes, in
    hex."""
    return SUFFIX_MARK in key


def firsts_of(places: Sequence[Tuple[int, int]]) -> List[bool]:
    """Whether each range (address, bytes) is apart from all earlier ranges that are themselves apart. If two pages were
    read into the same memory, only one would be left. Some versions of SGLang pass one tensor for all keys."""
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


def _is_of_the_target() -> bool:
    """Whether the draft model is a part of the target, as DeepSeek's MTP: then both have the same kind of attention."""
    draft = server_argument("speculative_draft_model_path")
    return draft is not None and draft == server_argument("model_path")


def check_apart(starts: Sequence[int], size: int) -> None:
    """Checks that pages of `size` bytes that begin at `starts` share no byte: a read of one page would write to
    another. Errors: PoolFault."""
    ordered = sorted(starts)
    if min(map(operator.sub, ordered[1:], ordered), default=size) < size:
        raise PoolFault("a host page is given for two keys")


class DraftSpaces:
    """The key spaces of draft pages, by the type and size of the tensors that carry them. Threads: any."""

    def __init__(self, host: HostPool, ranks: Ranks, settings: Settings) -> None:
        self._host, self._ranks, self._space = host, ranks, settings.space
        said = settings.draft_is_mla
        self._whole = ranks.is_mla and (_is_of_the_target() if said is None else said)
        self._unsaid = ranks.is_mla and ranks.tp_size > 1 and said is None and not self._whole
        self._spaces: Dict[Tuple[str, int], Sequence[KeySpace]] = {}

    def of(self, page: Any, size: int) -> Sequence[KeySpace]:
        """The key spaces for this tensor; the same object for tensors of the same type and bytes. Errors: PoolFault
        for too many kinds."""
        kind = (str(getattr(page, "dtype", type(page).__name__)), size)
        known = self._spaces.get(kind)
        if known is not None:
            return known
        if len(self._spaces) >= DRAFT_SHAPES_MAX:
            raise PoolFault(f"drafts of more than {DRAFT_SHAPES_MAX} shapes")
        if self._unsaid and not self._spaces:
            logger.warning(UNSAID_LINE)
        fields = draft_fields(self._host, self._ranks, self._space, self._whole, *kind)
        return self._spaces.setdefault(kind, [KeySpace(fields)])

    def known(self) -> List[Sequence[KeySpace]]:
        """The key spaces of every kind of draft tensor seen so far."""
        return list(self._spaces.values())


@dataclass(frozen=True)
class StoredPool:
    """A host pool and the key spaces of its pages."""

    host: HostPool
    own: Sequence[KeySpace]
    """The key spaces of this rank's pages that are moved by address; for large pages, those of their heads."""
    group: Sequence[KeySpace]
    """The key spaces of the pages of all ranks of the TP group."""
    flat: Sequence[KeySpace]
    """The key spaces of this rank's flat pages."""
    flat_group: Sequence[KeySpace]
    drafts: DraftSpaces
    pieces: KeySpace
    blanked: bool
    """Whether this rank's pages are never put, so that reads of missing pages give zeros."""

    @staticmethod
    def of(host: HostPool, ranks: Ranks, settings: Settings) -> "StoredPool":
        space = settings.space
        by_address = LARGE if host.pieces > 1 else ZERO_COPY
        forms = [(by_address, False), (by_address, True), (FLAT, False), (FLAT, True)]
        own, group, flat, flat_group = [spaces_of(host, ranks, space, *each) for each in forms]
        drafts, pieces = DraftSpaces(host, ranks, settings), piece_space_of(host, ranks, space)
        blank = host.cut_draft and settings.blank_drafts
        if blank:  # With blank drafts only the first rank puts pages, so all ranks look for the pages of the first.
            group, flat_group = group[: host.split], flat_group[:1]
        return StoredPool(host, own, group, flat, flat_group, drafts, pieces, blank and ranks.tp_rank > 0)

    def large(self, spaces: Sequence[KeySpace]) -> Optional[LargePages]:
        """The object that moves pages with these key spaces in pieces. None: the pages are small enough for the
        cache."""
        if self.host.pieces == 1 or not (spaces is self.own or spaces is self.group):
            return None
        return LargePages(spaces, self.pieces, self.host.pieces, self.host.page_bytes // self.host.split)

    def asked(self, by_address: bool, own_only: bool) -> Sequence[KeySpace]:
        """The key spaces in which pages are looked for: in the form in which they are put, of this rank or of all
        ranks."""
        own_only = own_only and not self.blanked
        if by_address and self.host.zero_copy:
            return self.own if own_only else self.group
        return self.flat if own_only else self.flat_group

    def flat_groups(
        self, keys: Sequence[str], pages: Sequence[Any], sizes: Sequence[int]
    ) -> List[Tuple[Sequence[KeySpace], List[int]]]:
        """The indices of flat pages, grouped by the pages' key spaces. Pages that have no bytes are in no group."""
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
        """Whether the page is one of a logical pool: such a page has no bytes to move, and is always there."""
        return self.host.logical_only and size == 0 and not is_draft(key)


def tokens_of(pool: Optional[StoredPool], pages: int) -> int:
    """How many tokens SGLang waits for when it gets this many pages of the pool."""
    return 0 if pool is None else pages * pool.host.page_size


def by_key(pages: List[bool], spaces: int) -> List[bool]:
    """Whether each key exists: a key does when its pages in all spaces do."""
    if spaces == 1:
        return pages
    return [all(pages[first : first + spaces]) for first in range(0, len(pages), spaces)]
