"""Change anything that decides what a page's bytes mean, and it is a miss."""

import pytest
import torch
from engines import fresh_keys, make_store, put
from host_pools import AsymmetricPool, MhaPool, MlaPool

BASE_CONFIG = {"tp_rank": 1, "tp_size": 4, "pp_rank": 0, "pp_size": 2, "attn_cp_rank": 0, "attn_cp_size": 2}
BASE_SIZES = {"page_size": 4, "layers": 4, "heads": 4, "head_dim": 8}

# Field: (changes of the config, of the host pool, of the JSON). Each keeps the page's length where it can,
# so that the key alone tells them apart.
FIELDS = {
    "model": ({"model_name": "another"}, {}, {}),
    "tp_rank": ({"tp_rank": 2}, {}, {}),
    "tp_size": ({"tp_size": 2}, {}, {}),
    "pp_rank": ({"pp_rank": 1}, {}, {}),
    "pp_size": ({"pp_size": 4}, {}, {}),
    "cp_rank": ({"attn_cp_rank": 1}, {}, {}),
    "cp_size": ({"attn_cp_size": 4}, {}, {}),
    "mla": ({"is_mla_model": True}, {}, {}),
    "dtype": ({}, {"dtype": torch.float16}, {}),
    "layout": ({}, {"layout": "page_first_direct"}, {}),
    "page_size": ({}, {"page_size": 8, "layers": 2}, {}),
    "geometry_heads": ({}, {"heads": 8, "head_dim": 4}, {}),
    "geometry_layers": ({}, {"layers": 8, "heads": 2}, {}),
    "geometry_first_layer": ({}, {"start_layer": 4}, {}),
    "space": ({}, {}, {"space": "another tenant"}),
}


def pool_with(**changed):
    sizes = {**BASE_SIZES, **changed}
    return MhaPool(sizes.pop("layout", "page_first"), **sizes)


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_changed_alone_is_a_miss(ring, engine, field):
    config, sizes, extra = FIELDS[field]
    pool, changed = pool_with(), pool_with(**sizes)
    keys = fresh_keys(2)
    stores = [engine(ring[0], pool, **BASE_CONFIG),
              engine(ring[0], changed, extra=extra, **{**BASE_CONFIG, **config})]
    pools, pages = [pool, changed], [0, 1]
    put(stores[0], pool, keys, pages)
    before = [changed.bytes_of(p) for p in pages]
    assert stores[0].batch_get_v1(keys, pool.indices([2, 3])) == [True] * 2
    assert stores[1].batch_get_v1(keys, changed.indices(pages)) == [False] * 2
    assert [changed.bytes_of(p) for p in pages] == before
    # Under the same hashes, each keeps its own.
    put(stores[1], changed, keys, pages)
    for store, own in zip(stores, pools):
        assert store.batch_get_v1(keys, own.indices([2, 3])) == [True] * 2
        assert [own.bytes_of(p) for p in (2, 3)] == [own.bytes_of(p) for p in pages]


@pytest.mark.parametrize("field", FIELDS)
def test_no_field_runs_into_another(ring, field):
    """The key spaces of all variants differ: the digest of one page is never another's."""
    config, sizes, extra = FIELDS[field]
    spaces = []
    for one in ({}, {"changed": True}):
        store = make_store(ring[0], pool_with(**(sizes if one else {})), extra=extra if one else {},
                           **{**BASE_CONFIG, **(config if one else {})})
        spaces.append({s.key_of("k") for s in store._pools["kv"].own + store._pools["kv"].flat})
        store.close()
    assert len(spaces[0]) == len(spaces[1]) == 2
    assert not spaces[0] & spaces[1]


def test_the_kinds_of_fp8_are_told_apart(ring, engine):
    """Both are stored as uint8; the device pool knows which one it is."""
    pools = [MhaPool(dtype=torch.uint8, seed=seed) for seed in (1, 2)]
    for pool, kind in zip(pools, ("float8_e4m3fn", "float8_e5m2")):
        pool.device_pool = type("DevicePool", (), {"dtype": kind})()
    stores = [engine(ring[0], pool) for pool in pools]
    keys = fresh_keys(1)
    put(stores[0], pools[0], keys, [0])
    assert [s.batch_exists(keys) for s in stores] == [1, 0]


