"""SGLang's host pools: where the parts of their pages lie, and what decides the meaning of a page's bytes."""

from __future__ import annotations

import logging
import operator
from typing import Any, Iterator, List, Optional, Sequence, Tuple

from peercache._native import KeySpace, page_bytes_max, parts_per_page_max
from peercache.hicache.contract import Ranks, server_argument
from peercache.hicache.page_rows import Parts, Rows, probed_indices, rows_of
from peercache.hicache.pieces import LARGE_PAGE_BYTES_MAX, cut, pieces_of
from peercache.spaces import space_name

logger = logging.getLogger("peercache.hicache")

SMALL_PAGE_BYTES = 64 << 10

ZERO_COPY, LARGE, FLAT = "parts", "large", "flat"
"""The forms of a page: parts that are moved by address, parts that are moved in pieces, or one flat copy that the
pool made."""

GEOMETRY = (
    "layer_num", "head_num", "head_dim", "v_head_dim", "kv_cache_dim", "kv_lora_rank",
    "qk_rope_head_dim", "start_layer", "end_layer", "size_per_token",
)
"""Attributes of host pools that change what a page's bytes mean; each kind of pool has some of them."""

STATE_GEOMETRY = (
    "num_mamba_layers", "conv_dtype", "temporal_dtype", "conv_state_shapes", "temporal_state_shape",
)
"""Attributes of pools of states (Mamba, KDA) that change what a page's bytes mean; other pools have none of them."""

SHARDED = ("head_num", "conv_state_shapes", "temporal_state_shape")
"""Attributes that only pools have which are cut over the ranks of a TP group, whatever the model's attention is."""

DRAFTS = frozenset({"draft", "draft_indexer", "draft_swa"})
"""The names of a draft model's pools."""

WHOLE = frozenset({"kv", "swa", "indexer"}) | DRAFTS
WHOLE_PREFIX = "deepseek_v4_"
"""Names of pools, and the beginning of such names, that every rank of an MLA engine has in full; DeepSeek-V4's engine
counts as an MLA engine."""


class PoolFault(Exception):
    """Raised when a pool or its pages cannot be used as they are; the message says why."""


def _tensors(buffer: Any) -> Iterator[Any]:
    if isinstance(buffer, (list, tuple)):
        for each in buffer:
            yield from _tensors(each)
    elif buffer is not None and hasattr(buffer, "data_ptr"):
        yield buffer


def is_group(pool: Any) -> bool:
    """Whether `pool` is SGLang's HostPoolGroup: an anchor and the pools beside it."""
    return hasattr(pool, "anchor_entry")


def _shape_of(pool: Any) -> Any:
    """The pool whose attributes tell the shape of a page: the anchor of a HostPoolGroup of SGLang, otherwise `pool`
    itself."""
    return getattr(getattr(pool, "anchor_entry", None), "host_pool", pool)


def _device_dtype(pool: Any, beside: str) -> str:
    """The type of a pool's numbers on the device, since all kinds of fp8 (e4m3fn, e5m2, fnuz) are stored as uint8.
    For a pool without a device pool, as DeepSeek-V4's, the answer is `beside`, the type of the KV beside it."""
    owners = (_shape_of(pool), getattr(pool, "anchor_entry", None))
    for owner in owners:
        dtype = getattr(getattr(owner, "device_pool", None), "dtype", None)
        if dtype is not None:
            return str(dtype)
    return beside or str(server_argument("kv_cache_dtype") or "")


def _is_replicated(shape: Any, name: str, ranks: Ranks) -> bool:
    """Whether all ranks of a TP group hold the same bytes of this pool. Yes only for pools that are known to be
    whole on each rank: a wrong yes hands one rank another rank's state, a wrong no costs only space or a miss."""
    if not ranks.is_mla or any(getattr(shape, each, None) is not None for each in SHARDED):
        return False
    return name in WHOLE or name.startswith(WHOLE_PREFIX)


def _is_logical(pool: Any) -> bool:
    """Whether a pool has no bytes at all (DeepSeek-V4's anchor). Only the pool's own word counts,
    not that no bytes are found: all pages of a logical pool count as there, which for another pool
    would be wrong."""
    size = getattr(pool, "size_per_token", None)
    if size is not None:
        return int(size) == 0
    return getattr(pool, "kv_buffer", pool) is None and not hasattr(pool, "get_hybrid_pool_buffer")


