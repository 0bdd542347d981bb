"""Tests of KV events with a subscriber of each kind of router, and real nodes."""

import pytest
from engines import fresh_keys, put
from event_subscribers import LlmD, SharedCache, WorkerRelay
from host_pools import MhaPool, MlaPool
from local_nodes import until
from peercache.kv_events import EXTERNAL, block_hash


def hashes(keys):
    return {block_hash(key) for key in keys}


@pytest.mark.parametrize("encoding", ["array", "map"])
def test_a_relay_of_workers_takes_every_message(ring, engine, listen, encoding):
    relay, settings = listen(WorkerRelay, encoding=encoding)
    pool, keys = MhaPool(), fresh_keys(4)
    store = engine(ring[0], pool, extra={"kv_events": settings})
    put(store, pool, keys, [0, 1, 2, 3])
    assert until(lambda: relay.has(EXTERNAL) == hashes(keys))
    assert [relay.table[block_hash(key), EXTERNAL] for key in keys] == [None, *map(block_hash, keys[:3])]
    store._backend.client.native.remove(store._pools["kv"].own, keys[2:])
    assert until(lambda: relay.has(EXTERNAL) == hashes(keys[:2]))
    store.close()
    assert until(lambda: not relay.has(EXTERNAL)) and relay.taken == relay.last + 1


@pytest.mark.parametrize("pool, suffixes, more", [
    (MhaPool, ["_0_k", "_0_v"], {}), (MlaPool, ["__k"], {"is_mla_model": True})])
def test_a_shared_cache_of_dynamo_takes_every_message(ring, engine, listen, pool, suffixes, more):
    shared, settings = listen(SharedCache, suffixes, encoding="mooncake")
    made, keys = pool(), fresh_keys(4)
    store = engine(ring[0], made, extra={"kv_events": settings}, **more)
    put(store, made, keys[:3], [0, 1, 2])
    assert until(lambda: shared.hits(keys) == [True, True, True, False])
    store._backend.client.native.remove(store._pools["kv"].own, keys[:1])
    assert until(lambda: shared.hits(keys) == [False, True, True, False])
    store.close()
    assert until(lambda: shared.hits(keys) == [False] * 4) and shared.taken == shared.last + 1


def test_mooncakes_stream_is_refused_where_it_would_promise_other_stages(ring, engine, listen):
    _, settings = listen(WorkerRelay, encoding="mooncake")
    assert engine(ring[0], MhaPool(), extra={"kv_events": settings}, pp_size=2)._events is None


def test_llm_d_does_not_index_what_comes_with_hashes_only(ring, engine, listen):
    router, settings = listen(LlmD, pod="pod-1")
    pool, keys = MhaPool(), fresh_keys(2)
    store = engine(ring[0], pool, extra={"kv_events": settings})
    put(store, pool, keys, [0, 1])
    assert until(lambda: router.has(EXTERNAL) == hashes(keys)) and router.index == {}
    store.close()
    assert until(lambda: not router.has(EXTERNAL)) and router.pods == {("pod-1", "test-model")}


def test_a_publisher_connects_to_a_subscriber_that_listens(ring, engine, listen):
    relay, settings = listen(WorkerRelay, connect=True)
    pool, keys = MhaPool(), fresh_keys(2)
    store = engine(ring[0], pool, extra={"kv_events": settings})
    put(store, pool, keys, [0, 1])
    assert until(lambda: relay.has(EXTERNAL) == hashes(keys))
    store.close()
    assert until(lambda: not relay.has(EXTERNAL)) and relay.published > 0


def test_a_block_is_of_the_workers_whose_hosts_have_it(fragile_ring, engine, listen):
    """The second host gets copies of the pages that it reads (pool.mirror), and its engine announces only these copies."""
    ring, pool, keys = fragile_ring(2, flags=["--pool-mirror", "all"]), MhaPool(), fresh_keys(4)
    one, first = listen(WorkerRelay, attribution="host")
    two, second = listen(WorkerRelay, attribution="host")
    setter = engine(ring[0], pool, 2, extra={"kv_events": first})
    reader = engine(ring[1], pool, 2, extra={"kv_events": second})
    put(setter, pool, keys, [0, 1, 2, 3])
    assert until(lambda: one.has(EXTERNAL) == hashes(keys)) and two.has(EXTERNAL) == set()

    def read_and_heard():  # A read may make no mirror, so it is repeated until there is one.
        assert reader.batch_get_v1(keys[:2], pool.indices([0, 1]), None) == [True, True]
        return two.has(EXTERNAL) == hashes(keys[:2])

    assert until(read_and_heard) and one.has(EXTERNAL) == hashes(keys)
    ring[0].kill()
    assert until(lambda: one.has(EXTERNAL) == set(), 20) and two.has(EXTERNAL) == hashes(keys[:2])


def test_a_block_that_is_only_elsewhere_is_no_worker_of_this_hosts(ring, engine, listen):
    """A page of another host that was read here without a mirror must be announced only by the engine that set it, and
    not by this host's engine."""
    pool, keys = MhaPool(), fresh_keys(2)
    (one, first), (two, second) = [listen(WorkerRelay, attribution="host") for _ in range(2)]
    setter = engine(ring[0], pool, 2, extra={"kv_events": first})
    reader = engine(ring[1], pool, 2, extra={"kv_events": second})
    put(setter, pool, keys, [0, 1])
    assert reader.batch_get_v1(keys, pool.indices([0, 1]), None) == [True, True]
    own = fresh_keys(1)
    put(reader, pool, own, [0])
    assert until(lambda: two.has(EXTERNAL) == hashes(own) and one.has(EXTERNAL) == hashes(keys))
