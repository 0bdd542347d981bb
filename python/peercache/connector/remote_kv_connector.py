"""RemoteKVConnector: the interface of SGLang RFC 7746 over PeerCache."""

from __future__ import annotations

import logging
import math
import time
from array import array
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type

from peercache._native import KeySpace, chain_keys
from peercache.client import ClearResult, Client, FlushResult, Option, Status
from peercache.connector.kv_buffers import KVArgsLike, KVBuffers
from peercache.connector.prefix_match import leading_run
from peercache.connector.transfers import Move, Transfer, TransferFuture, TransferQueue
from peercache.kv_events import service as kv_events
from peercache.kv_events.rounds import EngineFacts
from peercache.kv_events.dialects import MOONCAKE
from peercache.kv_events.publisher import EventSettings
from peercache.opening import open_or_miss
from peercache.spaces import space_name

logger = logging.getLogger("peercache.connector")

PageToTokens = Sequence[Tuple[int, slice]]
"""For each page its index in the engine's buffers and its range of positions in the token list."""

CLOSE_SPARE_SECONDS = 1.0


@dataclass(frozen=True)
class ConnectorMetadata:
    """The engine and the pages that a connector serves. Every field up to `space` decides what a page's bytes mean:
    engines that differ in one of these fields never get each other's pages."""

    model: str
    """The model's name, with its revision when weights may change under the same name."""
    dtype: str
    """The type of the KV cache, such as "bfloat16" or "fp8_e4m3"."""
    page_size: int
    """How many tokens a page has."""
    tp_rank: int = 0
    tp_size: int = 1
    pp_rank: int = 0
    pp_size: int = 1
    cp_rank: int = 0
    cp_size: int = 1
    is_mla: bool = False
    """Whether all ranks of a TP group hold the same bytes: then a page is written and read as one for all ranks."""
    space: str = ""
    """The space of a tenant: no page of one space is ever found in another."""
    options: Mapping[str, Option] = field(default_factory=dict)
    """Options by the names of the option table; without any, the node of this host is used."""
    embedded: bool = False
    """Whether a node is started in this process."""
    threads: int = 4
    """Threads that move chunks, and so chunks that are moved at the same time."""
    chunk_bytes: int = 64 << 20
    """Bytes of one chunk of a transfer, which is the unit of turns; a cancelled transfer ends after its current
    chunk."""
    match_timeout_s: float = 0.25
    """The time limit of num_external_matched_tokens, which a scheduler waits for."""
    transfer_timeout_s: float = 30.0
    """The time limit of a transfer, from its call to its end, including the wait for other transfers."""
    waiting_pages_max: int = 65536
    """Pages of all transfers that are not done; a transfer that would exceed it is refused."""
    kv_events: Mapping[str, Any] = field(default_factory=dict)
    """The settings of KV events for routers (docs/routers.md), by their names without "kv_events."; without an endpoint
    no events are sent."""
    dp_rank: int = 0


class _Spaces(NamedTuple):
    chain: KeySpace
    """The key space of the chain's links, which is the same on all ranks."""
    own: Sequence[KeySpace]
    """The key space of this rank's pages."""
    group: Sequence[KeySpace]
    """The key spaces of the pages of all ranks of the TP group."""
    told: Sequence[List[str]]
    """The fields of the spaces of `group`."""


def _spaces_of(metadata: ConnectorMetadata, geometry: Sequence[str]) -> _Spaces:
    common = [
        space_name(metadata.model, metadata.space),
        "peercache-connector-1",
        f"space={metadata.space}",
        f"model={metadata.model}",
        f"dtype={metadata.dtype}",
        f"page_size={metadata.page_size}",
        f"mla={metadata.is_mla}",
        f"pp={metadata.pp_rank}/{metadata.pp_size}",
        f"cp={metadata.cp_rank}/{metadata.cp_size}",
        *geometry,
    ]
    ranks = ["all"] if metadata.is_mla else [f"{r}/{metadata.tp_size}" for r in range(metadata.tp_size)]
    told = [[*common, f"tp={rank}"] for rank in ranks]
    group = [KeySpace(fields) for fields in told]
    own = group if metadata.is_mla else [group[metadata.tp_rank]]
    return _Spaces(KeySpace([f"model={metadata.model}", f"dtype={metadata.dtype}"]), own, group, told)


