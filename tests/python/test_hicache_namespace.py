"""Tests that an engine misses the pages of an engine that differs in anything that decides what a page's bytes mean."""

import sys
from types import SimpleNamespace

import pytest
import torch
from engines import config_of, fresh_keys, make_store, published, put
from host_pools import AsymmetricPool, LogicalPool, MhaPool, MlaPool, RowPool, StatePool
from natives import SlowNative
from peercache.hicache.contract import Ranks
from peercache.hicache.host_pool import FLAT, ZERO_COPY, HostPool, spaces_of
from peercache.hicache.stored_pool import DRAFT_SHAPES_MAX

BASE_CONFIG = {"tp_rank": 1, "tp_size": 4, "pp_rank": 0, "pp_size": 2, "attn_cp_rank": 0, "attn_cp_size": 2}
BASE_SIZES = {"page_size": 4, "layers": 4, "heads": 4, "head_dim": 8}

# For each field of the key space: changes of config, host pool and JSON that give it another value. Where possible the
# page's length stays the same, so that only the key tells the pages apart.
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
    "page_size": ({}, {"page_size": 8}, {}),
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
    # Both stores put pages under the same hashes; each must then read its own.
    put(stores[1], changed, keys, pages)
    for store, own in zip(stores, pools):
        assert store.batch_get_v1(keys, own.indices([2, 3])) == [True] * 2
        assert [own.bytes_of(p) for p in (2, 3)] == [own.bytes_of(p) for p in pages]


@pytest.mark.parametrize("field", FIELDS)
def test_no_field_runs_into_another(ring, field):
    """All variants must have different key spaces, so that the same page hash has a different key in each."""
    config, sizes, extra = FIELDS[field]
    spaces = []
    for one in ({}, {"changed": True}):
        store = make_store(ring[0], pool_with(**(sizes if one else {})), extra=extra if one else {},
                           **{**BASE_CONFIG, **(config if one else {})})
        spaces.append({s.key_of("k") for s in store._pools["kv"].own + store._pools["kv"].flat})
        store.close()
    assert len(spaces[0]) == len(spaces[1]) == 2
    assert not spaces[0] & spaces[1]


ATTRIBUTES = {
    MhaPool: ("page_size", "layer_num", "head_num", "head_dim", "v_head_dim", "start_layer", "end_layer",
              "size_per_token"),
    MlaPool: ("page_size", "layer_num", "kv_cache_dim", "kv_lora_rank", "qk_rope_head_dim", "start_layer",
              "end_layer", "size_per_token"),
}


@pytest.mark.parametrize("kind, name", [(kind, name) for kind, names in ATTRIBUTES.items() for name in names])
@pytest.mark.parametrize("form", [ZERO_COPY, FLAT])
def test_each_attribute_of_a_pool_changed_alone_is_another_key_space(kind, name, form):
    """A change of a single attribute must change the key space, even of an attribute that in SGLang's pools follows
    from others."""
    ranks = Ranks.of(config_of({}, is_mla_model=kind is MlaPool))

    def digests(value):
        pool = kind(start_layer=1)
        pool.v_head_dim, pool.kv_lora_rank, pool.qk_rope_head_dim = 8, 16, 8
        setattr(pool, name, getattr(pool, name) * value)
        return [space.key_of("k") for space in spaces_of(HostPool(pool, "kv", ranks), ranks, "", form, False)]

    assert digests(1) == digests(1) and digests(1) != digests(2)


def test_the_kinds_of_fp8_are_told_apart(ring, engine):
    """Both kinds of fp8 are stored as uint8; only the device pool knows which kind a page has."""
    pools = [MhaPool(dtype=torch.uint8, seed=seed) for seed in (1, 2)]
    for pool, kind in zip(pools, ("float8_e4m3fn", "float8_e5m2")):
        pool.device_pool = type("DevicePool", (), {"dtype": kind})()
    stores = [engine(ring[0], pool) for pool in pools]
    keys = fresh_keys(1)
    put(stores[0], pools[0], keys, [0])
    assert [s.batch_exists(keys) for s in stores] == [1, 0]


FP8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")


