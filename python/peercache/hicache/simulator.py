"""Simulates a rank of an engine for `peercache bench hicache`: drives PeerCacheStore as SGLang's
controller does.

    python3 -m peercache.hicache.simulator '{"here": 31998, "there": 41998, ...}'

Commands come on stdin, a line each; each is answered by one line of JSON:

    store PLACE BATCHES   puts batches of 128 pages that later gets find, through the node at that place
    set CALLS             backup thread: batches of new pages, until the directory has them; with MLA the
                          first rank sets those of all ranks, as no other rank writes
    get PLACE CALLS       IO thread: batches that were stored there; the last TARGETS of them are compared
                          byte by byte at the end; earlier ones were overwritten by these
    exists PLACE CALLS    prefetch thread: the batches' keys
    request PLACE CALLS   exists, then get, while the backup thread sets a batch: a request's life

Each kind of call has a thread of its own, and every rank is a process. The host pool is a tensor in CPU
memory, page_first: K and V of a page are one piece each; MLA has one piece, and all ranks have the same pages.
"""

from __future__ import annotations

import functools
import hashlib
import json
import queue
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Sequence, Tuple

import torch

from peercache.hicache.store import PeerCacheStore

BATCH_PAGES = 128
TARGETS = 2
"""Places for a batch in the pool that gets are read into in turn."""
COMMAND_SECONDS = 120.0
MEMORY_PAGE_BYTES = 4096


def page_aligned(size_bytes: int) -> Any:
    """Zeros that begin at the start of a memory page, as SGLang's pinned memory and the benchmark's own does: the
    speed of a copy depends on how its two ends lie in their memory pages."""
    whole = torch.zeros(size_bytes + MEMORY_PAGE_BYTES, dtype=torch.uint8)
    return whole[-whole.data_ptr() % MEMORY_PAGE_BYTES:][:size_bytes]


class SimulatedPool:
    """A host pool of SGLang with layout page_first, which has `regions` times 128 pages."""

    layout = "page_first"

    def __init__(self, shape: Dict[str, int], regions: int, rank: int) -> None:
        self.page_size = shape["page_size"]
        self.layer_num = shape["layers"]
        self.halves = shape["halves"]
        self.dtype = torch.bfloat16
        self.piece_bytes = self.page_size * self.layer_num * shape["heads"] * shape["head_dim"] * 2
        if self.halves == 2:
            self.head_num, self.head_dim = shape["heads"], shape["head_dim"]
        else:  # Pools of MLA have no heads, but one dimension for the whole latent vector.
            self.kv_cache_dim = shape["heads"] * shape["head_dim"]
        self.size_per_token = self.halves * self.piece_bytes // self.page_size
        self.size = regions * BATCH_PAGES * self.page_size
        pieces = regions * BATCH_PAGES
        self.kv_buffer = page_aligned(self.halves * pieces * self.piece_bytes).view(
            self.halves, pieces, self.piece_bytes)
        self._half_bytes = pieces * self.piece_bytes
        # With MLA all ranks hold the same bytes; otherwise each rank has bytes of its own.
        content = torch.Generator().manual_seed(rank if self.halves == 2 else 0)
        self.kv_buffer[:, :BATCH_PAGES].random_(generator=content)

    def get_page_buffer_meta(self, indices: Any) -> Tuple[List[int], List[int]]:
        base, addresses = self.kv_buffer.data_ptr(), []
        for token in indices.tolist()[:: self.page_size]:
            first = base + token // self.page_size * self.piece_bytes
            for half in range(self.halves):
                addresses.append(first + half * self._half_bytes)
        return addresses, [self.piece_bytes] * len(addresses)

    def indices_of(self, pages: Any) -> Any:
        """The token slots of the given pages, in their order."""
        tokens = pages.unsqueeze(1) * self.page_size + torch.arange(self.page_size).unsqueeze(0)
        return tokens.flatten()


