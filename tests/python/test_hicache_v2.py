"""Tests of named pools (v2), called as SGLang's hybrid controller does, for every layout of MHA and MLA, on one node
and on two. test_hicache_pools.py tests what hit policies mean; these tests check that they hold for every layout."""

import enum
from types import SimpleNamespace

import pytest
from engines import fresh_keys, knows, make_store, published
from host_pools import MlaPool
from shapes import POOLS, pool_of


class PoolName(str, enum.Enum):
    """Names of pools as enums, because SGLang's names are enums, by which it looks up answers."""

    KV = "kv"
    INDEXER = "indexer"
    SWA = "swa"


class HitPolicy(str, enum.Enum):
    ALL_PAGES = "all_pages"
    TRAILING_PAGES = "trailing_pages"


POLICIES = {PoolName.KV: HitPolicy.ALL_PAGES, PoolName.INDEXER: HitPolicy.ALL_PAGES,
            PoolName.SWA: HitPolicy.TRAILING_PAGES}


class Side:
    """An engine with KV, a sliding window with pages like those of KV, and the indexer of an MLA model."""

    def __init__(self, node, shape):
        kv, config = pool_of(shape)
        self.pools = {PoolName.KV: kv, PoolName.INDEXER: MlaPool(kv_cache_dim=8),
                      PoolName.SWA: pool_of(shape)[0]}
        self.store = make_store(node, kv, **config)
        for name, pool in self.pools.items():
            self.store.register_mem_host_pool_v2(pool, name)
        knows(self.store, 2)

    def transfer(self, name, keys, pages):
        """Returns a PoolTransfer of SGLang; without pages, one that only asks which keys exist."""
        indices = self.pools[name].indices(pages) if pages else None
        return SimpleNamespace(name=name, keys=keys, host_indices=indices, device_indices=None,
                               hit_policy=POLICIES[name], nodes_to_load=None, indices_from_pool=None)

    def set(self, keys, pages, **fewer):
        """Sets pages of all pools in one call; `fewer` has the keys of pools that set not all of them."""
        places = dict(zip(keys, pages))
        chosen = {name: fewer.get(name.value, keys) for name in PoolName}
        stored = self.store.batch_set_v2(
            [self.transfer(name, some, [places[key] for key in some]) for name, some in chosen.items()], None)
        assert stored == {name: [True] * len(some) for name, some in chosen.items()}
        published(self.store)

    def found(self, keys, window):
        """Returns how many pages can be used when the window needs the last `window` of them."""
        asked = [self.transfer(PoolName.INDEXER, None, []), self.transfer(PoolName.SWA, keys[:window], [])]
        found = self.store.batch_exists_v2(keys, asked, None)
        usable = found.kv_hit_pages
        assert found.extra_pool_hit_pages == ({name: usable for name in PoolName} if usable else {})
        return usable

    def get(self, keys, pages, window):
        """Reads all keys of KV and indexer, and the last `window` keys of the window; returns the answers by the
        names of pools."""
        wanted = {PoolName.KV: (keys, pages), PoolName.INDEXER: (keys, pages),
                  PoolName.SWA: (keys[-window:], pages[-window:])}
        read = self.store.batch_get_v2([self.transfer(name, *what) for name, what in wanted.items()], None)
        return {name.value: answer for name, answer in read.items()}

    def bytes_of(self, name, pages):
        return [self.pools[name].bytes_of(page) for page in pages]

    def all_bytes(self):
        return {name: self.bytes_of(name, range(pool.page_num)) for name, pool in self.pools.items()}


@pytest.fixture(scope="module", params=[(s, n) for s in POOLS for n in (0, 1)],
                ids=[f"{s}-{n}" for s in POOLS for n in ("one-node", "two-nodes")])
def sides(request, ring):
    """A pair of engines, one that writes and one that reads, on the same node or on two; made once for all tests of
    a shape."""
    shape, there = request.param
    made = [Side(ring[0], shape), Side(ring[there], shape)]
    yield made
    for side in made:
        side.store.close()


