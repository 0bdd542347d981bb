"""Tests of every method of the storage backend, for every layout of MHA and MLA, on one node and on two nodes.
test_hicache_v2.py tests the methods for named pools."""

from types import SimpleNamespace

import pytest
import torch
from engines import fresh_keys, published, put
from host_pools import LogicalPool, MhaPool, MlaPool
from shapes import FLAT_SHAPES, NODES, SHAPES, pool_of


@SHAPES
@NODES
def test_pages_are_read_back_into_other_pages(ring, engine, shape, there):
    pool, config = pool_of(shape)
    target, _ = pool_of(shape)
    writer, reader = engine(ring[0], pool, 2, **config), engine(ring[there], target, 2, **config)
    keys = fresh_keys(3)
    put(writer, pool, keys, [1, 5, 2])
    assert reader.batch_exists(keys + fresh_keys(1)) == 3
    assert [reader.exists(key) for key in keys + fresh_keys(1)] == [True] * 3 + [False]
    assert reader.batch_get_v1(keys, target.indices([7, 0, 3]), None) == [True] * 3
    assert [target.bytes_of(p) for p in (7, 0, 3)] == [pool.bytes_of(p) for p in (1, 5, 2)]


@FLAT_SHAPES
@NODES
def test_flat_pages_are_read_back(ring, engine, shape, there):
    """Without interface_v1 SGLang passes tensors instead of addresses."""
    pool, config = pool_of(shape)
    target, _ = pool_of(shape)
    slow = {"extra": {"interface_v1": 0}, **config}
    writer, reader = engine(ring[0], pool, 2, **slow), engine(ring[there], target, 2, **slow)
    keys = fresh_keys(2)
    flat = [pool.get_data_page(p * pool.page_size) for p in (4, 6)]
    assert writer.batch_set(keys, flat) is True
    published(writer)
    assert reader.batch_exists(keys) == 2 and reader.exists(keys[1])
    pages = reader.batch_get(keys + fresh_keys(1), [target.get_dummy_flat_data_page() for _ in range(3)])
    assert [same_bytes(a, b) for a, b in zip(pages, flat)] == [True, True] and pages[2] is None
    assert same_bytes(reader.get(keys[0]), flat[0])
    (alone,) = fresh_keys(1)
    assert reader.exists(alone) is False and reader.get(alone) is None
    assert writer.set(alone, flat[1]) is True
    published(writer)
    assert reader.exists(alone) is True and same_bytes(reader.get(alone), flat[1])


def same_bytes(one, other):
    return bool((one.view(torch.uint8) == other.view(torch.uint8)).all())


TARGETS = {
    "one tensor for all": lambda size: [torch.zeros(size, dtype=torch.bfloat16)] * 3,
    "overlapping views": lambda size: [whole[i : i + size] for whole in [torch.zeros(size + 2, dtype=torch.bfloat16)]
                                       for i in range(3)],
    "later before earlier": lambda size: [whole[2 - i : 2 - i + size]
                                          for whole in [torch.zeros(size + 2, dtype=torch.bfloat16)] for i in range(3)],
}


@pytest.mark.parametrize("kind", TARGETS)
def test_two_pages_are_not_read_into_the_same_memory(ring, engine, kind):
    """Old versions of SGLang pass one tensor for all keys. It can hold only one page, so other keys must be misses."""
    pool = MhaPool()
    store = engine(ring[0], pool, extra={"interface_v1": 0})
    keys, flat = fresh_keys(3), [pool.get_data_page(p * pool.page_size) for p in range(3)]
    assert store.batch_set(keys, flat) is True
    published(store)
    targets = TARGETS[kind](flat[0].numel())
    read = store.batch_get(keys, targets)
    assert read[0] is targets[0] and same_bytes(read[0], flat[0]) and read[1:] == [None] * 2
    drafts = [f"{key}.draft" for key in keys]
    assert store.batch_set(drafts, flat) is True
    published(store)
    read = store.batch_get([keys[2], *drafts[:2]], targets)
    assert same_bytes(read[0], flat[2]) and read[1:] == [None] * 2