def _buffers_of(pool: Any) -> List[Any]:
    """The tensors that a pool's pages lie in."""
    whole = getattr(pool, "kv_buffer", None)
    if whole is None and hasattr(pool, "get_hybrid_pool_buffer"):
        whole = pool.get_hybrid_pool_buffer()
    return list(_tensors(whole))


def _memory_of(buffers: Sequence[Any]) -> List[Tuple[int, int]]:
    """The memory of tensors as (address, bytes) of each, adjoining ones joined: mostly K and V are halves of one
    tensor."""
    places = sorted((t.data_ptr(), t.numel() * t.element_size()) for t in buffers)
    joined: List[Tuple[int, int]] = []
    for address, size in places:
        if size == 0:
            continue
        if joined and address <= joined[-1][0] + joined[-1][1]:
            begin, before = joined.pop()
            address, size = begin, max(before, address + size - begin)
        joined.append((address, size))
    return joined


class HostPool:
    """A host pool of SGLang, as PeerCache sees it. Immutable; threads: any.

    A page of the pool is `split` pages of the cache, one for each group of heads that this rank holds; the parts of
    each are K and V, K and V of each layer, or one piece. A page that is larger than the cache takes is cut into
    `pieces`.
    """

    def __init__(self, pool: Any, name: str, ranks: Ranks, kv_dtype: str = "") -> None:
        """Reads the attributes of SGLang's pool. `kv_dtype` is the KV's type on the device, for pools that do not
        tell their own. Errors: PoolFault."""
        self.pool = pool
        self.name = name
        self.page_size = int(getattr(pool, "page_size", 1) or 1)
        self.layout = str(getattr(pool, "layout", "") or "")
        self._shape = _shape_of(pool)
        self.device_dtype = _device_dtype(pool, kv_dtype)
        self.replicated = _is_replicated(self._shape, name, ranks)
        """Whether one copy serves all ranks of the TP group."""
        self.buffers = _buffers_of(pool)
        """The pool's tensors, held so that nothing else comes to lie there while the memory is registered."""
        self.cut_draft = name in DRAFTS and ranks.is_mla and ranks.tp_size > 1 and not self.replicated
        """Whether this is a draft's pool of which each rank has a share, while SGLang backs up the first rank's share
        only."""
        self.memory = _memory_of(self.buffers)
        self.logical_only = not self.memory
        if self.logical_only and not _is_logical(pool):
            raise PoolFault(f"its memory is not found in a {type(pool).__name__}; no call would move a byte")
        self._check_indexer()
        self.split = self._split(ranks)
        self.page_bytes = int(getattr(pool, "size_per_token", 0) or 0) * self.page_size
        """The bytes of a page; 0: not known."""
        self.pieces = 1
        self.first_part_bytes = 0
        """Bytes of a page's first part, where the places of parts are known: pages whose first parts begin at least
        this far apart share no byte."""
        self._rows: Optional[Rows] = None
        self.zero_copy = self._is_zero_copy()
        if self.zero_copy:
            self._rows = self._rows_of_all()
        self._check_sizes()

    def _split(self, ranks: Ranks) -> int:
        """How many groups of heads a page of this rank is split into. Only in the layout page_head the bytes of a
        group lie together, so other layouts have one group."""
        if self.replicated or self.layout != "page_head":
            return 1
        split = ranks.tp_lcm_size // ranks.tp_size
        heads = int(getattr(self._shape, "head_num", split))
        if heads % split != 0:
            raise PoolFault(f"{heads} heads of this rank cannot be cut into {split} groups")
        return split

    def _is_zero_copy(self) -> bool:
        """Whether the pool tells the addresses of its pages; some pools do so for some layouts only."""
        if self.logical_only or not hasattr(self.pool, "get_page_buffer_meta"):
            return False
        try:
            sizes = self.parts(probed_indices(self.page_size), 1)[1]
            self.page_bytes, self.first_part_bytes = int(sum(sizes)), int(sizes[0])
            self.pieces = self._pieces(sizes)
        except PoolFault:
            raise
        except Exception as why:  # noqa: BLE001 - whatever a pool of any version raises
            logger.info("pool %s: pages are copied, for %s", self.name, why)
            return False
        return True

    def _pieces(self, sizes: Sequence[int]) -> int:
        """How many pieces a page has whose parts have the lengths `sizes`."""
        if self.page_bytes // self.split <= page_bytes_max:
            return 1
        pieces = pieces_of(self.page_bytes // self.split)
        if min(sizes) < pieces:
            raise PoolFault(f"a page has {self.page_bytes} bytes, and a part of {min(sizes)} bytes is none for each "
                            f"of its {pieces} pieces")
        return pieces

    def _rows_of_all(self) -> Optional[Rows]:
        """The rows in which all pages lie, in every layout that SGLang has, since asking the pool in each call would
        cost more than the rest of the call. None: the pages lie in no rows, and the pool has to be asked."""
        try:
            return rows_of(self.parts, self.page_size, int(self.pool.size) // self.page_size)
        except Exception as why:  # noqa: BLE001 - whatever a pool of any version raises
            logger.info("pool %s: asked where the pages of each call lie, for %s", self.name, why)
            return None

    def _check_indexer(self) -> None:
        """Refuses SGLang's NSATokenToKVPoolHost, which keeps the indexer beside its KV but names only the KV: a hit
        would leave the indexer of another prefix in place. Errors: PoolFault."""
        beside = _memory_of(list(_tensors(getattr(self._shape, "index_k_with_scale_buffer", None))))
        if any(not self._holds([address], [size]) for address, size in beside):
            raise PoolFault(
                "its indexer (index_k_with_scale_buffer) is not part of its pages; "
                "a version of SGLang is needed in which the indexer has a pool of its own"
            )

    def _check_sizes(self) -> None:
        """Refuses pages that are too large for the cache, and warns of very small ones. Errors: PoolFault."""
        size, most = self.page_bytes, (LARGE_PAGE_BYTES_MAX if self.zero_copy else page_bytes_max) * self.split
        if size > most:
            # A pool of states has page_size 1, and a state has one size however many tokens a page of KV has: then only
            # a larger --tp helps.
            cure = "use a smaller --page-size" if self.page_size > 1 else "a larger --tp may make it smaller"
            raise PoolFault(f"a page has {size} bytes, the cache takes {most}: {cure}")
        if 0 < size < SMALL_PAGE_BYTES and self.name == "kv":
            logger.warning(
                "a page has %d bytes only: most of the time goes into naming it. Use --page-size 64", size
            )

    def parts(self, host_indices: Any, pages: int) -> Parts:
        """Addresses and bytes of all parts of `pages` pages, or of the slices of their pieces. Every part is checked
        to lie in the pool. Errors: PoolFault, and whatever the pool itself raises."""
        known = None if self._rows is None else self._rows.parts(host_indices, pages)
        if known is not None:
            return known
        self._check_count(host_indices, pages)
        addresses, sizes = self._places_of(host_indices)
        if len(addresses) != len(sizes) or len(addresses) % (pages * self.split) != 0:
            raise PoolFault(f"{len(addresses)} parts for {pages} pages")
        if len(addresses) > pages * self.split * parts_per_page_max:
            raise PoolFault(f"a page has more than {parts_per_page_max} parts: use --hicache-mem-layout page_first")
        if not self._holds(addresses, sizes):
            raise PoolFault("a page lies outside the pool's memory")
        if self.pieces > 1:
            return cut((addresses, sizes), len(addresses) // (pages * self.split), self.pieces)
        return addresses, sizes

    def first_tokens(self, host_indices: Any, pages: int) -> List[int]:
        """The first token slot of each of `pages` pages. Errors: PoolFault."""
        self._check_count(host_indices, pages)
        return [int(token) for token in host_indices[:: self.page_size]]

    def _check_count(self, host_indices: Any, pages: int) -> None:
        if len(host_indices) != pages * self.page_size:
            raise PoolFault(f"{len(host_indices)} indices for {pages} pages of {self.page_size} tokens")

    def _places_of(self, indices: Any) -> Parts:
        places: Parts
        if self.split > 1:
            places = self.pool.get_split_heads_page_buffer_meta(indices, self.split)
        else:
            places = self.pool.get_page_buffer_meta(indices)
        return places

    def _holds(self, addresses: Sequence[int], sizes: Sequence[int]) -> bool:
        if len(self.memory) == 1:
            begin, size = self.memory[0]
            end = begin + size
            # The first bound needs no loop over all parts, but may be too wide when the last part is not the largest;
            # only then the exact bound is computed.
            fits = max(addresses) + max(sizes) <= end or max(map(operator.add, addresses, sizes)) <= end
            return min(addresses) >= begin and fits
        return all(
            any(begin <= address and address + part <= begin + size for begin, size in self.memory)
            for address, part in zip(addresses, sizes)
        )

    def geometry(self) -> List[str]:
        """The fields of the key space that describe the pool: its attributes that decide the meaning of a page's
        bytes."""
        whole = self._shape
        shape = [f"{name}={getattr(whole, name, '')}" for name in GEOMETRY]
        state = [f"{name}={getattr(whole, name)}" for name in STATE_GEOMETRY if hasattr(whole, name)]
        return [
            f"dtype={getattr(whole, 'dtype', '')}",
            f"device_dtype={self.device_dtype}",
            f"layout={self.layout}",
            f"page_size={self.page_size}",
            f"geometry={','.join(self._per_group(field) for field in shape)}",
            *state,
        ]

    def _per_group(self, field: str) -> str:
        """The field with its size divided by the groups of heads, so that ranks that hold one group or several have
        equal fields."""
        name, _, value = field.partition("=")
        if self.split > 1 and name in ("head_num", "size_per_token") and value:
            return f"{name}={int(value) // self.split}"
        return field


def fields_of(
    pool: HostPool, ranks: Ranks, space: str, form: str, whole_group: bool
) -> List[List[str]]:
    """The fields of the key spaces of a pool's pages: one list for each group of heads, of this rank or of all ranks.

    Where all ranks hold the same bytes there is one list, with no rank in it: one rank writes the page, and all ranks
    read it. `form` tells pages that are moved by address from flat ones, whose parts may be in another order.
    """
    split = 1 if form == FLAT else pool.split
    groups = ranks.tp_size * split
    first = ranks.tp_rank * split
    if pool.replicated:
        return [_fields(pool, ranks, space, form, "all")]
    chosen = range(groups) if whole_group else range(first, first + split)
    return [_fields(pool, ranks, space, form, f"{group}/{groups}") for group in chosen]


def _fields(pool: HostPool, ranks: Ranks, space: str, form: str, heads: str) -> List[str]:
    return [
        space_name(ranks.model, space),
        "sglang-hicache-1",
        f"space={space}",
        f"model={ranks.model}",
        f"heads={heads}",
        f"pp={ranks.pp_rank}/{ranks.pp_size}",
        f"cp={ranks.cp_rank}/{ranks.cp_size}",
        f"mla={ranks.is_mla}",
        f"pool={pool.name}",
        f"form={form}",
        *([f"arguments={ranks.model_arguments}"] if ranks.model_arguments else []),
        *pool.geometry(),
    ]


def draft_fields(pool: HostPool, ranks: Ranks, space: str, whole: bool, dtype: str, size: int) -> List[str]:
    """The fields of a draft model's flat pages beside the pages of `pool`. Only the tensor, its type and size are
    known of such pages: they count as this rank's own, unless `whole` says that all ranks hold the same tensor."""
    fields = _fields(pool, ranks, space, "draft", "all" if whole else f"{ranks.tp_rank}/{ranks.tp_size}")
    return [*fields, f"draft_dtype={dtype}", f"draft_bytes={size}"]


def piece_space_of(pool: HostPool, ranks: Ranks, space: str) -> KeySpace:
    """The key space of the pieces of all large pages of a pool: one for all groups of heads, since a page's head
    names its pieces."""
    return KeySpace(_fields(pool, ranks, space, "piece", "any"))


def spaces_of(pool: HostPool, ranks: Ranks, space: str, form: str, whole_group: bool) -> List[KeySpace]:
    """The key spaces with the fields that `fields_of` makes."""
    return [KeySpace(fields) for fields in fields_of(pool, ranks, space, form, whole_group)]
