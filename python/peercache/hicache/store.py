"""PeerCacheStore: PeerCache as the L3 of SGLang HiCache."""

from __future__ import annotations

import json
import logging
import weakref
from typing import Any, Dict, List, Mapping, Optional, Sequence

from peercache._native import KeySpace
from peercache.hicache.backend import Backend, Deadline
from peercache.hicache.contract import PoolTransferResult, Ranks, StorageBase, dp_rank_of, is_trailing, name_of
from peercache.hicache.figures import Figures
from peercache.hicache.guard import count_of, never_raises, none_of, none_of_each
from peercache.hicache.hit_policy import Demand, all_or_none, leading_run, usable_prefix
from peercache.hicache.host_pool import FLAT, LARGE, ZERO_COPY, HostPool, PoolFault, fields_of, is_group
from peercache.hicache.moves import Moves
from peercache.hicache.settings import settings_of
from peercache.hicache.stored_pool import StoredPool, is_draft, tokens_of
from peercache.hicache.told_spaces import ToldSpaces
from peercache.kv_events import gpu_blocks, service as kv_events
from peercache.kv_events.rounds import EngineFacts
from peercache.kv_events.dialects import MOONCAKE, sglang_objects
from peercache.spaces import space_name

logger = logging.getLogger("peercache.hicache")

KV = "kv"

CUT_DRAFT_LINE = (
    "pool %s is cut over the ranks, and of an MLA engine SGLang backs up the first rank's share only: in the unified "
    'tree nothing of L3 is usable then. Add "blank_drafts": true to the JSON of the storage backend: the other '
    "ranks are given zeros for their shares, which makes drafts worse and changes no output"
)