class Worker:
    """A thread that makes one kind of call, as the controller's daemon threads do."""

    def __init__(self) -> None:
        self._jobs: "queue.Queue[Callable[[], None]]" = queue.Queue()
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            self._jobs.get()()

    def begin(self, call: Callable[[], Any]) -> "queue.Queue[Any]":
        done: "queue.Queue[Any]" = queue.Queue()
        self._jobs.put(lambda: done.put(call()))
        return done

    def run(self, call: Callable[[], Any]) -> Any:
        return self.begin(call).get(timeout=COMMAND_SECONDS)


class SimulatedRank:
    """A rank of an engine with a store on each of two nodes. Threads: the main thread gives the commands."""

    def __init__(self, setup: Dict[str, Any]) -> None:
        self.rank, self.ranks = int(setup["rank"]), int(setup["ranks"])
        self.pool = SimulatedPool(setup["shape"], 1 + TARGETS, self.rank)
        self.is_mla = self.pool.halves == 1
        self.writes = self.rank == 0 or not self.is_mla
        self.stores = {place: self._store(setup, place) for place in ("here", "there")}
        self.workers = {kind: Worker() for kind in ("exists", "get", "set")}
        self.stored: Dict[str, List[List[str]]] = {"here": [], "there": []}
        self.made = 0
        self.turn = 0

    def _store(self, setup: Dict[str, Any], place: str) -> PeerCacheStore:
        extra = {
            "interface_v1": 1, "log.level": "error", "client.node_port": setup[place],
            "cluster.name": setup["cluster"], "client.timeout": "10s", "prefetch_timeout_base": 10,
        }
        config = SimpleNamespace(
            tp_rank=self.rank, tp_size=self.ranks, pp_rank=0, pp_size=1, model_name="simulated",
            is_mla_model=self.is_mla, extra_config=extra,
        )
        store = PeerCacheStore(config, {})
        store.register_mem_pool_host(self.pool)
        return store

    def new_keys(self) -> List[str]:
        """New page hashes as SGLang makes them; all ranks use the same hashes for a page."""
        self.made += 1
        return [hashlib.sha256(f"{self.made}/{page}".encode()).hexdigest() for page in range(BATCH_PAGES)]

    def source(self, batch: int) -> Any:
        """The pages that a batch is made of; two batches in a row never have the same bytes in one place."""
        return (torch.arange(BATCH_PAGES) + batch) % BATCH_PAGES

    def target(self) -> Any:
        self.turn += 1
        return torch.arange(BATCH_PAGES) + BATCH_PAGES * (1 + self.turn % TARGETS)

    def targets(self, calls: int) -> List[Any]:
        """The target pages of the gets of a round, one list for each call. Their memory is wiped, so that no byte of
        an earlier round can pass for one that this round reads."""
        self.pool.kv_buffer[:, BATCH_PAGES:].fill_(0xEE)
        return [self.target() for _ in range(calls)]

    def put(self, place: str, keys: List[str], indices: Any) -> None:
        if self.writes and self.stores[place].batch_set_v1(keys, indices) != [True] * BATCH_PAGES:
            raise RuntimeError("set: not all pages were stored")

    def flush(self, place: str) -> None:
        flushed = self.stores[place]._backend.client.flush(10.0)
        if not flushed.complete:
            raise RuntimeError("set: not all pages were published")

    def store(self, place: str, batches: int) -> Dict[str, Any]:
        for batch in range(batches):
            keys = self.new_keys()
            self.put(place, keys, self.pool.indices_of(self.source(batch)))
            self.stored[place].append(keys)
        self.flush(place)
        return {}

    def set(self, calls: int) -> Dict[str, Any]:
        batches = [self.new_keys() for _ in range(calls * self.ranks if self.is_mla else calls)]
        indices = self.pool.indices_of(self.source(0))
        puts = [functools.partial(self.put, "here", keys, indices) for keys in batches if self.writes]
        return self.timed("set", puts, lambda: self.flush("here"))

    def exists(self, place: str, calls: int) -> Dict[str, Any]:
        return self.timed("exists", [functools.partial(self.ask, place, i) for i in range(calls)])

    def ask(self, place: str, index: int) -> None:
        keys = self.stored[place][index % len(self.stored[place])]
        if self.stores["here"].batch_exists(keys) != BATCH_PAGES:
            raise RuntimeError("exists: not all pages were found")

    def fetch(self, place: str, index: int, indices: Any) -> None:
        keys = self.stored[place][index % len(self.stored[place])]
        if self.stores["here"].batch_get_v1(keys, indices) != [True] * BATCH_PAGES:
            raise RuntimeError("get: not all pages were read")

    def get(self, place: str, calls: int) -> Dict[str, Any]:
        targets = self.targets(calls)
        indices = [self.pool.indices_of(target) for target in targets]
        answer = self.timed("get", [functools.partial(self.fetch, place, i, indices[i]) for i in range(calls)])
        return {**answer, "wrong_bytes": self.wrong_bytes(place, targets)}

    def request(self, place: str, calls: int) -> Dict[str, Any]:
        targets = self.targets(calls)
        indices = [self.pool.indices_of(target) for target in targets]
        batches = [self.new_keys() for _ in range(calls)]
        source = self.pool.indices_of(self.source(0))

        def one(index: int) -> None:
            put = functools.partial(self.put, "here", batches[index], source)
            backup = self.workers["set"].begin(lambda: self.caught(put))
            self.ask(place, index)
            fetch = functools.partial(self.fetch, place, index, indices[index])
            self.raise_if(self.workers["get"].run(lambda: self.caught(fetch)))
            self.raise_if(backup.get(timeout=COMMAND_SECONDS))

        rounds = [functools.partial(one, i) for i in range(calls)]
        answer = self.timed("exists", rounds, lambda: self.flush("here"))
        # Three threads overlap in a request, so the share of the GIL that one of them held is not known.
        del answer["gil_held"]
        return {**answer, "wrong_bytes": self.wrong_bytes(place, targets)}

    def wrong_bytes(self, place: str, targets: List[Any]) -> int:
        """Counts the wrong bytes of the last batches of a round, which no later batch has overwritten."""
        wrong = 0
        for index in range(max(0, len(targets) - TARGETS), len(targets)):
            wanted = self.pool.kv_buffer[:, self.source(index % len(self.stored[place]))]
            wrong += int((wanted != self.pool.kv_buffer[:, targets[index]]).sum())
        return wrong

    def caught(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as fault:  # noqa: BLE001 - it is raised again in the main thread
            return fault

    def raise_if(self, outcome: Any) -> None:
        if isinstance(outcome, Exception):
            raise outcome

    def timed(
        self, kind: str, calls: Sequence[Callable[[], None]], end: Callable[[], None] = lambda: None
    ) -> Dict[str, Any]:
        """Makes the calls in their thread. Returns how long each call took, the pages of all calls per second, and
        the share of the time for which the GIL was held."""
        native = self.stores["here"]._backend.client.native
        took: List[float] = []

        def work() -> None:
            for call in calls:
                begin = time.perf_counter()
                call()
                took.append(time.perf_counter() - begin)

        released, begin = native.call_times()[2], time.perf_counter()
        self.raise_if(self.workers[kind].run(lambda: self.caught(work)))
        released = native.call_times()[2] - released
        end()
        seconds = time.perf_counter() - begin
        answer: Dict[str, Any] = {"call_us": [each * 1e6 for each in took], "seconds": seconds,
                                  "pages_per_second": BATCH_PAGES * len(took) / seconds}
        if took:
            answer["gil_held"] = max(0.0, 1 - released / sum(took))
        return answer

    def obey(self, line: str) -> Dict[str, Any]:
        word, *arguments = line.split()
        values: List[Any] = [int(a) if a.isdigit() else a for a in arguments]
        known: Dict[str, Callable[..., Dict[str, Any]]] = {
            "store": self.store,
            "set": self.set,
            "get": self.get,
            "exists": self.exists,
            "request": self.request,
        }
        try:
            return known[word](*values)
        except Exception as fault:  # noqa: BLE001 - the bench says it and ends
            return {"error": str(fault)}


def main() -> None:
    torch.set_num_threads(1)  # Torch's idle threads would spin on the processors that are measured.
    rank = SimulatedRank(json.loads(sys.argv[1]))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(rank.obey(line)), flush=True)
    for store in rank.stores.values():
        store.close()


if __name__ == "__main__":
    main()
