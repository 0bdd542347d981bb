"""Tests of RemoteKVConnector with real nodes."""

import gzip
import json
import os
import random
import threading
from types import SimpleNamespace

import numpy
import pytest
from connector_engines import (
    ITEM_BYTES, PAGE_TOKENS, Engine, ExactIndex, conversations, fresh_model, mapping_of, prompt)
from local_nodes import LATE_SECONDS, late_watch, until
from natives import CountedNative, Registrations
from peercache.connector import ConnectorMetadata, RemoteKVConnector, remote_kv_connector
from peercache.connector.prefix_match import leading_run
from peercache.opening import open_or_miss


@pytest.fixture
def serve():
    """A function that makes engines with a connector, which end with the test."""
    engines = []

    def make(node, model=None, members=0, **more):
        engines.append(Engine(node, model or fresh_model(), **more))
        if members:
            engines[-1].knows(members)
        return engines[-1]

    yield make
    for engine in engines:
        engine.connector.close()


def test_a_connector_that_gets_no_threads_holds_no_memory_and_can_be_given_it_again(ring, monkeypatch):
    engine, held, start = Engine.__new__(Engine), Registrations(), threading.Thread.start

    def refused(_):
        raise RuntimeError("can't start new thread")

    def counted(*arguments):
        client = open_or_miss(*arguments)
        client.native = CountedNative(client.native, held)
        monkeypatch.setattr(threading.Thread, "start", refused)
        return client

    monkeypatch.setattr(remote_kv_connector, "open_or_miss", counted)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        engine.__init__(ring[0], fresh_model())
    assert held.registrations == 0
    monkeypatch.setattr(threading.Thread, "start", start)
    engine.register()
    assert all(held[buffer.ctypes.data] == 1 for buffer in engine.buffers)
    assert engine.connector.close() and not any(held.values())


def store(engine, tokens, request="store", first_page=0, token_page=0):
    """Computes a prompt's pages from `token_page` on, stores them, and waits until other hosts can find them."""
    pages = len(tokens) // PAGE_TOKENS - token_page
    for page, span in mapping_of(first_page, pages, token_page):
        engine.compute(page, tokens[: span.stop])
    future, end = engine.connector.store_kv_async(request, mapping_of(first_page, pages, token_page), tokens)
    assert end == len(tokens) // PAGE_TOKENS * PAGE_TOKENS
    assert future.result(10).ok, future.result()
    flushed = engine.connector.flush()
    assert flushed.complete and flushed.failed == 0


def trace():
    """Returns requests as lists of tokens: from the file that TRACE_FILE names (in the format of Mooncake's traces), or
    generated."""
    path = os.environ.get("TRACE_FILE")
    if path is None:
        yield from conversations(200, seed=7)
        return
    with gzip.open(path, "rt") as lines:
        for line, _ in zip(lines, range(int(os.environ.get("TRACE_REQUESTS", "1000")))):
            yield [t for h in json.loads(line)["hash_ids"] for t in [h] * PAGE_TOKENS]


def test_a_replayed_trace_matches_an_exact_index_and_has_no_wrong_byte(fragile_ring, serve):
    ring, model, index = fragile_ring(3, pool="256MiB"), fresh_model(), ExactIndex()
    engines = [serve(ring[i], model, members=3, pages=256) for i in range(2)]
    numbers, wrong_bytes, retrieved = random.Random(3), 0, 0
    for count, tokens in enumerate(trace()):
        engine, request = engines[count % 2], f"r{count}"
        local = numbers.choice([0, 0, numbers.randrange(len(tokens))])
        matched = engine.connector.num_external_matched_tokens(request, tokens, local, timeout=10)
        assert matched == index.matched(tokens, local), request
        first = local // PAGE_TOKENS
        there = (local + matched) // PAGE_TOKENS if matched else first
        engine.wipe()
        wanted = mapping_of(0, there - first, first)
        result = engine.connector.retrieve_kv_async(request, wanted, tokens).result(10)
        assert result.ok and result.pages == there - first, result
        wrong_bytes += sum(engine.wrong_bytes(page, tokens[: span.stop]) for page, span in wanted)
        retrieved += len(wanted)
        store(engine, tokens, request, first_page=0)
        index.add(tokens)
        assert engine.connector.finish_req(request)
    other_host = sum(e.connector.client.stats()["get_hits"]["other_host"] for e in engines)
    print(f"requests={count + 1} pages={len(index.prefixes)} retrieved={retrieved} "
          f"from_other_host={other_host} wrong_bytes={wrong_bytes}")
    assert wrong_bytes == 0 and retrieved > 500 and other_host > 100


