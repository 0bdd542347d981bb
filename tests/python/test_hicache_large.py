"""Tests of engine pages that are larger than a page of the cache and are stored in pieces: a read must give a whole
page of one writer, or a miss."""

import random
import threading
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from engines import fresh_keys, published, put
from host_pools import FlatOnlyPool, MhaPool, MlaPool, StatePool
from natives import SilentNative, SlowNative
from peercache.client import Status
from peercache.hicache import host_pool, large_pages, pieces
from shapes import NODES, pool_of

SHAPES = pytest.mark.parametrize("shape", [
    *(f"mha-{layout}" for layout in ("page_first", "page_first_direct", "page_head", "layer_first")),
    "mla-page_first", "mla-layer_first", "asymmetric-page_first"])


@pytest.fixture
def small_limits(monkeypatch):
    """Limits the cache's pages to 256 bytes, so that every page of a test is a large one."""
    monkeypatch.setattr(host_pool, "page_bytes_max", 256)
    monkeypatch.setattr(pieces, "PIECE_BYTES", 200)


def transfer(name, keys, pool=None, pages=(), policy="all_pages"):
    return SimpleNamespace(name=name, keys=keys, hit_policy=policy, indices_from_pool=None,
                           host_indices=None if pool is None else pool.indices(pages))


def read_back(store, pool, keys, pages):
    """Reads the pages and returns which of them were hits. The memory of other pages may hold any bytes."""
    pool.wipe(pages)
    return store.batch_get_v1(keys, pool.indices(pages))


@SHAPES
@NODES
def test_large_pages_are_read_back_and_no_others_are_touched(ring, engine, small_limits, shape, there):
    (pool, config), (target, _) = pool_of(shape), pool_of(shape)
    writer, reader = engine(ring[0], pool, 2, **config), engine(ring[there], target, 2, **config)
    assert writer._pools["kv"].host.pieces > 2
    keys, before = fresh_keys(3), [target.bytes_of(p) for p in range(16)]
    assert reader.batch_exists(keys) == 0 and reader.batch_get_v1(keys, target.indices([1, 2, 3])) == [False] * 3
    assert [target.bytes_of(p) for p in range(16)] == before
    put(writer, pool, keys, [1, 5, 2])
    assert reader.batch_exists([*keys, *fresh_keys(1), keys[0]]) == 3
    assert [reader.exists(key) for key in keys + fresh_keys(1)] == [True] * 3 + [False]
    assert reader.batch_get_v1([keys[2], *fresh_keys(1), keys[0]], target.indices([7, 0, 3])) == [True, False, True]
    for source, page in ((2, 7), (1, 3)):
        before[page] = pool.bytes_of(source)
    assert [target.bytes_of(p) for p in range(16)] == before


def test_a_state_of_183_mib_is_kept_beside_its_kv(fragile_ring, engine):
    """Stores and reads a GDN model at TP 1 as SGLang's hybrid controller does: KV page by page, and the state of the
    last page."""
    ring, sizes = fragile_ring(2, pool="256MiB"), {"temporal": (10, 1024, 1024 * 3), "conv": (4, 1 << 18), "pages": 1}
    states = [StatePool(seed=1, **sizes), StatePool(seed=2, **sizes)]
    pools, keys = [MhaPool(), MhaPool()], fresh_keys(4)
    stores = [engine(ring[i], pools[i], 2, extra={"client.timeout": "30s", "prefetch_timeout_base": 30})
              for i in range(2)]
    for i, store in enumerate(stores):
        store.register_mem_host_pool_v2(pools[i], "kv")
        store.register_mem_host_pool_v2(states[i], "mamba")
    assert states[0].size_per_token > 183 << 20
    put(stores[0], pools[0], keys, range(4))
    last = transfer("mamba", keys[2:3], states[0], [0], "trailing_pages")
    assert stores[0].batch_set_v2([last]) == {"mamba": [True]}
    published(stores[0])
    wanted = transfer("mamba", keys[:1], policy="trailing_pages")
    assert [store.batch_exists_v2(keys, [wanted]).kv_hit_pages for store in stores] == [3, 3]
    got = transfer("mamba", keys[2:3], states[1], [0], "trailing_pages")
    assert stores[1].batch_get_v2([got]) == {"mamba": [True]}
    for ours, theirs in zip(states[0].get_hybrid_pool_buffer(), states[1].get_hybrid_pool_buffer()):
        assert torch.equal(ours.view(torch.uint8), theirs.view(torch.uint8))
    assert stores[1].clear() is True
    assert stores[0].batch_exists_v2(keys, [wanted]).kv_hit_pages == 0