def test_mla_is_written_once_and_read_by_all_ranks(ring, engine):
    pools = [MlaPool(seed=rank) for rank in range(4)]
    stores = [engine(ring[rank % 2], pool, 2, is_mla_model=True, tp_rank=rank, tp_size=4)
              for rank, pool in enumerate(pools)]
    keys = fresh_keys(3)
    put(stores[0], pools[0], keys, [0, 1, 2])
    for store, pool in zip(stores, pools):
        assert store.batch_exists(keys) == 3
        assert store.batch_get_v1(keys, pool.indices([5, 6, 7])) == [True] * 3
        assert [pool.bytes_of(p) for p in (5, 6, 7)] == [pools[0].bytes_of(p) for p in (0, 1, 2)]
    other_size = engine(ring[0], pools[0], is_mla_model=True, tp_rank=0, tp_size=8)
    assert other_size.batch_exists(keys) == 3


def whole_heads(pools, page, half):
    """The heads of a page over all ranks, as one list of bytes a head: page_head keeps them apart."""
    return [bytes(pool.kv_buffer[half, page, head].contiguous().view(torch.uint8).flatten().tolist())
            for pool in pools for head in range(pool.head_num)]


@pytest.mark.parametrize("writers, readers", [(8, 4), (4, 8), (4, 2), (2, 8), (8, 8)])
def test_engines_of_different_tp_feed_each_other(ring, engine, writers, readers):
    """Prefill with a TP of 8 and decode with one of 4, and back: pages are cut by groups of heads."""
    heads = 8

    def ranks(count):
        pools = [MhaPool("page_head", heads=heads // count, pages=4) for _ in range(count)]
        lcm = max(writers, readers)
        return pools, [engine(ring[rank % 2], pool, 2, tp_rank=rank, tp_size=count, tp_lcm_size=lcm,
                              should_split_heads=lcm > count, model_name=f"{writers}-to-{readers}")
                       for rank, pool in enumerate(pools)]

    sources, writing = ranks(writers)
    targets, reading = ranks(readers)
    keys = fresh_keys(2)
    for store, pool in zip(writing, sources):
        put(store, pool, keys, [0, 1])
    for store, pool in zip(reading, targets):
        assert store.batch_exists(keys) == 2
        assert store.batch_get_v1(keys, pool.indices([3, 2])) == [True, True]
    for source, target in ((0, 3), (1, 2)):
        for half in range(2):
            assert whole_heads(sources, source, half) == whole_heads(targets, target, half)


def test_a_group_of_heads_that_is_missing_makes_the_page_a_miss(ring, engine):
    sources = [MhaPool("page_head", heads=1, pages=4) for _ in range(2)]
    writing = [engine(ring[0], pool, tp_rank=rank, tp_size=2) for rank, pool in enumerate(sources)]
    target = MhaPool("page_head", heads=2, pages=4)
    reading = engine(ring[0], target, tp_rank=0, tp_size=1, tp_lcm_size=2, should_split_heads=True)
    keys = fresh_keys(3)
    put(writing[0], sources[0], keys, [0, 1, 2])
    put(writing[1], sources[1], keys[:1], [0])
    assert reading.batch_exists(keys) == 1
    assert reading.batch_get_v1(keys, target.indices([0, 1, 2])) == [True, False, False]


def test_heads_that_cannot_be_shared_out_are_refused_loudly(ring, engine, caplog):
    pool = MhaPool("page_head", heads=1)
    store = engine(ring[0], pool, tp_size=2, tp_lcm_size=4, should_split_heads=True)
    assert "cannot be cut into 2 groups" in caplog.text
    keys = fresh_keys(1)
    assert store.batch_set_v1(keys, pool.indices([0])) == [False] and store.batch_exists(keys) == 0


def test_asymmetric_pools_differ_from_symmetric_ones(ring, engine):
    keys = fresh_keys(1)
    wide, narrow = AsymmetricPool(head_dim=8, v_head_dim=4), AsymmetricPool(head_dim=4, v_head_dim=8)
    writer, reader = engine(ring[0], wide), engine(ring[0], narrow)
    put(writer, wide, keys, [0])
    assert reader.batch_exists(keys) == 0
