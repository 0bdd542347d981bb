"""Tests of named pools (v2): hit policies, pages that either all pools or none have, and pools that share indices."""

import ctypes
import pathlib
import random
import runpy
from types import SimpleNamespace

import pytest
import torch
from engines import fresh_keys, published, put
from host_pools import (
    FlatOnlyPool, LogicalPool, MhaPool, MlaPool, NsaIndexerPool, NsaPool, RowPool, UnevenPool)
from peercache.hicache.hit_policy import usable_prefix

ALL, TRAILING = "all_pages", "trailing_pages"


def transfer(name, keys=None, indices=None, policy=ALL, source=None):
    return SimpleNamespace(name=name, keys=keys, host_indices=indices, hit_policy=policy,
                           indices_from_pool=source)


class Hybrid:
    """An engine with KV, an indexer (a hit needs all its pages) and a state (a hit needs its trailing pages)."""

    def __init__(self, engine, node, members=2):
        self.pools = {"kv": MhaPool(), "indexer": MlaPool(kv_cache_dim=8), "mamba": FlatOnlyPool()}
        self.store = engine(node, self.pools["kv"], members)
        for name, pool in self.pools.items():
            self.store.register_mem_host_pool_v2(pool, name)

    def set(self, name, keys, pages):
        done = self.store.batch_set_v2([transfer(name, keys, self.pools[name].indices(pages))])
        assert done == {name: [True] * len(keys)}
        published(self.store)

    def exists(self, keys, **policies):
        pools = [transfer(name, keys[:count] if count else None, policy=TRAILING if count else ALL)
                 for name, count in policies.items()]
        return self.store.batch_exists_v2(keys, pools)


def test_pages_of_several_pools_are_read_back_together(ring, engine):
    writer, reader = Hybrid(engine, ring[0]), Hybrid(engine, ring[1])
    keys = fresh_keys(3)
    for name in writer.pools:
        writer.set(name, keys, [0, 1, 2])
    found = reader.exists(keys, indexer=0, mamba=1)
    assert found.kv_hit_pages == 3 and found.extra_pool_hit_pages == {"kv": 3, "indexer": 3, "mamba": 3}
    transfers = [transfer(n, keys, p.indices([7, 8, 9])) for n, p in reader.pools.items()]
    assert reader.store.batch_get_v2(transfers) == {name: [True] * 3 for name in reader.pools}
    for name, pool in reader.pools.items():
        assert [pool.bytes_of(p) for p in (7, 8, 9)] == [writer.pools[name].bytes_of(p) for p in (0, 1, 2)], name


def test_a_pool_that_needs_all_pages_shortens_the_prefix(ring, engine):
    one = Hybrid(engine, ring[0])
    keys = fresh_keys(5)
    one.set("kv", keys, range(5))
    one.set("indexer", [keys[0], keys[1], keys[3]], range(3))
    assert one.exists(keys, indexer=0).kv_hit_pages == 2
    assert one.exists(keys).kv_hit_pages == 5


def test_a_trailing_pool_needs_the_pages_before_the_end(ring, engine):
    one = Hybrid(engine, ring[0])
    keys = fresh_keys(6)
    one.set("kv", keys, range(6))
    one.set("mamba", [keys[1], keys[2], keys[4]], range(3))
    assert one.exists(keys, mamba=1).kv_hit_pages == 5
    assert one.exists(keys, mamba=2).kv_hit_pages == 3
    assert one.exists(keys, mamba=3).kv_hit_pages == 0


def test_pools_must_be_usable_at_the_same_end(ring, engine):
    """The state exists for prefixes of 2 and 5 pages, the indexer for all prefixes up to 4 pages: only a prefix of 2
    pages has both."""
    one = Hybrid(engine, ring[0])
    keys = fresh_keys(5)
    one.set("kv", keys, range(5))
    one.set("indexer", keys[:4], range(4))
    one.set("mamba", [keys[1], keys[4]], [0, 1])
    assert one.exists(keys, indexer=0, mamba=1).kv_hit_pages == 2


def test_what_one_pool_lacks_all_pools_lack(ring, engine):
    one = Hybrid(engine, ring[0])
    keys = fresh_keys(3)
    one.set("kv", keys, range(3))
    one.set("indexer", [keys[0], keys[2]], range(2))
    one.set("mamba", keys[:1], [0])
    pools = one.pools
    read = one.store.batch_get_v2([transfer(n, keys, pools[n].indices([7, 8, 9])) for n in ("kv", "indexer")])
    assert read == {"kv": [True, False, True], "indexer": [True, False, True]}
    state = transfer("mamba", keys[:2], pools["mamba"].indices([7, 8]), TRAILING)
    assert one.store.batch_get_v2([state]) == {"mamba": [False, False]}


