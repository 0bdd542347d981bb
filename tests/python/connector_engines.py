"""Fake engines for the connector (RemoteKVConnector): KV buffers by address, conversations of several turns, and an
exact index of stored prefixes."""

import hashlib
import itertools
import random
from types import SimpleNamespace

import numpy

from local_nodes import until
from peercache.connector import ConnectorMetadata, RemoteKVConnector

PAGE_TOKENS = 4
LAYERS = 3
ITEM_BYTES = 512

_models = itertools.count()


def fresh_model():
    return f"model-{next(_models)}"


def prefix_hash(tokens):
    """Returns a hash of a prefix of tokens, without code of the connector."""
    return hashlib.sha256(numpy.array(tokens, numpy.uint32).tobytes()).digest()


class Engine:
    """One rank of an engine: buffers of K and V for each layer, and a connector, whose match time-out is long enough
    for any machine unless a test passes another one."""

    def __init__(self, node, model, pages=64, kv_args=None, **more):
        self.buffers = [numpy.zeros((pages, ITEM_BYTES), numpy.uint8) for _ in range(2 * LAYERS)]
        self.connector = RemoteKVConnector(ConnectorMetadata(
            model=model, dtype="bfloat16", page_size=PAGE_TOKENS, options=node.options(),
            **{"match_timeout_s": 10, **more}))
        self.register(**(kv_args or {}))

    def register(self, **kv_args):
        self.connector.register_kv_buffers(SimpleNamespace(
            kv_data_ptrs=[b.ctypes.data for b in self.buffers],
            kv_data_lens=[b.nbytes for b in self.buffers],
            kv_item_lens=[ITEM_BYTES] * len(self.buffers), **kv_args))

    def content(self, tokens):
        """Returns the bytes that the engine computes for the last page of these tokens; they differ for any two
        prefixes."""
        seed = int.from_bytes(prefix_hash(tokens)[:8], "little")
        return numpy.random.default_rng(seed).integers(
            0, 256, (len(self.buffers), ITEM_BYTES), numpy.uint8)

    def compute(self, page, tokens):
        for buffer, part in zip(self.buffers, self.content(tokens)):
            buffer[page] = part

    def wrong_bytes(self, page, tokens):
        return sum(int((buffer[page] != part).sum())
                   for buffer, part in zip(self.buffers, self.content(tokens)))

    def wipe(self):
        for buffer in self.buffers:
            buffer[:] = 0xEE

    def untouched(self, pages):
        return all(bool((buffer[pages] == 0xEE).all()) for buffer in self.buffers)

    def knows(self, members):
        assert until(lambda: len(self.connector.client.members()) == members)


def mapping_of(first_page, pages, token_page=0):
    """Returns the mapping of the buffers' pages from `first_page` on (`pages` of them) to the prompt's tokens from page
    `token_page` on."""
    return [(first_page + i, slice((token_page + i) * PAGE_TOKENS, (token_page + i + 1) * PAGE_TOKENS))
            for i in range(pages)]


def prompt(pages, seed):
    numbers = random.Random(seed)
    return [numbers.randrange(1 << 17) for _ in range(pages * PAGE_TOKENS)]


def conversations(requests, seed, pages_max=60):
    """Yields prompts of a chat service: all begin with one system page, and each turn repeats its conversation so far;
    some conversations branch off. Few prompts end at the end of a page."""
    numbers, told = random.Random(seed), []
    system = prompt(1, seed)
    for _ in range(requests):
        if told and numbers.random() < 0.5:
            before = numbers.choice(told[-20:])
            before = before[: numbers.randrange(len(before))] if numbers.random() < 0.2 else before
        else:
            before = system
        more = [numbers.randrange(1 << 17) for _ in range(1 + int(numbers.expovariate(1 / 40)))]
        told.append((before + more)[: pages_max * PAGE_TOKENS])
        yield told[-1]


class ExactIndex:
    """An index of every stored prefix of whole pages."""

    def __init__(self):
        self.prefixes = set()

    def add(self, tokens):
        for end in range(PAGE_TOKENS, len(tokens) + 1, PAGE_TOKENS):
            self.prefixes.add(prefix_hash(tokens[:end]))

    def matched(self, tokens, local):
        """Returns how many tokens after the `local` ones are stored in pages without a gap, from the page in which the
        local tokens end."""
        end = local // PAGE_TOKENS * PAGE_TOKENS
        while end + PAGE_TOKENS <= len(tokens) and prefix_hash(tokens[: end + PAGE_TOKENS]) in self.prefixes:
            end += PAGE_TOKENS
        return max(0, end - local)