@pytest.mark.parametrize("name", ["kv", "mamba"])
def test_pages_of_more_than_a_gib_are_refused(ring, engine, caplog, name):
    class Huge(MlaPool):
        """A pool that claims pages of more than 1 GiB, without such memory."""

        def get_page_buffer_meta(self, indices):
            pages = len(indices) // self.page_size
            return [self.kv_buffer.data_ptr()] * pages, [(1 << 30) + 1] * pages

        _pieces = None

    pool = Huge(page_size=1)
    pool.kv_buffer = SimpleNamespace(data_ptr=pool.kv_buffer.data_ptr, element_size=lambda: 1, numel=lambda: 1 << 31)
    store = engine(ring[0])
    store.register_mem_host_pool_v2(pool, name)
    assert f"pool {name} is not kept in L3: a page has 1073741825 bytes, the cache takes 1073741824" in caplog.text
    assert "a larger --tp" in caplog.text


def piece_keys(store, keys):
    """Returns the key space of the pieces, and the keys of all pieces that are found now."""
    pool = store._pools["kv"]
    large, limit = pool.large(pool.own), store._backend.deadline()
    native = store._backend.client.native
    return large.pieces, large._found(native, keys, range(len(keys)), limit).piece_keys(large.count)


def lose(store, pool, keys, lost):
    """Evicts pieces of the pages of `keys`; `lost` are indices into the list of all pieces of these pages."""
    space, names = piece_keys(store, keys)
    assert store._backend.client.native.remove([space], [names[i] for i in lost]).ok == [True] * len(lost)


def test_a_page_that_lost_a_piece_is_a_miss_until_it_is_set_again(ring, engine, small_limits):
    pool, target = MhaPool(), MhaPool()
    writer, reader = engine(ring[0], pool, 2), engine(ring[1], target, 2)
    keys = fresh_keys(3)
    put(writer, pool, keys, [0, 1, 2])
    lose(writer, pool, [keys[1]], [3])
    assert reader.batch_exists(keys) == 1 == writer.batch_exists(keys) and not reader.exists(keys[1])
    assert read_back(reader, target, keys, [4, 5, 6]) == [True, False, True]
    put(writer, pool, keys, [0, 1, 2])
    assert reader.batch_exists(keys) == 3
    assert read_back(reader, target, keys, [4, 5, 6]) == [True] * 3
    assert [target.bytes_of(p) for p in (4, 5, 6)] == [pool.bytes_of(p) for p in (0, 1, 2)]


@pytest.mark.parametrize("silent", ["exists", "get", "remove"])
def test_a_page_is_not_stored_where_its_old_head_cannot_be_read_or_removed(ring, engine, small_limits, silent):
    """Beside the old head, whose pieces are gone, a new head would be dropped as a duplicate, and its pieces be nobody's."""
    pool = MhaPool()
    store, keys = engine(ring[0], pool, extra={"client.timeout": "1s"}), fresh_keys(2)
    put(store, pool, keys[:1], [0])
    lose(store, pool, keys[:1], [1])
    client = store._backend.client
    native, moved = client.native, client.stats()["set_bytes"]
    client.native = SilentNative(native, silent)
    assert store.batch_set_v1(keys, pool.indices([0, 1])) == [False, True]
    client.native = native
    assert client.stats()["set_bytes"] - moved < 2 * len(pool.bytes_of(1)), "the bytes of the second page only"
    assert store.batch_exists(keys) == 0 and store.exists(keys[1])
    put(store, pool, keys, [0, 1])
    assert read_back(store, pool, keys, [4, 5]) == [True, True]


