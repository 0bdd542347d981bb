"""Tests of invalid calls and host pools: each key must be a miss, and no call may raise or return None."""

from types import SimpleNamespace

import pytest
import torch
from engines import fresh_keys, published
from host_pools import MhaPool
from peercache import guard


BROKEN_CALLS = {
    "too few indices": lambda pool, keys: (keys, pool.indices([0])),
    "too many indices": lambda pool, keys: (keys, pool.indices([0, 1, 2])),
    "no indices": lambda pool, keys: (keys, None),
    "indices beyond the pool": lambda pool, keys: (keys, pool.indices([1000, 1001])),
    "keys that are no strings": lambda pool, keys: ([1, None], pool.indices([0, 1])),
}


@pytest.mark.parametrize("kind", BROKEN_CALLS)
def test_a_broken_call_is_a_list_of_false(ring, engine, kind):
    pool = MhaPool()
    pool._pieces = lambda page: unchecked_pieces(pool, page)
    store = engine(ring[0], pool)
    keys, indices = BROKEN_CALLS[kind](pool, fresh_keys(2))
    assert store.batch_get_v1(keys, indices) == [False, False]
    assert store.batch_set_v1(keys, indices) == [False, False]
    transfer = SimpleNamespace(name="kv", keys=keys, host_indices=indices, hit_policy="all_pages")
    assert store.batch_get_v2([transfer]) == {"kv": [False, False]} == store.batch_set_v2([transfer])


BROKEN_TRANSFERS = {
    "none": (None, {}),
    "a number": (7, {}),
    "no transfers": ([None, "kv"], {}),
    "no keys": ([SimpleNamespace(name="kv", hit_policy="all_pages")], {"kv": []}),
    "keys that are a number": ([SimpleNamespace(name="kv", keys=7, hit_policy="all_pages")], {"kv": []}),
    "no indices": ([SimpleNamespace(name="kv", keys=["a"], hit_policy="all_pages")], {"kv": [False]}),
}


@pytest.mark.parametrize("kind", BROKEN_TRANSFERS)
def test_broken_transfers_are_misses(ring, engine, kind):
    store = engine(ring[0], MhaPool())
    transfers, misses = BROKEN_TRANSFERS[kind]
    assert store.batch_get_v2(transfers) == misses == store.batch_set_v2(transfers)
    assert store.batch_exists_v2(fresh_keys(1), transfers).kv_hit_pages == 0


def unchecked_pieces(pool, page):
    """Returns a page's parts with the addresses that SGLang computes, even for a page outside the pool."""
    size = pool.size_per_token * pool.page_size // 2
    base = pool.kv_buffer.data_ptr()
    v_offset = pool.kv_buffer[0].numel() * pool.itemsize
    return [FakePiece(base + page * size, size), FakePiece(base + v_offset + page * size, size)]