def test_a_hole_ends_the_match_though_pages_behind_it_are_there(ring, serve):
    engine, tokens = serve(ring[0], members=2, pages=400), prompt(400, 11)
    store(engine, tokens)
    connector = engine.connector
    assert connector.num_external_matched_tokens("a", tokens, 0) == len(tokens)
    hole = connector.page_keys(tokens)[217]
    assert all(r == 0 for r in connector.client.native.remove(connector._spaces.own, [hole]).statuses)
    assert connector.num_external_matched_tokens("b", tokens, 0) == 217 * PAGE_TOKENS
    assert connector.num_external_matched_tokens("c", tokens, 218 * PAGE_TOKENS) == 182 * PAGE_TOKENS
    assert connector.num_external_matched_tokens("d", tokens, 217 * PAGE_TOKENS + 1) == 0


def test_the_search_is_exact_for_any_set_of_pages():
    numbers = random.Random(5)
    for _ in range(400):
        pages = numbers.choice([0, 1, 2, 127, 128, 129, 130, 2048, 5000])
        has = [True] * pages
        if pages:
            end = numbers.randrange(pages + 1)
            has[end:] = [numbers.random() < 0.2 for _ in range(pages - end)]
            for _ in range(numbers.randrange(3)):
                has[numbers.randrange(pages)] = False
        exact = has.index(False) if False in has else pages
        assert leading_run(pages, lambda asked: [has[i] for i in asked]) == exact


def test_a_long_prompt_that_nobody_stored_costs_few_questions():
    asked = []

    def nothing(pages):
        asked.append(len(pages))
        return [False] * len(pages)

    assert leading_run(1 << 16, nothing) == 0
    assert len(asked) <= 5 and sum(asked) < 200


def test_chunks_of_one_request_are_stored_as_they_are_computed(ring, serve):
    """With chunked prefill, each store call has the whole prompt so far, but only the pages of one chunk."""
    model, tokens = fresh_model(), prompt(30, 12) + [1, 2]
    writer, reader = serve(ring[0], model, 2), serve(ring[1], model, 2)
    futures = []
    for first in range(0, 31, 10):
        known = tokens[: (first + 10) * PAGE_TOKENS]
        mapping = [(p, slice(s.start, min(s.stop, len(known)))) for p, s in
                   mapping_of(first, min(10, 31 - first), first)]
        for page, span in mapping:
            writer.compute(page, known[: span.stop])
        future, end = writer.connector.store_kv_async("r", mapping, known)
        futures.append(future)
        assert end == min(len(known), 120)
    assert [f.result(10).pages for f in futures] == [10, 10, 10, 0]
    writer.connector.flush()
    assert reader.connector.num_external_matched_tokens("q", tokens, 0) == 120
    assert reader.connector.retrieve_kv_async("q", mapping_of(3, 30), tokens).result(10).tokens == 120
    assert not any(reader.wrong_bytes(3 + i, tokens[: (i + 1) * PAGE_TOKENS]) for i in range(30))


def test_a_retrieve_ends_at_the_first_page_that_is_not_there(ring, serve):
    engine, tokens = serve(ring[0]), prompt(12, 13)
    store(engine, tokens[: 7 * PAGE_TOKENS])
    result = engine.connector.retrieve_kv_async("r", mapping_of(20, 12), tokens).result(10)
    assert not result and result == (False, 7, 7 * PAGE_TOKENS, "not_found")


def test_engines_that_differ_in_one_field_never_meet(ring, serve):
    tokens, model = prompt(3, 14), fresh_model()
    store(serve(ring[0], model), tokens)
    assert serve(ring[0], model).connector.num_external_matched_tokens("r", tokens, 0) == 12
    for more in [{"space": "tenant"}, {"pp_size": 2}, {"is_mla": True}, {"tp_size": 2}, {"cp_size": 2},
                 {"kv_args": {"prefill_start_layer": 3}}, {"kv_args": {"kv_layer_ids": [3, 4, 5, 3, 4, 5]}}]:
        other = serve(ring[0], model, **more)
        assert other.connector.num_external_matched_tokens("r", tokens, 0) == 0, more
        assert other.connector.retrieve_kv_async("r", mapping_of(0, 3), tokens).result(10).pages == 0


