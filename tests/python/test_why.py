"""Tests of `peercache why`: it must name each misconfiguration that a test makes within 10 s, with a fix, and give a
cause for all misses."""

import json
import os
import pathlib
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from engines import fresh_keys, put
from host_pools import MhaPool
from lmcache_engines import fresh_keys as chunk_names
from local_nodes import PROGRAM, until
from vllm_engines import fresh_keys as chunk_keys

from peercache import Status
from peercache.hicache import host_pool, pieces
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_offload.config import OffloadingConfig

try:
    import jsonschema
except ImportError:  # Debian: python3-jsonschema
    jsonschema = None

SCHEMA = json.loads((pathlib.Path(__file__).parents[2] / "docs/cli.schema.json").read_text())
CLI = str(pathlib.Path(PROGRAM).with_name("peercache"))
SECONDS = 10
"""Seconds from the misses to their cause."""
PAGES = 6


def why(node):
    """The answer of `peercache why`, asked at the node."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PEERCACHE_")}
    done = subprocess.run([CLI, "why", "-o", "json", "--node", node.address, "--cluster", node.cluster],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean, timeout=60)
    assert done.stdout, done.stderr.decode()
    answer = json.loads(done.stdout)
    if jsonschema is not None:
        whole = {"$defs": SCHEMA["$defs"], **SCHEMA["commands"]["why"]}
        jsonschema.Draft202012Validator(whole).validate(answer)
    return answer


class Trouble:
    """Tools to make a misconfiguration: nodes, and functions that make engines at them."""

    def __init__(self, node_of, sglang, vllm, lmcache, connect, monkeypatch):
        self._node_of, self.sglang, self.vllm, self.lmcache = node_of, sglang, vllm, lmcache
        self.connect, self.monkeypatch = connect, monkeypatch
        self.ring = None

    def nodes(self, count=1, **options):
        self.ring = self._node_of(count, **options)
        return self.ring

    @property
    def node(self):
        return self.ring[0] if self.ring else self.nodes()[0]

    def sglang_pair(self, writer=None, reader=None, keys=None, **more):
        """Stores pages with one engine and asks for them with another one, whose configuration differs."""
        stored, asked = keys or [fresh_keys(PAGES)] * 2
        first = self.sglang(self.node, writer or MhaPool())
        put(first, first.mem_pool_host, stored, range(PAGES))
        second = self.sglang(self.node, reader or MhaPool(), **more)
        assert second.batch_exists(asked) == 0
        return PAGES * max(1, more.get("tp_size", 1))

    def vllm_pair(self, seed=None, asked=None, **more):
        stored = chunk_keys(PAGES)
        self.vllm(self.node).put(stored)
        if seed is not None:
            self.monkeypatch.setattr(kv_cache_utils, "NONE_HASH", seed)
        assert self.vllm(self.node, **more).hits(asked or stored) == 0
        return PAGES


TROUBLES = {}


def trouble(cause, field=None):
    """Registers a function that makes a misconfiguration, and the cause that `peercache why` must name. The function
    returns how many pages are missed; None if the number differs from run to run."""
    def register(make):
        TROUBLES[make.__name__] = (make, cause, field)
        return make
    return register


# Misconfigurations of SGLang's engines

@trouble("page_size", "page_size")
def sglang_page_size(made):
    return made.sglang_pair(reader=MhaPool(page_size=8), keys=[fresh_keys(PAGES), fresh_keys(PAGES)])


@trouble("dtype", "dtype")
def sglang_dtype(made):
    return made.sglang_pair(reader=MhaPool(dtype=torch.float16))


@trouble("layout", "layout")
def sglang_layout(made):
    return made.sglang_pair(reader=MhaPool("layer_first"))


@trouble("tp", "tp")
def sglang_tp(made):
    return made.sglang_pair(reader=MhaPool(heads=2), tp_size=2)


@trouble("pp", "pp")
def sglang_pp(made):
    return made.sglang_pair(pp_size=2)


@trouble("namespace", "space")
def sglang_space(made):
    return made.sglang_pair(extra={"space": "tenant"})


@trouble("model", "model")
def sglang_model_name(made):
    return made.sglang_pair(model_name="/models/test-model")


@trouble("interface_v1", "interface_v1")
def sglang_interface_v1(made):
    return made.sglang_pair(extra={"interface_v1": 0})


@trouble("geometry", "layer_num")
def sglang_other_model_of_the_name(made):
    return made.sglang_pair(reader=MhaPool(layers=5))


@trouble("write_policy")
def sglang_write_policy(made):
    arguments = SimpleNamespace(hicache_write_policy="write_back")
    made.monkeypatch.setitem(sys.modules, "sglang.srt.server_args",
                             SimpleNamespace(get_global_server_args=lambda: arguments))
    store = made.sglang(made.node, MhaPool())
    assert store.batch_exists(fresh_keys(PAGES)) == 0
    return PAGES


@trouble("never_asked")
def sglang_threshold(made):
    store = made.sglang(made.node, MhaPool())
    put(store, store.mem_pool_host, fresh_keys(PAGES), range(PAGES))
    return 0


@trouble("interface_v1")
def sglang_pages_too_large_for_the_slow_path(made):
    made.monkeypatch.setattr(host_pool, "page_bytes_max", 256)
    made.monkeypatch.setattr(pieces, "PIECE_BYTES", 200)
    store = made.sglang(made.node, MhaPool(), extra={"interface_v1": 0})
    assert store.batch_exists(fresh_keys(PAGES)) == 0
    return PAGES


@trouble("cleared")
def sglang_flush(made):
    store, keys = made.sglang(made.node, MhaPool()), fresh_keys(PAGES)
    put(store, store.mem_pool_host, keys, range(PAGES))
    assert store.clear()
    assert store.batch_exists(keys) == 0
    return PAGES


@trouble("never_stored")
def sglang_new_prompts(made):
    store = made.sglang(made.node, MhaPool())
    put(store, store.mem_pool_host, fresh_keys(PAGES), range(PAGES))
    assert store.batch_exists(fresh_keys(PAGES)) == 0
    return PAGES


@trouble("stored_later")
def sglang_first_prompt(made):
    store, keys = made.sglang(made.node, MhaPool()), fresh_keys(PAGES)
    assert store.batch_exists(keys) == 0
    put(store, store.mem_pool_host, keys, range(PAGES))
    return PAGES


@trouble("nobody_stores")
def sglang_without_a_writer(made):
    assert made.sglang(made.node, MhaPool()).batch_exists(fresh_keys(PAGES)) == 0
    return PAGES


# Misconfigurations of vLLM's engines

def _config(part, **fields):
    plain = OffloadingConfig()
    return replace(plain, **{part: replace(getattr(plain, part), **fields)})


@trouble("hash_seed", "hash_seed")
def vllm_hash_seed(made):
    return made.vllm_pair(seed=b"another seed", asked=chunk_keys(PAGES))


@trouble("dtype", "model.dtype")
def vllm_dtype(made):
    return made.vllm_pair(config=_config("model", dtype="fp8_e4m3"))


@trouble("page_size", "cache.tokens_per_hash")
def vllm_block_size(made):
    return made.vllm_pair(config=_config("cache", tokens_per_hash=32), asked=chunk_keys(PAGES))


@trouble("tp", "parallel.tp_size")
def vllm_tp(made):
    return made.vllm_pair(config=_config("parallel", tp_size=2))


@trouble("layout", "kv_cache_layout")
def vllm_layout(made):
    return made.vllm_pair(entry={"kv_cache_layout": "mine"})


@trouble("threshold")
def vllm_verdicts_too_soon(made):
    return made.vllm_pair(entry={"lookup_timeout_s": 0})


# Misconfigurations of LMCache's servers

@trouble("namespace", "namespace")
def lmcache_namespace(made):
    keys = chunk_names(PAGES)
    made.lmcache(made.node).put(keys)
    reader = made.lmcache(made.node, params={"namespace": "test-fp8"})
    assert reader.run("exists", keys) == [False] * PAGES
    return PAGES


@trouble("page_length")
def lmcache_chunk_size(made):
    keys = chunk_names(PAGES)
    made.lmcache(made.node).put(keys)
    assert made.lmcache(made.node, chunk_bytes=8192).fetch(keys) == 0
    return PAGES


@trouble("removed")
def lmcache_delete(made):
    server, keys = made.lmcache(made.node), chunk_names(PAGES)
    server.put(keys)
    assert all(server.run("delete", keys))
    assert server.run("exists", keys) == [False] * PAGES
    return PAGES


# Faults of the cluster that look like misconfigured engines

def _fill(client, space, keys, page):
    for key in keys:  # Tried again, because a pool that must evict may have no room for a moment.
        assert until(lambda: client.set(space, [key], [page])[0].ok)
    assert client.flush().complete


@trouble("evicted")
def pool_too_small(made):
    node = made.nodes(pool="16MiB")[0]
    client, keys = made.connect(node), fresh_keys(64)
    space, page = client.space("evictions"), bytes(1 << 20)
    _fill(client, space, keys, page)
    # Waits, because the directory hears of evictions a moment later.
    assert until(lambda: not any(each.ok for each in client.exists(space, keys[:PAGES])))
    return None


@trouble("set_refused")
def page_larger_than_the_pool(made):
    node = made.nodes(pool="16MiB")[0]
    client, keys = made.connect(node), fresh_keys(PAGES)
    space = client.space("refusals")
    assert not any(each.ok for each in client.set(space, keys, [bytes(32 << 20)] * PAGES))
    assert not any(each.ok for each in client.exists(space, keys))
    return PAGES


@trouble("timed_out")
def node_that_hangs(made):
    first, second = made.nodes(2)
    writer, keys = made.connect(second, members=2), fresh_keys(PAGES)
    reader = made.connect(first, members=2)
    _fill(writer, writer.space("frozen"), keys, bytes(4096))
    space = reader.space("frozen")
    assert until(lambda: all(each.ok for each in reader.exists(space, keys)))
    second.freeze()
    pages = [bytearray(4096) for _ in keys]
    assert not any(each.ok for each in reader.get(space, keys, pages, timeout=0.3))
    second.thaw()
    return PAGES


@trouble("node_unreachable")
def node_was_down(made):
    node = made.node
    client = made.connect(node, **{"client.timeout": "2s"})
    space = client.space("down")
    node.kill()
    # Until the client has seen that, the directory that it maps answers for its node.
    assert until(lambda: client.exists(space, ["probe"])[0].status != Status.NOT_FOUND)
    results = client.exists(space, fresh_keys(PAGES))
    assert not any(each.ok for each in results)
    made.ring.restart(0)
    assert until(lambda: client.set(space, ["back"], [bytes(64)])[0].ok, 20)
    return None


@pytest.fixture
def made(fragile_ring, engine, vllm_engine, lmcache_server, connect, monkeypatch):
    return Trouble(fragile_ring, engine, vllm_engine, lmcache_server, connect, monkeypatch)


@pytest.mark.timed
@pytest.mark.parametrize("name", TROUBLES)
def test_a_misconfiguration_is_named_in_time_with_a_fix_and_all_misses_have_causes(made, name):
    make, cause, field = TROUBLES[name]
    missed = make(made)
    began, answer = time.monotonic(), {}

    def is_named():
        answer.update(why(made.node))
        return any(row["cause"] == cause for row in answer["causes"]) and missed in (None, answer["missed"])

    assert until(is_named, SECONDS), answer
    assert time.monotonic() - began < SECONDS
    assert sum(row["pages"] for row in answer["causes"]) == answer["missed"]
    if answer["missed"]:
        assert sum(row["share"] for row in answer["causes"]) == pytest.approx(1)
    row = answer["causes"][0]
    assert row["cause"] == cause and row["fix"], answer
    if missed:
        assert row["pages"] == missed, answer
    if field:
        assert row["differs"][0]["field"] == field and row["differs"][0]["asked"] != row["differs"][0]["stored"]
    assert all(each["fix"] and each["detail"] for each in answer["causes"])


def test_there_are_twenty_troubles_and_more():
    assert len(TROUBLES) >= 20


def test_misses_of_several_causes_add_up(made):
    """One engine misses pages of an engine with another dtype, new prompts, and pages that were cleared."""
    keys, cold = fresh_keys(PAGES), fresh_keys(3)
    writer = made.sglang(made.node, MhaPool())
    put(writer, writer.mem_pool_host, keys, range(PAGES))
    reader = made.sglang(made.node, MhaPool(dtype=torch.float16))
    own = fresh_keys(2)
    put(reader, reader.mem_pool_host, own, range(2))
    assert reader.batch_exists(own) == 2
    assert reader.batch_exists(keys) == 0
    assert reader.batch_exists(cold) == 0
    answer = {}

    def is_all():
        answer.update(why(made.node))
        return answer["missed"] == PAGES + 3
    assert until(is_all, SECONDS), answer
    assert {row["cause"]: row["pages"] for row in answer["causes"]} == {"dtype": PAGES, "never_stored": 3}
    assert answer["asked"] == PAGES + 3 + 2


def test_a_cluster_that_hits_has_nothing_to_say(made):
    store, keys = made.sglang(made.node, MhaPool()), fresh_keys(PAGES)
    put(store, store.mem_pool_host, keys, range(PAGES))
    assert store.batch_exists(keys) == PAGES
    answer = {}

    def is_heard():
        answer.update(why(made.node))
        return answer["asked"] == PAGES
    assert until(is_heard, SECONDS), answer
    assert answer["missed"] == 0 and answer["causes"] == []


def test_an_engine_that_has_ended_is_still_explained(made):
    made.sglang_pair(reader=MhaPool("layer_first"))
    answer = {}

    def is_heard():
        answer.update(why(made.node))
        return answer["missed"] == PAGES
    assert until(is_heard, SECONDS), answer
    reader = made.sglang(made.node, MhaPool("layer_first"))
    assert reader.batch_exists(fresh_keys(2)) == 0
    reader.close()
    assert until(lambda: why(made.node)["missed"] == PAGES + 2, SECONDS)