class PeerCacheStore(StorageBase):
    """The storage backend for `--hicache-storage-backend dynamic`:

        {"backend_name": "peercache", "module_path": "peercache.hicache",
         "class_name": "PeerCacheStore", "interface_v1": 1}

    Other keys of the JSON are names of the option table (docs/configuration.md), "space" for a tenant,
    and "embedded" for a node in this process; without it the node of this host is used.

    Threads: any number of calls at once; SGLang has one thread for exists, one for get and one for set. Ownership: a
    set copies inside the call, after a get nothing writes to the host pool, also where it missed. Errors: the
    constructor raises ValueError for a JSON that makes no sense. No other method raises or returns None where SGLang
    expects an answer: a page that cannot be read or stored is a miss. Deadlines: `client.timeout`
    for a call, whatever it asks of how many pools and nodes, and for a get no more than SGLang
    itself would wait for as many tokens.

    Answers of ranks: a page counts as there when all ranks of the TP group have theirs, so that all of
    them say the same; what appears or goes between two ranks' questions SGLang levels with its MIN. With
    "own_pages_only" a rank's own page is enough, and that MIN has to do the rest.
    """

    def __init__(self, storage_config: Any, kwargs: Optional[Mapping[str, Any]] = None) -> None:
        self._settings = settings_of(getattr(storage_config, "extra_config", None))
        self._ranks = Ranks.of(storage_config, self._settings.tp_lcm_size)
        self._backend = Backend(self._settings)
        self._figures = Figures()
        self._moves = Moves(self._backend, self._figures if self._ranks.wants_metrics else None,
                            self._settings.hold_s)
        self._told = ToldSpaces(self._backend.client.native, self._ranks, self._settings)
        self._pools: Dict[str, StoredPool] = {}
        self._events: Optional[kv_events.KVEvents] = None
        self._gpu: Optional[gpu_blocks.GpuFollower] = None
        self._dp_rank = dp_rank_of(storage_config)
        logger.info("PeerCache serves rank %s of %s at %s; data plane %s", self._ranks.tp_rank,
                    self._ranks.tp_size, self._backend.client.node_address, self._backend.client.data_plane)

    # Registration of host pools

    @never_raises(lambda *_, **__: None)
    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        """Registers the host pool, in place of the pool that was registered before, if any."""
        if KV in self._pools:
            self._pools.clear()
            self._end_events()
            self._backend.forget_pools()
        super().register_mem_pool_host(mem_pool_host)
        self._backend.unified_tree = is_group(mem_pool_host)
        self._add_pool(mem_pool_host, KV)
        self._begin_events()

    @never_raises(lambda *_, **__: None)
    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        if name_of(host_pool_name) == KV:  # Only the controller of the unified tree registers the KV pool by name.
            self._backend.unified_tree = True
        self._add_pool(host_pool, name_of(host_pool_name))

    def _add_pool(self, pool: Any, name: str) -> None:
        kv = self._pools.get(KV)
        before = self._pools.pop(name, None)
        hosts = [kept.host for kept in self._pools.values()]
        try:
            try:
                host = HostPool(pool, name, self._ranks, "" if kv is None else kv.host.device_dtype)
                if host.pieces > 1 and name == KV and not self._settings.interface_v1:
                    raise PoolFault(f'a flat page has {host.page_bytes} bytes: add "interface_v1": 1')
                hosts.append(host)
            finally:
                if before is not None:
                    # SGLang's HostPoolGroup and its anchor are the same memory, so memory that the new pools share with
                    # the old one stays registered.
                    self._backend.forget_pool(before.host, hosts)
            self._backend.register(host)
        except PoolFault as fault:
            logger.error("pool %s is not kept in L3: %s", name, fault)
            self._told.not_kept(name, str(fault))
            return
        if host.cut_draft and not self._settings.blank_drafts:
            logger.error(CUT_DRAFT_LINE, name)
        by_address = host.zero_copy and (self._settings.interface_v1 or name != KV)
        form = (LARGE if host.pieces > 1 else ZERO_COPY) if by_address else FLAT
        for fields in fields_of(host, self._ranks, self._settings.space, form, False):
            # From these fields and a page's hash an operator can find out why the page missed (docs/sglang.md).
            logger.info("key space of pool %s: %s", name, json.dumps(fields))
        self._told.kept(host, form)
        self._pools[name] = StoredPool.of(host, self._ranks, self._settings)

    def _asked(self, pool: StoredPool, own_only: bool) -> Sequence[KeySpace]:
        """The key spaces in which a pool's pages are looked for: without interface_v1 SGLang puts the pages of KV as
        flat ones."""
        return pool.asked(self._settings.interface_v1 or pool.host.name != KV, own_only)

    # KV events: the first rank announces the blocks of its TP group

    def _begin_events(self) -> None:
        pool, ranks = self._pools.get(KV), self._ranks
        if pool is None or pool.host.logical_only or ranks.tp_rank or ranks.pp_rank or ranks.cp_rank:
            return
        spaces = self._asked(pool, own_only=False)
        self._gpu = gpu_blocks.follow(self._settings.gpu_events, self._backend.client, spaces, pool.host.page_size,
                                      self._dp_rank)
        if self._gpu is not None:
            weakref.finalize(self, self._gpu.close)
        if ranks.pp_size > 1 and self._settings.events and self._settings.events.encoding == MOONCAKE:
            logger.error("no KV events: Mooncake's stream names the objects of all pipeline stages, of which this "
                         "rank knows one; leave out kv_events.encoding")
            return
        engine = EngineFacts(
            spaces=spaces,
            page_tokens=pool.host.page_size,
            object_keys=sglang_objects(ranks.tp_size, ranks.is_mla),
            model=ranks.model,
            dp_rank=self._dp_rank,
        )
        self._events = kv_events.start(self._settings.events, self._backend.client, engine)
        if self._events is not None:
            weakref.finalize(self, self._events.close)  # Ends the events of a store that nobody closes.

    def _end_events(self) -> None:
        events, self._events = self._events, None
        gpu, self._gpu = self._gpu, None
        for each in (events, gpu):
            if each is not None:
                each.close()

    def _announce(self, keys: Sequence[str], moved: Sequence[bool], extra_info: Any, read: bool = False) -> None:
        if self._events is not None:
            before = getattr(extra_info, "prefix_keys", None)
            note = self._events.read if read else self._events.stored
            note(keys, moved, before[-1] if before else None)

    # Methods that ask which pages exist

    @never_raises(lambda *_, **__: 0)
    def batch_exists(self, keys: Sequence[str], extra_info: Any = None) -> int:
        """How many pages the cache has from the first one on: the leading run, not the count of all hits."""
        pool = self._pools.get(KV)
        if pool is None:
            return self._told.missed(KV, len(keys))
        return self._run(pool, keys, self._backend.seconds(tokens_of(pool, len(keys))))

    def _run(self, pool: StoredPool, keys: Sequence[str], seconds: float) -> int:
        if self._backend.closed:
            return 0
        if pool.host.logical_only or not keys:
            return len(keys)
        spaces = self._asked(pool, self._settings.own_pages_only)
        if pool.large(spaces) is not None:
            return leading_run(self._moves.there(pool, spaces, keys, Deadline(seconds)))
        # No pool's memory is touched, so the backend need not wait for the call; a closed client finds nothing.
        native = self._backend.client.native
        return native.exists(spaces, keys, seconds, self._settings.hold_s, True).run // len(spaces)

    @never_raises(lambda *_, **__: False)
    def exists(self, key: str) -> bool:
        """Whether the cache has the page of this key, in whatever form it was put. A draft is looked for in the shapes
        of all drafts that this store has seen."""
        pool = self._pools[KV]
        limit = self._backend.deadline(pool.host.page_size)
        own_only = self._settings.own_pages_only
        forms = [pool.asked(by_address, own_only) for by_address in (True, False)]
        asked = pool.drafts.known() if is_draft(key) else forms
        with self._backend:
            return (pool.host.logical_only and not is_draft(key)) or any(
                self._moves.there(pool, spaces, [key], limit) == [True] for spaces in asked
            )

    @never_raises(lambda *_, **__: PoolTransferResult(0, {}))
    def batch_exists_v2(
        self,
        keys: Sequence[str],
        pool_transfers: Optional[Sequence[Any]] = None,
        extra_info: Any = None,
    ) -> Any:
        """Finds the longest prefix whose pages every pool has, as far as the pool's hit policy needs them."""
        transfers, kv = pool_transfers or [], self._pools.get(KV)
        limit = self._backend.deadline(tokens_of(kv, len(keys)))
        kv_pages = self._run(kv, keys, limit.left()) if kv is not None else self._told.missed(KV, len(keys))
        demands = [self._demand(transfer, keys[:kv_pages], limit) for transfer in transfers] if kv_pages else []
        usable = usable_prefix(kv_pages, demands)
        found = {name_of(transfer.name): usable for transfer in transfers}
        return PoolTransferResult(usable, {KV: usable, **found} if usable else {})

    def _demand(self, transfer: Any, keys: Sequence[str], limit: Deadline) -> Demand:
        trailing = max(1, count_of(transfer.keys)) if is_trailing(transfer.hit_policy) else 0
        pool = self._pools.get(name_of(transfer.name))
        if pool is None:
            return [], trailing
        if pool.host.logical_only:
            return [True] * len(keys), trailing
        spaces = self._asked(pool, self._settings.own_pages_only)
        return self._moves.there(pool, spaces, keys, limit), trailing

    # Moves of pages by address (interface v1)

    @never_raises(none_of)
    def batch_get_v1(
        self, keys: Sequence[str], host_indices: Any, extra_info: Any = None
    ) -> List[bool]:
        """Reads pages into the host pool; a bool for each key. When the call returns, no read writes to the pool."""
        pool = self._pools.get(KV)
        limit = self._backend.deadline(tokens_of(pool, len(keys)))
        there = self._moves.get(pool, keys, host_indices, limit)
        self._announce(keys, there, extra_info, read=True)
        return there

    @never_raises(none_of)
    def batch_set_v1(
        self, keys: Sequence[str], host_indices: Any, extra_info: Any = None
    ) -> List[bool]:
        """Copies pages out of the host pool; a bool for each key. When the call returns, SGLang may overwrite the
        pages."""
        stored = self._moves.set(self._pools.get(KV), keys, host_indices, self._backend.deadline())
        self._announce(keys, stored, extra_info)
        return stored

    # Moves of pages in named pools (interface v2)

    @never_raises(none_of_each)
    def batch_get_v2(self, transfers: Sequence[Any], extra_info: Any = None) -> Dict[Any, List[bool]]:
        """Reads pages of several pools: a page that one pool lacks is a miss in all pools that need it."""
        # All transfers are for the same tokens, so each may take as long as the longest.
        tokens = [tokens_of(self._pools.get(name_of(t.name)), count_of(t.keys)) for t in transfers]
        limit = self._backend.deadline(max(tokens, default=0))
        results = {t.name: self._transfer(t, transfers, self._moves.get, limit) for t in transfers}
        trailing = [t.name for t in transfers if is_trailing(t.hit_policy)]
        all_or_none({t.name: t.keys or [] for t in transfers}, results, trailing)
        return results

    @never_raises(none_of_each)
    def batch_set_v2(self, transfers: Sequence[Any], extra_info: Any = None) -> Dict[Any, List[bool]]:
        """Stores pages of several pools; for each pool a bool for each key."""
        limit = self._backend.deadline()
        return {t.name: self._transfer(t, transfers, self._moves.set, limit) for t in transfers}

    def _transfer(self, transfer: Any, transfers: Sequence[Any], move: Any, limit: Deadline) -> List[bool]:
        """Moves the pages of one pool; some pools use the indices of another pool's transfer."""
        keys, indices = transfer.keys or [], transfer.host_indices
        source = getattr(transfer, "indices_from_pool", None)
        if indices is None and source is not None:
            indices = next((t.host_indices for t in transfers if name_of(t.name) == name_of(source)), None)
        pool = self._pools.get(name_of(transfer.name))
        if pool is None or (indices is None and not pool.host.logical_only):
            logger.warning("pool %s is not registered, or has no indices", name_of(transfer.name))
            return [False] * len(keys)
        moved: List[bool] = _never(move)(pool, keys, indices, limit)
        return moved

    # Methods for flat pages, which SGLang calls without interface_v1, and for drafts

    @never_raises(lambda *_, **__: None)
    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> Any:
        """Reads a flat page into the given tensor, or into a new one. None: the page is not there."""
        return self.batch_get([key], [target_location])[0]

    @never_raises(lambda keys=(), *_, **__: [None] * count_of(keys))
    def batch_get(
        self, keys: Sequence[str], target_locations: Any = None, target_sizes: Any = None
    ) -> List[Any]:
        """Reads flat pages. Returns their tensors, with None for each page that is not there, or whose tensor shares
        its memory with that of an earlier page."""
        pool = self._pools[KV]
        limit = self._backend.deadline(tokens_of(pool, len(keys)))
        given = [None] * len(keys) if target_locations is None else target_locations
        pages = [pool.host.pool.get_dummy_flat_data_page() if page is None else page for page in given]
        read = self._moves.read_flat(pool, keys, pages, limit)
        if not self._settings.interface_v1 and not any(map(is_draft, keys)):
            self._announce(keys, read, None, read=True)
        return [page if there else None for page, there in zip(pages, read)]

    @never_raises(lambda *_, **__: False)
    def set(
        self, key: str, value: Any = None, target_location: Any = None, target_sizes: Any = None
    ) -> bool:
        return self.batch_set([key], [value])

    @never_raises(lambda *_, **__: False)
    def batch_set(
        self,
        keys: Sequence[str],
        values: Any = None,
        target_locations: Any = None,
        target_sizes: Any = None,
    ) -> bool:
        """Stores flat pages; True when all of them are stored."""
        limit = self._backend.deadline()
        stored = self._moves.write_flat(self._pools[KV], keys, values, limit)
        if not self._settings.interface_v1 and not any(map(is_draft, keys)):
            self._announce(keys, stored, None)
        return all(stored)

    # Clearing, figures and the end of the store

    @never_raises(lambda *_, **__: False)
    def clear(self) -> bool:
        """Withdraws all pages that are kept for this model in this space, on every node and disk, whichever engine
        and rank put them. False where that is not certain, for example while a node is unreachable: a warning then
        names the node, and its pages are withdrawn when it is back."""
        limit = self._backend.deadline()
        with self._backend as backend:
            return backend.clear(space_name(self._ranks.model, self._settings.space), limit)

    @never_raises(lambda *_, **__: None)
    def get_stats(self) -> Any:
        """The figures of the batches since the last call as SGLang's StorageMetrics; None when metrics are off."""
        return self._figures.take() if self._ranks.wants_metrics else None

    @never_raises(lambda *_, **__: None)
    def close(self) -> None:
        """Ends the client and gives the pools' memory back; every later call is a miss."""
        self._end_events()
        self._backend.close()


def _never(move: Any) -> Any:
    """Wraps a move of one pool so that its fault makes misses of that pool, and other pools are moved all the same."""

    @never_raises(lambda pool, keys, *_: none_of(keys))
    def moved(self: None, pool: StoredPool, keys: Sequence[str], indices: Any, limit: Deadline) -> Any:
        return move(pool, keys, indices, limit)

    return lambda *arguments: moved(None, *arguments)
