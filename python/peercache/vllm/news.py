"""Makes the KV events and metrics that the tier gives vLLM, in vLLM's own classes."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from typing import Any, Dict, List, Optional, Sequence, Tuple

from peercache._native import status_words
from peercache.jobs import Ended
from peercache.vllm import contract
from peercache.vllm.verdicts import Counts

LOAD, STORE = "load", "store"
"""The kinds of jobs: chunks into the primary tier, and out of it."""

ANNOUNCED_MAX = 131072
"""Keys that are announced at a time; beyond that the one that was stored first is taken back."""

PREFIX = "vllm:kv_offload_peercache_"

METRICS: Dict[str, Tuple[str, Tuple[str, ...]]] = {
    "lookups": ("Verdicts on chunks that the scheduler looked up: hit, miss, or late (no answer by the deadline).",
                ("verdict",)),
    "chunks": ("Chunks of stores and loads by result, in PeerCache's words; not_run for those whose deadline came "
               "first.", ("job", "result")),
    "bytes": ("Bytes of chunks that were copied.", ("job",)),
    "jobs": ("Stores and loads that have ended: ok when all of their chunks were copied, else failed.",
             ("job", "result")),
}
"""The counters: what each counts, and its labels."""


def metric_definitions() -> Dict[str, Any]:
    """The counters as vLLM registers them; empty for versions that have none for tiers, or none with labels."""
    counter = contract.theirs(contract.OFFLOAD, "OffloadingCounterMetadata")
    if counter is None or not {"documentation", "labelnames"} <= contract.fields_of(counter):
        return {}
    return {PREFIX + name: counter(documentation=text, labelnames=labels)
            for name, (text, labels) in METRICS.items()}


class Figures:
    """The counters since the last `take`. Threads: any."""

    def __init__(self, row_bytes: int) -> None:
        self._row_bytes = row_bytes
        # vLLM refuses counters that it was not told of.
        self._stats = contract.theirs(contract.STATS, "OffloadingConnectorStats") if metric_definitions() else None
        self._lock = threading.Lock()  # The threads of jobs count, the scheduler takes.
        self._counts: "Counter[Tuple[str, Tuple[str, ...]]]" = Counter()

    def ended(self, ended: Ended) -> None:
        """Counts a job that has ended."""
        kind, copied = ended.job.kind, sum(ended.ok)
        with self._lock:
            self._counts["jobs", (kind, "ok" if copied == len(ended.ok) else "failed")] += 1
            self._counts["bytes", (kind,)] += copied * self._row_bytes
            if ended.results is None:
                self._counts["chunks", (kind, "not_run")] += len(ended.ok)
                return
            for status, _, _, count in ended.results.groups:
                self._counts["chunks", (kind, status_words[status])] += count

    def take(self, verdicts: Counts) -> Optional[Any]:
        """Returns the counters as vLLM's stats, and begins again with none. None: nothing was counted, or this version
        has no stats."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        for word, count in zip(("hit", "miss", "late"), verdicts):
            counts["lookups", (word,)] += count
        if self._stats is None or not any(counts.values()):
            return None
        stats = self._stats()
        for (name, labels), count in counts.items():
            if count:
                stats.increase_counter(PREFIX + name, count, labels)
        return stats


class Announcements:
    """The keys that are announced as stored, and what is to be announced next. Threads: any.

    Invariant: a key is announced as removed only after it was announced as stored: when a look-up or a load learns
    that nobody has it, or when it is forgotten since there are more than `limit`. A key that nobody asks for again
    stays announced.
    """

    def __init__(self, limit: int = ANNOUNCED_MAX) -> None:
        self._limit = limit
        self._lock = threading.Lock()  # The threads of jobs and look-ups announce, the scheduler takes.
        self._keys: "OrderedDict[bytes, None]" = OrderedDict()
        self._next: List[Tuple[bool, List[bytes]]] = []

    def stored(self, keys: Sequence[bytes]) -> None:
        with self._lock:
            new = [key for key in keys if key not in self._keys]
            self._keys.update(dict.fromkeys(keys))
            self._add(False, new)
            self._add(True, [self._keys.popitem(last=False)[0] for _ in range(len(self._keys) - self._limit)])

    def gone(self, keys: Sequence[bytes]) -> None:
        with self._lock:
            known = [key for key in keys if key in self._keys]
            for key in known:
                del self._keys[key]
            self._add(True, known)

    def _add(self, removed: bool, keys: List[bytes]) -> None:
        if not keys:
            return
        if self._next and self._next[-1][0] == removed:
            self._next[-1][1].extend(keys)
        else:
            self._next.append((removed, keys))

    def take(self) -> List[Tuple[bool, List[bytes]]]:
        """Returns the announcements to make, in order: (whether removed, keys) of each."""
        with self._lock:
            found, self._next = self._next, []
            return found


class Events:
    """The KV events of the tier as vLLM's OffloadingEvent. Threads: any."""

    def __init__(self, medium: Any, locality: Any) -> None:
        self._event: Any = contract.theirs(contract.OFFLOAD, "OffloadingEvent")
        self._more = {"locality": locality} if "locality" in contract.fields_of(self._event) else {}
        self._medium = medium
        self.keys = Announcements()

    def ended(self, ended: Ended, missing: Sequence[bytes]) -> None:
        """Notes the end of a job, and those of its keys that nobody has."""
        if ended.job.kind == LOAD:
            self.keys.gone(missing)
        else:
            self.keys.stored([key for key, ok in zip(ended.job.keys, ended.ok) if ok])

    def take(self) -> List[Any]:
        return [self._event(keys=keys, medium=self._medium, removed=removed, **self._more)
                for removed, keys in self.keys.take()]