def test_the_same_key_in_two_pools_is_two_pages(ring, engine):
    one = Hybrid(engine, ring[0])
    keys = fresh_keys(1)
    one.set("indexer", keys, [0])
    assert one.store.batch_exists(keys) == 0
    assert one.exists(keys, indexer=0).kv_hit_pages == 0


def test_a_pool_may_use_the_indices_of_another(ring, engine):
    one = Hybrid(engine, ring[0])
    keys = fresh_keys(2)
    kv = transfer("kv", keys, one.pools["kv"].indices([3, 4]))
    side = transfer("indexer", keys, source="kv")
    assert one.store.batch_set_v2([kv, side]) == {"kv": [True] * 2, "indexer": [True] * 2}
    published(one.store)
    assert one.exists(keys, indexer=0).kv_hit_pages == 2


def test_pools_that_nobody_registered_or_that_lack_indices_are_misses(ring, engine):
    one = Hybrid(engine, ring[0])
    keys = fresh_keys(2)
    bad = [transfer("swa", keys, one.pools["kv"].indices([0, 1])), transfer("kv", keys, None),
           transfer("indexer", keys, one.pools["indexer"].indices([0]))]
    for call in (one.store.batch_get_v2, one.store.batch_set_v2):
        for each in bad:
            assert call([each]) == {each.name: [False, False]}
    assert one.store.batch_get_v2([transfer("kv", None, None)]) == {"kv": []}
    assert one.exists(keys, swa=0).kv_hit_pages == 0


def test_a_logical_anchor_leaves_the_answer_to_the_named_pools(ring, engine):
    anchor = LogicalPool("page_first")
    store = engine(ring[0], anchor)
    compressed = MlaPool(kv_cache_dim=8)
    store.register_mem_host_pool_v2(anchor, "kv")
    store.register_mem_host_pool_v2(compressed, "deepseek_v4_c4")
    keys = fresh_keys(3)
    store.batch_set_v2([transfer("deepseek_v4_c4", keys[:2], compressed.indices([0, 1]))])
    published(store)
    assert store.batch_exists_v2(keys, [transfer("deepseek_v4_c4")]).kv_hit_pages == 2


@pytest.mark.parametrize("seed", range(3))
def test_the_usable_prefix_is_what_trying_all_lengths_says(seed):
    numbers = random.Random(seed)

    def usable(length, demand):
        has, trailing = demand
        first = 0 if trailing == 0 else max(0, length - trailing)
        return all(i < len(has) and has[i] for i in range(first, length))

    for _ in range(500):
        pages = numbers.randrange(0, 9)
        demands = [([numbers.random() < 0.8 for _ in range(numbers.randrange(0, 10))], numbers.randrange(0, 4))
                   for _ in range(numbers.randrange(0, 3))]
        wanted = next(n for n in range(pages, -1, -1) if n == 0 or all(usable(n, d) for d in demands))
        assert usable_prefix(pages, demands) == wanted, (pages, demands)


class SpyingPool(MhaPool):
    """A pool that records in `asked` the indices that it was asked for, and accepts only indices of whole pages. Pages
    in `displaced` have exchanged their places."""

    displaced: dict = {}

    def get_page_buffer_meta(self, indices):
        self.asked = indices.tolist()
        pages = [self.asked[i : i + self.page_size] for i in range(0, len(self.asked), self.page_size)]
        if any(b - a != 1 for page in pages for a, b in zip(page, page[1:])):
            raise RuntimeError("a gap")
        return super().get_page_buffer_meta(indices)

    def _pieces(self, page):
        return super()._pieces(self.displaced.get(page, page))


def test_a_pool_is_asked_once_where_its_pages_lie(ring, engine):
    pool, target = SpyingPool(), SpyingPool()
    writer, reader = engine(ring[0], pool, 2), engine(ring[1], target, 2)
    keys = fresh_keys(2)
    pool.asked = target.asked = None
    put(writer, pool, keys, [3, 15])
    assert reader.batch_get_v1(keys, target.indices([15, 2])) == [True] * 2
    assert pool.asked is None and target.asked is None
    assert [target.bytes_of(p) for p in (15, 2)] == [pool.bytes_of(p) for p in (3, 15)]


def test_the_pool_of_the_example_is_asked_once_too(ring, engine):
    example = pathlib.Path(__file__).parents[2] / "examples/python/hicache_backend.py"
    pool = runpy.run_path(str(example))["HostPool"](fill=1)
    store = engine(ring[0], pool)
    pool.get_page_buffer_meta = None
    assert store.batch_set_v1(fresh_keys(1), torch.arange(pool.page_size)) == [True]


