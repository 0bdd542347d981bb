"""Tests of traps in the contract of storage backends, which crash an engine or give it wrong bytes in other backends;
one test for each."""

from types import SimpleNamespace

import pytest
import torch
from engines import fresh_keys, published, put
from host_pools import FlatOnlyPool, MhaPool, MlaPool, StatePool
from local_nodes import LATE_SECONDS, late_watch, until
from natives import SlowNative
from shapes import pool_of


def test_exists_is_a_leading_run_and_no_count(ring, engine):
    pool = MhaPool()
    store = engine(ring[0], pool)
    keys = fresh_keys(6)
    put(store, pool, [keys[0], keys[1], keys[3], keys[5]], [0, 1, 2, 3])
    assert store.batch_exists(keys) == 2
    assert store.batch_exists(keys[1:]) == 1
    assert store.batch_exists(keys[2:]) == 0
    assert store.batch_exists([]) == 0


def test_a_get_says_for_each_key_whether_it_is_there(ring, engine):
    pool = MhaPool()
    store = engine(ring[0], pool)
    keys = fresh_keys(5)
    put(store, pool, [keys[0], keys[2], keys[4]], [0, 1, 2])
    assert store.batch_get_v1(keys, pool.indices([5, 6, 7, 8, 9])) == [True, False, True, False, True]
    assert [pool.bytes_of(p) for p in (5, 7, 9)] == [pool.bytes_of(p) for p in (0, 1, 2)]


def test_a_set_has_copied_when_it_returns(ring, engine):
    """A set must have copied the pages when it returns, because SGLang then overwrites them at once."""
    pool = MhaPool(pages=32, layers=16, heads=8, head_dim=64, page_size=16)
    store = engine(ring[0], pool)
    keys = fresh_keys(16)
    wanted = [pool.bytes_of(p) for p in range(16)]
    assert store.batch_set_v1(keys, pool.indices(range(16))) == [True] * 16
    pool.wipe(range(16))
    published(store)
    assert store.batch_get_v1(keys, pool.indices(range(16, 32))) == [True] * 16
    assert [pool.bytes_of(p) for p in range(16, 32)] == wanted


def test_all_ranks_of_a_group_say_the_same(ring, engine):
    """Rank 1 lacks pages that ranks 0 and 2 have, so no rank may begin a prefetch of them without the others."""
    pools = [MhaPool() for _ in range(3)]
    stores = [engine(ring[rank % 2], pool, 2, tp_rank=rank, tp_size=3) for rank, pool in enumerate(pools)]
    keys = fresh_keys(8)
    for store, pool, has in zip(stores, pools, (8, 5, 7)):
        put(store, pool, keys[:has], list(range(has)))
    assert [store.batch_exists(keys) for store in stores] == [5, 5, 5]
    transfers = [SimpleNamespace(name="kv", keys=None, host_indices=None, hit_policy="all_pages")]
    assert [s.batch_exists_v2(keys, transfers).kv_hit_pages for s in stores] == [5, 5, 5]


def test_all_ranks_of_mla_say_the_same_also_of_a_state(ring, engine):
    """Pages of KV are equal on all ranks and stored once; each rank stores its own states, and a hit needs the states
    of all ranks."""
    kv, states = MlaPool(), [StatePool() for _ in range(3)]
    stores = [engine(ring[rank % 2], kv, 2, is_mla_model=True, tp_rank=rank, tp_size=3) for rank in range(3)]
    keys = fresh_keys(8)
    put(stores[0], kv, keys[:7], range(7))
    ends = [(1, 2, 4, 6), (1, 4), (1, 4, 5, 6)]
    for store, state, has in zip(stores, states, ends):
        store.register_mem_host_pool_v2(state, "mamba")
        transfer = SimpleNamespace(name="mamba", keys=[keys[i] for i in has], host_indices=state.indices(has),
                                   hit_policy="trailing_pages", indices_from_pool=None)
        assert store.batch_set_v2([transfer]) == {"mamba": [True] * len(has)}
        published(store)
    asked = [SimpleNamespace(name="mamba", keys=keys[:1], host_indices=None, hit_policy="trailing_pages")]
    assert [store.batch_exists(keys) for store in stores] == [7] * 3
    found = [store.batch_exists_v2(keys, asked) for store in stores]
    assert [each.kv_hit_pages for each in found] == [5] * 3
    assert [each.extra_pool_hit_pages for each in found] == [{"kv": 5, "mamba": 5}] * 3