def test_targets_may_be_rows_of_one_tensor(ring, engine):
    pool = MhaPool()
    store = engine(ring[0], pool, extra={"interface_v1": 0})
    keys, flat = fresh_keys(3), torch.stack([pool.get_data_page(p * pool.page_size) for p in range(3)])
    assert store.batch_set(keys, flat) is True
    published(store)
    rows = torch.zeros_like(flat)
    read = store.batch_get(keys, rows)
    assert all(page is not None for page in read) and same_bytes(rows, flat)


def test_a_single_key_is_set_and_read(ring, engine):
    pool = MhaPool()
    store = engine(ring[0], pool)
    (key,) = fresh_keys(1)
    page = pool.get_data_page(0)
    assert store.set(key, page) is True
    published(store)
    assert store.exists(key) is True and store.exists(fresh_keys(1)[0]) is False
    assert same_bytes(store.get(key, torch.zeros_like(page)), page)
    assert store.get(fresh_keys(1)[0], torch.zeros_like(page)) is None


def test_drafts_go_the_generic_way_beside_v1(ring, engine):
    """SGLang passes the pages of a draft model to batch_set, with keys of their own."""
    pool = MhaPool()
    store = engine(ring[0], pool)
    keys = [f"{key}.draft" for key in fresh_keys(2)]
    pages = [torch.full((100,), 7.0, dtype=torch.bfloat16), torch.ones(60, dtype=torch.bfloat16)]
    assert store.batch_set(keys, pages)
    published(store)
    assert store.batch_exists(keys) == 0, "a flat page is no page by address"
    assert store.exists(keys[0])
    read = store.batch_get(keys, [torch.zeros_like(p) for p in pages])
    assert all(same_bytes(a, b) for a, b in zip(read, pages))


def test_a_set_of_what_is_there_is_a_success(ring, engine):
    pool = MhaPool()
    store = engine(ring[0], pool)
    keys = fresh_keys(4)
    put(store, pool, keys[:2], [0, 1])
    put(store, pool, keys, [0, 1, 2, 3])


@SHAPES
@NODES
def test_clear_withdraws_what_any_engine_of_the_model_moved_and_nothing_else(ring, engine, shape, there):
    pool, config = pool_of(shape)
    store, other = engine(ring[0], pool, 2, **config), engine(ring[there], pool, 2, **config)
    tenant = engine(ring[there], pool, 2, extra={"space": "tenant"}, **config)
    model = engine(ring[there], pool, 2, **{**config, "model_name": f"another {shape}"})
    mine, foreign = fresh_keys(3), fresh_keys(2)
    put(store, pool, mine, [0, 1, 2])
    for each in (other, tenant, model):
        put(each, pool, foreign, [3, 4])
    assert store.batch_exists(mine) == 3
    assert engine(ring[there], pool, 2, **config).clear() is True, "one that has moved nothing"
    assert store.batch_exists(mine) == 0 == other.batch_exists(mine)
    assert store.batch_exists(foreign) == 0 == other.batch_exists(foreign)
    assert tenant.batch_exists(foreign) == 2 == model.batch_exists(foreign)
    put(store, pool, mine, [0, 1, 2])
    assert other.batch_exists(mine) == 3


def test_clear_withdraws_the_pages_of_all_ranks_and_layouts(ring, engine):
    stores = [engine(ring[rank % 2], MhaPool(layout), 2, tp_rank=rank, tp_size=2)
              for rank in (0, 1) for layout in ("page_first", "layer_first")]
    keys = fresh_keys(2)
    for store in stores:
        put(store, store.mem_pool_host, keys, [0, 1])
    assert engine(ring[0], MhaPool(), 2).clear() is True
    for store in stores:
        assert store.batch_get_v1(keys, store.mem_pool_host.indices([2, 3])) == [False] * 2


@SHAPES
@NODES
def test_stats_are_none_or_of_the_batches_since_the_last_call(ring, engine, shape, there):
    pool, config = pool_of(shape)
    assert engine(ring[0], pool, **config).get_stats() is None
    writer = engine(ring[there], pool, 2, enable_storage_metrics=True, **config)
    reader = engine(ring[0], pool, 2, enable_storage_metrics=True, **config)
    keys = fresh_keys(3)
    put(writer, pool, keys, [0, 1, 2])
    assert reader.batch_get_v1(keys[:2], pool.indices([3, 4]), None) == [True] * 2
    stored, read = writer.get_stats(), reader.get_stats()
    assert stored.backup_pgs == [3] and stored.prefetch_pgs == [] == stored.prefetch_bandwidth
    assert read.prefetch_pgs == [2] and read.backup_pgs == [] == read.backup_bandwidth
    assert len(stored.backup_bandwidth) == len(read.prefetch_bandwidth) == 1
    assert min(stored.backup_bandwidth + read.prefetch_bandwidth) > 0
    assert writer.get_stats().backup_pgs == [] == reader.get_stats().prefetch_pgs


