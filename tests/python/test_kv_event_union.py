"""Tests of all engines' KV events together: their union is what `exists` says, soon after anything that happens.

PEERCACHE_UNION_SEEDS=5 makes ten runs of random steps instead of two.
"""

import os
import random

import pytest
from engines import fresh_keys, published, put
from event_subscribers import WorkerRelay
from host_pools import MhaPool
from local_nodes import until
from peercache.kv_events import DISK, EXTERNAL, block_hash
from peercache.kv_events.block_watch import GRACE_SECONDS

# Clients would refuse the variable.
SEEDS = int(os.environ.pop("PEERCACHE_UNION_SEEDS", 1))
SOON_SECONDS = 2.0
"""The bar of the events: within this time of a change they say what `exists` says."""


class Cluster:
    """Three nodes with an engine at each, whose KV events a subscriber hears, and one more engine that only looks pages
    up."""

    def __init__(self, ring, engine, listen, attribution):
        self.ring, self.keys, self.gone = ring, [], set()
        self.pool = MhaPool()
        self.relays, self.stores = [], []
        for node in ring.nodes:
            relay, settings = listen(WorkerRelay, attribution=attribution)
            self.relays.append(relay)
            self.stores.append(engine(node, self.pool, 3, extra={"kv_events": settings}))
        self.asker = engine(ring[0], self.pool, 3)

    def put(self, numbers):
        store = self.stores[numbers.choice([index for index in range(3) if index not in self.gone])]
        keys = fresh_keys(numbers.randrange(1, 9))
        store.batch_set_v1(keys, self.pool.indices(range(len(keys))), None)
        self.keys += keys
        published(store)

    def remove(self, numbers):
        keys = numbers.sample(self.keys, len(self.keys) // 3)
        self.asker._backend.client.native.remove(self.asker._pools["kv"].own, keys)

    def clear(self, _):
        self.asker.clear()  # The result may be False, because a node that was killed before may come back.

    def kill(self, numbers):
        """Kills a node; its engine loses its place, and its pages are gone."""
        if not self.gone:
            self.gone.add(numbers.choice([1, 2]))
            self.ring[max(self.gone)].kill()
            assert until(lambda: len(self.asker._backend.client.members()) == 2, 20)

    def there(self):
        spaces = self.asker._pools["kv"].own
        found = self.asker._backend.client.native.exists(spaces, self.keys, 2).ok if self.keys else []
        return {block_hash(key) for key, ok in zip(self.keys, found) if ok}

    def announced(self):
        return set().union(*[relay.has(EXTERNAL) for relay in self.relays])


@pytest.mark.timed
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("attribution", ["cluster", "host"])
def test_the_union_of_events_is_what_exists_says(fragile_ring, engine, listen, attribution, seed):
    cluster, numbers = Cluster(fragile_ring(3), engine, listen, attribution), random.Random(seed)
    steps = [cluster.put] * 6 + [cluster.remove] * 3 + [cluster.clear, cluster.kill]
    numbers.shuffle(steps)
    for step in steps:
        step(numbers)
        assert until(lambda: cluster.announced() == cluster.there(), SOON_SECONDS), (seed, step.__name__)


@pytest.mark.parametrize("attribution", ["cluster", "host"])
def test_blocks_come_back_with_the_disk_of_a_node_that_restarts(fragile_ring, engine, listen, tmp_path, attribution):
    def disk(name):
        return ["--disk-path", str(tmp_path / f"disk-{name}"), "--disk-size", "64MiB", "--disk-bucket-size", "8MiB"]

    ring, pool, keys = fragile_ring(2, flags_of=disk), MhaPool(head_dim=4096), fresh_keys(3)
    relay, settings = listen(WorkerRelay, attribution=attribution, check_s=0.2)
    put(engine(ring[1], pool, 2, extra={"kv_events": settings}), pool, keys, [0, 1, 2])
    announced = {block_hash(key) for key in keys}
    assert until(lambda: relay.has(EXTERNAL) == announced)
    assert until(lambda: ring[1].metric("peercache_disk_records") == 3)
    ring[1].kill()
    assert until(lambda: not relay.has(DISK) and not relay.has(EXTERNAL), 20)
    assert not until(lambda: relay.has(DISK), GRACE_SECONDS + 1), "long enough for a block to be given up"
    ring.restart(1)
    assert until(lambda: relay.has(DISK) == announced, 20)