def test_pages_of_all_pools_are_read_back_and_no_others_are_touched(sides):
    writer, reader = sides
    keys, sources, targets = fresh_keys(4), [1, 5, 2, 9], [7, 0, 3, 12]
    writer.set(keys, sources)
    before = reader.all_bytes()
    assert reader.found(keys + fresh_keys(1), window=2) == 4
    assert reader.get(keys, targets, window=2) == {"kv": [True] * 4, "indexer": [True] * 4, "swa": [True] * 2}
    for name in PoolName:
        moved = dict(zip(targets, writer.bytes_of(name, sources)))
        if name is PoolName.SWA:
            moved = {page: moved[page] for page in targets[-2:]}
        wanted = [moved.get(page, old) for page, old in enumerate(before[name])]
        assert reader.bytes_of(name, range(len(wanted))) == wanted, name


def test_what_nobody_set_is_a_miss_that_touches_nothing(sides):
    writer, reader = sides
    keys, before = fresh_keys(3), reader.all_bytes()
    assert reader.found(keys, window=1) == 0
    assert reader.get(keys, [4, 8, 6], window=1) == {"kv": [False] * 3, "indexer": [False] * 3, "swa": [False]}
    assert reader.all_bytes() == before


def test_the_hit_ends_where_each_pool_has_what_its_policy_needs(sides):
    """The indexer has the first 4 pages. The window needs the last 2 pages of a prefix and has pages 1 to 4, so it fits
    prefixes of 3, 4 or 5 pages. The longest prefix that both allow has 4 pages."""
    writer, reader = sides
    keys = fresh_keys(6)
    writer.set(keys, range(6), indexer=keys[:4], swa=[keys[1], keys[2], keys[3], keys[4]])
    assert reader.found(keys, window=2) == 4
    assert reader.found(keys[:3], window=2) == 3
    assert reader.found(keys, window=4) == 0, "a window of four begins with the first page"
    assert reader.found(keys[1:], window=4) == 3


def test_a_page_that_one_pool_lacks_is_lacking_in_all_that_need_all_pages(sides):
    writer, reader = sides
    keys, sources, targets = fresh_keys(4), [0, 1, 2, 3], [9, 4, 11, 6]
    writer.set(keys, sources, indexer=[keys[0], keys[1], keys[3]])
    found = [True, True, False, True]
    assert reader.get(keys, targets, window=2) == {"kv": found, "indexer": found, "swa": [True] * 2}
    for name in (PoolName.KV, PoolName.INDEXER):
        wanted, got = writer.bytes_of(name, sources), reader.bytes_of(name, targets)
        assert [a == b for a, b, there in zip(wanted, got, found) if there] == [True] * 3, name
    assert reader.bytes_of(PoolName.SWA, targets[2:]) == writer.bytes_of(PoolName.SWA, sources[2:])


def test_a_window_is_whole_or_not_there_and_the_other_pools_keep_theirs(sides):
    writer, reader = sides
    keys, sources, targets = fresh_keys(4), [0, 1, 2, 3], [9, 4, 11, 6]
    writer.set(keys, sources, swa=[keys[0], keys[1], keys[3]])
    assert reader.get(keys, targets, window=2) == {"kv": [True] * 4, "indexer": [True] * 4, "swa": [False] * 2}
    for name in (PoolName.KV, PoolName.INDEXER):
        assert reader.bytes_of(name, targets) == writer.bytes_of(name, sources), name


def test_clear_withdraws_the_pages_of_all_pools(sides):
    writer, reader = sides
    keys = fresh_keys(3)
    writer.set(keys, range(3))
    assert reader.found(keys, window=1) == 3
    assert writer.store.clear() is True
    assert reader.found(keys, window=1) == 0
    assert reader.get(keys, [4, 8, 6], window=1) == {"kv": [False] * 3, "indexer": [False] * 3, "swa": [False]}
