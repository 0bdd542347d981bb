"""Simulates an engine for `peercache bench`: moves batches of chunks through a door of PeerCache,
its connector for that engine.

    python3 -m peercache.simulators.vllm '{"here": 31998, "there": 41998, ...}'

Commands come on stdin, a line each; each is answered by one line of JSON:

    store PLACE BATCHES   puts batches of 128 chunks that later gets find, through the node at that place
    set CALLS             batches of new chunks, until the directory has them
    get PLACE CALLS       batches that were stored there; the last TARGETS of them are compared byte by byte at the end;
                          earlier ones were overwritten by these
    exists PLACE CALLS    the batches' keys
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import mmap
import os
import sys
import time
from typing import Any, Callable, Dict, List, Protocol, Sequence

BATCH_CHUNKS = 128
TARGETS = 2
"""Places for a batch in memory that gets are read into in turn."""
WIPED = 0xEE


class Chunks:
    """Memory for `regions` batches of chunks, from the start of a memory page on; the first batch has content."""

    def __init__(self, chunk_bytes: int, regions: int) -> None:
        self.chunk_bytes, self.count = chunk_bytes, regions * BATCH_CHUNKS
        self.memory = mmap.mmap(-1, chunk_bytes * self.count)
        self.memory[: chunk_bytes * BATCH_CHUNKS] = os.urandom(chunk_bytes * BATCH_CHUNKS)
        self._first = ctypes.c_char.from_buffer(self.memory)

    def bytes_of(self, row: int) -> bytes:
        return self.memory[row * self.chunk_bytes : (row + 1) * self.chunk_bytes]

    def wipe_targets(self) -> None:
        """Overwrites all but the first batch, so that no byte of an earlier round can pass for one of this round."""
        first = self.chunk_bytes * BATCH_CHUNKS
        ctypes.memset(ctypes.addressof(self._first) + first, WIPED, self.chunk_bytes * self.count - first)


class Door(Protocol):
    """A door at one node. Calls return when the engine has heard of the end; errors are raised."""

    native: Any
    """The client under the door."""

    def put(self, keys: Sequence[Any], rows: Sequence[int]) -> None:
        """Stores the chunks in these rows of memory."""

    def fetch(self, keys: Sequence[Any], rows: Sequence[int]) -> None:
        """Loads chunks into these rows."""

    def ask(self, keys: Sequence[Any]) -> None:
        """Looks keys up, all of which are there."""

    def close(self) -> None: ...


MakeDoor = Callable[[Chunks, Dict[str, Any]], Door]
"""Makes a door of the memory that its chunks lie in and options of the option table."""


class SimulatedEngine:
    """An engine with a door at each of two nodes. Threads: the main thread gives the commands."""

    def __init__(self, setup: Dict[str, Any], make_door: MakeDoor, key_of: Callable[[bytes], Any]) -> None:
        """`key_of` makes the engine's key of a chunk's hash."""
        shape = setup["shape"]
        chunk_bytes = shape["page_size"] * shape["layers"] * shape["heads"] * shape["head_dim"] * 2 * shape["halves"]
        self.chunks, self._key_of = Chunks(chunk_bytes, 1 + TARGETS), key_of
        options = {"log.level": "error", "cluster.name": setup["cluster"], "client.timeout": "10s"}
        self.doors = {place: make_door(self.chunks, {**options, "client.node_port": setup[place]})
                      for place in ("here", "there")}
        self.stored: Dict[str, List[List[Any]]] = {"here": [], "there": []}
        self.made = self.turn = 0

    def new_keys(self) -> List[Any]:
        self.made += 1
        hashes = (hashlib.sha256(f"{self.made}/{chunk}".encode()).digest() for chunk in range(BATCH_CHUNKS))
        return [self._key_of(each) for each in hashes]

    def source(self, batch: int) -> List[int]:
        """The rows that a batch is made of; two batches in a row never have the same bytes in one place."""
        return [(chunk + batch) % BATCH_CHUNKS for chunk in range(BATCH_CHUNKS)]

    def target(self) -> List[int]:
        self.turn += 1
        first = BATCH_CHUNKS * (1 + self.turn % TARGETS)
        return list(range(first, first + BATCH_CHUNKS))

    def flush(self, place: str) -> None:
        if not self.doors[place].native.flush(10.0)[0]:
            raise RuntimeError("set: not all chunks were published")

    def store(self, place: str, batches: int) -> Dict[str, Any]:
        for batch in range(batches):
            keys = self.new_keys()
            self.doors[place].put(keys, self.source(batch))
            self.stored[place].append(keys)
        self.flush(place)
        return {}

    def keys_of(self, place: str, call: int) -> List[Any]:
        return self.stored[place][call % len(self.stored[place])]

    def set(self, calls: int) -> Dict[str, Any]:
        batches = [self.new_keys() for _ in range(calls)]
        puts = [functools.partial(self.doors["here"].put, keys, self.source(0)) for keys in batches]
        return self.timed(puts, lambda: self.flush("here"))

    def exists(self, place: str, calls: int) -> Dict[str, Any]:
        return self.timed([functools.partial(self.doors["here"].ask, self.keys_of(place, i)) for i in range(calls)])

    def get(self, place: str, calls: int) -> Dict[str, Any]:
        self.chunks.wipe_targets()
        targets = [self.target() for _ in range(calls)]
        fetches = [functools.partial(self.doors["here"].fetch, self.keys_of(place, i), targets[i])
                   for i in range(calls)]
        return {**self.timed(fetches), "wrong_bytes": self.wrong_bytes(place, targets)}

    def wrong_bytes(self, place: str, targets: List[List[int]]) -> int:
        """Counts the bytes of chunks that are not what they should be among the last batches of a round, which no later
        batch has overwritten."""
        wrong = 0
        for call in range(max(0, len(targets) - TARGETS), len(targets)):
            source = self.source(call % len(self.stored[place]))
            wrong += sum(self.chunks.bytes_of(wanted) != self.chunks.bytes_of(row)
                         for wanted, row in zip(source, targets[call])) * self.chunks.chunk_bytes
        return wrong

    def timed(self, calls: Sequence[Callable[[], None]], end: Callable[[], None] = lambda: None) -> Dict[str, Any]:
        """Makes the calls. Returns how long each took, and, where the client was called, the share of the time in the
        client for which the GIL was held."""
        native, took = self.doors["here"].native, []
        _, inside_before, outside_before = native.call_times()
        first = time.perf_counter()
        for call in calls:
            begin = time.perf_counter()
            call()
            took.append(time.perf_counter() - begin)
        _, inside, outside = native.call_times()
        end()
        answer = {"call_us": [each * 1e6 for each in took], "seconds": time.perf_counter() - first}
        if inside > inside_before:
            answer["gil_held"] = max(0.0, 1 - (outside - outside_before) / (inside - inside_before))
        return answer

    def obey(self, line: str) -> Dict[str, Any]:
        word, *arguments = line.split()
        values: List[Any] = [int(a) if a.isdigit() else a for a in arguments]
        known: Dict[str, Callable[..., Dict[str, Any]]] = {
            "store": self.store, "set": self.set, "get": self.get, "exists": self.exists}
        try:
            return known[word](*values)
        except Exception as fault:  # noqa: BLE001 - the bench says it and ends
            return {"error": str(fault)}

    def close(self) -> None:
        for door in self.doors.values():
            door.close()


def run(make_door: MakeDoor, key_of: Callable[[bytes], Any]) -> None:
    """The program of a simulator: obeys commands until stdin ends."""
    engine = SimulatedEngine(json.loads(sys.argv[1]), make_door, key_of)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(engine.obey(line)), flush=True)
    engine.close()