def test_layers_and_cp_ranks_never_meet_and_who_says_nothing_begins_with_layer_0(ring, serve):
    tokens, model = prompt(3, 26), fresh_model()

    def found(engine):
        return engine.connector.num_external_matched_tokens("r", tokens, 0)

    store(serve(ring[0], model, cp_size=2, kv_args={"prefill_start_layer": 0}), tokens)
    assert found(serve(ring[0], model, cp_size=2)) == 12, "a decode engine does not say it"
    assert found(serve(ring[0], model, cp_size=2, cp_rank=1)) == 0
    layers = [serve(ring[0], model, kv_args={"kv_layer_ids": ids}) for ids in ([0, 1, 2] * 2, [0, 1, 3] * 2)]
    store(layers[0], tokens)
    assert [found(engine) for engine in layers] == [12, 0]


def test_a_page_counts_when_all_ranks_have_theirs(ring, serve):
    tokens, model = prompt(6, 15), fresh_model()
    ranks = [serve(ring[0], model, tp_rank=rank, tp_size=2) for rank in range(2)]
    store(ranks[0], tokens)
    store(ranks[1], tokens[: 4 * PAGE_TOKENS])
    assert [r.connector.num_external_matched_tokens("r", tokens, 0) for r in ranks] == [16, 16]


def test_transfers_of_a_request_run_in_their_order_and_those_of_others_in_turns(ring, serve):
    engine, seen, gate = serve(ring[0], threads=1, chunk_bytes=1), [], threading.Event()
    engine.connector._store = lambda keys, pages, seconds: gate.wait(10) and seen.append(pages[0]) or [1]
    tokens = prompt(6, 16)
    futures = [engine.connector.store_kv_async(request, mapping_of(first, 3), tokens)[0]
               for request, first in [("a", 0), ("a", 3), ("b", 6)]]
    gate.set()
    assert all(f.result(10).ok for f in futures)
    assert [page for page in seen if page < 6] == [0, 1, 2, 3, 4, 5]
    assert seen.index(8) < seen.index(3), "b waits for a turn, not for all of a"


def blocked(engine):
    """Makes each chunk of a retrieve wait for the event `gate`. Returns `gate`, and an event that is set when the
    first chunk has begun."""
    gate, began = threading.Event(), threading.Event()
    real = engine.connector._retrieve

    def move(keys, pages, seconds):
        began.set()
        gate.wait(10)
        return real(keys, pages, seconds)

    engine.connector._retrieve = move
    return gate, began


def test_a_cancelled_transfer_keeps_its_chunk_and_drops_the_rest(ring, serve):
    engine, tokens = serve(ring[0], chunk_bytes=2 * 6 * ITEM_BYTES), prompt(8, 17)
    store(engine, tokens)
    engine.wipe()
    gate, began = blocked(engine)
    running = engine.connector.retrieve_kv_async("r", mapping_of(0, 8), tokens)
    waiting = engine.connector.retrieve_kv_async("r", mapping_of(8, 8), tokens)
    assert began.wait(10)
    assert waiting.cancel() and waiting.result(0) == (False, 0, 0, "cancelled")
    assert running.cancel() and not running.done()
    gate.set()
    assert running.result(10) == (False, 2, 2 * PAGE_TOKENS, "cancelled")
    assert not running.cancel()
    assert engine.untouched(slice(2, 64))


def test_finish_req_returns_when_nothing_touches_the_pages_any_longer(ring, serve):
    engine, tokens = serve(ring[0], chunk_bytes=1), prompt(8, 18)
    store(engine, tokens)
    gate, began = blocked(engine)
    futures = [engine.connector.retrieve_kv_async("r", mapping_of(8 * i, 8), tokens) for i in range(4)]
    assert began.wait(10)
    threading.Thread(target=lambda: until(lambda: all(f.done() for f in futures[1:])) and gate.set()).start()
    assert engine.connector.finish_req("r") and gate.is_set()
    engine.wipe()
    assert [f.result(10).reason for f in futures] == ["cancelled"] * 4
    assert engine.untouched(slice(0, 64))
    assert engine.connector._queue.waiting() == (0, 0)
    assert engine.connector.finish_req("r") and engine.connector.finish_req("never seen")