@SHAPES
@NODES
def test_stats_have_each_pool_of_a_v2_call(ring, engine, shape, there):
    pools, config = {"kv": pool_of(shape)[0], "swa": pool_of(shape)[0]}, pool_of(shape)[1]
    stores = [engine(ring[node], pools["kv"], 2, enable_storage_metrics=True, **config) for node in (there, 0)]
    for name, pool in pools.items():
        for store in stores:
            store.register_mem_host_pool_v2(pool, name)
    keys = fresh_keys(3)
    assert stores[0].batch_set_v2(transfers_of(pools, keys)) == {"kv": [True] * 3, "swa": [True] * 2}
    published(stores[0])
    assert stores[1].batch_get_v2(transfers_of(pools, keys)) == {"kv": [True] * 3, "swa": [True] * 2}
    stored, read = [store.get_stats() for store in stores]
    assert stored.backup_pgs == [3, 2] == read.prefetch_pgs and min(stored.backup_bandwidth) > 0
    assert stored.prefetch_pgs == [] == read.backup_pgs and min(read.prefetch_bandwidth) > 0


def transfers_of(pools, keys):
    """Returns transfers of all pages of KV, and of the last two pages of the other pools."""
    chosen = {name: keys if name == "kv" else keys[-2:] for name in pools}
    return [SimpleNamespace(name=name, keys=some, host_indices=pools[name].indices(range(len(some))),
                            hit_policy="all_pages" if name == "kv" else "trailing_pages", indices_from_pool=None)
            for name, some in chosen.items()]


def test_flat_pages_are_in_the_stats(ring, engine):
    pool = MhaPool()
    store = engine(ring[0], pool, enable_storage_metrics=True, extra={"interface_v1": 0})
    (key,), page = fresh_keys(1), pool.get_data_page(0)
    assert store.set(key, page)
    published(store)
    assert store.get(key) is not None
    stats = store.get_stats()
    assert stats.backup_pgs == stats.prefetch_pgs == [1]
    assert min(stats.backup_bandwidth + stats.prefetch_bandwidth) > 0


def test_a_pool_without_memory_of_its_own_has_every_page(ring, engine):
    """DeepSeek-V4's anchor has no memory: its pages are in named pools, and calls of v1 answer True."""
    pool = LogicalPool("page_first")
    store = engine(ring[0], pool)
    keys = fresh_keys(2)
    assert store.batch_exists(keys) == 2
    assert store.batch_set_v1(keys, pool.indices([0, 1])) == [True, True]
    assert store.batch_get_v1(keys, pool.indices([0, 1])) == [True, True]


def test_flat_pages_of_a_logical_pool_have_no_bytes_and_are_there(ring, engine):
    """Without interface_v1 a logical pool's pages exist as well; a draft beside the pool is moved all the same."""
    pool = LogicalPool("page_first")
    store = engine(ring[0], pool, extra={"interface_v1": 0})
    (key,), empty = fresh_keys(1), pool.get_dummy_flat_data_page()
    assert store.batch_set([key], [empty]) is True and store.exists(key) is True
    assert store.batch_get([key], [empty])[0] is empty
    assert store.batch_get([key], [torch.ones(8)]) == [None], "bytes that nobody put"
    draft = torch.arange(8.0)
    assert store.exists(f"{key}.draft") is False
    assert store.batch_get([f"{key}.draft"], [torch.zeros(8)]) == [None]
    assert store.batch_set([key, f"{key}.draft"], [empty, draft]) is True
    published(store)
    assert same_bytes(store.get(f"{key}.draft", torch.zeros(8)), draft)


