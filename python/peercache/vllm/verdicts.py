"""Which chunks are there, as far as has been asked: a table that the scheduler reads and a thread fills."""

from __future__ import annotations

import threading
from collections import OrderedDict
from itertools import zip_longest
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Union

STEP_KEYS_MAX = 65536
"""Keys that one step may ask for; what is beyond that is a miss."""

REQUESTS_MAX = 65536
"""Requests that have verdicts at a time; beyond that the verdicts of the oldest request are forgotten, and asked for
again."""


class Batch:
    """The keys that one step has asked for first. Only `Verdicts` changes it."""

    def __init__(self) -> None:
        self.deadline = 0.0
        """The time, of time.monotonic(), from which a key without an answer is a miss."""
        self.tables: "Dict[bytes, List[Table]]" = {}
        """The tables that wait for a key's answer, by key."""

    def keys(self) -> List[bytes]:
        return list(self.tables)


Table = Dict[bytes, Union[bool, Batch]]
"""A request's verdicts by key; a key that is asked for has the batch that it is in."""


class Counts(NamedTuple):
    """Verdicts that the engine has been given since the last `take_counts`."""

    hits: int
    misses: int
    late: int
    """Verdicts that came by the deadline and not by an answer; `misses` does not count them."""


class Verdicts:
    """The verdicts of all requests. No thread, no clock, no network.

    Threads: any. Units: seconds of any clock. Invariants: a key of a request has one verdict, until the request is
    forgotten or a load of the key fails; the latter makes it a miss for all requests, since the engine would
    otherwise load it again and again. An answer that comes after the verdict changes nothing.
    """

    def __init__(self, seconds: float) -> None:
        """`seconds` pass from `take` to the verdict of each key that it took."""
        self._seconds = seconds
        self._lock = threading.Lock()  # The scheduler asks, the thread of look-ups answers, those of loads flip.
        self._requests: "OrderedDict[str, Table]" = OrderedDict()
        self._promised: Dict[bytes, Dict[int, Table]] = {}
        """The tables that say a hit, by key and then by id(): a load fails in a time that other requests do not lengthen."""
        self._next = Batch()
        self._hits = self._misses = self._late = 0

    def of(self, key: bytes, request: str, now: float) -> Optional[bool]:
        """Whether the chunk is there. None: not known yet, ask again in the next step."""
        with self._lock:
            table = self._requests.get(request)
            if table is None:
                table = self._table(request)
            known = table.get(key)
            if isinstance(known, Batch):
                return None if now < known.deadline else self._give_up(table, key)
            if known is None:
                return self._ask(table, key, now)
            return known

    def _table(self, request: str) -> Table:
        while len(self._requests) >= REQUESTS_MAX:
            self._drop(self._requests.popitem(last=False)[1])
        return self._requests.setdefault(request, {})

    def _ask(self, table: Table, key: bytes, now: float) -> Optional[bool]:
        batch = self._next
        if len(batch.tables) >= STEP_KEYS_MAX:
            return self._give_up(table, key)
        if not batch.tables:
            batch.deadline = now + self._seconds  # Counts for engines whose step does not end.
        batch.tables.setdefault(key, []).append(table)
        table[key] = batch
        return None

    def _give_up(self, table: Table, key: bytes) -> bool:
        table[key] = False
        self._late += 1
        return False

    def take(self, now: float) -> Optional[Batch]:
        """The keys that were asked for since the last call, which are to be answered by the batch's deadline; None
        when there are none."""
        with self._lock:
            batch = self._next
            if not batch.tables:
                return None
            batch.deadline = now + self._seconds
            self._next = Batch()
            return batch

    def answer(self, batch: Batch, there: Sequence[bool]) -> None:
        """Gives the keys of a batch their verdicts, in the order of `batch.keys()`, as far as they wait for it; those
        beyond the end of `there` are late misses. The batch is empty then."""
        with self._lock:
            for (key, tables), found in zip_longest(batch.tables.items(), there):
                for table in tables:
                    if table.get(key) is not batch:
                        continue
                    if found is None:
                        self._give_up(table, key)
                        continue
                    table[key] = found
                    if found:
                        self._promised.setdefault(key, {})[id(table)] = table
                    self._hits += found
                    self._misses += not found
            batch.tables.clear()

    def flip(self, keys: Iterable[bytes]) -> None:
        """Makes a miss of each hit of these keys, since a load of them has failed."""
        for key in keys:
            with self._lock:  # Locked for each key by itself, so that the scheduler can look up in between.
                for table in self._promised.pop(key, {}).values():
                    table[key] = False

    def forget(self, request: str) -> None:
        """Drops the verdicts of a request that has ended."""
        with self._lock:
            self._drop(self._requests.pop(request, {}))

    def _drop(self, table: Table) -> None:
        """Empties the table of a request, so that an answer that comes later finds nothing that waits for it."""
        for key, known in table.items():
            if known is not True:
                continue
            promised = self._promised[key]
            del promised[id(table)]
            if not promised:
                del self._promised[key]
        table.clear()

    def take_counts(self) -> Counts:
        """Returns how many verdicts of each kind there were, and begins again with none."""
        with self._lock:
            counts = Counts(self._hits, self._misses, self._late)
            self._hits = self._misses = self._late = 0
            return counts