def set_once_more(store, pool, keys, silent):
    """Sets pages that are there through a native client that `silent` makes. Returns the answer, and whether the bytes
    of a page were moved."""
    client = store._backend.client
    native, moved = client.native, client.stats()["set_bytes"]
    client.native = silent(native)
    answer = store.batch_set_v1(keys, pool.indices([7]))
    client.native = native
    return answer, client.stats()["set_bytes"] > moved


# The directory is first asked for the heads and then, when these are read, for the pieces.
LATE = {"head-sought": ("exists", range(1)), "head-read": ("get", range(3)), "pieces-sought": ("exists", range(1, 3))}


@pytest.mark.parametrize("case", LATE)
@pytest.mark.parametrize("status", [Status.TIMED_OUT, Status.UNREACHABLE, Status.BREAKER_OPEN])
def test_a_whole_page_that_is_heard_of_late_is_stored_and_moves_nothing(ring, engine, small_limits, case, status):
    """SGLang drops the rest of a backup behind a page that is not stored."""
    pool = MhaPool()
    store, keys = engine(ring[0], pool, extra={"client.timeout": "10s"}), fresh_keys(1)
    put(store, pool, keys, [0])
    call, which = LATE[case]
    silent = partial(SilentNative, silent=call, status=status, which=which)
    assert set_once_more(store, pool, keys, silent) == ([True], False)
    assert read_back(store, pool, keys, [4]) == [True] and pool.bytes_of(4) == pool.bytes_of(0)


@pytest.mark.parametrize("case", LATE)
def test_a_whole_page_that_is_not_heard_of_in_time_is_kept(ring, engine, small_limits, case):
    pool = MhaPool()
    store, keys = engine(ring[0], pool, extra={"client.timeout": "300ms"}), fresh_keys(1)
    put(store, pool, keys, [0])
    call, which = LATE[case]
    silent = partial(SilentNative, silent=call, which=range(which.start, 1 << 30))
    assert set_once_more(store, pool, keys, silent) == ([False], False)
    assert read_back(store, pool, keys, [4]) == [True] and pool.bytes_of(4) == pool.bytes_of(0)


@pytest.mark.parametrize("status", [Status.STALE, Status.HOLDER_GONE, Status.CORRUPT])
def test_a_page_whose_head_is_broken_is_set_again(ring, engine, small_limits, status):
    pool = MhaPool()
    store, keys = engine(ring[0], pool), fresh_keys(1)
    put(store, pool, keys, [0])
    wanted = pool.bytes_of(7)
    assert set_once_more(store, pool, keys, partial(SilentNative, silent="get", status=status)) == ([True], True)
    published(store)
    assert read_back(store, pool, keys, [4]) == [True] and pool.bytes_of(4) == wanted


def after_a_loss_and_another_writer(ring, engine):
    """Sets a page, evicts some of its pieces, and sets it by another engine. Returns the bytes that a third engine
    reads, and those of both writers."""
    pools = [MhaPool(seed=seed) for seed in (1, 2, 3)]
    stores = [engine(ring[i % 2], pool, 2) for i, pool in enumerate(pools)]
    keys = fresh_keys(1)
    put(stores[0], pools[0], keys, [0])
    lose(stores[0], pools[0], keys, [0, 2])
    put(stores[1], pools[1], keys, [0])
    assert read_back(stores[2], pools[2], keys, [5]) == [True]
    return pools[2].bytes_of(5), [pool.bytes_of(0) for pool in pools[:2]]


def test_pieces_of_two_writers_are_never_one_page(ring, engine, small_limits):
    found, (_, second) = after_a_loss_and_another_writer(ring, engine)
    assert found == second


def test_without_versions_they_would_be(ring, engine, small_limits, monkeypatch):
    """Without versions, pages must be mixed of two writers: this shows that the version is what prevents it."""
    monkeypatch.setattr(large_pages, "new_version", lambda: bytes(16))
    found, wanted = after_a_loss_and_another_writer(ring, engine)
    assert found not in wanted