def test_a_pool_whose_pages_lie_in_no_rows_is_asked_in_each_call(ring, engine):
    """The first two pages suggest that pages lie at equal distances, but two later pages do not."""
    few = {"pages": 1100, "page_size": 2, "layers": 1, "heads": 1}
    pool, target = SpyingPool(**few), MhaPool(**few)
    pool.displaced = {1098: 1099, 1099: 1098}
    writer, reader = engine(ring[0], pool, 2), engine(ring[1], target, 2)
    keys = fresh_keys(2)
    put(writer, pool, keys, [5, 1098])
    assert pool.asked == [10, 11, 2196, 2197]
    assert reader.batch_get_v1(keys, target.indices([0, 1])) == [True] * 2
    assert [target.bytes_of(p) for p in (0, 1)] == [pool.bytes_of(p) for p in (5, 1098)]


NO_PAGES = {
    "a gap": torch.tensor([4, 5, 6, 8]),
    "backwards": torch.tensor([7, 6, 5, 4]),
    "beyond the pool": torch.tensor([64, 65, 66, 67]),
    "negative": torch.tensor([-4, -3, -2, -1]),
    "too few": torch.tensor([4, 5, 6, 7])[:3],
    "too many": torch.arange(4, 12),
    # Tensors that do not index a whole page, but whose memory would look so if type or stride were ignored.
    "of 32 bits": torch.tensor([4, 0, 5, 0, 6, 0, 7, 0], dtype=torch.int32)[:4],
    "every second one": torch.tensor([4, 5, 6, 7, 0, 0, 0, 0])[::2],
    "on a device": torch.arange(4, 8, device="meta"),
}


@pytest.mark.parametrize("indices", NO_PAGES.values(), ids=NO_PAGES)
def test_indices_that_are_no_page_are_not_taken_for_one(ring, engine, indices):
    pool = SpyingPool()
    store = engine(ring[0], pool)
    keys = fresh_keys(1)
    put(store, pool, keys, [0])
    before = [pool.bytes_of(p) for p in range(pool.page_num)]
    assert store.batch_get_v1(keys, indices) == [False]
    assert [pool.bytes_of(p) for p in range(pool.page_num)] == before
    assert store.batch_set_v1(fresh_keys(1), indices) == [False]


STRANGE_INDICES = {
    "between two pages": torch.tensor([2, 3, 4, 5]),
    "of 32 bits": torch.arange(4, dtype=torch.int32),
    "every second one of a tensor": torch.arange(0, 4).repeat_interleave(2)[::2],
}


@pytest.mark.parametrize("indices", STRANGE_INDICES.values(), ids=STRANGE_INDICES)
def test_the_pool_has_the_word_about_indices_that_are_not_as_usual(ring, engine, indices):
    pool, target = SpyingPool(), SpyingPool()
    writer, reader = engine(ring[0], pool, 2), engine(ring[1], target, 2)
    (key,) = fresh_keys(1)
    pool.asked = None
    assert writer.batch_set_v1([key], indices) == [True] and pool.asked == indices.tolist()
    published(writer)
    assert reader.batch_get_v1([key], target.indices([3])) == [True]
    places = zip(*pool.get_page_buffer_meta(indices))
    assert target.bytes_of(3) == b"".join(ctypes.string_at(*place) for place in places)


@pytest.mark.parametrize("page_size", [4, 64])
def test_a_pool_that_reckons_with_tensors_is_read_in_place(ring, engine, page_size):
    """The pool's size must be computed from its parts, because its `size_per_token` is the size of a page."""
    pools = [RowPool(row_bytes=2 << 20, layers=1, pages=6, page_size=page_size) for _ in range(2)]
    stores = [engine(ring[i], pool, 2) for i, pool in enumerate(pools)]
    host = stores[0]._pools["kv"].host
    assert host.zero_copy and host.page_bytes == 2 << 20
    keys = fresh_keys(2)
    put(stores[0], pools[0], keys, [4, 5])
    assert stores[1].batch_get_v1(keys, pools[1].indices([1, 0])) == [True] * 2
    for source, target in [(4, 1), (5, 0)]:
        assert bool((pools[1].kv_buffer[target] == pools[0].kv_buffer[source]).all())


