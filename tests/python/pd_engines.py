"""Fake prefill and decode engines on fake SGLang modules: their ranks, and small schedulers that act turn by turn as
SGLang's do. The schedulers refuse answers that are not legal in a queue, and give memory back in the turn in which they
hear of a room's end."""

import pathlib
import random
import sys
import time
from dataclasses import dataclass, field

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).with_name("sglang_shapes")))

from sglang.srt import runtime_context  # noqa: E402
from sglang.srt.disaggregation import utils  # noqa: E402
from sglang.srt.disaggregation.base.conn import KVArgs, KVPoll  # noqa: E402
from sglang.srt.disaggregation.common.conn import KVTransferError  # noqa: E402
from sglang.srt.plugins.hook_registry import HookRegistry  # noqa: E402
from sglang.srt.server_args import ServerArgs  # noqa: E402

from pd_memory import Model, RankMemory  # noqa: E402
from pd_states import ITEMS, places_of  # noqa: E402
from peercache.pd import plugin  # noqa: E402

plugin.load()
HookRegistry.apply_hooks()
BACKEND = utils.TransferBackend("peercache")


def kv_class(name):
    return utils.get_kv_class(BACKEND, utils.KVClassType[name])


BOOTSTRAP_QUEUE = {KVPoll.Failed, KVPoll.Bootstrapping, KVPoll.WaitingForInput}
INFLIGHT_QUEUE = {KVPoll.Failed, KVPoll.WaitingForInput, KVPoll.Transferring, KVPoll.Success}
ALL = INFLIGHT_QUEUE | BOOTSTRAP_QUEUE
ROOM_SECONDS = 20


class Rank:
    """One rank of an engine, which in SGLang is a process: its memory and its KV manager."""

    def __init__(self, memory, mode, bootstrap_port, layer_ids=True, cp=0, cp_size=1, **server):
        self.memory = memory
        dp, dp_size = server.get("dp", 0), server.pop("dp_size", 1)
        server.pop("dp", None)
        place = runtime_context.Parallel(memory.tp, memory.tp_size, cp, cp_size, dp, dp_size)
        runtime_context.set_parallel(place)
        args = ServerArgs(disaggregation_bootstrap_port=bootstrap_port, pp_size=memory.pp_size, dp_size=dp_size,
                          enable_dp_attention=dp_size > 1, **server)
        kv_args = memory.kv_args(KVArgs(), layer_ids)
        self.manager = kv_class("MANAGER")(kv_args, mode, args, memory.model.is_mla)

    def close(self):
        (self.manager.prefill or self.manager.decode).close()


def ranks_of(model, mode, port, tp=1, pp=1, cp_size=1, **more):
    """Returns all ranks of an engine: for each context parallel rank, for each pipeline stage, the tensor parallel
    ranks."""
    return [
        Rank(RankMemory(model, t, tp, stage, pp), mode, port, cp=cp, cp_size=cp_size, **more)
        for cp in range(cp_size) for stage in range(pp) for t in range(tp)
    ]


def prefill_ranks(model, port, **more):
    return ranks_of(model, utils.DisaggregationMode.PREFILL, port, **more)


def decode_ranks(model, port=0, **more):
    return ranks_of(model, utils.DisaggregationMode.DECODE, port, **more)


@dataclass
class Request:
    room: int
    seed: int
    tokens: int
    prefix_tokens: int = 0  # Tokens whose KV decode already has.
    dp_rank: int = 0
    abort_prefill_after: int = -1  # Chunks after which prefill's client gives up; -1: never.
    abort_decode_after: int = -1  # Turns in the transfer queue after which decode's client gives up.
    early_event: object = None  # Event of the first chunk; the chunk's pages are written when the event is done.
    ended: dict = field(default_factory=dict)  # For each side: "ok", or for each rank (reason, is_from_another_rank).


class Pool:
    """Free page numbers. Takes the number that was last given back, so that memory is reused at once."""

    def __init__(self, count, rng):
        self.free = list(range(count))
        rng.shuffle(self.free)

    def take(self, count):
        taken, self.free = self.free[len(self.free) - count:], self.free[:len(self.free) - count]
        assert len(taken) == count, "the test has no more memory"
        return np.array(taken, np.int32)

    def give_back(self, items):
        self.free += [int(item) for item in items]


