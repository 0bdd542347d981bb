"""Tests of pages of draft models beside a target model with MLA, for which SGLang backs up only the first rank's
pages."""

import sys
from types import SimpleNamespace

import pytest
import torch
from engines import fresh_keys, published
from host_pools import MhaPool, MlaPool

MTP = {"model_path": "deepseek", "speculative_draft_model_path": "deepseek"}
EAGLE = {"model_path": "kimi", "speculative_draft_model_path": "an eagle for it"}


@pytest.fixture
def command_line(monkeypatch):
    """A function that makes the process's command line look like one of SGLang."""

    def says(arguments):
        module = SimpleNamespace(get_global_server_args=lambda: SimpleNamespace(**arguments))
        monkeypatch.setitem(sys.modules, "sglang.srt.server_args", module)

    return says


def ranks_of(engine, node, name, pools, mla=True, **extra):
    """Makes the ranks of an engine, each with a pool of KV and a draft pool."""
    made = []
    for rank, pool in enumerate(pools):
        kv = MlaPool(seed=1) if mla else MhaPool(seed=10 + rank)
        made.append(engine(node, kv, extra=extra, is_mla_model=mla, tp_rank=rank, tp_size=len(pools),
                           model_name=f"{name} {extra}"))
        made[-1].register_mem_host_pool_v2(kv, "kv")
        made[-1].register_mem_host_pool_v2(pool, "draft")
    return made


# Tests of drafts as flat pages, as HiRadixCache's controller moves them


def flat_drafts(stores):
    """Puts flat draft pages by the first rank. Returns for each rank which of them it reads with the right bytes."""
    keys = [f"{key}.draft" for key in fresh_keys(2)]
    pages = [torch.arange(64.0) + 64 * i for i in range(2)]
    assert stores[0].batch_set(keys, pages)
    published(stores[0])
    read = [store.batch_get(keys, [torch.zeros(64) for _ in keys]) for store in stores]
    return [[page is not None and torch.equal(page, wanted) for page, wanted in zip(each, pages)] for each in read]


@pytest.mark.parametrize("interface_v1", [1, 0])
@pytest.mark.parametrize("arguments, extra", [(MTP, {}), (EAGLE, {"draft_is_mla": True})],
                         ids=["MTP is known to be MLA", "the JSON says so"])
def test_all_ranks_of_mla_read_the_draft_that_one_has_written(
    ring, engine, command_line, arguments, extra, interface_v1
):
    command_line(arguments)
    stores = ranks_of(engine, ring[0], "whole", [MlaPool()] * 3, interface_v1=interface_v1, **extra)
    assert flat_drafts(stores) == [[True] * 2] * 3


@pytest.mark.parametrize("arguments, extra", [
    (EAGLE, {}), (MTP, {"draft_is_mla": False}), ({}, {}), ({"model_path": None, "speculative_draft_model_path": None}, {})])
def test_a_draft_that_may_be_cut_is_not_given_to_another_rank(ring, engine, command_line, caplog, arguments, extra):
    command_line(arguments)
    stores = ranks_of(engine, ring[0], "cut", [MlaPool()] * 2, **extra)
    assert flat_drafts(stores) == [[True] * 2, [False] * 2]
    assert flat_drafts(stores) == [[True] * 2, [False] * 2]
    told = [r for r in caplog.records if '"draft_is_mla": true' in r.message]
    assert len(told) == (0 if extra else 2), "once a rank, and not where it is said"


def test_a_draft_beside_heads_is_each_ranks_own_whatever_is_said(ring, engine, command_line):
    command_line(MTP)
    stores = ranks_of(engine, ring[0], "heads", [MhaPool()] * 2, mla=False, draft_is_mla=True)
    assert flat_drafts(stores) == [[True] * 2, [False] * 2]


# Tests of drafts of SGLang's unified tree: named pools whose pages are moved together with those of KV


class FlatMhaPool(MhaPool):
    """A pool of MHA that does not tell the addresses of its pages."""

    def __getattribute__(self, name):
        if name == "get_page_buffer_meta":
            raise AttributeError(name)
        return super().__getattribute__(name)


def draft_transfer(keys=None, pool=None, pages=()):
    indices = None if pool is None else torch.cat([torch.arange(p * 4, p * 4 + 4) for p in pages])
    return SimpleNamespace(name="draft", keys=keys, hit_policy="all_pages", indices_from_pool="kv", host_indices=indices)


def back_up(store, draft, keys, pages, of_draft=None):
    """Backs up pages of KV and draft as the controller does on the first rank."""
    some = keys[:of_draft]
    assert store.batch_set_v1(keys, MlaPool().indices(pages)) == [True] * len(keys)
    assert store.batch_set_v2([draft_transfer(some, draft, pages[: len(some)])]) == {"draft": [True] * len(some)}
    published(store)


def fetched(store, draft, keys, pages):
    """Returns how many leading pages of both KV and draft one rank gets."""
    kv = store.batch_get_v1(keys, MlaPool().indices(pages))
    drafts = store.batch_get_v2([draft_transfer(keys, draft, pages)])["draft"]
    return min([*kv, False].index(False), [*drafts, False].index(False))


def contents(pool):
    return [bytes(pool.get_data_page(page * 4).view(torch.uint8).numpy()) for page in range(pool.page_num)]


def test_a_draft_of_mla_is_found_and_read_by_all_ranks(ring, engine):
    drafts = [MlaPool(kv_cache_dim=8, seed=rank) for rank in range(3)]
    stores, keys = ranks_of(engine, ring[0], "mla", drafts), fresh_keys(3)
    back_up(stores[0], drafts[0], keys, [0, 1, 2])
    assert [store.batch_exists_v2(keys, [draft_transfer()]).kv_hit_pages for store in stores] == [3] * 3
    for store, draft in zip(stores, drafts):
        assert fetched(store, draft, keys, [5, 6, 7]) == 3
        assert contents(draft)[5:8] == contents(drafts[0])[:3]


