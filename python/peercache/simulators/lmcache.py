"""LMCache's server for `peercache bench lmcache`: submits batches to the connector, polls and drains."""

from __future__ import annotations

import select
from typing import Any, Dict, Sequence

from peercache.lmcache.connector import PeerCacheConnector
from peercache.simulators.engine import Chunks, run


class ConnectorDoor:
    """A connector whose batches are waited for one by one."""

    def __init__(self, chunks: Chunks, options: Dict[str, Any]) -> None:
        self._connector = PeerCacheConnector(namespace="simulated", lookup_timeout_s=10, **options)
        self.native = self._connector._client.native
        size, view = chunks.chunk_bytes, memoryview(chunks.memory)
        self._rows = [view[row * size : (row + 1) * size] for row in range(chunks.count)]
        self._poll = select.poll()
        self._poll.register(self._connector.event_fd(), select.POLLIN)

    def put(self, keys: Sequence[str], rows: Sequence[int]) -> None:
        self._wait(self._connector.submit_batch_set(keys, [self._rows[row] for row in rows]))

    def fetch(self, keys: Sequence[str], rows: Sequence[int]) -> None:
        self._wait(self._connector.submit_batch_get(keys, [self._rows[row] for row in rows]))

    def ask(self, keys: Sequence[str]) -> None:
        self._wait(self._connector.submit_batch_exists(keys))

    def _wait(self, future: int) -> None:
        while True:
            self._poll.poll()
            for done, ok, error, there in self._connector.drain_completions():
                if done != future or not ok or not all(there):
                    raise RuntimeError(f"a batch failed: {error or there.count(False)}")
                return

    def close(self) -> None:
        self._connector.close()


if __name__ == "__main__":
    run(ConnectorDoor, lambda digest: f"simulated/model@01000100@0@{digest.hex()}")