def test_two_engines_that_write_the_same_pages_at_once_mix_nothing(ring, engine, small_limits):
    pools = [MhaPool(seed=seed) for seed in (1, 2, 3)]
    stores = [engine(ring[i % 2], pool, 2) for i, pool in enumerate(pools)]
    wanted = [[pool.bytes_of(page) for page in range(4)] for pool in pools[:2]]
    hits, numbers, end = [], random.Random(7), threading.Event()
    rounds = [fresh_keys(4) for _ in range(60)]

    def write(index):
        for keys in rounds:
            stores[index].batch_set_v1(keys, pools[index].indices(range(4)))

    def read():
        while not end.is_set():
            keys = numbers.choice(rounds)
            for page, there in enumerate(read_back(stores[2], pools[2], keys, range(8, 12))):
                if there:
                    hits.append(pools[2].bytes_of(8 + page) in [writer[page] for writer in wanted])

    threads = [threading.Thread(target=write, args=[index]) for index in range(2)]
    reader = threading.Thread(target=read)
    for thread in [*threads, reader]:
        thread.start()
    for thread in threads:
        thread.join(120)
    end.set()
    reader.join(60)
    for store in stores[:2]:
        published(store)
    assert hits and all(hits)
    for keys in rounds:
        assert read_back(stores[2], pools[2], keys, range(8, 12)) == [True] * 4
        assert all(pools[2].bytes_of(8 + p) in [writer[p] for writer in wanted] for p in range(4))


def test_a_head_of_another_length_or_kind_is_a_miss(ring, engine, small_limits):
    """The tested bytes are at the key of a large page's head, but no writer of large pages has stored them."""
    pool = MhaPool()
    store, keys = engine(ring[0], pool), fresh_keys(3)
    put(store, pool, keys[:1], [0])
    head = store._pools["kv"].own
    for key, content in ((keys[1], b"pc-large" + bytes(24)), (keys[2], bytes(32))):
        results = store._backend.client.set(head[0], [key], [content])
        assert results[0].ok
    published(store)
    assert store.batch_exists(keys) == 1
    assert read_back(store, pool, keys, [4, 5, 6]) == [True, False, False]


def test_large_pages_of_all_ranks_count(ring, engine, small_limits):
    pools = [MhaPool(seed=rank) for rank in range(2)]
    stores = [engine(ring[rank], pools[rank], 2, tp_rank=rank, tp_size=2) for rank in range(2)]
    keys = fresh_keys(3)
    put(stores[0], pools[0], keys, range(3))
    assert [store.batch_exists(keys) for store in stores] == [0, 0]
    put(stores[1], pools[1], keys[:2], range(2))
    assert [store.batch_exists(keys) for store in stores] == [2, 2]
    for store, pool in zip(stores, pools):
        assert store.batch_get_v1(keys[:2], pool.indices([8, 9])) == [True] * 2
        assert [pool.bytes_of(p) for p in (8, 9)] == [pool.bytes_of(p) for p in (0, 1)]