def test_the_last_pages_are_kept_where_parts_differ_in_size(ring, engine):
    pool = UnevenPool()
    store = engine(ring[0], pool)
    keys, last = fresh_keys(2), [pool.page_num - 2, pool.page_num - 1]
    put(store, pool, keys, last)
    wanted = [pool.bytes_of(p) for p in last]
    assert store.batch_get_v1(keys, pool.indices([0, 1])) == [True] * 2
    assert [pool.bytes_of(p) for p in (0, 1)] == wanted
    assert store.batch_get_v1(keys, pool.indices(last)) == [True] * 2
    assert store.batch_get_v1(keys[:1], pool.indices([pool.page_num])) == [False], "beyond the pool"


def under_another_name():
    pool = MhaPool()
    pool.pages_of_mine = pool.__dict__.pop("kv_buffer")
    return pool


def under_no_name():
    pool = MhaPool()
    pool.pages_of_mine, pool.kv_buffer = pool.kv_buffer, None
    return pool


@pytest.mark.parametrize("made", [under_another_name, under_no_name])
def test_a_pool_whose_memory_is_not_found_is_never_said_to_be_there(ring, engine, caplog, made):
    pool = made()
    store = engine(ring[0], pool)
    told = [r for r in caplog.records if r.levelname == "ERROR" and "its memory is not found" in r.message]
    assert len(told) == 1 and "pool kv is not kept in L3" in told[0].message
    store.register_mem_host_pool_v2(pool, "swa")
    keys, indices = fresh_keys(2), pool.indices([0, 1])
    assert store.batch_exists(keys) == 0 and store.exists(keys[0]) is False
    assert store.batch_set_v1(keys, indices) == [False] * 2 == store.batch_get_v1(keys, indices)
    assert store.batch_get_v2([transfer("swa", keys, indices)]) == {"swa": [False] * 2}
    assert store.batch_exists_v2(keys, [transfer("swa")]).kv_hit_pages == 0


@pytest.mark.parametrize("interface_v1", [1, 0])
def test_a_pool_whose_indexer_is_in_no_page_is_not_kept(ring, engine, caplog, interface_v1):
    """The store must refuse such a pool: a hit would restore the KV, but not the indexer's rows beside it."""
    pool = NsaPool()
    store = engine(ring[0], pool, is_mla_model=True, extra={"interface_v1": interface_v1})
    told = [r for r in caplog.records if r.levelname == "ERROR" and "index_k_with_scale_buffer" in r.message]
    assert len(told) == 1 and "pool kv is not kept in L3" in told[0].message
    keys, indices = fresh_keys(2), pool.indices([0, 1])
    assert store.batch_set_v1(keys, indices) == [False] * 2 == store.batch_get_v1(keys, indices)
    assert store.batch_set(keys, [pool.get_data_page(0)] * 2) is False and store.batch_exists(keys) == 0
    store.register_mem_host_pool_v2(pool, "kv")
    assert store.batch_set_v2([transfer("kv", keys, indices)]) == {"kv": [False] * 2}


@pytest.mark.parametrize("group", [False, True])
def test_an_indexer_with_a_pool_of_its_own_is_kept(ring, engine, group):
    kv, empty, indexer = MlaPool(), NsaPool(), NsaIndexerPool()
    empty.index_k_with_scale_buffer = []
    for anchor in (kv, empty):
        store = engine(ring[0], Group(anchor) if group else anchor, is_mla_model=True)
        store.register_mem_host_pool_v2(indexer, "indexer")
        keys = fresh_keys(1)
        pages = [transfer("kv", keys, kv.indices([0])), transfer("indexer", keys, source="kv")]
        assert store.batch_set_v2(pages) == {"kv": [True], "indexer": [True]}
        published(store)
        before = indexer.bytes_of(0)
        indexer.wipe([0])
        assert store.batch_get_v2(pages) == {"kv": [True], "indexer": [True]}
        assert indexer.bytes_of(0) == before


class Group:
    """SGLang's HostPoolGroup, which shows only some of its anchor's attributes."""

    def __init__(self, anchor):
        self.anchor_entry = SimpleNamespace(host_pool=anchor)

    def __getattr__(self, name):
        if name in ("layer_num", "head_num", "head_dim"):
            raise AttributeError(name)
        return getattr(self.anchor_entry.host_pool, name)


def test_a_group_has_the_shape_of_its_anchor(ring, engine):
    """Pools with different layers and heads but equal total size must have different keys, and a group must find the
    pages of its anchor."""
    pools = [MhaPool(heads=4, head_dim=8), MhaPool(heads=8, head_dim=4)]
    stores = [engine(ring[0], Group(pool)) for pool in pools]
    keys = fresh_keys(1)
    put(stores[0], pools[0], keys, [0])
    assert [store.batch_exists(keys) for store in [*stores, engine(ring[0], pools[0])]] == [1, 0, 1]
