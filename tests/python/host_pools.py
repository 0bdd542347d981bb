"""Fake host pools of SGLang (with the interface of its mem_cache/pool_host), with CPU tensors."""

import ctypes

import torch

MHA_LAYOUTS = ("page_first", "page_first_direct", "page_head", "layer_first")
MLA_LAYOUTS = ("page_first", "page_first_direct", "layer_first")


def random_tensor(dims, dtype, seed=None):
    size = int(torch.tensor(dims).prod()) * torch.empty(0, dtype=dtype).element_size()
    made = torch.Generator()
    made.manual_seed(seed if seed is not None else torch.seed() % (1 << 31))
    return torch.randint(0, 256, (size,), dtype=torch.uint8, generator=made).view(dtype).reshape(dims)


class Pool:
    """Base class of the host pools. A subclass defines `_pieces(page)`, which returns the page's parts in order, as
    contiguous tensors."""

    def __init__(self, layout, pages=16, page_size=4, layers=3, dtype=torch.bfloat16, start_layer=0):
        self.layout, self.page_size, self.page_num = layout, page_size, pages
        self.size = pages * page_size
        self.layer_num, self.dtype = layers, dtype
        self.start_layer, self.end_layer = start_layer, start_layer + layers
        self.itemsize = torch.empty(0, dtype=dtype).element_size()

    def get_page_buffer_meta(self, indices):
        assert len(indices) % self.page_size == 0
        rows = indices.tolist()
        pieces = [piece for token in rows[:: self.page_size] for piece in self._pieces(token // self.page_size)]
        assert all(piece.is_contiguous() for piece in pieces)
        return [p.data_ptr() for p in pieces], [p.numel() * self.itemsize for p in pieces]

    def indices(self, pages):
        """Returns the token slots of these pages, in the form in which SGLang's controller passes them."""
        return torch.cat([torch.arange(p * self.page_size, (p + 1) * self.page_size) for p in pages])

    def bytes_of(self, page):
        """Returns the bytes of a page, one part after the other."""
        places = zip(*self.get_page_buffer_meta(self.indices([page])))
        return b"".join(ctypes.string_at(address, size) for address, size in places)

    def wipe(self, pages):
        for address, size in zip(*self.get_page_buffer_meta(self.indices(pages))):
            ctypes.memset(address, 0xEE, size)

    def get_dummy_flat_data_page(self):
        return torch.zeros_like(self.get_data_page(0))

    def _flat_view(self, token):
        raise NotImplementedError

    def get_data_page(self, index, flat=True):
        page = self._flat_view(index // self.page_size)
        return page.flatten() if flat else page

    def set_from_flat_data_page(self, index, data_page):
        view = self._flat_view(index // self.page_size)
        view.copy_(data_page.reshape(view.shape))


class MhaPool(Pool):
    """A pool with K and V in one tensor."""

    def __init__(self, layout="page_first", heads=4, head_dim=8, seed=None, **sizes):
        super().__init__(layout, **sizes)
        self.head_num, self.head_dim = heads, head_dim
        self.size_per_token = 2 * self.layer_num * heads * head_dim * self.itemsize
        dims = {
            "layer_first": (2, self.layer_num, self.size, heads, head_dim),
            "page_first": (2, self.size, self.layer_num, heads, head_dim),
            "page_first_direct": (2, self.page_num, self.layer_num, self.page_size, heads, head_dim),
            "page_head": (2, self.page_num, heads, self.page_size, self.layer_num, head_dim),
        }[layout]
        self.kv_buffer = random_tensor(dims, self.dtype, seed)

    def _pieces(self, page):
        tokens = slice(page * self.page_size, (page + 1) * self.page_size)
        if self.layout == "layer_first":
            return [self.kv_buffer[i, layer, tokens] for layer in range(self.layer_num) for i in range(2)]
        where = tokens if self.layout == "page_first" else page
        return [self.kv_buffer[i, where] for i in range(2)]

    def _flat_view(self, page):
        tokens = slice(page * self.page_size, (page + 1) * self.page_size)
        if self.layout == "layer_first":
            return self.kv_buffer[:, :, tokens]
        return self.kv_buffer[:, tokens] if self.layout == "page_first" else self.kv_buffer[:, page]

    def get_split_heads_page_buffer_meta(self, indices, split_factor):
        assert self.layout == "page_head" and self.head_num % split_factor == 0
        heads, addresses, sizes = self.head_num // split_factor, [], []
        for token in indices.tolist()[:: self.page_size]:
            for first in range(0, self.head_num, heads):
                for half in range(2):
                    piece = self.kv_buffer[half, token // self.page_size, first : first + heads]
                    addresses.append(piece.data_ptr())
                    sizes.append(piece.numel() * self.itemsize)
        return addresses, sizes


class AsymmetricPool(MhaPool):
    """A pool whose K and V have different head sizes and lie in two tensors."""

    def __init__(self, layout="page_first", v_head_dim=4, **sizes):
        super().__init__(layout, **sizes)
        self.v_head_dim = v_head_dim
        whole = self.kv_buffer
        v_dims = (*whole.shape[1:-1], v_head_dim)
        self.kv_buffer = (random_tensor(whole.shape[1:], self.dtype), random_tensor(v_dims, self.dtype))
        self.size_per_token = self.layer_num * self.head_num * (self.head_dim + v_head_dim) * self.itemsize

    def _pieces(self, page):
        tokens = slice(page * self.page_size, (page + 1) * self.page_size)
        where = tokens if self.layout == "page_first" else page
        return [self.kv_buffer[i][where] for i in range(2)]

    def _flat_view(self, page):
        raise NotImplementedError("K and V differ in size")


class MlaPool(Pool):
    """A pool with one latent vector for each token; all ranks of a TP group hold the same bytes."""

    def __init__(self, layout="page_first", kv_cache_dim=24, seed=None, **sizes):
        super().__init__(layout, **sizes)
        self.kv_cache_dim = kv_cache_dim
        self.size_per_token = self.layer_num * kv_cache_dim * self.itemsize
        dims = {
            "layer_first": (self.layer_num, self.size, 1, kv_cache_dim),
            "page_first": (self.size, self.layer_num, 1, kv_cache_dim),
            "page_first_direct": (self.page_num, self.layer_num, self.page_size, 1, kv_cache_dim),
        }[layout]
        self.kv_buffer = random_tensor(dims, self.dtype, seed)

    def _pieces(self, page):
        tokens = slice(page * self.page_size, (page + 1) * self.page_size)
        if self.layout == "layer_first":
            return [self.kv_buffer[layer, tokens] for layer in range(self.layer_num)]
        return [self.kv_buffer[tokens if self.layout == "page_first" else page]]

    def _flat_view(self, page):
        tokens = slice(page * self.page_size, (page + 1) * self.page_size)
        if self.layout == "layer_first":
            return self.kv_buffer[:, tokens]
        return self.kv_buffer[tokens if self.layout == "page_first" else page]


class NsaPool(MlaPool):
    """SGLang's NSATokenToKVPoolHost: the indexer's rows lie beside the KV, one tensor for each layer, and belong to no
    page."""

    def __init__(self, stride=32, **sizes):
        super().__init__("page_first", **sizes)
        dims = (self.page_num, stride)
        self.index_k_with_scale_buffer = [random_tensor(dims, torch.uint8) for _ in range(self.layer_num)]
        self.size_per_token += stride // self.page_size * self.layer_num


class NsaIndexerPool(Pool):
    """SGLang's NSAIndexerPoolHost: the indexer as a pool of its own, beside a pool of MLA."""

    def __init__(self, stride=32, seed=None, **sizes):
        super().__init__("page_first", dtype=torch.uint8, **sizes)
        self.size_per_token = stride // self.page_size * self.layer_num
        dims = (self.page_num, self.layer_num, 1, stride)
        self.index_k_with_scale_buffer = random_tensor(dims, self.dtype, seed)

    def get_hybrid_pool_buffer(self):
        return [self.index_k_with_scale_buffer]

    def _pieces(self, page):
        return [self.index_k_with_scale_buffer[page]]

    def _flat_view(self, page):
        return self.index_k_with_scale_buffer[page]


class FlatOnlyPool(MlaPool):
    """A pool that does not tell the addresses of its pages, so that pages are moved as flat tensors."""

    def __getattribute__(self, name):
        if name == "get_page_buffer_meta":
            raise AttributeError(name)
        return super().__getattribute__(name)

    def bytes_of(self, page):
        return bytes(self.get_data_page(page * self.page_size).view(torch.uint8).numpy())

    def wipe(self, pages):
        for page in pages:
            self._flat_view(page).zero_()


class StatePool(Pool):
    """SGLang's MambaPoolHost: each slot has a state of a temporal part and a convolution part, in one tensor each.
    States are sharded over the ranks, and the pool has no attribute for heads."""

    def __init__(self, temporal=(4, 8), conv=(3, 4), temporal_dtype=torch.bfloat16, seed=None, **sizes):
        super().__init__("page_first_direct", **{"page_size": 1, **sizes})
        del self.layer_num
        self.num_mamba_layers, self.conv_dtype, self.temporal_dtype = 3, self.dtype, temporal_dtype
        self.temporal_state_shape, self.conv_state_shapes = torch.Size(temporal), [torch.Size(conv)]
        self.temporal_buffer = random_tensor((self.size, 3, 1, *temporal), temporal_dtype, seed)
        self.conv_buffer = [random_tensor((self.size, 3, 1, *conv), self.dtype, seed)]
        buffers = self.get_hybrid_pool_buffer()
        self.size_per_token = sum(t[0].numel() * t.element_size() for t in buffers)

    def get_hybrid_pool_buffer(self):
        return [self.temporal_buffer, *self.conv_buffer]

    def _pieces(self, page):
        return [tensor[page] for tensor in self.get_hybrid_pool_buffer()]


class RowPool(Pool):
    """SGLang's DeepSeekV4PagedHostPool: a page is a row of bytes, whose address is computed with tensors;
    `size_per_token` is the size of a row."""

    def __init__(self, row_bytes=256, seed=None, **sizes):
        super().__init__("page_first", dtype=torch.uint8, **sizes)
        self.size_per_token = row_bytes
        self.kv_buffer = random_tensor((self.page_num, self.layer_num, row_bytes), self.dtype, seed)

    def get_hybrid_pool_buffer(self):
        return [self.kv_buffer]

    def get_page_buffer_meta(self, indices):
        rows = (indices.reshape(-1, self.page_size)[:, 0] // self.page_size).tolist()
        page_bytes = self.layer_num * self.size_per_token
        return [self.kv_buffer[row].data_ptr() for row in rows], [page_bytes] * len(rows)

    def _flat_view(self, token):
        return self.kv_buffer[token]


class UnevenPool(Pool):
    """A pool with K (8 bytes a page) and V (4 bytes a page) in one tensor, so that a page's last part is not its
    largest."""

    def __init__(self, **sizes):
        super().__init__("page_first", page_size=1, dtype=torch.uint8, **sizes)
        self.size_per_token = 12
        self.kv_buffer = random_tensor((12 * self.page_num,), self.dtype)

    def get_page_buffer_meta(self, indices):
        base, rows = self.kv_buffer.data_ptr(), list(indices.tolist())
        places = [place for row in rows for place in (base + 8 * row, base + 8 * self.page_num + 4 * row)]
        return places, [8, 4] * len(rows)


class LogicalPool(Pool):
    """SGLang's LogicalHostPool (DeepSeek-V4): an anchor without memory of its own, whose pages are in other pools."""

    kv_buffer = None
    size_per_token = 0

    def get_page_buffer_meta(self, indices):
        raise AssertionError("nobody asks for pages of a logical pool")

    def get_dummy_flat_data_page(self):
        return torch.empty(0, dtype=torch.uint8)

    def get_data_page(self, index, flat=True):
        return torch.empty(0, dtype=torch.uint8)
