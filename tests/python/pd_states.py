"""Fake states of a rank of a prefill or decode engine: of mamba (one item for each request, divided among the ranks),
and pages of a sliding window or of an index. The value of each byte follows from request, layer and place."""

import numpy as np

ITEMS = 64
POISON = 0xEE

# Each tensor of mamba's states as (rows, units of each group of a row over all ranks, bytes of a unit). The first
# tensor is the convolution's.
MAMBA = (3, (4, 4, 8), 4), (1, (8,), 16)
PAGE_BYTES = {"swa": 32, "dsa": 24}


class Tensor:
    """One tensor of a component, of one layer."""

    def __init__(self, kind, layer, shape, tp, tp_size):
        self.kind, self.layer, self.shape = kind, layer, shape
        self.part = None
        if kind == "mamba":
            ends = np.cumsum((0,) + shape[1])
            self.part = np.concatenate([
                np.arange(begin + tp * width // tp_size, begin + (tp + 1) * width // tp_size)
                for begin, width in zip(ends, shape[1])
            ])
            item = shape[0], len(self.part), shape[2]
        else:
            item = (PAGE_BYTES[kind],)
        self.items = np.full((ITEMS, *item), POISON, np.uint8)

    def value(self, seed, place):
        """Returns the bytes that the model computes for an item: for mamba the request's only item, else the page at
        `place` of the request's sequence."""
        name = [seed, sum(self.kind.encode()), self.layer, place]
        if self.part is None:
            return np.random.default_rng(name).integers(1, 255, self.items.shape[1:], dtype=np.uint8)
        rows, groups, unit = self.shape
        whole = np.random.default_rng([*name, unit]).integers(1, 255, (rows, sum(groups), unit), dtype=np.uint8)
        return whole[:, self.part]


class StateMemory:
    """The state components of one rank. The items of a request are a list of (first place, items), one for each
    component."""

    def __init__(self, kinds, layers, tp, tp_size):
        self.kinds = kinds
        self.components = [
            [Tensor(kind, layer, shape, tp, tp_size) for shape in self._shapes(kind) for layer in layers]
            for kind in kinds
        ]

    @staticmethod
    def _shapes(kind):
        return MAMBA if kind == "mamba" else (None,)

    def _places(self, states):
        for tensors, (first, items) in zip(self.components, states):
            for tensor in tensors:
                for i, item in enumerate(items):
                    yield tensor, item, first + i

    def write(self, seed, states):
        for tensor, item, place in self._places(states):
            tensor.items[item] = tensor.value(seed, place)

    def wrong(self, seed, states):
        return sum(
            not np.array_equal(tensor.items[item], tensor.value(seed, place))
            for tensor, item, place in self._places(states)
        )

    def poison(self, states):
        for tensor, item, _ in self._places(states):
            tensor.items[item] = POISON

    def is_poisoned(self, states):
        return all((tensor.items[item] == POISON).all() for tensor, item, _ in self._places(states))

    def add_to(self, kv_args):
        """Fills in SGLang's lists of states: one entry of each list for each component."""
        kv_args.state_types = list(self.kinds)

        def of_each(what):
            return [[what(tensor) for tensor in tensors] for tensors in self.components]

        kv_args.state_data_ptrs = of_each(lambda tensor: tensor.items.ctypes.data)
        kv_args.state_data_lens = of_each(lambda tensor: tensor.items.nbytes)
        kv_args.state_item_lens = of_each(lambda tensor: tensor.items[0].nbytes)
        kv_args.state_layer_ids = of_each(lambda tensor: tensor.layer)
        is_mamba = [kind == "mamba" for kind in self.kinds]
        dims = of_each(lambda tensor: 0 if tensor.part is None else len(tensor.part))
        outers = of_each(lambda tensor: 1 if tensor.part is None else tensor.shape[0])
        groups = of_each(lambda tensor: list(tensor.shape[1]) if tensor.part is not None and len(tensor.shape[1]) > 1
                         else None)
        kv_args.state_dim_per_tensor = [of if yes else [] for of, yes in zip(dims, is_mamba)]
        kv_args.state_slice_outer_counts = [of if yes else [] for of, yes in zip(outers, is_mamba)]
        kv_args.state_conv_shard_groups = [of if yes else [] for of, yes in zip(groups, is_mamba)]


def places_of(kind, prefix_tokens, tokens, page_tokens, window_tokens):
    """Returns (first place, number of items) for a component of a request, as SGLang's schedulers choose them."""
    end = -(-tokens // page_tokens)
    if kind == "mamba":
        return 0, 1
    first = max(prefix_tokens, tokens - window_tokens) // page_tokens if kind == "swa" else 0
    return first, end - first
