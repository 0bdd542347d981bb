"""The figures of a backend in SGLang's metrics: pages and GB/s of each batch."""

from __future__ import annotations

import threading
from typing import Any, List

from peercache.hicache.contract import StorageMetrics

BATCHES_MAX = 4096
"""Batches whose figures are kept while nobody takes them."""


class Figures:
    """The figures of all batches since the last `take`. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reset()

    def _reset(self) -> None:
        self._prefetch_pages: List[int] = []
        self._prefetch_gb_per_s: List[float] = []
        self._backup_pages: List[int] = []
        self._backup_gb_per_s: List[float] = []

    def prefetched(self, pages: int, size: int, seconds: float) -> None:
        with self._lock:
            if len(self._prefetch_pages) < BATCHES_MAX:
                self._prefetch_pages.append(pages)
                self._prefetch_gb_per_s.append(size / max(seconds, 1e-9) / 1e9)

    def backed_up(self, pages: int, size: int, seconds: float) -> None:
        with self._lock:
            if len(self._backup_pages) < BATCHES_MAX:
                self._backup_pages.append(pages)
                self._backup_gb_per_s.append(size / max(seconds, 1e-9) / 1e9)

    def take(self) -> Any:
        """Returns all figures as SGLang's StorageMetrics, and begins again with none."""
        metrics = StorageMetrics()
        with self._lock:
            metrics.prefetch_pgs.extend(self._prefetch_pages)
            metrics.prefetch_bandwidth.extend(self._prefetch_gb_per_s)
            metrics.backup_pgs.extend(self._backup_pages)
            metrics.backup_bandwidth.extend(self._backup_gb_per_s)
            self._reset()
        return metrics