class Scheduler:
    """Base class of the two schedulers. All ranks of an engine act by the lowest state that one of them polls."""

    def __init__(self, ranks, bootstrap_addr, seed=1, failure_prob=0.0):
        self.ranks, self.bootstrap_addr = ranks, bootstrap_addr
        self.rng, self.failure_prob = random.Random(seed), failure_prob
        self.pages = Pool(ranks[0].memory.pages, self.rng)
        self.rows = Pool(ranks[0].memory.rows, self.rng)
        self.model = ranks[0].memory.model
        self.window_tokens = self.model.window_tokens
        self.states = [Pool(ITEMS, self.rng) for _ in self.model.states]
        self.page_tokens = ranks[0].memory.model.page_tokens

    def poll(self, handles, legal):
        """SGLang's poll_and_all_reduce: returns the lowest state of all ranks. All ranks see an injected failure,
        although their rooms go on."""
        if self.failure_prob and self.rng.random() < self.failure_prob:
            return KVPoll.Failed
        polls = [handle.poll() for handle in handles]
        assert set(polls) <= legal, f"{polls} is not legal here"
        return min(polls)

    @staticmethod
    def failures(handles):
        """Returns the error that each rank raises, as (reason, is_from_another_rank)."""
        raised = []
        for handle in handles:
            try:
                handle.failure_exception()
            except KVTransferError as error:
                raised.append((error.failure_reason, error.is_from_another_rank))
        assert len(raised) == len(handles), "failure_exception always raises"
        return raised

    def take_states(self, request):
        """Takes state items for a request. Returns (first place, items) for each component."""
        states = []
        for kind, pool in zip(self.model.states, self.states):
            first, count = places_of(kind, request.prefix_tokens, request.tokens, self.page_tokens,
                                     self.window_tokens)
            states.append((first, pool.take(count)))
        return states

    def give_states_back(self, states):
        for pool, (_, items) in zip(self.states, states):
            pool.give_back(items)

    @staticmethod
    def indices_of(states):
        """Returns the indices of states in SGLang's form; None for an engine without states."""
        return [items for _, items in states] or None

    def write_all(self, request, pages, first, end):
        for rank in self.ranks:
            rank.memory.write(rank.memory.model.kv(request.seed, request.tokens), pages, first, end)