class FakePiece(SimpleNamespace):
    def __init__(self, address, size):
        super().__init__(data_ptr=lambda: address, numel=lambda: size // 2, is_contiguous=lambda: True)


def test_a_store_without_a_host_pool_misses(ring, engine):
    store = engine(ring[0])
    keys = fresh_keys(2)
    assert store.batch_exists(keys) == 0 and store.exists(keys[0]) is False
    assert store.batch_get_v1(keys, torch.arange(8)) == [False] * 2 == store.batch_set_v1(keys, torch.arange(8))
    assert store.batch_get(keys, None) == [None] * 2 and store.batch_set(keys, None) is False
    assert store.get(keys[0]) is None and store.set(keys[0], None) is False
    assert store.batch_exists_v2(keys, None).kv_hit_pages == 0


def test_a_pool_that_raises_is_a_miss_and_no_exception(ring, engine, caplog, monkeypatch):
    # Forgets logged faults: a fault that another test has logged within the last minute would not be logged again.
    monkeypatch.setattr(guard, "_said_at", {})
    pool = MhaPool()
    store = engine(ring[0], pool)

    def broken(indices):
        raise RuntimeError("the pool is broken")

    pool.get_page_buffer_meta = broken
    # Uses indices of less than a page: for whole pages the store computes addresses without asking the pool.
    no_page = pool.indices([0]).flip(0)
    for _ in range(3):
        assert store.batch_get_v1(fresh_keys(1), no_page) == [False]
    said = [r for r in caplog.records if "batch_get_v1 failed" in r.message]
    assert len(said) == 1, "a fault is told once a minute, not once a call"


def test_a_pool_of_no_known_kind_breaks_no_registration_by_name(ring, engine):
    """SGLang may pass the arguments by name."""
    store = engine(ring[0])
    broken = SimpleNamespace(page_size="four")
    assert store.register_mem_pool_host(mem_pool_host=broken) is None
    assert store.register_mem_host_pool_v2(host_pool=broken, host_pool_name="swa") is None
    assert store.batch_exists(fresh_keys(1)) == 0


def strided(page):
    """Returns a tensor of a page's size that is not contiguous."""
    return torch.zeros(2 * page.numel(), dtype=page.dtype)[::2]


BROKEN_GENERIC_CALLS = {
    "exists: no key": (lambda store, keys, page: store.exists(None), False),
    "exists: a number": (lambda store, keys, page: store.exists(7), False),
    "batch_exists: no keys": (lambda store, keys, page: store.batch_exists(None), 0),
    "batch_exists: a number": (lambda store, keys, page: store.batch_exists(7), 0),
    "batch_exists: no strings": (lambda store, keys, page: store.batch_exists([1, None]), 0),
    "batch_exists_v2: no keys": (lambda store, keys, page: store.batch_exists_v2(None).kv_hit_pages, 0),
    "get: no key": (lambda store, keys, page: store.get(None, torch.zeros_like(page)), None),
    "get: into a number": (lambda store, keys, page: store.get(keys[0], 7), None),
    "get: into too little": (lambda store, keys, page: store.get(keys[0], torch.zeros(1)), None),
    "get: into no row": (lambda store, keys, page: store.get(keys[0], strided(page)), None),
    "get: into what is constant": (lambda store, keys, page: store.get(keys[0], bytes(2 * page.numel())), None),
    "batch_get: no keys": (lambda store, keys, page: store.batch_get(None), []),
    "batch_get: no strings": (lambda store, keys, page: store.batch_get([1, None]), [None] * 2),
    "batch_get: into a number": (lambda store, keys, page: store.batch_get(keys, 7), [None] * 2),
    "batch_get: one target": (lambda store, keys, page: store.batch_get(keys, [torch.zeros_like(page)]), [None] * 2),
    "batch_get: three targets": (
        lambda store, keys, page: store.batch_get(keys=keys, target_locations=[torch.zeros_like(page)] * 3),
        [None] * 2),
    "batch_get: into no rows": (
        lambda store, keys, page: store.batch_get(keys, [torch.zeros_like(page), strided(page)]), [None] * 2),
    "set: nothing": (lambda store, keys, page: store.set(keys[0]), False),
    "set: no key": (lambda store, keys, page: store.set(None, page), False),
    "set: a number": (lambda store, keys, page: store.set(keys[0], 7), False),
    "batch_set: no keys": (lambda store, keys, page: store.batch_set(None, [page]), False),
    "batch_set: no pages": (lambda store, keys, page: store.batch_set(keys), False),
    "batch_set: no strings": (lambda store, keys, page: store.batch_set([1, None], [page] * 2), False),
    "batch_set: one page": (lambda store, keys, page: store.batch_set(keys, [page]), False),
    "batch_set: three pages": (lambda store, keys, page: store.batch_set(keys=keys, values=[page] * 3), False),
    "batch_set: on a device": (lambda store, keys, page: store.batch_set(keys, [page.to("meta")] * 2), False),
}


@pytest.mark.parametrize("interface_v1", [1, 0])
@pytest.mark.parametrize("kind", BROKEN_GENERIC_CALLS)
def test_a_broken_generic_call_is_a_miss(ring, engine, kind, interface_v1):
    """The store has a pool and the cache has the keys, so only the broken argument can make the call a miss."""
    pool, keys = MhaPool(), fresh_keys(2)
    store, page = engine(ring[0], pool, extra={"interface_v1": interface_v1}), pool.get_data_page(0)
    assert store.batch_set(keys, [page] * 2)
    published(store)
    call, miss = BROKEN_GENERIC_CALLS[kind]
    answer = call(store, keys, page)
    assert answer == miss and type(answer) is type(miss)
    read = [each.view(torch.uint8) for each in store.batch_get(keys)]
    assert [torch.equal(each, page.view(torch.uint8)) for each in read] == [True] * 2
