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
from dataclasses import dataclass
from typing import Any, Iterable, Iterator, List, Sequence, Tuple

from peercache._native import KeySpace, Results
from peercache.client import memory_of
from peercache.hicache.backend import Deadline
from peercache.hicache.page_rows import Parts

SET_PIECES = 4
"""Most pieces that one call sets, since the bytes of pages that are set and not yet acknowledged have a bound."""

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
        return self._look_up(native, keys, limit)[0]

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
        until they are evicted."""
        stored, found = self._look_up(native, keys, limit)
        for head, numbers in self._by_space(number for number, there in enumerate(stored) if not there):
            # A head whose pieces are gone is removed first: it would keep its place, and the new head be dropped as its
            # duplicate.
            gone = [self._key_of(keys, number) for number in numbers if number in found.numbers]
            if gone:
                native.remove([head], gone, limit.left())
            named = [self._key_of(keys, number) for number in numbers]
            new = _Pages(numbers, named, [new_version() for _ in numbers])
            self._set_missing(native, head, new, places, stored, limit)
        return stored

    def _set_missing(
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

    def _look_up(self, native: Any, keys: Sequence[str], limit: Deadline) -> Tuple[List[bool], _Pages]:
        """Looks the pages up: whether each could be read, and the pages whose heads could be read."""
        heads = native.exists(self.heads, keys, limit.left()).ok
        found = self._found(native, keys, [number for number, there in enumerate(heads) if there], limit)
        there = [False] * len(heads)
        if found.keys:
            self._mark(there, found, native.exists([self.pieces], found.piece_keys(self.count), limit.left()))
        return there, found

    def _found(self, native: Any, keys: Sequence[str], asked: Iterable[int], limit: Deadline) -> _Pages:
        """The pages at the positions `asked` whose heads could be read."""
        found = _Pages([], [], [])
        for space, numbers in self._by_space(asked):
            named = [self._key_of(keys, number) for number in numbers]
            heads = bytearray(HEAD.size * len(numbers))
            begin, _ = memory_of(heads, writable=True)
            addresses = [begin + i * HEAD.size for i in range(len(numbers))]
            results = native.get([space], named, addresses, [HEAD.size] * len(numbers), limit.left())
            for there, number, key, head in zip(results.ok, numbers, named, HEAD.iter_unpack(heads)):
                magic, page_bytes, version = head
                if there and magic == MAGIC and page_bytes == self.page_bytes:
                    found.numbers.append(number)
                    found.keys.append(key)
                    found.versions.append(version)
        return found

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