class PrefillScheduler(Scheduler):
    """Prefill's scheduler, with two queues: rooms that wait for decode, and rooms whose KV is computed or read."""

    def __init__(self, ranks, bootstrap_addr, chunk_pages=2, **more):
        super().__init__(ranks, bootstrap_addr, **more)
        self.chunk = chunk_pages * self.page_tokens
        self.bootstrap, self.inflight, self.metrics = [], [], []
        self.chunks_max = 1 << 30  # Number of chunks of each request that are computed.

    def add(self, request):
        senders = [
            kv_class("SENDER")(rank.manager, self.bootstrap_addr, request.room, [rank.memory.tp], rank.memory.pp)
            for rank in self.ranks
        ]
        self.bootstrap.append({"request": request, "senders": senders})

    def turn(self):
        for entry in list(self.bootstrap):
            self._bootstrap_turn(entry)
        for entry in list(self.inflight):
            self._inflight_turn(entry)

    def _bootstrap_turn(self, entry):
        state = self.poll(entry["senders"], BOOTSTRAP_QUEUE)
        if state == KVPoll.Failed:
            self.bootstrap.remove(entry)
            entry["request"].ended["prefill"] = self.failures(entry["senders"])
        elif state == KVPoll.WaitingForInput:
            self.bootstrap.remove(entry)
            self._begin(entry)

    def _begin(self, entry):
        request, senders = entry["request"], entry["senders"]
        # Leaves out context parallel ranks that send nothing.
        told = [sender for sender, rank in zip(senders, self.ranks) if not rank.manager.is_dummy_cp_rank]
        prefixes = {sender.pop_decode_prefix_len() for sender in told}
        assert prefixes == {request.prefix_tokens}
        entry["pages"] = self.pages.take(-(-request.tokens // self.page_tokens))
        (entry["row"],) = self.rows.take(1)
        entry["states"] = self.take_states(request)
        # Plays that prefill's cache, too, has the prefix that decode has.
        self.write_all(request, entry["pages"], 0, request.prefix_tokens)
        entry["at"], entry["chunks"], entry["sent_all"] = request.prefix_tokens, 0, False
        pages = -(-(request.tokens - request.prefix_tokens) // self.page_tokens)
        for sender in senders:
            sender.init(pages, int(entry["row"]))
        self.inflight.append(entry)

    def _inflight_turn(self, entry):
        request = entry["request"]
        if not entry["sent_all"]:
            if entry["chunks"] == request.abort_prefill_after:
                self._abort(entry)
                return
            if entry["chunks"] < self.chunks_max:
                self._forward(entry)
        state = self.poll(entry["senders"], INFLIGHT_QUEUE)
        if state == KVPoll.Success:
            # Frees the pages first, and clears the room afterwards, as SGLang does.
            self._release(entry)
            for sender in entry["senders"]:
                sender.clear()
            self.metrics.append([sender.get_transfer_metric() for sender in entry["senders"]])
            request.ended["prefill"] = "ok"
        elif state == KVPoll.Failed and entry["sent_all"]:
            raised = self.failures(entry["senders"])
            self._release(entry)
            request.ended["prefill"] = raised

    def _forward(self, entry):
        """Computes one chunk of a request, and sends it."""
        request = entry["request"]
        end = min(request.tokens, entry["at"] + self.chunk)
        pages = entry["pages"][entry["at"] // self.page_tokens:-(-end // self.page_tokens)]
        event = request.early_event if entry["chunks"] == 0 else None
        if event is None:
            self.write_all(request, entry["pages"], entry["at"], end)
        else:
            event.before_done = lambda at=entry["at"]: self.write_all(request, entry["pages"], at, end)
        last = end == request.tokens
        if last:
            for rank in self.ranks:
                rank.memory.write_row(entry["row"], request.room, request.seed % 1000)
                rank.memory.states.write(request.seed, entry["states"])
        for sender in entry["senders"]:
            if event is not None:
                sender._early_send_wait_event = event
            if sender.should_send_kv_chunk(len(pages), last):
                sender.send(pages, self.indices_of(entry["states"]) if last else None, num_kv_tokens=end - entry["at"])
        entry["at"], entry["sent_all"] = end, last
        entry["chunks"] += 1

    def _abort(self, entry):
        """Aborts a chunked request whose client has gone: drops its senders without a clear, and frees its pages at
        once."""
        for sender in entry["senders"]:
            sender.abort()
        self._release(entry)
        entry["request"].ended["prefill"] = "aborted"

    def _release(self, entry):
        """Frees a request's pages, and overwrites them at once, as a next request would."""
        for rank in self.ranks:
            rank.memory.poison(entry["pages"])
            rank.memory.states.poison(entry["states"])
        self.inflight.remove(entry)
        self.pages.give_back(entry["pages"])
        self.give_states_back(entry["states"])
        self.rows.give_back([entry["row"]])


class DecodeScheduler(Scheduler):
    """Decode's scheduler, with two queues: rooms that wait for prefill's address, and rooms whose pages are being
    filled."""

    def __init__(self, *words, **more):
        super().__init__(*words, **more)
        self.prealloc, self.transfer, self.wrong, self.touched = [], [], 0, 0

    def add(self, request, addr=None):
        addr = addr or self.bootstrap_addr
        receivers = [kv_class("RECEIVER")(rank.manager, addr, request.room) for rank in self.ranks]
        self.prealloc.append({"request": request, "receivers": receivers, "addr": addr, "inited": False})

    def turn(self):
        for entry in list(self.prealloc):
            self._prealloc_turn(entry)
        for entry in list(self.transfer):
            self._transfer_turn(entry)

    def _prealloc_turn(self, entry):
        if not entry["inited"]:
            if not all(rank.manager.try_ensure_parallel_info(entry["addr"]) for rank in self.ranks):
                return
            for receiver in entry["receivers"]:
                receiver.init(entry["request"].dp_rank)
            entry["inited"] = True
        state = self.poll(entry["receivers"], BOOTSTRAP_QUEUE)
        if state == KVPoll.Failed:
            self.prealloc.remove(entry)
            entry["request"].ended["decode"] = self._give_up(entry)
        elif state == KVPoll.WaitingForInput:
            self.prealloc.remove(entry)
            self._allocate(entry)

    def _allocate(self, entry):
        request = entry["request"]
        entry["pages"] = self.pages.take(-(-(request.tokens - request.prefix_tokens) // self.page_tokens))
        (entry["row"],) = self.rows.take(1)
        entry["states"] = self.take_states(request)
        for rank in self.ranks:
            rank.memory.poison(entry["pages"])
            rank.memory.write_row(entry["row"], 0, 0)
        for receiver in entry["receivers"]:
            receiver.send_metadata(entry["pages"], int(entry["row"]), self.indices_of(entry["states"]),
                                   decode_prefix_len=request.prefix_tokens)
        entry["turns"] = 0
        self.transfer.append(entry)

    def _transfer_turn(self, entry):
        request = entry["request"]
        if entry["turns"] == request.abort_decode_after:
            for receiver in entry["receivers"]:
                receiver.abort()
                assert receiver.conclude_state == KVPoll.Failed
        entry["turns"] += 1
        state = self.poll(entry["receivers"], ALL)
        if state == KVPoll.Success:
            self._check(entry)
            for receiver in entry["receivers"]:
                receiver.clear()
            request.ended["decode"] = "ok"
        elif state == KVPoll.Failed:
            request.ended["decode"] = self._give_up(entry)
        else:
            return
        self.transfer.remove(entry)
        self._give_pages_to_somebody(entry)

    def _give_up(self, entry):
        raised = self.failures(entry["receivers"])
        for receiver in entry["receivers"]:
            receiver.clear()
        return raised

    def _check(self, entry):
        request = entry["request"]
        for rank in self.ranks:
            kv = rank.memory.model.kv(request.seed, request.tokens)
            self.wrong += rank.memory.wrong(kv, entry["pages"], request.prefix_tokens, request.tokens)
            self.wrong += rank.memory.states.wrong(request.seed, entry["states"])
            self.wrong += bool((rank.memory.bootstrap_room[entry["row"]] != request.room).any())
            self.wrong += bool((rank.memory.output_ids[entry["row"]] != request.seed % 1000).any())

    def _give_pages_to_somebody(self, entry):
        """Overwrites pages that were given back, and counts those that are written to afterwards."""
        for rank in self.ranks:
            rank.memory.poison(entry["pages"])
            rank.memory.states.poison(entry["states"])
        deadline = time.monotonic() + 0.002
        while time.monotonic() < deadline:
            self.touched += sum(not rank.memory.is_poisoned(entry["pages"])
                                or not rank.memory.states.is_poisoned(entry["states"]) for rank in self.ranks)
        self.pages.give_back(entry["pages"])
        self.give_states_back(entry["states"])
        self.rows.give_back([entry["row"]])


class Pair:
    """A prefill and a decode engine in this process."""

    def __init__(self, model=Model(), prefill=None, decode=None, failure_prob=0.0, **prefill_scheduler):
        self.server = kv_class("BOOTSTRAP_SERVER")("127.0.0.1", 0)
        addr = f"127.0.0.1:{self.server.port}"
        self.prefill = PrefillScheduler(prefill_ranks(model, self.server.port, **(prefill or {})), addr,
                                        failure_prob=failure_prob, **prefill_scheduler)
        self.decode = DecodeScheduler(decode_ranks(model, **(decode or {})), addr, seed=2, failure_prob=failure_prob)

    def begin(self, *requests):
        for request in requests:
            request.ended.clear()
            self.prefill.add(request)
            self.decode.add(request)

    def run(self, *requests):
        """Begins these requests, and runs both schedulers until each request has ended on both sides. Returns the
        outcomes."""
        self.begin(*requests)
        self.turn_until(lambda: all(len(request.ended) == 2 for request in requests))
        return [request.ended["decode"] for request in requests]

    def turn_until(self, holds):
        deadline = time.monotonic() + ROOM_SECONDS
        while not holds():
            assert time.monotonic() < deadline, "a room does not end"
            self.prefill.turn()
            self.decode.turn()

    def rooms(self):
        """Returns how many rooms the workers of each side still have."""
        return (
            [rank.manager.prefill.stats()["rooms"] for rank in self.prefill.ranks],
            [rank.manager.decode.stats()["turns"] for rank in self.decode.ranks],
        )

    def close(self):
        for rank in self.prefill.ranks + self.decode.ranks:
            rank.close()
        self.server.close()


def right(pair):
    """Whether no byte was wrong, and nothing was written to memory that had been given back."""
    return (pair.decode.wrong, pair.decode.touched) == (0, 0)