@pytest.mark.parametrize("own_pages_only", [True, False])
@pytest.mark.parametrize("kind", [MhaPool, FlatMhaPool])
def test_kv_is_found_by_all_ranks_where_their_shares_of_a_draft_are_blank(ring, engine, kind, own_pages_only):
    drafts = [kind(seed=rank) for rank in range(3)]
    stores = ranks_of(engine, ring[0], f"blank {kind}", drafts, blank_drafts=True, own_pages_only=own_pages_only)
    keys, before = fresh_keys(4), [contents(draft) for draft in drafts]
    assert [store.batch_exists_v2(keys, [draft_transfer()]).kv_hit_pages for store in stores] == [0] * 3
    back_up(stores[0], drafts[0], keys, [0, 1, 2, 3], of_draft=3)
    assert [store.batch_exists_v2(keys, [draft_transfer()]).kv_hit_pages for store in stores] == [3] * 3
    for rank, (store, draft) in enumerate(zip(stores, drafts)):
        assert fetched(store, draft, keys[:3], [9, 5, 7]) == 3
        for source, page in enumerate((9, 5, 7)):
            before[rank][page] = bytes(len(before[rank][0])) if rank else before[0][source]
        assert contents(draft) == before[rank]


@pytest.mark.parametrize("blank_drafts", [True, False])
@pytest.mark.parametrize("kind", [MhaPool, FlatMhaPool])
def test_each_rank_reads_the_share_of_a_cut_draft_that_it_has_put(ring, engine, kind, blank_drafts):
    """All ranks put pages under the same hashes, so only the rank in the key tells their shares apart."""
    drafts = [kind(seed=rank) for rank in range(2)]
    stores = ranks_of(engine, ring[0], f"own share {kind}", drafts, blank_drafts=blank_drafts)
    keys, puts = fresh_keys(3), [contents(draft)[:3] for draft in drafts]
    assert puts[0] != puts[1]
    for store, draft in zip(stores, drafts):
        back_up(store, draft, keys, [0, 1, 2])
    assert [store.batch_exists_v2(keys, [draft_transfer()]).kv_hit_pages for store in stores] == [3] * 2
    for store, draft, put in zip(stores, drafts, puts):
        assert fetched(store, draft, keys, [9, 5, 7]) == 3
        assert [contents(draft)[page] for page in (9, 5, 7)] == put


def test_each_rank_reads_the_flat_draft_that_it_has_put(ring, engine, command_line):
    command_line(EAGLE)
    stores = ranks_of(engine, ring[0], "own flat draft", [MlaPool()] * 2)
    keys = [f"{key}.draft" for key in fresh_keys(2)]
    puts = [[torch.arange(64.0) + 1000 * rank + i for i in range(2)] for rank in range(2)]
    for store, pages in zip(stores, puts):
        assert store.batch_set(keys, pages)
        published(store)
    for store, pages in zip(stores, puts):
        read = store.batch_get(keys, [torch.zeros(64) for _ in keys])
        assert all(page is not None and torch.equal(page, wanted) for page, wanted in zip(read, pages))


def test_a_blank_page_takes_no_time_beyond_the_deadline(ring, engine):
    draft = MhaPool(seed=1)
    store = ranks_of(engine, ring[0], "late", [MhaPool(), draft], blank_drafts=True)[1]
    before = contents(draft)
    store._backend.deadline = lambda *_: SimpleNamespace(left=lambda: 0.0, passed=lambda: True)
    assert store.batch_get_v2([draft_transfer(fresh_keys(2), draft, [0, 1])]) == {"draft": [False] * 2}
    assert contents(draft) == before
    store.close()
    del store._backend.deadline
    assert store.batch_get_v2([draft_transfer(fresh_keys(2), draft, [0, 1])]) == {"draft": [False] * 2}


def test_a_draft_that_is_cut_is_missed_by_all_unless_blanks_are_allowed(ring, engine, caplog):
    drafts = [MhaPool(seed=rank) for rank in range(2)]
    stores, keys = ranks_of(engine, ring[0], "strict", drafts), fresh_keys(2)
    told = [r for r in caplog.records if r.levelname == "ERROR" and '"blank_drafts": true' in r.message]
    assert len(told) == 2 and "pool draft is cut over the ranks" in told[0].message
    before = contents(drafts[1])
    back_up(stores[0], drafts[0], keys, [0, 1])
    assert [store.batch_exists_v2(keys, [draft_transfer()]).kv_hit_pages for store in stores] == [0, 0]
    assert fetched(stores[1], drafts[1], keys, [5, 6]) == 0
    assert contents(drafts[1]) == before


def test_blanks_are_for_drafts_beside_mla_only(ring, engine):
    """No page is blanked for a sliding window, which is part of the target, nor where the target has heads, since
    there every rank backs up."""
    for mla, name in ((True, "swa"), (False, "draft")):
        pools = [MhaPool(seed=rank) for rank in range(2)]
        stores = ranks_of(engine, ring[0], "no blanks", pools, mla=mla, blank_drafts=True)
        keys, before = fresh_keys(1), contents(pools[1])
        stores[1].register_mem_host_pool_v2(pools[1], name)
        transfer = SimpleNamespace(name=name, keys=keys, hit_policy="all_pages", host_indices=pools[1].indices([0]))
        assert stores[1].batch_get_v2([transfer]) == {name: [False]}
        assert contents(pools[1]) == before
