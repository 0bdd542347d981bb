"""Tests of look-ups that hold pages: held pages must outlive evictions, and the backends for SGLang, vLLM and LMCache
must hold pages between look-up and load."""

import numpy
import pytest
from engines import fresh_keys, put
from host_pools import MhaPool
from lmcache_engines import fresh_keys as fresh_chunks
from local_nodes import until

PAGE = 16 << 10
POOL = {"pool.size": "4MiB", "pool.eviction": "lru", "cluster.name": "holds", "log.level": "error", "data_plane": "tcp",
        **{f"net.{name}_port": 0 for name in ("control", "data", "http", "lookup")}}
POOL_PAGES = (4 << 20) // PAGE


@pytest.fixture
def small():
    """A client with a small pool of its own, which is soon full."""
    import peercache

    with peercache.Client({**POOL, "node.name": "small"}, embedded=True) as client:
        yield client


def fill(client, space, name, count):
    pages = [numpy.full(PAGE, i % 251, numpy.uint8) for i in range(64)]
    for first in range(0, count, 64):
        keys = [f"{name} {first + i}" for i in range(64)]
        client.set(space, keys, pages)
    assert client.flush().complete
    return [f"{name} {i}" for i in range(count)]


def test_what_is_held_outlives_ten_times_the_pool_and_is_released_by_its_read(small):
    space = small.space("holds")
    keys = fill(small, space, "kept", 64)
    found = small.exists(space, keys, hold=10)
    held = [key for key, page in zip(keys, found) if page.held]
    assert all(page.ok for page in found) and len(held) == POOL_PAGES / 4 == 64
    assert not any(page.held for page in small.exists(space, keys))
    fill(small, space, "filler", 10 * POOL_PAGES)
    memory = [numpy.zeros(PAGE, numpy.uint8) for _ in held]
    assert all(page.ok for page in small.get(space, held, memory))
    fill(small, space, "more", 2 * POOL_PAGES)
    assert until(lambda: not any(page.ok for page in small.exists(space, held)))


def test_more_than_the_share_is_found_and_not_held(small):
    space = small.space("share")
    keys = fill(small, space, "kept", 128)
    found = small.exists(space, keys, hold=10)
    assert all(page.ok for page in found)
    assert sum(page.held for page in found) == POOL_PAGES / 4
    holds = small.stats()["holds"]
    assert (holds["held"], holds["refused"]) == (POOL_PAGES / 4, 128 - POOL_PAGES / 4)


def test_a_key_of_several_spaces_is_held_in_all_or_none(small):
    spaces = [small.space("all or none", part) for part in ("kv", "indexer")]
    keys = fill(small, spaces[0], "kept", 64)
    fill(small, spaces[1], "kept", 64)
    held = small.native.exists(spaces, [*keys, "nobody has it"], None, 10).held
    assert sum(held) == POOL_PAGES / 4
    assert all(one == other for one, other in zip(held[::2], held[1::2]))


def test_a_hold_is_a_number_of_seconds(small):
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError):
            small.exists(small.space("x"), ["k"], hold=wrong)


def holds_of(client):
    return client.stats()["holds"]["held"]


@pytest.mark.parametrize("hold_s, holds", [(None, 3), (0, 0)])
def test_sglangs_backend_holds_between_exists_and_get(ring, engine, hold_s, holds):
    pool = MhaPool()
    store = engine(ring[0], pool, extra={} if hold_s is None else {"hold_s": hold_s})
    keys = fresh_keys(3)
    put(store, pool, keys, [0, 1, 2])
    assert store.batch_exists(keys) == 3
    assert holds_of(store._backend.client) == holds


def test_sglangs_backend_holds_no_page_beyond_the_first_gap(ring, engine):
    pool = MhaPool()
    writer, reader = engine(ring[1], pool, members=2), engine(ring[0], MhaPool(), members=2)
    keys = fresh_keys(4)
    put(writer, pool, [keys[0], keys[2], keys[3]], [0, 1, 2])
    assert reader.batch_exists(keys) == 1
    assert holds_of(reader._backend.client) == 1


def test_vllms_tier_holds_between_look_up_and_load(ring, vllm_engine):
    from vllm_engines import fresh_keys as fresh_blocks

    engine = vllm_engine(ring[0])
    keys = fresh_blocks(4)
    engine.put(keys)
    assert engine.fetch(keys) == 4
    assert holds_of(engine.tier._client) == 4


def test_lmcaches_connector_holds_between_exists_and_get(ring, lmcache_server):
    server = lmcache_server(ring[0])
    keys = fresh_chunks(4)
    server.put(keys)
    assert server.run("exists", keys) == [True] * 4
    assert holds_of(server.connector._client) == 4