def fp8_pool(kind, where):
    """Returns a pool of bytes that are this kind of fp8; `where` names the SGLang object that tells the kind."""
    pool, device_pool = MhaPool(dtype=torch.uint8), SimpleNamespace(dtype=f"torch.{kind}")
    if where == "in the host pool":
        pool.device_pool = device_pool
        return pool
    anchor = SimpleNamespace(host_pool=pool, device_pool=device_pool)
    return SimpleNamespace(**vars(pool), anchor_entry=anchor, get_page_buffer_meta=pool.get_page_buffer_meta)


@pytest.mark.parametrize("where", ["in the host pool", "in the entry of its group"])
@pytest.mark.parametrize("kind", FP8)
def test_pools_beside_fp8_are_of_its_kind_too(ring, engine, kind, where):
    """The pools of DeepSeek-V4 and flat pages of a draft are stored as bytes; only the KV's device pool tells their
    kind of fp8."""
    stores = [engine(ring[0], fp8_pool(each, where)) for each in FP8]
    (key,), side = fresh_keys(1), RowPool()
    for store in stores:
        store.register_mem_host_pool_v2(side, "deepseek_v4_c4")
    writer = stores[FP8.index(kind)]
    assert writer.batch_set_v2([transfer("deepseek_v4_c4", [key], side, [0])]) == {"deepseek_v4_c4": [True]}
    assert writer.batch_set_v1([key], MhaPool().indices([0])) == [True]
    assert writer.batch_set([f"{key}.draft"], [torch.ones(64, dtype=torch.uint8)])
    published(writer)
    alone = [each == kind for each in FP8]
    read = [store.batch_get_v2([transfer("deepseek_v4_c4", [key], side, [3])]) for store in stores]
    assert [each["deepseek_v4_c4"] for each in read] == [[there] for there in alone]
    assert [store.batch_exists([key]) == 1 for store in stores] == alone
    drafts = [store.batch_get([f"{key}.draft"], [torch.zeros(64, dtype=torch.uint8)]) for store in stores]
    assert [read[0] is not None for read in drafts] == alone


def test_a_logical_anchor_has_the_engines_kind_of_fp8(ring, engine, monkeypatch):
    """Newer versions of SGLang register DeepSeek-V4 without a device pool in any of its pools."""
    (key,), pools, stores = fresh_keys(1), [RowPool(), RowPool()], []
    for kind, pool in zip(("fp8_e4m3", "fp8_e5m2"), pools):
        args = SimpleNamespace(get_global_server_args=lambda kind=kind: SimpleNamespace(kv_cache_dtype=kind))
        monkeypatch.setitem(sys.modules, "sglang.srt.server_args", args)
        stores.append(engine(ring[0], LogicalPool("page_first")))
        stores[-1].register_mem_host_pool_v2(pool, "deepseek_v4_c4")
    assert stores[0].batch_set_v2([transfer("deepseek_v4_c4", [key], pools[0], [0])]) == {"deepseek_v4_c4": [True]}
    published(stores[0])
    for store, pool, there in zip(stores, pools, (True, False)):
        assert store.batch_get_v2([transfer("deepseek_v4_c4", [key], pool, [3])]) == {"deepseek_v4_c4": [there]}


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


def transfer(name, keys, pool=None, pages=()):
    return SimpleNamespace(name=name, keys=keys, hit_policy="all_pages", indices_from_pool=None,
                           host_indices=None if pool is None else pool.indices(pages))


def mla_ranks(engine, node, name, pools):
    """Makes the ranks of an MLA engine, all with the same KV, and each with one of `pools` as the named pool `name`."""
    stores = [engine(node, MlaPool(seed=1), is_mla_model=True, tp_rank=rank, tp_size=len(pools),
                     model_name=f"mla beside {name}") for rank in range(len(pools))]
    for store, pool in zip(stores, pools):
        store.register_mem_host_pool_v2(pool, name)
    return stores


CUT = [("mamba", StatePool), ("mamba", MlaPool), ("swa", StatePool), ("swa", MhaPool), ("new", MlaPool)]


