"""A program that plays an engine's traffic through one door (PeerCache's backend for SGLang, vLLM or LMCache): stores
pages at two hosts, loads them, compares every byte, and records each call for scripts/check_history.py.

    door_traffic.py sglang|vllm|lmcache --ports P,P --cluster NAME --loads N --seed N --history FILE

It ends when N pages have arrived, with one line of JSON: pages that arrived, pages and batches that were missed. Exit
code 1: bytes were wrong, or written after a call's end. Late calls are found by scripts/check_history.py."""

import argparse
import hashlib
import json
import pathlib
import random
import sys
import time

import numpy
from local_nodes import late_watch

BATCH = 64
"""Pages in a batch."""
PAGE = 4096
"""Bytes in a page."""
SECONDS = 0.5
"""Time that a store or a load has."""
LOOKUP_SECONDS = 0.2
KNOWN_MAX = 40
"""Batches that are loaded again and again; the oldest make room for new ones."""
RECORDED_MAX = 200_000
"""Pages whose arrival a history tells; of a longer run it has some of the loads, whole."""
PATTERN = 0xEE


def wait_for(condition, seconds=30):
    """Waits until `condition()` is true, with shorter pauses than `until`, because its pauses limit the program's
    pace."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "a call that never ends"
        time.sleep(0.0005)


class SglangDoor:
    """SGLang's storage backend with a host pool of one batch. Methods return calls as (kind, begin, deadline, end)."""

    def __init__(self, node):
        from engines import make_store
        from host_pools import MhaPool
        pool = MhaPool(pages=BATCH, page_size=8, layers=4)
        self._store = make_store(node, pool, extra={"client.timeout": f"{int(SECONDS * 1000)}ms"})
        self._indices = pool.indices(range(BATCH))
        self._rows = [half.reshape(BATCH, PAGE // 2) for half in pool.kv_buffer.view(dtype=_uint8()).numpy()]

    @staticmethod
    def keys_of(names):
        return names

    def _timed(self, kind, call, *words):
        begin = time.monotonic()
        answer = call(*words)
        return answer, [(kind, begin, begin + SECONDS, time.monotonic())]

    def store(self, keys, pages):
        for half, row in enumerate(self._rows):
            row[:] = pages[:, half * PAGE // 2 : (half + 1) * PAGE // 2]
        stored, calls = self._timed("set", self._store.batch_set_v1, keys, self._indices, None)
        return all(stored), calls

    def load(self, keys):
        count, calls = self._timed("exists", self._store.batch_exists, keys)
        if count == 0:
            return [], None, calls
        arrived, more = self._timed("get", self._store.batch_get_v1, keys[:count], self._indices[: count * 8], None)
        there = [index for index, came in enumerate(arrived) if came]
        return there, numpy.concatenate([row[there] for row in self._rows], axis=1), calls + more

    def late_writes(self):
        return 0  # Not counted here: the next call overwrites all pages, so that a late write shows as a wrong byte.

    def close(self):
        self._store.close()


def _uint8():
    import torch
    return torch.uint8


class VllmDoor:
    """vLLM's tier with a primary tier of one batch."""

    def __init__(self, node):
        from vllm_engines import Engine, entry_of
        self._engine = Engine(entry_of(node, lookup_timeout_s=LOOKUP_SECONDS, load_timeout_s=SECONDS,
                                       store_timeout_s=SECONDS), chunks=BATCH, row_bytes=PAGE)

    @staticmethod
    def keys_of(names):
        from vllm_engines import make_offload_key
        return [make_offload_key(bytes.fromhex(name), 0) for name in names]

    def _run(self, kind, seconds):
        """Waits until the jobs that are under way have ended. Returns their call as (kind, begin, deadline, end)."""
        engine, begin = self._engine, time.monotonic()

        def ended():
            engine.sweep()
            return not engine.jobs
        wait_for(ended)
        return (kind, begin, begin + seconds, engine.heard)

    def store(self, keys, pages):
        from vllm_engines import request
        self._engine.evict()
        self._engine.bytes_of = dict(zip(keys, pages)).__getitem__
        context = request()
        self._engine.compute(keys, context)
        call = self._run("set", SECONDS)
        self._engine.tier.on_request_finished(context)
        self._engine.pinned.clear()
        return self._engine.results[-1].success, [call]

    def load(self, keys):
        from vllm_engines import request
        context = request()
        try:
            return self._load(keys, context)
        finally:
            self._engine.tier.on_request_finished(context)

    def _load(self, keys, context):
        from vllm_engines import LookupResult
        engine = self._engine
        engine.evict()
        engine.results.clear()
        for key in keys:
            engine.tier.lookup(key, context)
        begin = time.monotonic()
        engine.tier.on_schedule_end(None)
        wait_for(lambda: LookupResult.RETRY not in {engine.tier.lookup(key, context) for key in keys[-1:]})
        calls = [("exists", begin, begin + LOOKUP_SECONDS, time.monotonic())]
        for key in keys:
            engine.lookup(key, context)
        if not engine.pending:
            return [], None, calls
        engine.step()
        calls.append(self._run("get", SECONDS))
        there = [index for index, key in enumerate(keys) if key in engine.resident]
        return there, engine.rows[[engine.resident[keys[index]] for index in there]], calls

    def late_writes(self):
        return len(self._engine.late_writes())

    def close(self):
        self._engine.close()


class LmcacheDoor:
    """LMCache's connector with an arena of one batch."""

    def __init__(self, node):
        from lmcache_engines import Server, params_of
        self._server = Server(params_of(node, timeout_s=SECONDS, lookup_timeout_s=LOOKUP_SECONDS), chunks=BATCH,
                              chunk_bytes=PAGE)

    @staticmethod
    def keys_of(names):
        return [f"test/model@01000100@0@{name}" for name in names]

    def _run(self, kind, keys, rows, seconds):
        batch = self._server.submit(kind, keys, rows)
        assert batch.done.wait(30), "a future that never completes"
        return batch.there, (kind, batch.began, batch.began + seconds, batch.ended)

    def store(self, keys, pages):
        self._server.rows[:] = pages
        stored, call = self._run("set", keys, range(BATCH), SECONDS)
        return all(stored), [call]

    def load(self, keys):
        there, asked = self._run("exists", keys, (), LOOKUP_SECONDS)
        wanted = [index for index, promised in enumerate(there) if promised]
        if not wanted:
            return [], None, [asked]
        arrived, call = self._run("get", [keys[index] for index in wanted], range(len(wanted)), SECONDS)
        rows = [row for row, came in enumerate(arrived) if came]
        return [wanted[row] for row in rows], self._server.rows[rows], [asked, call]

    def late_writes(self):
        return len(self._server.late_writes())

    def close(self):
        self._server.close()


class Node:
    """What the doors need to know of a node that the test has started."""

    def __init__(self, port, cluster):
        self._port, self._cluster = int(port), cluster

    def options(self, **more):
        return {"client.node_port": self._port, "cluster.name": self._cluster, "client.timeout": "2s",
                "log.level": "error", **more}


class History:
    """Writes calls to a file in the format of scripts/check_history.py."""

    def __init__(self, path, process):
        self._file, self._process, self._begin = path.open("w"), process, time.monotonic()
        self._calls = 0
        self._line("history 1")

    def _line(self, *words):
        print(*words, file=self._file)

    def _at(self, moment):
        return round((moment - self._begin) * 1e6)

    def put(self, moment, name, page):
        self._line("put", self._at(moment), self._process, name, *self._columns(page))

    def call(self, call, hits=()):
        """Writes a call and its hits, which are pairs (name, page)."""
        kind, begin, deadline, end = call
        self._calls += 1
        self._line("ask", self._calls, self._at(begin), self._at(deadline), self._process, kind)
        for name, page in hits:
            self._line("hit", self._calls, name, *self._columns(page), "-")
        self._line("return", self._calls, self._at(end))

    @staticmethod
    def _columns(page):
        whole = page.tobytes()
        return whole[:8].hex(), len(whole), hashlib.blake2b(whole, digest_size=8).hexdigest()

    def close(self, watch):
        for begin, end in watch.stalls:
            self._line("stall", self._at(begin), self._at(end), "*")
        self._line("end", self._at(time.monotonic()))
        self._file.close()


def page_of(name):
    """Returns the bytes of the page with this name."""
    digest = hashlib.sha256(name.encode()).digest()
    return numpy.frombuffer(digest * (PAGE // len(digest)), numpy.uint8)


class Traffic:
    """Stores and loads through doors of one kind, one at each node."""

    def __init__(self, kind, doors, chance, history, recorded_share):
        self._kind, self._doors, self._chance, self._history = kind, doors, chance, history
        self._share, self._known, self._stored = recorded_share, [], 0
        self.counts = {"arrived": 0, "missed": 0, "stored": 0, "not_stored": 0}

    def store(self):
        self._stored += 1
        names = [hashlib.sha256(f"{self._kind} {self._stored} {index}".encode()).hexdigest() for index in range(BATCH)]
        pages, moment = numpy.stack([page_of(name) for name in names]), time.monotonic()
        stored, calls = self._chance.choice(self._doors).store(self._doors[0].keys_of(names), pages)
        for name, page in zip(names, pages):
            self._history.put(moment, name, page)
        for call in calls:
            self._history.call(call)
        self.counts["stored" if stored else "not_stored"] += BATCH
        self._known = [*self._known, (names, pages)][-KNOWN_MAX:]  # A failed batch may have stored some pages.

    def load(self):
        names, pages = self._chance.choice(self._known)
        there, rows, calls = self._chance.choice(self._doors).load(self._doors[0].keys_of(names))
        self.counts["arrived"] += len(there)
        self.counts["missed"] += BATCH - len(there)
        hits = []
        if there:
            assert (rows == pages[there]).all(), f"wrong bytes: {[names[i] for i in there][:3]}"
            hits = [(names[index], row) for index, row in zip(there, rows)]
        for call in calls:  # Writes all calls, because those without hits take few lines.
            is_told = call[0] == "get" and self._chance.random() < self._share
            self._history.call(call, hits if is_told else ())

    def run(self, loads):
        while self.counts["arrived"] < loads:
            if not self._known or self._chance.random() < 0.05:
                self.store()
            else:
                self.load()
        late = sum(door.late_writes() for door in self._doors)
        assert late == 0, f"{late} pages were written to after their call"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("kind", choices=["sglang", "vllm", "lmcache"])
    for name in ("--ports", "--cluster", "--history"):
        parser.add_argument(name, required=True)
    parser.add_argument("--loads", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    said = parser.parse_args()
    kind = {"sglang": SglangDoor, "vllm": VllmDoor, "lmcache": LmcacheDoor}[said.kind]
    doors = [kind(Node(port, said.cluster)) for port in said.ports.split(",")]
    history = History(pathlib.Path(said.history), said.kind)
    traffic = Traffic(said.kind, doors, random.Random(said.seed), history, min(1.0, RECORDED_MAX / said.loads))
    with late_watch() as watch:
        traffic.run(said.loads)
    history.close(watch)
    print(json.dumps(traffic.counts), flush=True)
    for door in doors:
        door.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
