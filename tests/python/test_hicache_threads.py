"""Tests of one store that SGLang's threads call at the same time: prefetch, IO and backup threads, and the
scheduler."""

from types import SimpleNamespace

import pytest
import torch
from engines import fresh_keys, published, put
from host_pools import MhaPool
from local_nodes import until
from traffic import Traffic

BATCH = 16


class BusyStore:
    """A store that reads pages which another store has put, and sets more. Each kind of call uses pages of its own in
    the pools; all pages have the bytes of the pools' first batch. With `may_miss` pages may be missing, because the
    test clears the space at the same time."""

    def __init__(self, ring, engine, may_miss):
        self.pools = {"kv": big_enough(), "swa": big_enough()}
        self.store = self._made(engine, ring[0])
        self.other = self._made(engine, ring[1])
        self.may_miss, self.faults = may_miss, []
        self.keys, self.written = fresh_keys(BATCH), fresh_keys(10 * BATCH)
        self.flat_keys, self.flat_page = fresh_keys(2), self.pools["kv"].get_data_page(0)
        self.wanted = {name: [pool.bytes_of(p) for p in range(BATCH)] for name, pool in self.pools.items()}
        put(self.other, self.pools["kv"], self.keys, range(BATCH))
        assert all(self.other.batch_set_v2(self.transfers(["swa"], 0))["swa"])
        assert self.other.batch_set(self.flat_keys, [self.flat_page] * 2)
        published(self.other)

    def _made(self, engine, node):
        store = engine(node, self.pools["kv"], 2, enable_storage_metrics=True)
        for name, pool in self.pools.items():
            store.register_mem_host_pool_v2(pool, name)
        return store

    def transfers(self, names, batch):
        pages = range(batch * BATCH, (batch + 1) * BATCH)
        return [SimpleNamespace(name=name, keys=self.keys, host_indices=self.pools[name].indices(pages),
                                hit_policy="all_pages", indices_from_pool=None) for name in names]

    def check(self, holds, what):
        if not holds:
            self.faults.append(what)

    def check_read(self, name, answer, batch, what):
        """Checks that all pages came (unless pages may be missing), and that the pages that came have the bytes that
        were put."""
        self.check(len(answer) == BATCH and (self.may_miss or all(answer)), what)
        read = [(page, self.pools[name].bytes_of(batch * BATCH + page)) for page in range(BATCH) if answer[page]]
        self.check(all(self.wanted[name][page] == found for page, found in read), f"bytes of {what}")

    def get_v1(self, keys=None, batch=1, what="get_v1"):
        pages = range(batch * BATCH, (batch + 1) * BATCH)
        # Wipes the pages, so that bytes of an earlier read are not taken for those of this read.
        self.pools["kv"].wipe(pages)
        self.check_read("kv", self.store.batch_get_v1(keys or self.keys, self.pools["kv"].indices(pages)), batch, what)

    def set_v1(self):
        for first in range(0, len(self.written), BATCH):
            indices = self.pools["kv"].indices(range(BATCH))
            stored = self.store.batch_set_v1(self.written[first : first + BATCH], indices)
            self.check(stored == [True] * BATCH or (self.may_miss and len(stored) == BATCH), "set_v1")

    def get_v2(self):
        for pool in self.pools.values():
            pool.wipe(range(2 * BATCH, 3 * BATCH))
        for name, answer in self.store.batch_get_v2(self.transfers(self.pools, 2)).items():
            self.check_read(name, answer, 2, f"get_v2 of {name}")

    def set_v2(self):
        stored = self.store.batch_set_v2(self.transfers(self.pools, 0))
        self.check(list(stored) == list(self.pools) and (self.may_miss or all(map(all, stored.values()))), "set_v2")

    def get_flat(self):
        for page in self.store.batch_get(self.flat_keys, [torch.zeros_like(self.flat_page) for _ in range(2)]):
            same = page is not None and bool((page.view(torch.uint8) == self.flat_page.view(torch.uint8)).all())
            self.check(same or (page is None and self.may_miss), "flat get")

    def set_flat(self):
        self.check(self.store.batch_set(self.flat_keys, [self.flat_page] * 2) or self.may_miss, "flat set")

    def exists(self):
        found = [self.store.batch_exists(self.keys), self.store.batch_exists_v2(self.keys, []).kv_hit_pages]
        for each in found:
            self.check(each == BATCH or (self.may_miss and 0 <= each < BATCH), "exists")
        self.check(self.store.exists(self.keys[0]) is True or self.may_miss, "exists of one")

    def stats(self):
        self.check(self.store.get_stats() is not None, "stats")

    def put_again(self):
        self.check(len(self.other.batch_set_v1(self.keys, self.pools["kv"].indices(range(BATCH)))) == BATCH, "put")

    def clear(self):
        self.check(self.store.clear() in (True, False), "clear")

    def check_written(self):
        """Checks that the cache has the pages that the threads have set."""
        self.set_v1()
        published(self.store)
        for first in range(0, len(self.written), BATCH):
            self.get_v1(self.written[first : first + BATCH], 3, "what was set")


def big_enough():
    return MhaPool(pages=4 * BATCH, layers=2, heads=8, head_dim=64, page_size=16)


@pytest.mark.parametrize("cleared", [False, True], ids=["undisturbed", "beside-clear"])
def test_a_thread_for_each_kind_of_call_at_once(ring, engine, cleared):
    """Each thread repeats its call until all have called many times; every page that is read has the bytes that were
    put."""
    busy = BusyStore(ring, engine, may_miss=cleared)
    calls = [busy.get_v1, busy.set_v1, busy.get_v2, busy.set_v2, busy.get_flat, busy.set_flat, busy.exists, busy.stats]
    with Traffic(calls + [busy.clear, busy.put_again] * cleared) as traffic:
        assert until(lambda: min(traffic.rounds) >= 20 or traffic.raised, 120), traffic.rounds
    assert busy.faults == [] == traffic.raised
    busy.may_miss = False
    busy.check_written()
    assert busy.faults == []