@pytest.mark.timed
def test_a_dead_node_ends_a_retrieve_and_nothing_is_written_afterwards(fragile_ring, serve):
    ring, model, tokens = fragile_ring(2), fresh_model(), prompt(200, 19)
    writer = serve(ring[1], model, 2, pages=200)
    reader = serve(ring[0], model, 2, pages=200, chunk_bytes=1)
    store(writer, tokens)
    assert reader.connector.num_external_matched_tokens("r", tokens, 0) == len(tokens)
    reader.wipe()
    real, killed = reader.connector._retrieve, threading.Event()
    reader.connector._retrieve = lambda keys, pages, seconds: (
        (pages[0] < 190 or killed.wait(10)) and real(keys, pages, seconds))
    future = reader.connector.retrieve_kv_async("r", mapping_of(0, 200), tokens)
    assert until(lambda: reader.connector._queue.waiting()[1] <= 150)
    ring[1].kill()
    killed.set()
    result = future.result(15)
    assert not result.ok and 0 < result.pages < 200
    assert not any(reader.wrong_bytes(i, tokens[: (i + 1) * PAGE_TOKENS]) for i in range(result.pages))
    reader.wipe()
    assert until(lambda: len(reader.connector.client.members()) == 1), "the cluster knows of its death"
    assert reader.untouched(slice(0, 200))


@pytest.mark.timed
def test_a_frozen_node_costs_no_more_than_the_deadline(fragile_ring, serve):
    ring, model, tokens = fragile_ring(2), fresh_model(), prompt(20, 20)
    writer, reader = serve(ring[1], model, 2), serve(ring[0], model, 2)
    store(writer, tokens)
    ring[1].freeze()
    with late_watch() as watch:
        assert reader.connector.num_external_matched_tokens("r", tokens, 0, timeout=0.2) <= len(tokens)
    assert watch.seconds < 0.2 + LATE_SECONDS + watch.stalled
    with late_watch() as watch:
        futures = [reader.connector.retrieve_kv_async(f"r{i}", mapping_of(0, 20), tokens, timeout=0.5)
                   for i in range(8)]
        assert not any(f.result(10).ok for f in futures)
    assert watch.seconds < 0.5 + LATE_SECONDS + watch.stalled
    ring[1].thaw()


@pytest.mark.timed
def test_a_frozen_node_that_holds_up_all_threads_makes_no_other_transfer_late(fragile_ring, serve):
    ring, model, tokens = fragile_ring(2), fresh_model(), prompt(20, 27)
    writer, reader = serve(ring[1], model, 2), serve(ring[0], model, 2)
    store(writer, tokens)
    ring[1].freeze()
    for i in range(8):
        reader.connector.retrieve_kv_async(f"r{i}", mapping_of(0, 20), tokens, timeout=30)
    with late_watch() as watch:
        late = reader.connector.retrieve_kv_async("late", mapping_of(20, 20), tokens, timeout=0.1)
        assert not late.result(20).ok
    assert watch.seconds < 0.1 + LATE_SECONDS + watch.stalled
    ring[1].thaw()


def test_more_than_the_limit_is_refused(ring, serve):
    engine, tokens = serve(ring[0], waiting_pages_max=10), prompt(8, 21)
    store(engine, tokens)
    gate, began = blocked(engine)
    first = engine.connector.retrieve_kv_async("r", mapping_of(0, 8), tokens)
    assert began.wait(10)
    assert engine.connector.retrieve_kv_async("s", mapping_of(8, 8), tokens).result(0).reason == "refused"
    gate.set()
    assert first.result(10).ok
    assert engine.connector.retrieve_kv_async("s", mapping_of(8, 8), tokens).result(10).ok


@pytest.mark.timed
def test_without_a_node_all_is_a_miss_and_in_time(serve):
    nobody = SimpleNamespace(options=lambda: {"client.node_port": 1, "client.timeout": "300ms", "log.level": "off"})
    engine, tokens = serve(nobody), prompt(4, 22)
    with late_watch() as watch:
        assert engine.connector.num_external_matched_tokens("r", tokens, 0) == 0
    assert watch.seconds < 0.3 + LATE_SECONDS + watch.stalled
    with late_watch() as watch:
        future, end = engine.connector.store_kv_async("r", mapping_of(0, 4), tokens)
        assert end == 16 and future.result(10).reason == "unreachable"
    assert watch.seconds < 0.3 + LATE_SECONDS + watch.stalled


def test_after_close_all_is_a_miss(ring, serve):
    engine, tokens = serve(ring[0]), prompt(4, 23)
    store(engine, tokens)
    assert engine.connector.close() and engine.connector.close()
    assert engine.connector.num_external_matched_tokens("r", tokens, 0) == 0
    assert engine.connector.retrieve_kv_async("r", mapping_of(0, 4), tokens).result(1).reason == "refused"
    assert engine.connector.finish_req("r")


