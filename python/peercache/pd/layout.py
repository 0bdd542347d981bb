"""Turns the buffers of a rank of SGLang's engine (KVArgs) into the layout that
`_native.PrefillWorker` takes."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import numpy.typing as npt

from peercache.pd.contract import CommonKVManager

Buffer = Tuple[int, int, int, Optional[int]]
Tensor = Tuple[Buffer, int, int, List[int]]
Pages = npt.NDArray[np.int32]
StateItems = Tuple[int, Pages]

FROM_THE_BEGINNING = ("dsa", "minimax_index_k")
"""Components of states that have items for all pages of the sequence, those before decode's prefix included."""


def kinds_of_states(kv_args: Any) -> List[str]:
    return [str(getattr(kind, "value", kind)) for kind in getattr(kv_args, "state_types", None) or []]


def _buffers(ptrs: Any, lens: Any, item_lens: Any, layers: Any) -> List[Buffer]:
    """The buffers that these lists describe. Errors: ValueError when the lists differ in length."""
    ids: Sequence[Optional[int]] = list(layers) if layers is not None and len(layers) else [None] * len(ptrs)
    if not len(ptrs) == len(lens) == len(item_lens) == len(ids):
        raise ValueError(
            f"KVArgs has {len(ptrs)} addresses, {len(lens)} lengths, {len(item_lens)} item lengths and {len(ids)} "
            "layers of the same buffers"
        )
    return [
        (int(ptr), int(length), int(item), None if layer is None else int(layer))
        for ptr, length, item, layer in zip(ptrs, lens, item_lens, ids)
    ]


def _nth(kv_args: Any, name: str, index: int) -> Any:
    """Entry `index` of a list that older versions of SGLang do not have, or have no entry in."""
    entries = getattr(kv_args, name, None) or []
    return entries[index] if index < len(entries) else None


def _tensors(kv_args: Any, index: int) -> List[Tensor]:
    """The tensors of one component of states."""
    buffers = _buffers(
        kv_args.state_data_ptrs[index],
        kv_args.state_data_lens[index],
        kv_args.state_item_lens[index],
        _nth(kv_args, "state_layer_ids", index),
    )
    dims = list(_nth(kv_args, "state_dim_per_tensor", index) or [])
    outers = list(_nth(kv_args, "state_slice_outer_counts", index) or [])
    groups = list(_nth(kv_args, "state_conv_shard_groups", index) or [])
    tensors: List[Tensor] = []
    for i, buffer in enumerate(buffers):
        dim = int(dims[i] or 0) if i < len(dims) else 0
        outer = int(outers[i] or 1) if i < len(outers) else 1
        of_groups = [int(g) for g in (groups[i] or [])] if i < len(groups) else []
        tensors.append((buffer, dim, outer if dim else 0, of_groups if dim else []))
    return tensors


def _stage(kv_args: Any, buffers: int, is_mla: bool) -> Tuple[int, int]:
    """The first layer of this pipeline stage, and the one behind its last."""
    first = int(getattr(kv_args, "prefill_start_layer", None) or 0)
    end = getattr(kv_args, "prefill_end_layer", None)
    return first, int(end) if end is not None else first + (buffers if is_mla else buffers // 2)


def layout_of(manager: CommonKVManager, is_prefill: bool) -> Dict[str, Any]:
    """The layout of this rank. Errors: ValueError."""
    kv_args = manager.kv_args
    is_mla = bool(manager.is_mla_backend)
    buffers = _buffers(
        kv_args.kv_data_ptrs, kv_args.kv_data_lens, kv_args.kv_item_lens, getattr(kv_args, "kv_layer_ids", None)
    )
    tp_size = int(manager.attn_tp_size)
    tp = int(manager.attn_tp_rank) if is_prefill else int(kv_args.engine_rank) % tp_size
    cp = int(manager.attn_cp_rank)
    dtype = getattr(kv_args, "kv_cache_dtype_str", None) or getattr(manager.server_args, "kv_cache_dtype", "auto")
    layout = {
        "dtype": str(dtype),
        "page_tokens": int(kv_args.page_size),
        "mla": is_mla,
        "hybrid_mla": is_mla and bool(manager.is_hybrid_mla_backend),
        "all_cp_ranks_send": is_prefill and bool(manager.enable_all_cp_ranks_for_transfer),
        "ranks": (tp, tp_size, int(manager.pp_rank), int(manager.pp_size), cp, int(manager.attn_cp_size)),
        "buffers": buffers,
        "states": [(kind, _tensors(kv_args, i)) for i, kind in enumerate(kinds_of_states(kv_args))],
        "aux": _buffers(kv_args.aux_data_ptrs, kv_args.aux_data_lens, kv_args.aux_item_lens, None),
    }
    if is_prefill:
        layout["first_layer"], layout["end_layer"] = _stage(kv_args, len(buffers), is_mla)
        if not is_mla:
            layout["kv_heads"] = int(getattr(kv_args, "total_kv_head_num", None) or 0)
    return layout


def pages_of(indices: Any) -> Pages:
    """Indices as SGLang gives them (an array of any integers, a list, None), in a row of their own. Errors: ValueError
    for an index that is not a page's number."""
    if indices is None:
        return np.empty(0, dtype=np.int32)
    given = np.asarray(indices)
    pages = np.ascontiguousarray(given, dtype=np.int32)
    if given.dtype != np.int32 and not np.array_equal(pages, given):
        raise ValueError("a page is named by a whole number of 32 bits")
    return pages


def states_of(kinds: Sequence[str], state_indices: Any, sequence_pages: int) -> List[StateItems]:
    """The items of each component of states, with the place in the sequence of the first one. `sequence_pages` is
    where the room's pages end; the pages of a sliding window end there as well. Errors: ValueError."""
    given = list(state_indices) if state_indices is not None else [None] * len(kinds)
    if len(given) != len(kinds):
        raise ValueError(f"{len(given)} components of states are given, and the engine has {len(kinds)}")
    states = []
    for kind, indices in zip(kinds, given):
        items = pages_of(indices)
        first = max(0, sequence_pages - len(items)) if kind == "swa" else 0
        states.append((first, items))
    return states