@pytest.mark.parametrize("name, kind", CUT)
def test_beside_mla_each_rank_keeps_its_share_of_what_is_cut(ring, engine, name, kind):
    """In Kimi-Linear the attention is MLA and the states are cut over the ranks: another rank's state would be wrong
    bytes."""
    pools = [kind(seed=rank) for rank in range(2)]
    stores = mla_ranks(engine, ring[0], name, pools)
    keys, kv = fresh_keys(2), stores[0].mem_pool_host
    put(stores[0], kv, keys, [0, 1])
    for rank, (store, pool) in enumerate(zip(stores, pools)):
        found = [each.batch_exists_v2(keys, [transfer(name, None)]).kv_hit_pages for each in stores]
        assert found == [0, 0], f"{rank} of 2 ranks have theirs"
        assert store.batch_set_v2([transfer(name, keys, pool, [0, 1])]) == {name: [True] * 2}
        published(store)
    assert pools[0].bytes_of(0) != pools[1].bytes_of(0)
    for store, pool in zip(stores, pools):
        assert store.batch_exists_v2(keys, [transfer(name, None)]).kv_hit_pages == 2
        assert store.batch_get_v2([transfer(name, keys, pool, [5, 6])]) == {name: [True] * 2}
        assert [pool.bytes_of(p) for p in (5, 6)] == [pool.bytes_of(p) for p in (0, 1)]


@pytest.mark.parametrize("name", ["indexer", "deepseek_v4_c4", "deepseek_v4_c4_state"])
def test_what_all_ranks_hold_beside_mla_is_written_once_too(ring, engine, name):
    pools = [MlaPool(kv_cache_dim=8, seed=rank) for rank in range(2)]
    stores = mla_ranks(engine, ring[0], name, pools)
    keys = fresh_keys(1)
    assert stores[0].batch_set_v2([transfer(name, keys, pools[0], [0])]) == {name: [True]}
    published(stores[0])
    assert stores[1].batch_get_v2([transfer(name, keys, pools[1], [3])]) == {name: [True]}
    assert pools[1].bytes_of(3) == pools[0].bytes_of(0)


OTHER_STATES = {
    "temporal_dtype": {"temporal_dtype": torch.float16},
    "temporal_state_shape": {"temporal": (8, 4)},
    "conv_state_shapes": {"conv": (4, 3)},
}


@pytest.mark.parametrize("field", OTHER_STATES)
def test_states_of_another_shape_or_type_are_misses(ring, engine, field):
    pools = [StatePool(), StatePool(**OTHER_STATES[field])]
    assert pools[0].size_per_token == pools[1].size_per_token
    stores = [engine(ring[0], MhaPool()) for _ in pools]
    keys = fresh_keys(1)
    for store, pool in zip(stores, pools):
        store.register_mem_host_pool_v2(pool, "mamba")
    assert stores[0].batch_set_v2([transfer("mamba", keys, pools[0], [0])]) == {"mamba": [True]}
    published(stores[0])
    assert stores[1].batch_get_v2([transfer("mamba", keys, pools[1], [3])]) == {"mamba": [False]}


def test_each_rank_has_drafts_of_its_own_also_beside_mla(ring, engine):
    """The target is MLA and the draft has heads: SGLang passes pages of both to the same generic calls."""
    stores = [engine(ring[0], MlaPool(), is_mla_model=True, tp_rank=rank, tp_size=2) for rank in range(2)]
    keys = [f"{key}.draft" for key in fresh_keys(2)]
    pages = [[torch.full((64,), 1.0 + rank + 2 * i) for i in range(2)] for rank in range(2)]
    for store, own in zip(stores, pages):
        assert store.batch_set(keys, own)
        published(store)
    for store, own in zip(stores, pages):
        read = store.batch_get(keys, [torch.zeros(64) for _ in keys])
        assert [torch.equal(a, b) for a, b in zip(read, own)] == [True, True]
        assert store.exists(keys[0])


@pytest.mark.parametrize("other", [torch.zeros(64, dtype=torch.float16), torch.zeros(32, dtype=torch.bfloat16)],
                         ids=["dtype", "size"])
def test_drafts_of_another_shape_share_no_keys(ring, engine, other):
    store = engine(ring[0], MhaPool())
    keys = [f"{key}.draft" for key in fresh_keys(1)]
    page = torch.ones(64, dtype=torch.bfloat16)
    assert store.batch_set(keys, [page])
    published(store)
    assert store.batch_get(keys, [other]) == [None] and not other.any()
    assert store.batch_set(keys, [other + 2]), "and each keeps its own"
    published(store)
    assert torch.equal(store.batch_get(keys, [torch.zeros_like(page)])[0], page)
    assert torch.equal(store.batch_get(keys, [torch.zeros_like(other)])[0], other + 2)


