"""Pages that are larger than the cache takes, in pieces: the state of a Mamba or GDN model on few ranks.

A page is a head and its pieces. The head is a small page under the page's own key: it names a version, a number that
its writer drew. The pieces are pages whose keys are made of the key and the version. So a reader of a head knows the
pieces of one writer: pieces of two writers of one key, or of two writes by one writer, are never mixed, whichever of
them are evicted or dropped as duplicates, and on whichever hosts they lie. A page exists when its head and all of its
pieces do.
"""

from __future__ import annotations

import os
import struct
import time
from dataclasses import dataclass
from typing import Any, Iterable, Iterator, List, Sequence, Set, Tuple

from peercache._native import KeySpace, Results
from peercache.client import Status, memory_of
from peercache.hicache.backend import Deadline
from peercache.hicache.page_rows import Parts

SET_PIECES = 4
"""Most pieces that one call sets, since the bytes of pages that are set and not yet acknowledged have a bound."""

ASK_SECONDS = 0.01
"""Pause between two questions for a page of which the cluster has said nothing."""

GONE = (Status.HIT, Status.NOT_FOUND)
"""The statuses of a page that a call has removed, or that nobody has."""

BROKEN = (Status.STALE, Status.HOLDER_GONE, Status.WRONG_KEY, Status.CORRUPT, Status.BAD_SIZE)
"""The statuses of a head that nobody can read, however often it is asked for."""

HEAD = struct.Struct("<8sQ16s")
"""The bytes of a large page's head: a magic number, the length of the page, and its version."""
MAGIC = b"pc-large"


def new_version() -> bytes:
    """A version that no writer has drawn or will draw."""
    return os.urandom(16)


@dataclass(frozen=True)
class _Pages:
    """Some of the pages of a call: their positions in the call, their keys and their versions."""

    numbers: List[int]
    keys: List[str]
    versions: List[bytes]

    def add(self, number: int, key: str, version: bytes) -> None:
        self.numbers.append(number)
        self.keys.append(key)
        self.versions.append(version)

    def piece_keys(self, pieces: int) -> List[str]:
        named = [f"{key}/{version.hex()}" for key, version in zip(self.keys, self.versions)]
        return [f"{name}/{piece}" for name in named for piece in range(pieces)]