class _Told(NamedTuple):
    """The facts about a page, beside its key, that KV events carry."""

    parent: Optional[str]
    """The key of the page before it in the prompt; None for the first page."""
    tokens: Sequence[int]


class _FullPages(NamedTuple):
    """The pages of a transfer that are full."""

    pages: List[int]
    """The indices of the pages in the engine's buffers."""
    keys: List[str]
    end: int
    """The position where the last page's tokens end."""
    places: List[int]
    """The number of each page in the prompt."""
    chain: List[str]
    """The keys of the prompt's pages, from its first one on."""
    page_tokens: int

    def told(self, tokens: Sequence[int]) -> Dict[str, _Told]:
        """Returns the facts about the pages that KV events carry, by key, with a copy of the pages'
        tokens."""
        size = self.page_tokens
        return {key: _Told(self.chain[place - 1] if place else None, list(tokens[place * size : (place + 1) * size]))
                for key, place in zip(self.keys, self.places)}


def _event_settings_of(metadata: ConnectorMetadata) -> Optional[EventSettings]:
    settings = EventSettings.of({f"kv_events.{key}": value for key, value in metadata.kv_events.items()})
    if settings is not None and settings.encoding == MOONCAKE:
        raise ValueError("kv_events: the connector's keys are no hashes of SGLang's, which a router would look up in "
                         "Mooncake's stream; the encodings array and map tell it the tokens")
    return settings


def _runs(keys: Sequence[str], told: Dict[str, _Told]) -> List[List[str]]:
    """Cuts keys into runs of pages that follow each other in the prompt."""
    runs: List[List[str]] = []
    for key in keys:
        if runs and told[key].parent == runs[-1][-1]:
            runs[-1].append(key)
        else:
            runs.append([key])
    return runs


def _row(tokens: Sequence[int]) -> "array[int]":
    """A copy of the tokens, since the engine's list grows while the connector works on it."""
    row = array("I", tokens)
    if row.itemsize != 4:
        raise ValueError("this platform's unsigned int is not of 32 bits")
    return row


