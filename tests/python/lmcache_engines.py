"""A fake LMCache server for its `native_plugin` connector: a thread polls and drains completed batches, and a batch's
buffers get new owners as soon as the batch was drained."""

import hashlib
import importlib
import itertools
import mmap
import select
import threading
import time

import numpy

from local_nodes import until

PATTERN = 0xEE
_count = itertools.count()


def fresh_keys(count):
    """Returns new keys as LMCache makes them: of model, rank, object group and a chunk's hash."""
    return [f"test/model@01000100@0@{hashlib.sha256(f'chunk {next(_count)}'.encode()).hexdigest()}"
            for _ in range(count)]


def params_of(node, **more):
    """Returns the adapter's parameters in the configuration of a server at this node."""
    return {"namespace": "test-bf16", **node.options(), **more}


def connector_of(params):
    """Makes the connector as LMCache's factory does, with the checks that the factory makes."""
    made = getattr(importlib.import_module("peercache.lmcache"), "PeerCacheConnector")(**params)
    for name in ("event_fd", "submit_batch_get", "submit_batch_set", "submit_batch_exists", "drain_completions",
                 "close", "submit_batch_delete"):
        assert callable(getattr(made, name))
    return made


class Batch:
    def __init__(self, kind, keys, buffers):
        self.kind, self.keys, self.buffers = kind, keys, buffers
        self.done = threading.Event()
        self.ok = self.error = self.there = None
        self.began = 0.0
        """The time at which the batch was submitted, by time.monotonic()."""
        self.ended = 0.0
        """The time at which the batch was drained, before any buffer was wiped."""


class Server:
    """A server with an arena of `chunks` buffers and one thread that drains. When a failed get is drained, its buffers
    are filled with PATTERN, so that `late_writes` finds later writes to them."""

    def __init__(self, params, chunks=16, chunk_bytes=4096):
        self.connector = connector_of(params)
        self.chunk_bytes = chunk_bytes
        self.memory = mmap.mmap(-1, chunks * chunk_bytes)
        self.rows = numpy.frombuffer(self.memory, numpy.uint8).reshape(chunks, chunk_bytes)
        self.pending, self.foreign, self.faults = {}, set(), []
        self.lock, self.ended = threading.Lock(), threading.Event()
        self.thread = threading.Thread(target=self._drain, daemon=True)
        self.thread.start()

    def _drain(self):
        poller = select.poll()
        poller.register(self.connector.event_fd(), select.POLLIN)
        while not self.ended.is_set():
            if poller.poll(50):
                self.take()

    def take(self):
        try:
            completions, now = self.connector.drain_completions(), time.monotonic()
            with self.lock:
                for future, ok, error, there in completions:
                    batch = self.pending.pop(future)
                    batch.ended = now
                    self._end(batch, ok, error, there)
        except Exception as fault:  # noqa: BLE001 - tests check the exceptions that came out
            self.faults.append(repr(fault))

    def _end(self, batch, ok, error, there):
        assert isinstance(ok, bool) and isinstance(error, str) and len(there) == len(batch.keys)
        batch.ok, batch.error, batch.there = ok, error, there
        if batch.kind == "get":
            for row, arrived in zip(batch.buffers, there):
                if not arrived:
                    self.rows[row] = PATTERN
                    self.foreign.add(row)
        batch.done.set()

    def submit(self, kind, keys, rows=()):
        """Submits a batch, and returns it. Holds the lock, as LMCache does, so that the draining thread knows the
        batch."""
        batch = Batch(kind, keys, list(rows))
        call = getattr(self.connector, f"submit_batch_{kind}")
        views = [memoryview(self.rows[row]) for row in rows]
        with self.lock:
            self.foreign -= set(rows)
            batch.began = time.monotonic()
            self.pending[call(keys, views) if kind in ("set", "get") else call(keys)] = batch
        return batch

    def run(self, kind, keys, rows=(), seconds=30):
        """Submits a batch and waits for its end. Returns the result for each key."""
        batch = self.submit(kind, keys, rows)
        assert batch.done.wait(seconds), "a future that never completes"
        return batch.there

    def bytes_of(self, key):
        digest = hashlib.sha256(key.encode()).digest()
        return numpy.frombuffer(digest * (self.chunk_bytes // len(digest)), numpy.uint8)

    def put(self, keys):
        """Stores pages under these keys, and waits until every node finds them."""
        for row, key in enumerate(keys):
            self.rows[row] = self.bytes_of(key)
        assert self.run("set", keys, range(len(keys))) == [True] * len(keys)
        flushed = self.connector._client.flush()
        assert flushed.complete and flushed.failed == 0

    def fetch(self, keys):
        """Gets the pages of these keys. Returns how many arrived with the right bytes."""
        self.rows[:] = PATTERN
        there = self.run("get", keys, range(len(keys)))
        for row, (key, arrived) in enumerate(zip(keys, there)):
            assert not arrived or (self.rows[row] == self.bytes_of(key)).all(), "wrong bytes"
        return sum(there)

    def late_writes(self):
        """Returns the buffers that were written to after their batch had been drained."""
        return [row for row in self.foreign if (self.rows[row] != PATTERN).any()]

    def knows(self, count):
        assert until(lambda: len(self.connector._client.members()) == count)
        return self

    def close(self):
        """Ends the server as LMCache does: ends the draining thread first, then the connector."""
        self.ended.set()
        self.thread.join()
        self.connector.close()
        assert self.faults == []