@dataclass(frozen=True)
class LargePages:
    """Pages of one length that are stored in pieces, each in one or several key spaces. Threads: any. The calls are
    like those of the native client, with a bool for each page. Errors: those of the native client."""

    heads: Sequence[KeySpace]
    pieces: KeySpace
    count: int
    """Pieces of each page."""
    page_bytes: int

    def there(self, native: Any, keys: Sequence[str], limit: Deadline) -> List[bool]:
        """Tells for each key whether its page could be read."""
        heads = native.exists(self.heads, keys, limit.left()).ok
        found = self._found(native, keys, [number for number, there in enumerate(heads) if there], limit)
        there = [False] * len(heads)
        if found.keys:
            self._mark(there, found, native.exists([self.pieces], found.piece_keys(self.count), limit.left()))
        return there

    def get(self, native: Any, keys: Sequence[str], places: Parts, limit: Deadline) -> List[bool]:
        """Reads pages into the slices at `places`. A page that is not read may hold any bytes."""
        read = [False] * len(keys) * len(self.heads)
        found = self._found(native, keys, range(len(read)), limit)
        if found.keys:
            addresses, sizes = self._places_of(found.numbers, places, len(read))
            results = native.get([self.pieces], found.piece_keys(self.count), addresses, sizes, limit.left())
            self._mark(read, found, results)
        return read

    def set(self, native: Any, keys: Sequence[str], places: Parts, limit: Deadline) -> List[bool]:
        """Stores the pages that are not there yet. When a page is not stored to its end, its pieces stay, unnamed,
        until they are evicted. A page that may have a head, by all that the cluster has said, is asked for until the
        deadline: beside an old head a new one would be dropped as its duplicate, and the new pieces be nobody's."""
        stored = [False] * (len(keys) * len(self.heads))
        statuses = native.exists(self.heads, keys, limit.left()).statuses
        free = [number for number, status in enumerate(statuses) if status == Status.NOT_FOUND]
        unsure = [number for number, status in enumerate(statuses) if status != Status.NOT_FOUND]
        self._set_missing(native, keys, free, places, stored, limit)
        while unsure:
            free, unsure = self._look_up(native, keys, unsure, stored, limit)
            self._set_missing(native, keys, free, places, stored, limit)
            if limit.passed():
                break
            if unsure:
                time.sleep(min(ASK_SECONDS, limit.left()))
        return stored

    def _look_up(
        self, native: Any, keys: Sequence[str], numbers: Sequence[int], stored: List[bool], limit: Deadline
    ) -> Tuple[List[int], List[int]]:
        """Looks for pages that may have a head, marks in `stored` those that are there, and removes the heads of those
        that are certainly broken. Returns the pages that have no head now, and those that may still have one."""
        free: List[int] = []
        broken: List[int] = []
        unsure: List[int] = []
        found = _Pages([], [], [])
        for number, status, version in self._read_heads(native, keys, numbers, limit):
            if status == Status.HIT:
                found.add(number, self._key_of(keys, number), version)
            elif status != Status.CLOSED:
                (free if status == Status.NOT_FOUND else broken if status in BROKEN else unsure).append(number)
        if found.keys:
            pieces = native.exists([self.pieces], found.piece_keys(self.count), limit.left()).statuses
            for index, number in enumerate(found.numbers):
                own = pieces[index * self.count : (index + 1) * self.count]
                stored[number] = max(own) <= Status.DUPLICATE
                if not stored[number]:
                    (broken if Status.NOT_FOUND in own else unsure).append(number)
        kept = self._not_removed(native, keys, broken, limit)
        return sorted({*free, *broken} - kept), sorted({*unsure, *kept})

    def _not_removed(self, native: Any, keys: Sequence[str], numbers: Sequence[int], limit: Deadline) -> Set[int]:
        """Removes the heads of pages. Returns the pages whose heads may still be there."""
        kept: Set[int] = set()
        for space, own in self._by_space(numbers):
            results = native.remove([space], [self._key_of(keys, number) for number in own], limit.left())
            kept.update(number for number, status in zip(own, results.statuses) if status not in GONE)
        return kept

    def _set_missing(
        self, native: Any, keys: Sequence[str], numbers: Sequence[int], places: Parts, stored: List[bool],
        limit: Deadline
    ) -> None:
        """Stores pages that have no head."""
        for space, own in self._by_space(numbers):
            new = _Pages(own, [self._key_of(keys, number) for number in own], [new_version() for _ in own])
            self._set_in(native, space, new, places, stored, limit)

    def _set_in(
        self, native: Any, head: KeySpace, new: _Pages, places: Parts, stored: List[bool], limit: Deadline
    ) -> None:
        ok = [self._set_pieces(native, new, i, places, len(stored), limit) for i in range(len(new.keys))]
        done = [i for i, all_are in enumerate(ok) if all_are]
        if not done:
            return
        heads = bytearray(b"".join(HEAD.pack(MAGIC, self.page_bytes, new.versions[i]) for i in done))
        begin, _ = memory_of(heads, writable=False)
        addresses = [begin + i * HEAD.size for i in range(len(done))]
        results = native.set([head], [new.keys[i] for i in done], addresses, [HEAD.size] * len(done), limit.left())
        for i, there in zip(done, results.ok):
            stored[new.numbers[i]] = there

    def _set_pieces(
        self, native: Any, new: _Pages, index: int, places: Parts, pages: int, limit: Deadline
    ) -> bool:
        """Stores all pieces of one page. Returns whether every one of them is stored."""
        one = _Pages([new.numbers[index]], [new.keys[index]], [new.versions[index]])
        names = one.piece_keys(self.count)
        addresses, sizes = self._places_of(one.numbers, places, pages)
        parts = len(addresses) // self.count
        for first in range(0, self.count, SET_PIECES):
            chosen = slice(first * parts, (first + SET_PIECES) * parts)
            some = names[first : first + SET_PIECES]
            if not all(native.set([self.pieces], some, addresses[chosen], sizes[chosen], limit.left()).ok):
                return False
        return True

    def _found(self, native: Any, keys: Sequence[str], asked: Iterable[int], limit: Deadline) -> _Pages:
        """The pages at the positions `asked` whose heads could be read."""
        found = _Pages([], [], [])
        for number, status, version in self._read_heads(native, keys, asked, limit):
            if status == Status.HIT:
                found.add(number, self._key_of(keys, number), version)
        return found

    def _read_heads(
        self, native: Any, keys: Sequence[str], asked: Iterable[int], limit: Deadline
    ) -> Iterator[Tuple[int, int, bytes]]:
        """Reads the heads of the pages at the positions `asked`: the position of each, its status, and its version. A
        head of another length or kind is corrupt."""
        for space, numbers in self._by_space(asked):
            named = [self._key_of(keys, number) for number in numbers]
            heads = bytearray(HEAD.size * len(numbers))
            begin, _ = memory_of(heads, writable=True)
            addresses = [begin + i * HEAD.size for i in range(len(numbers))]
            results = native.get([space], named, addresses, [HEAD.size] * len(numbers), limit.left())
            for number, status, head in zip(numbers, results.statuses, HEAD.iter_unpack(heads)):
                magic, page_bytes, version = head
                ours = status != Status.HIT or (magic == MAGIC and page_bytes == self.page_bytes)
                yield number, status if ours else Status.CORRUPT, version

    def _by_space(self, numbers: Iterable[int]) -> Iterator[Tuple[KeySpace, List[int]]]:
        """Groups pages of a call, given by their positions, by the key space of their heads."""
        asked = list(numbers)
        for index, space in enumerate(self.heads):
            own = [number for number in asked if number % len(self.heads) == index]
            if own:
                yield space, own

    def _key_of(self, keys: Sequence[str], number: int) -> str:
        return keys[number // len(self.heads)]

    def _places_of(self, numbers: Sequence[int], places: Parts, pages: int) -> Parts:
        """The slices of the pages at these positions of the call."""
        slices = len(places[0]) // pages
        chosen = [slice(number * slices, (number + 1) * slices) for number in numbers]
        return ([address for each in chosen for address in places[0][each]],
                [size for each in chosen for size in places[1][each]])

    def _mark(self, pages: List[bool], found: _Pages, results: Results) -> None:
        """Marks each page of `found` as there when all of its pieces are."""
        ok = results.ok
        for index, number in enumerate(found.numbers):
            pages[number] = all(ok[index * self.count : (index + 1) * self.count])