@pytest.mark.parametrize("tp_size", [1, 8])
def test_one_exists_asks_for_2048_keys(ring, engine, tp_size):
    pool = MhaPool(pages=2048, layers=1, heads=1, head_dim=8)
    # Long time-outs, because a page without an answer in time would be a miss.
    patient = {"client.timeout": "30s", "prefetch_timeout_base": 30}
    stores = [engine(ring[0], pool, extra=patient, tp_rank=rank, tp_size=tp_size) for rank in range(tp_size)]
    other_host = engine(ring[1], pool, extra=patient, tp_rank=0, tp_size=tp_size)
    keys = fresh_keys(2048)
    for store in stores:
        put(store, pool, keys, list(range(2048)))
    published(stores[0])
    assert stores[-1].batch_exists_v2(keys, []).kv_hit_pages == 2048

    def messages(ask):
        before = other_host._backend.client.stats()["directory_messages"]
        ask()
        return other_host._backend.client.stats()["directory_messages"] - before

    def in_parts():
        for first in range(0, 2048, 128):
            assert other_host.batch_exists(keys[first : first + 128]) == 128

    def at_once():
        assert other_host.batch_exists(keys) == 2048

    assert 0 < messages(at_once) <= messages(in_parts) / 2, "many keys are one question to each node"


@pytest.mark.parametrize("shape", ["mha-page_first", "mla-layer_first", "flat-only"])
def test_a_host_page_is_not_read_into_for_two_keys(ring, engine, shape):
    pool, config = pool_of(shape)
    store = engine(ring[0], pool, **config)
    keys = fresh_keys(3)
    put(store, pool, keys, [0, 1, 2])
    before = [pool.bytes_of(page) for page in (4, 5)]
    assert store.batch_get_v1(keys, pool.indices([4, 5, 5])) == [False] * 3
    transfer = SimpleNamespace(name="kv", keys=keys, host_indices=pool.indices([5, 4, 5]), hit_policy="all_pages")
    assert store.batch_get_v2([transfer]) == {"kv": [False] * 3}
    assert [pool.bytes_of(page) for page in (4, 5)] == before
    assert store.batch_get_v1(keys, pool.indices([6, 4, 5])) == [True] * 3
    assert [pool.bytes_of(page) for page in (6, 4, 5)] == [pool.bytes_of(page) for page in (0, 1, 2)]


class TokenPool(MhaPool):
    """A pool that computes the place of a page from its first token only, as SGLang's pools do."""

    def get_page_buffer_meta(self, indices):
        token_bytes, rows = self.size_per_token // 2, indices.tolist()[:: self.page_size]
        places = [half.data_ptr() + row * token_bytes for row in rows for half in self.kv_buffer]
        return places, [token_bytes * self.page_size] * len(places)


@pytest.mark.parametrize("kind", [TokenPool, FlatOnlyPool])
def test_pages_that_share_tokens_are_not_read_into(ring, engine, kind):
    """If two pages were read into shared tokens, one would overwrite the other, and both would count as hits."""
    pool, keys = kind(), fresh_keys(2)
    store = engine(ring[0], pool)
    put(store, pool, keys, [0, 1])
    before = [pool.bytes_of(page) for page in range(pool.page_num)]
    assert store.batch_get_v1(keys, torch.cat([torch.arange(18, 22), torch.arange(20, 24)])) == [False] * 2
    assert [pool.bytes_of(page) for page in range(pool.page_num)] == before


@pytest.mark.timed
@pytest.mark.parametrize("call", ["get", "exists"])
def test_a_call_takes_no_longer_than_sglang_waits(fragile_ring, engine, call):
    ring = fragile_ring(2)
    for node in ring.nodes:
        node.hide_shard()
    pool = MhaPool()
    impatient = {"prefetch_timeout_base": 0.3, "prefetch_timeout_per_ki_token": 0.0001}
    writer = engine(ring[1], pool, 2)
    reader = engine(ring[0], pool, 2, extra=impatient)
    keys = fresh_keys(4)
    put(writer, pool, keys, range(4))
    assert until(lambda: reader.batch_exists(keys) == 4)
    ask = {"get": lambda: reader.batch_get_v1(keys, pool.indices(range(4, 8))) == [False] * 4,
           "exists": lambda: reader.batch_exists(keys) == 0}[call]
    for node in ring.nodes:
        node.freeze()
    with late_watch() as watch:
        assert ask()
    assert watch.seconds < 0.3 + LATE_SECONDS + watch.stalled
    for node in ring.nodes:
        node.thaw()


@pytest.mark.timed
def test_exists_has_the_time_of_a_get(ring, engine):
    """SGLang waits for a whole prefetch, which begins with `exists`. So `exists` has the same deadline as a get."""
    store = engine(ring[0], MhaPool(), extra={"prefetch_timeout_base": 0.3, "prefetch_timeout_per_ki_token": 102.4})
    keys, client = fresh_keys(2), store._backend.client
    watched = client.native = SlowNative(client.native, pause=0)
    store.batch_exists(keys)
    store.batch_exists_v2(keys, None)
    store.exists(keys[0])
    assert [seconds <= most for seconds, most in zip(watched.given, (1.1, 1.1, 0.7, 0.7))] == [True] * 4