@pytest.mark.parametrize("writers, readers", [(2, 1), (1, 2)])
def test_groups_of_heads_are_large_pages_of_their_own(ring, engine, small_limits, writers, readers):
    def ranks(count):
        pools = [MhaPool("page_head", heads=4 // count, pages=4) for _ in range(count)]
        return pools, [engine(ring[rank], pool, 2, tp_rank=rank, tp_size=count, tp_lcm_size=2,
                              should_split_heads=count < 2, model_name=f"large {writers}")
                       for rank, pool in enumerate(pools)]

    (sources, writing), (targets, reading), keys = ranks(writers), ranks(readers), fresh_keys(2)
    for store, pool in zip(writing, sources):
        put(store, pool, keys, [0, 1])
    for store, pool in zip(reading, targets):
        assert store.batch_exists(keys) == 2
        assert store.batch_get_v1(keys, pool.indices([3, 2])) == [True, True]
    for source, target in ((0, 3), (1, 2)):
        whole = [torch.cat([pool.kv_buffer[:, page] for pool in pools], 1).view(torch.uint8)
                 for pools, page in ((sources, source), (targets, target))]
        assert torch.equal(*whole)


def test_a_set_of_what_is_there_moves_nothing_and_stats_have_the_bytes(ring, engine, small_limits):
    pool = MhaPool()
    store, keys = engine(ring[0], pool, enable_storage_metrics=True), fresh_keys(2)
    put(store, pool, keys, [0, 1])
    moved = store._backend.client.stats()["set_bytes"]
    put(store, pool, keys, [2, 3])
    assert store._backend.client.stats()["set_bytes"] == moved
    assert store.batch_get_v1(keys, pool.indices([4, 5])) == [True] * 2
    assert [pool.bytes_of(p) for p in (4, 5)] == [pool.bytes_of(p) for p in (0, 1)], "the first ones"
    stats = store.get_stats()
    assert stats.backup_pgs == [2, 2] and stats.prefetch_pgs == [2] and stats.prefetch_bandwidth[0] > 0


def test_clear_withdraws_large_pages(ring, engine, small_limits):
    pool = MhaPool()
    store, other, keys = engine(ring[0], pool, 2), engine(ring[1], pool, 2), fresh_keys(2)
    put(store, pool, keys, [0, 1])
    assert store.clear() is True
    assert store.batch_exists(keys) == 0 == other.batch_exists(keys)
    assert read_back(other, pool, keys, [4, 5]) == [False] * 2
    put(store, pool, keys, [0, 1])
    assert other.batch_exists(keys) == 2


@pytest.mark.timed
def test_all_questions_of_a_call_have_one_deadline(ring, engine, small_limits):
    pool = MhaPool()
    store, keys = engine(ring[0], pool, extra={"client.timeout": "300ms"}), fresh_keys(2)
    put(store, pool, keys, [0, 1])
    backend = store._backend
    slow = backend.client.native = SlowNative(backend.client.native, pause=0.08)
    calls = [lambda: store.batch_exists(keys), lambda: store.batch_get_v1(keys, pool.indices([2, 3])),
             lambda: store.batch_set_v1(fresh_keys(2), pool.indices([0, 1]))]
    for call in calls:
        slow.given.clear()
        call()
        assert len(slow.given) >= 2 and slow.given[0] <= 0.3
        assert all(later <= max(0, sooner - 0.08) for sooner, later in zip(slow.given, slow.given[1:]))


def test_flat_pages_stay_within_the_cache_s(ring, engine, small_limits, caplog):
    """Without interface_v1, SGLang passes KV as flat tensors, and named pools by address."""
    store, state, keys = engine(ring[0], MhaPool(), extra={"interface_v1": 0}), StatePool(), fresh_keys(1)
    assert 'pool kv is not kept in L3: a flat page has 1536 bytes: add "interface_v1": 1' in caplog.text
    store.register_mem_host_pool_v2(state, "mamba")
    assert store.batch_set_v2([transfer("mamba", keys, state, [0])]) == {"mamba": [True]}
    published(store)
    assert store.batch_get_v2([transfer("mamba", keys, state, [3])]) == {"mamba": [True]}
    assert state.bytes_of(3) == state.bytes_of(0)
    store.register_mem_host_pool_v2(FlatOnlyPool(), "swa")
    assert "pool swa is not kept in L3: a page has 576 bytes, the cache takes 256" in caplog.text


@pytest.mark.parametrize("seed", range(3))
def test_slices_are_the_page_without_gap_or_overlap(seed):
    numbers = random.Random(seed)
    for _ in range(200):
        count, parts = numbers.randrange(2, 65), numbers.randrange(1, 5)
        sizes = [numbers.randrange(count, 100_000) for _ in range(parts)]
        page = [(sum(sizes[:i]) + 1000 * i, size) for i, size in enumerate(sizes)]
        addresses, lengths = pieces.cut(([a for a, _ in page], sizes), parts, count)
        assert len(addresses) == count * parts == len(lengths) and min(lengths) > 0
        for part, (begin, size) in enumerate(page):
            at = begin
            for address, length in zip(addresses[part::parts], lengths[part::parts]):
                assert address == at
                at += length
            assert at == begin + size