def test_a_clear_withdraws_what_all_engines_of_the_model_stored(ring, serve):
    model, tokens = fresh_model(), prompt(4, seed=11)
    engines = [serve(ring[rank], model, members=2, tp_rank=rank, tp_size=2) for rank in (0, 1)]
    other = serve(ring[0], model, members=2, space="tenant")
    for engine in [*engines, other]:
        store(engine, tokens)
    assert [e.connector.num_external_matched_tokens("r", tokens, 0) for e in [*engines, other]] == [len(tokens)] * 3
    assert serve(ring[1], model, members=2).connector.clear()
    assert [e.connector.num_external_matched_tokens("r", tokens, 0) for e in engines] == [0, 0]
    assert other.connector.num_external_matched_tokens("r", tokens, 0) == len(tokens), "of another tenant"


def test_misuse_is_said_at_once(ring, serve):
    engine, tokens = serve(ring[0]), prompt(4, 24)
    connector = engine.connector
    for mapping in [[(64, slice(0, 4))], [(-1, slice(0, 4))], [(0, slice(1, 5))], [(0, slice(0, 8))]]:
        with pytest.raises(ValueError):
            connector.retrieve_kv_async("r", mapping, tokens)
    for start in (connector.retrieve_kv_async, connector.store_kv_async):
        with pytest.raises(ValueError, match="named twice"):
            start("r", [(3, slice(0, 4)), (5, slice(4, 8)), (3, slice(8, 12))], tokens)
        with pytest.raises(ValueError, match="nan"):
            start("r", mapping_of(0, 4), tokens, timeout=float("nan"))
    assert connector._queue.waiting() == (0, 0)
    with pytest.raises(OverflowError):
        connector.num_external_matched_tokens("r", [1 << 32], 0)
    with pytest.raises(RuntimeError):
        connector.register_kv_buffers(SimpleNamespace())
    fresh = RemoteKVConnector(ConnectorMetadata("m", "bf16", 4, options=ring[0].options()))
    with pytest.raises(RuntimeError):
        fresh.num_external_matched_tokens("r", tokens, 0)
    device = SimpleNamespace(kv_data_ptrs=[1 << 46], kv_data_lens=[4096], kv_item_lens=[4096])
    with pytest.raises(ValueError, match="not in this process's host memory"):
        fresh.register_kv_buffers(device)
    with pytest.raises(ValueError, match="pages of 64 tokens, not 4"):
        fresh.register_kv_buffers(SimpleNamespace(page_size=64))
    fresh.close()


def test_keys_are_what_another_blake3_says(ring, serve):
    """Compares keys with a BLAKE3 in plain Python, written after its paper. A field is its length (64-bit
    little-endian) and its bytes, and h hashes the fields it is given. With tail = the first 8 bytes of
    h("model=known") and 4 zero bytes, and cut(d) = the first 20 bytes of d and that tail: space =
    cut(h("model=known", "dtype=bfloat16")), link 0 = cut(h(space, "")), link n + 1 = cut(h(space, link n + tokens of
    the page (32-bit little-endian))). Link n + 1 is the key of page n."""
    tokens = [0, 1, 2, 3, 4, 5, 6, (1 << 32) - 1, 128000, 9, 10, 11, 12]
    assert serve(ring[0], "known").connector.page_keys(tokens) == [
        "b0396d82559bacac880dc86779bfd1d89d60b0470ea6e23a5a6515b200000000",
        "9a85f11d1c248bf3a3fe1c1688d3a876df9eb98d0ea6e23a5a6515b200000000",
        "99ac785df266220ebd0487648750d75396b1ad3c0ea6e23a5a6515b200000000"]


def test_keys_of_tokens_depend_on_all_tokens_before_and_on_the_model(ring, serve):
    engine, tokens = serve(ring[0]), prompt(5, 25)
    keys = engine.connector.page_keys(tokens + [1])
    assert len(keys) == 5 == len(set(keys)) and all(len(key) == 64 for key in keys)
    assert engine.connector.page_keys(numpy.array(tokens, numpy.int64)) == keys
    changed = engine.connector.page_keys(tokens[:9] + [tokens[9] ^ 1] + tokens[10:])
    assert [a == b for a, b in zip(keys, changed)] == [True, True, False, False, False]
    assert not set(keys) & set(serve(ring[0]).connector.page_keys(tokens))
