"""Fake GPU memory of a rank of a prefill or decode engine, in numpy arrays. The value of each byte follows from
request, layer, K or V, head and token."""

from dataclasses import dataclass, field

import numpy as np
from pd_states import POISON, StateMemory


@dataclass(frozen=True)
class Model:
    layers: int = 4
    heads: int = 4
    head_bytes: int = 16
    page_tokens: int = 4
    is_mla: bool = False
    pages: int = 512  # KV pages in the pool of each rank.
    states: tuple = ()
    window_tokens: int = 10

    @property
    def is_hybrid_mla(self):
        return self.is_mla and "mamba" in self.states

    def kv(self, seed, tokens):
        """Returns the KV of a request as an array [K and V, or one latent][layer][token][head][byte]."""
        kinds, heads = (1, 1) if self.is_mla else (2, self.heads)
        shape = kinds, self.layers, tokens, heads, self.head_bytes
        return np.random.default_rng(seed).integers(1, 255, shape, dtype=np.uint8)

    def pages_of(self, tokens):
        return -(-tokens // self.page_tokens)


ROW_IDS, ROW_ROOM = 16, 8


@dataclass
class RankMemory:
    """The pages and metadata buffers of one rank."""

    model: Model
    tp: int = 0
    tp_size: int = 1
    pp: int = 0
    pp_size: int = 1
    rows: int = 32
    buffers: list = field(default_factory=list)

    def __post_init__(self):
        model = self.model
        per_stage = model.layers // self.pp_size
        self.layers = range(self.pp * per_stage, (self.pp + 1) * per_stage)
        heads = 1 if model.is_mla else model.heads // self.tp_size
        self.heads = slice(0, 1) if model.is_mla else slice(self.tp * heads, (self.tp + 1) * heads)
        self.pages = model.pages
        shape = self.pages, model.page_tokens, heads, model.head_bytes
        kinds = 1 if model.is_mla else 2
        self.buffers = [np.full(shape, POISON, np.uint8) for _ in range(kinds * per_stage)]
        self.states = StateMemory(model.states, self.layers, self.tp, self.tp_size)
        self.output_ids = np.zeros((self.rows, ROW_IDS), np.int32)
        self.bootstrap_room = np.zeros((self.rows, ROW_ROOM), np.int64)

    def _places(self):
        """Yields (buffer, K or V, model layer) for each buffer: first all buffers of K, then those of V."""
        for i, buffer in enumerate(self.buffers):
            yield buffer, i // len(self.layers), self.layers[i % len(self.layers)]

    def write(self, kv, pages, first_token, end_token):
        """Writes the KV of tokens of a request, as a forward pass does; `pages` are the pages of the whole request."""
        size = self.model.page_tokens
        for buffer, kind, layer in self._places():
            for token in range(first_token, end_token):
                buffer[pages[token // size], token % size] = kv[kind, layer, token, self.heads]

    def wrong(self, kv, pages, first_token, end_token):
        """Returns how many tokens do not have the request's KV; `pages` begin with the page of `first_token`."""
        size, faults = self.model.page_tokens, 0
        for buffer, kind, layer in self._places():
            for token in range(first_token, end_token):
                at = token - first_token
                faults += not np.array_equal(buffer[pages[at // size], at % size], kv[kind, layer, token, self.heads])
        return faults

    def poison(self, pages):
        for buffer in self.buffers:
            buffer[pages] = POISON

    def is_poisoned(self, pages):
        return all((buffer[pages] == POISON).all() for buffer in self.buffers)

    def write_row(self, row, room, token):
        self.output_ids[row] = token
        self.bootstrap_room[row] = room

    def kv_args(self, kv_args, layer_ids=True):
        """Fills in SGLang's KVArgs for this memory."""
        kv_args.engine_rank = self.tp
        kv_args.kv_data_ptrs = [b.ctypes.data for b in self.buffers]
        kv_args.kv_data_lens = [b.nbytes for b in self.buffers]
        kv_args.kv_item_lens = [b[0].nbytes for b in self.buffers]
        kv_args.kv_layer_ids = [layer for _, _, layer in self._places()] if layer_ids else []
        kv_args.kv_cache_dtype_str, kv_args.page_size = "uint8", self.model.page_tokens
        kv_args.kv_head_num = self.model.heads // self.tp_size
        kv_args.total_kv_head_num = self.model.heads
        kv_args.prefill_start_layer, kv_args.prefill_end_layer = self.layers.start, self.layers.stop
        rows = self.output_ids, self.bootstrap_room
        kv_args.aux_data_ptrs = [r.ctypes.data for r in rows]
        kv_args.aux_data_lens = [r.nbytes for r in rows]
        kv_args.aux_item_lens = [r[0].nbytes for r in rows]
        self.states.add_to(kv_args)
        kv_args.is_hybrid_mla_backend = self.model.is_hybrid_mla
        kv_args.system_dp_rank, kv_args.pp_rank = 0, self.pp
        kv_args.gpu_id, kv_args.ib_device = 0, None
        return kv_args