class RemoteKVConnector:
    """KV pages straight between an engine's buffers and the cluster.

    A page's key is BLAKE3 over model, dtype and all tokens up to the page's end, chained page by page; so
    only whole pages are stored, and equal keys mean equal prefixes. There is no index of prefixes: the
    directory is asked which pages of a chain exist.

    Threads: any number may call; transfers run on threads of ours. Order: the transfers of one request
    run one after the other. Ownership: the pages of a transfer are lent until its future is done, or
    `finish_req` or `close` has returned True; after that nothing reads or writes them, also when it
    failed or was cancelled. Pages of a retrieve beyond `TransferResult.pages` may hold any bytes.
    Deadlines: num_external_matched_tokens by `match_timeout_s`, a transfer by `transfer_timeout_s`, or by
    `timeout` (seconds) of the call. Errors: ValueError, RuntimeError and OverflowError for misuse
    (pages outside the buffers or named twice in a call, ranges that are not pages, a call before
    register_kv_buffers), RuntimeError from `register_kv_buffers` where no threads can be started,
    `peercache.Error` from the constructor for options that make no sense, or an embedded node that cannot
    start; nothing else. Pages that cannot be read or stored are misses;
    after `close` all pages are.
    """

    def __init__(self, metadata: ConnectorMetadata) -> None:
        if metadata.page_size < 1 or not 0 <= metadata.tp_rank < metadata.tp_size:
            raise ValueError(f"page_size {metadata.page_size}, rank {metadata.tp_rank} of {metadata.tp_size}")
        self.metadata = metadata
        self._event_settings = _event_settings_of(metadata)
        self._events: Optional[kv_events.KVEvents] = None
        self.client = open_or_miss(metadata.options, logger, metadata.embedded)
        self._timeout_s = self.client.native.timeout
        self._buffers: Optional[KVBuffers] = None
        self._spaces = _spaces_of(metadata, [])
        self._queue: Optional[TransferQueue] = None
        self._closed = False

    def register_kv_buffers(self, kv_args: KVArgsLike) -> None:
        """Makes the engine's buffers known. Call it once, before any other call. The buffers stay the engine's, and
        must stay in place until `close`. Errors: ValueError for buffers that are not of the metadata's pages,
        RuntimeError where no threads can be started for the transfers; then nothing is registered, and the call may be
        made again."""
        if self._buffers is not None:
            raise RuntimeError("the KV buffers are registered already")
        page_size = getattr(kv_args, "page_size", None) or self.metadata.page_size
        if page_size != self.metadata.page_size:
            raise ValueError(f"buffers with pages of {page_size} tokens, not {self.metadata.page_size}")
        buffers = KVBuffers.of(kv_args)
        chunk_pages = max(1, self.metadata.chunk_bytes // buffers.page_bytes)
        # Made first, since `close` gives no memory back whose buffers are not known.
        self._queue = TransferQueue(self.metadata.threads, chunk_pages, self.metadata.waiting_pages_max)
        self._buffers = buffers
        for address, size in buffers.memory():
            fault = self.client.native.register_memory(address, size)
            if fault is not None:
                logger.warning("a KV buffer is not registered, pages are copied once more: %s", fault)
        self._spaces = _spaces_of(self.metadata, buffers.geometry())
        for space, fields in zip(self._spaces.group, self._spaces.told):
            self.client.native.describe(space, "connector", fields, {})
        self._begin_events()

    def _begin_events(self) -> None:
        """Starts the KV events: the first rank announces the blocks of its TP group."""
        of = self.metadata
        if of.tp_rank or of.pp_rank or of.cp_rank:
            return
        engine = EngineFacts(self._spaces.group, of.page_size, lambda _: (), of.model, of.dp_rank)
        self._events = kv_events.start(self._event_settings, self.client, engine)

    def clear(self, timeout: Optional[float] = None) -> ClearResult:
        """Withdraws all pages that are kept for this model in this space, whoever stored them: for new weights under
        an old name."""
        return self.client.clear(space_name(self.metadata.model, self.metadata.space), timeout)

    # Methods that look for stored prefixes

    def page_keys(self, tokens: Sequence[int]) -> List[str]:
        """The key of each full page of a prompt, 64 hex digits each."""
        return chain_keys(self._spaces.chain, _row(tokens), self.metadata.page_size)

    def num_external_matched_tokens(
        self, req_id: str, tokens: Sequence[int], num_local_computed_tokens: int, **kwargs: Any
    ) -> int:
        """How many tokens beyond the local ones can be loaded: full pages without a gap, beginning with the page in
        which the local tokens end. A page counts when all ranks of the TP group have their pages."""
        self._need_buffers()
        deadline = time.monotonic() + float(kwargs.get("timeout", self.metadata.match_timeout_s))
        first = max(0, num_local_computed_tokens) // self.metadata.page_size
        keys = self.page_keys(tokens)[first:]
        group = self._spaces.group

        def ask(pages: Sequence[int]) -> List[bool]:
            left = max(0.0, deadline - time.monotonic())
            asked = [keys[page] for page in pages]
            found = self.client.native.exists(group, asked, min(left, self._timeout_s), None, True).run // len(group)
            return [page < found for page in range(len(asked))]

        matched = (first + leading_run(len(keys), ask)) * self.metadata.page_size
        return max(0, matched - num_local_computed_tokens)

    # Methods that transfer pages

    def store_kv_async(
        self, req_id: str, page_to_tokens_mapping: PageToTokens, tokens_list: Sequence[int], **kwargs: Any
    ) -> Tuple[TransferFuture, int]:
        """Copies pages into this host's pool. Returns the future, and the position in `tokens_list` up to which this
        call stores: tokens of a page that is not full are left for a later call. When the future is done the engine
        may use the pages again; other hosts find them some milliseconds later (`flush`)."""
        full = self._full_pages(page_to_tokens_mapping, tokens_list)
        store = self._announcing(self._store, full, tokens_list)
        return self._submit(req_id, store, full, kwargs), full.end

    def retrieve_kv_async(
        self, req_id: str, page_to_tokens_mapping: PageToTokens, tokens_list: Sequence[int], **kwargs: Any
    ) -> TransferFuture:
        """Reads pages into the engine's buffers, from wherever they are, and ends at the first page that cannot be
        had. A page that is not full is left out, since nobody has stored it."""
        full = self._full_pages(page_to_tokens_mapping, tokens_list)
        retrieve = self._announcing(self._retrieve, full, tokens_list)
        return self._submit(req_id, retrieve, full, kwargs)

    def _full_pages(self, mapping: PageToTokens, tokens: Sequence[int]) -> _FullPages:
        """The pages of a transfer. Errors: ValueError."""
        size, buffers = self.metadata.page_size, self._need_buffers()
        pages: List[int] = []
        places: List[int] = []
        end = mapping[0][1].indices(len(tokens))[0] if mapping else 0
        for page, span in mapping:
            start, stop, step = span.indices(len(tokens))
            if start % size != 0 or step != 1 or stop - start > size:
                raise ValueError(f"tokens {start} to {stop} are no page of {size} tokens")
            if stop - start == size:
                pages.append(int(page))
                places.append(start // size)
                end = stop
        if len(set(pages)) < len(pages):
            raise ValueError("a page of the buffers is named twice: it holds the KV of one page of tokens")
        # The pages are checked in the caller's thread, so that misuse is an exception for the caller.
        buffers.parts(pages)
        chain = self.page_keys(tokens[: (max(places) + 1) * size]) if places else []
        return _FullPages(pages, [chain[place] for place in places], end, places, chain, size)

    def _submit(self, req_id: str, move: Move, full: _FullPages, extra: Dict[str, Any]) -> TransferFuture:
        assert self._queue is not None
        seconds = float(extra.get("timeout", self.metadata.transfer_timeout_s))
        if math.isnan(seconds):
            raise ValueError("a timeout of nan seconds")
        deadline = time.monotonic() + seconds
        return self._queue.submit(req_id, Transfer(move, full.keys, full.pages, self.metadata.page_size, deadline))

    def _store(self, keys: Sequence[str], pages: Sequence[int], seconds: float) -> Sequence[int]:
        addresses, sizes = self._need_buffers().parts(pages)
        left = min(seconds, self._timeout_s)
        return self.client.native.set(self._spaces.own, keys, addresses, sizes, left).statuses

    def _retrieve(self, keys: Sequence[str], pages: Sequence[int], seconds: float) -> Sequence[int]:
        addresses, sizes = self._need_buffers().parts(pages)
        left = min(seconds, self._timeout_s)
        return self.client.native.get(self._spaces.own, keys, addresses, sizes, left).statuses

    def _announcing(self, move: Move, full: _FullPages, tokens: Sequence[int]) -> Move:
        """Returns a move that notes the pages that it has moved for KV events; without events, `move` itself."""
        events = self._events
        if events is None:
            return move
        told, note = full.told(tokens), events.stored if move == self._store else events.read

        def moved(keys: Sequence[str], pages: Sequence[int], seconds: float) -> Sequence[int]:
            statuses = move(keys, pages, seconds)
            done = [key for key, status in zip(keys, statuses)
                    if status in (Status.STORED, Status.DUPLICATE, Status.HIT)]
            for run in _runs(done, told):
                note(run, [True] * len(run), told[run[0]].parent, [told[key].tokens for key in run])
            return statuses

        return moved

    def _need_buffers(self) -> KVBuffers:
        if self._buffers is None:
            raise RuntimeError("register_kv_buffers comes first")
        return self._buffers

    # Methods that end requests and the connector

    def finish_req(self, req_id: str) -> bool:
        """Cancels all transfers of the request, and returns when nothing touches its pages: a chunk that is being moved
        is awaited. False: that chunk took longer than any call of PeerCache may take; the request's pages must not be
        used until its futures are done."""
        return self._queue is None or self._queue.finish(req_id, self._timeout_s + CLOSE_SPARE_SECONDS)

    def flush(self, timeout: Optional[float] = None) -> FlushResult:
        """Waits until every page stored so far can be found by other hosts."""
        return self.client.flush(timeout)

    def close(self) -> bool:
        """Cancels the transfers of all requests as `finish_req` does, gives the buffers back and ends the client.
        Not to be called from a callback of a future."""
        if self._closed:
            return True
        self._closed = True
        if self._events is not None:
            self._events.close()
        idle = self._queue is None or self._queue.close(self._timeout_s + CLOSE_SPARE_SECONDS)
        if idle and self._buffers is not None:
            for address, _ in self._buffers.memory():
                self.client.native.unregister_memory(address)
        self.client.close()
        return idle

    def __enter__(self) -> "RemoteKVConnector":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()