def test_drafts_of_ever_new_shapes_are_refused_at_last(ring, engine):
    store = engine(ring[0], MhaPool())
    (key,) = fresh_keys(1)
    stored = [store.batch_set([f"{key}.draft"], [torch.zeros(size)]) for size in range(1, DRAFT_SHAPES_MAX + 3)]
    assert stored == [True] * DRAFT_SHAPES_MAX + [False] * 2


def whole_heads(pools, page, half):
    """Returns the bytes of each head of a page, over all ranks; in the layout page_head heads are separate."""
    return [bytes(pool.kv_buffer[half, page, head].contiguous().view(torch.uint8).flatten().tolist())
            for pool in pools for head in range(pool.head_num)]


@pytest.mark.parametrize("writers, readers", [(8, 4), (4, 8), (4, 2), (2, 8), (8, 8)])
def test_engines_of_different_tp_feed_each_other(ring, engine, writers, readers):
    """Prefill may have another TP size than decode, such as 8 and 4. Pages are cut by groups of heads, so that each
    must read the other's pages."""
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


class Asked(SlowNative):
    """A native client that counts how many pages `exists` asks for."""

    def __init__(self, native):
        super().__init__(native, pause=0)
        self.pages = 0

    def exists(self, spaces, keys, seconds, hold, chain=False):
        self.pages += len(spaces) * len(keys)
        return self._native.exists(spaces, keys, seconds)


@pytest.mark.parametrize("interface_v1", [1, 0])
@pytest.mark.parametrize("own_only", [True, False])
def test_n_ranks_ask_for_n_pages_a_key_where_their_own_ones_are_enough(ring, engine, own_only, interface_v1):
    extra = {"own_pages_only": own_only, "interface_v1": interface_v1}
    pools, ranks = [MhaPool(seed=rank) for rank in range(4)], range(4)
    stores = [engine(ring[0], pools[rank], tp_rank=rank, tp_size=4, extra=extra, model_name=f"{extra}")
              for rank in ranks]
    keys = fresh_keys(3)
    for rank in ranks:
        stores[rank].register_mem_host_pool_v2(MhaPool(), "swa")
        held = keys[: 3 - rank % 2]
        flat = [pools[rank].get_data_page(page * 4) for page in range(len(held))]
        if interface_v1:
            put(stores[rank], pools[rank], held, range(len(held)))
        else:
            assert stores[rank].batch_set(held, flat)
        assert stores[rank].batch_set_v2([transfer("swa", held, pools[rank], range(len(held)))])
        published(stores[rank])
        stores[rank]._backend.client.native = Asked(stores[rank]._backend.client.native)
    assert [store.batch_exists(keys) for store in stores] == ([3, 2, 3, 2] if own_only else [2] * 4)
    asked = sum(store._backend.client.native.pages for store in stores)
    assert asked == (4 if own_only else 16) * len(keys)
    found = [store.batch_exists_v2(keys, [transfer("swa", None)]).kv_hit_pages for store in stores]
    assert found == ([3, 2, 3, 2] if own_only else [2] * 4)
    assert [store.exists(keys[2]) for store in stores] == ([True, False] * 2 if own_only else [False] * 4)
    for rank in ranks if interface_v1 else []:
        least = min(found)
        assert stores[rank].batch_get_v1(keys[:least], pools[rank].indices(range(8, 8 + least))) == [True] * least
        assert pools[rank].bytes_of(8) == pools[rank].bytes_of(0), "its own"


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


@pytest.mark.parametrize("changed, there", [({}, True), ({"revision": None, "json_model_override_args": "{}"}, True),
                                            ({"json_model_override_args": '{"rope_theta": 1}'}, False),
                                            ({"revision": "r2"}, False), ({"quantization": "fp8"}, False)], ids=str)
def test_settings_of_sglang_that_change_the_model_are_apart(ring, engine, monkeypatch, changed, there):
    pool, keys = pool_with(), fresh_keys(2)
    put(engine(ring[0], pool, **BASE_CONFIG), pool, keys, [0, 1])
    module = SimpleNamespace(get_global_server_args=lambda: SimpleNamespace(**changed))
    monkeypatch.setitem(sys.modules, "sglang.srt.server_args", module)
    assert engine(ring[0], pool, **BASE_CONFIG).batch_get_v1(keys, pool.indices([2, 3])) == [there] * 2