def test_a_draft_page_is_no_block_of_the_target(ring, engine):
    """KV events tell routers of pages of KV only, although the page of a draft has the same hash."""
    pool, told = MhaPool(), []
    store = engine(ring[0], pool, extra={"interface_v1": 0})
    store._events = SimpleNamespace(stored=lambda keys, *_: told.append(keys), close=lambda: None)
    (key,), page = fresh_keys(1), pool.get_data_page(0)
    assert store.batch_set([f"{key}.draft"], [page]) and told == []
    assert store.batch_set([key], [page]) and told == [[key]]


def test_without_interface_v1_named_pools_are_found_beside_flat_kv(ring, engine):
    """Without interface_v1 SGLang puts KV as flat pages, and named pools by address."""
    pool, side = MhaPool(), MlaPool(kv_cache_dim=8)
    store = engine(ring[0], pool, extra={"interface_v1": 0})
    store.register_mem_host_pool_v2(side, "indexer")
    keys = fresh_keys(3)
    indexer = SimpleNamespace(name="indexer", keys=keys[:2], host_indices=side.indices([0, 1]),
                              hit_policy="all_pages", indices_from_pool=None)
    assert store.batch_set(keys, [pool.get_data_page(0)] * 3) is True
    assert store.batch_set_v2([indexer]) == {"indexer": [True] * 2}
    published(store)
    assert store.batch_exists(keys) == 3 == store.batch_exists_v2(keys, None).kv_hit_pages
    assert store.batch_exists_v2(keys, [indexer]).kv_hit_pages == 2


@SHAPES
@pytest.mark.parametrize("interface_v1", [1, 0])
def test_after_close_all_is_a_miss(ring, engine, shape, interface_v1):
    pools, config = {"kv": pool_of(shape)[0], "swa": pool_of(shape)[0]}, pool_of(shape)[1]
    pool, keys = pools["kv"], fresh_keys(2)
    store = engine(ring[0], pool, extra={"interface_v1": interface_v1}, **config)
    for name, each in pools.items():
        store.register_mem_host_pool_v2(each, name)
    assert store.batch_set_v2(transfers_of(pools, keys)) == {name: [True] * 2 for name in pools}
    published(store)
    store.close()
    store.close()
    before = pool.bytes_of(0)
    all_are_misses(store, pool, keys, torch.zeros(pool.size_per_token * pool.page_size, dtype=torch.uint8))
    for call in (store.batch_get_v2, store.batch_set_v2):
        assert call(transfers_of(pools, keys)) == {name: [False] * 2 for name in pools}
    assert store.batch_exists_v2(keys, transfers_of(pools, keys)).kv_hit_pages == 0
    assert pool.bytes_of(0) == before


def all_are_misses(store, pool, keys, page):
    assert store.batch_exists(keys) == 0 == store.batch_exists_v2(keys, None).kv_hit_pages
    assert store.exists(keys[0]) is False and store.clear() is False
    assert store.batch_get_v1(keys, pool.indices([0, 1])) == [False] * 2
    assert store.batch_set_v1(keys, pool.indices([0, 1])) == [False] * 2
    assert store.get(keys[0], page) is None and store.batch_get(keys, [page, page.clone()]) == [None] * 2
    assert store.set(keys[0], page) is False and store.batch_set(keys, [page] * 2) is False


def test_after_close_a_logical_pool_is_a_miss_too(ring, engine):
    """A logical pool's pages exist without asking any node, but must be misses after `close`."""
    pool = LogicalPool("page_first")
    store, keys = engine(ring[0], pool), fresh_keys(2)
    assert store.batch_exists(keys) == 2 and store.exists(keys[0])
    store.close()
    all_are_misses(store, pool, keys, pool.get_dummy_flat_data_page())


@pytest.mark.parametrize("shape", ["mha-page_first", "mla-page_first", "mla-layer_first"])
def test_another_host_pool_takes_the_place_of_the_first(ring, engine, shape):
    (first, config), (second, _) = pool_of(shape), pool_of(shape)
    store = engine(ring[0], first, **config)
    keys = fresh_keys(2)
    put(store, first, keys, [0, 1])
    before = [first.bytes_of(p) for p in range(first.page_num)]
    store.register_mem_pool_host(second)
    assert store.batch_get_v1(keys, second.indices([2, 3])) == [True] * 2
    assert [second.bytes_of(p) for p in (2, 3)] == before[:2]
    assert [first.bytes_of(p) for p in range(first.page_num)] == before
