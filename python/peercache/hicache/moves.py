"""Moves pages of host pools into and out of the cache: by address where a pool says where its pages lie, else as
copies."""

from __future__ import annotations

import ctypes
import time
from typing import Any, Callable, List, Optional, Sequence

from peercache._native import KeySpace, Results
from peercache.client import memory_of
from peercache.hicache.backend import Backend, Deadline
from peercache.hicache.figures import Figures
from peercache.hicache.page_rows import Parts
from peercache.hicache.stored_pool import StoredPool, by_key, check_apart, firsts_of


class Moves:
    """The gets and sets of one rank. Threads: any. Errors: Closed, PoolFault, ValueError, and whatever a pool
    raises; the caller turns them into misses."""

    def __init__(self, backend: Backend, figures: Optional[Figures], hold_s: float = 0.0) -> None:
        """`figures` gets the pages and times of each batch; None: nothing is counted. `hold_s`: seconds for which
        pages that are there are kept from eviction."""
        self._hold_s = hold_s
        self._backend = backend
        self._figures = figures

    def there(
        self, pool: StoredPool, spaces: Sequence[KeySpace], keys: Sequence[str], limit: Deadline
    ) -> List[bool]:
        """Tells for each key whether its pages could be read in all of these key spaces of the pool."""
        with self._backend as backend:
            native, large = backend.client.native, pool.large(spaces)
            if large is None:
                there = native.exists(spaces, keys, limit.left(), self._hold_s).ok
            else:
                there = large.there(native, keys, limit)
        return by_key(there, len(spaces))

    def get(self, pool: Optional[StoredPool], keys: Sequence[str], indices: Any, limit: Deadline) -> List[bool]:
        """Reads pages into the pool; returns for each key whether its page was read."""
        if pool is None or not keys:
            return [False] * len(keys)
        begin = time.monotonic()
        with self._backend as backend:
            if pool.host.logical_only:
                return [True] * len(keys)
            if not pool.host.zero_copy:
                return self._get_copies(pool, keys, indices, limit)
            addresses, sizes = pool.host.parts(indices, len(keys))
            check_apart(addresses[:: len(addresses) // len(keys)], pool.host.first_part_bytes)
            native, large = backend.client.native, pool.large(pool.own)
            if large is not None:
                read = large.get(native, keys, (addresses, sizes), limit)
                moved_bytes = sum(read) * large.page_bytes
            else:
                results = native.get(pool.own, keys, addresses, sizes, limit.left())
                read, moved_bytes = results.ok, results.success_bytes
            there = by_key(read, pool.host.split)
            if pool.blanked:
                _blank(there, (addresses, sizes), limit)
        self._prefetched(len(keys), moved_bytes, begin)
        return there

    def set(self, pool: Optional[StoredPool], keys: Sequence[str], indices: Any, limit: Deadline) -> List[bool]:
        """Copies pages out of the pool into the cache; returns for each key whether its page is stored."""
        if pool is None or not keys:
            return [False] * len(keys)
        begin = time.monotonic()
        with self._backend as backend:
            if pool.host.logical_only:
                return [True] * len(keys)
            if not pool.host.zero_copy:
                return self._set_copies(pool, keys, indices, limit)
            addresses, sizes = pool.host.parts(indices, len(keys))
            native, large = backend.client.native, pool.large(pool.own)
            if large is not None:
                stored = large.set(native, keys, (addresses, sizes), limit)
                moved_bytes = sum(stored) * large.page_bytes
            else:
                results = native.set(pool.own, keys, addresses, sizes, limit.left())
                stored, moved_bytes = results.ok, results.success_bytes
        self._backed_up(len(keys), moved_bytes, begin)
        return by_key(stored, pool.host.split)

    def _prefetched(self, pages: int, moved_bytes: int, begin: float) -> None:
        if self._figures is not None:
            self._figures.prefetched(pages, moved_bytes, time.monotonic() - begin)

    def _backed_up(self, pages: int, moved_bytes: int, begin: float) -> None:
        if self._figures is not None:
            self._figures.backed_up(pages, moved_bytes, time.monotonic() - begin)

    # Pools that do not say where their pages lie: pages are moved through flat copies

    def _get_copies(self, pool: StoredPool, keys: Sequence[str], indices: Any, limit: Deadline) -> List[bool]:
        """Reads pages and copies them into the pool. Pages that are not copied when the time has passed are misses."""
        tokens = pool.host.first_tokens(indices, len(keys))
        check_apart(tokens, pool.host.page_size)
        pages = [pool.host.pool.get_dummy_flat_data_page() for _ in keys]
        read = self.read_flat(pool, keys, pages, limit)
        for index, (token, page) in enumerate(zip(tokens, pages)):
            if pool.blanked and not read[index]:
                page.zero_()
                read[index] = True
            read[index] = read[index] and not limit.passed()
            if read[index]:
                pool.host.pool.set_from_flat_data_page(token, page)
        return read

    def _set_copies(self, pool: StoredPool, keys: Sequence[str], indices: Any, limit: Deadline) -> List[bool]:
        pages: List[Any] = []
        for token in pool.host.first_tokens(indices, len(keys)):
            if limit.passed():
                break
            pages.append(pool.host.pool.get_data_page(token, flat=True))
        stored = self.write_flat(pool, keys[: len(pages)], pages, limit)
        return stored + [False] * (len(keys) - len(pages))

    # Methods for flat pages, which are tensors instead of addresses

    def read_flat(
        self, pool: StoredPool, keys: Sequence[str], pages: Sequence[Any], limit: Deadline
    ) -> List[bool]:
        """Reads flat pages into tensors; where several would be read into the same memory, only the first one is."""
        with self._backend as backend:
            native = backend.client.native
            return self._move_flat(pool, keys, pages, True, native.get, limit, self._prefetched)

    def write_flat(
        self, pool: StoredPool, keys: Sequence[str], pages: Sequence[Any], limit: Deadline
    ) -> List[bool]:
        whole = [page.contiguous() if hasattr(page, "contiguous") else page for page in pages]
        with self._backend as backend:
            native = backend.client.native
            return self._move_flat(pool, keys, whole, False, native.set, limit, self._backed_up)

    def _move_flat(
        self, pool: StoredPool, keys: Sequence[str], pages: Sequence[Any], writable: bool,
        move: Callable[..., Results], limit: Deadline, count: Callable[[int, int, float], None],
    ) -> List[bool]:
        """Groups flat pages by their key spaces. Errors: ValueError when keys and pages do not go together."""
        if len(keys) != len(pages):
            raise ValueError(f"{len(keys)} keys, but {len(pages)} pages")
        begin, moved_bytes = time.monotonic(), 0
        places = [memory_of(page, writable) for page in pages]
        moved = [pool.is_empty(key, size) for key, (_, size) in zip(keys, places)]
        own = firsts_of(places) if writable else [True] * len(places)
        for spaces, asked in pool.flat_groups(keys, pages, [size for _, size in places]):
            chosen = [i for i in asked if own[i]]
            some = [keys[i] for i in chosen]
            addresses, sizes = [places[i][0] for i in chosen], [places[i][1] for i in chosen]
            results = move(spaces, some, addresses, sizes, limit.left())
            moved_bytes += results.success_bytes
            for index, ok in zip(chosen, results.ok):
                moved[index] = ok
        count(len(keys), moved_bytes, begin)
        return moved


def _blank(there: List[bool], places: Parts, limit: Deadline) -> None:
    """Fills pages that are not there with zeros and marks them as there, for as long as there is time."""
    parts = len(places[0]) // len(there)
    for index, is_there in enumerate(there):
        if is_there or limit.passed():
            continue
        for part in range(index * parts, (index + 1) * parts):
            ctypes.memset(places[0][part], 0, places[1][part])
        there[index] = True
