"""Tests of the connector's KV events, which have token ids."""

import pytest
from connector_engines import PAGE_TOKENS, Engine, fresh_model, mapping_of, prompt
from event_subscribers import LlmD
from local_nodes import until
from peercache.kv_events import block_hash
from peercache.kv_events.rounds import PageQueue, Pages


def test_llm_d_indexes_what_comes_with_tokens(ring, listen):
    router, settings = listen(LlmD, pod="10.0.0.7:8000", encoding="map")
    model = fresh_model()
    engine = Engine(ring[0], model, kv_events=settings)
    tokens = prompt(4, seed=1)
    for first, pages in ((0, 3), (3, 1)):
        future, _ = engine.connector.store_kv_async("r", mapping_of(first, pages, first), tokens)
        assert future.result(10).ok
    assert until(lambda: router.score(tokens, PAGE_TOKENS) == 4)
    keys = engine.connector.page_keys(tokens)
    assert [router.tokens[block_hash(key)] for key in keys] == [
        tokens[first : first + PAGE_TOKENS] for first in range(0, len(tokens), PAGE_TOKENS)]
    engine.connector.close()
    assert until(lambda: router.score(tokens, PAGE_TOKENS) == 0)
    assert router.pods == {("10.0.0.7:8000", model)}


def test_mooncakes_stream_is_refused_since_nobody_would_find_these_keys(ring):
    with pytest.raises(ValueError, match="keys are no hashes of SGLang"):
        Engine(ring[0], fresh_model(), kv_events={"endpoint": "tcp://*:1", "encoding": "mooncake"})


def test_only_the_first_rank_of_a_connector_speaks(ring, listen):
    _, settings = listen(LlmD, pod="pod-1")
    second = Engine(ring[0], fresh_model(), kv_events=settings, tp_rank=1, tp_size=2)
    assert second.connector._events is None
    second.connector.close()


class Notes:
    """A fake publisher of KV events, which records what the connector reports."""

    def __init__(self):
        self.runs = []

    def stored(self, keys, ok, parent, tokens):
        assert all(ok) and len(ok) == len(keys) == len(tokens)
        self.runs.append((keys, parent, tokens))

    def close(self):
        pass


def test_pages_are_noted_by_runs_and_each_run_with_its_parent(ring):
    engine = Engine(ring[0], fresh_model(), pages=600)
    notes = engine.connector._events = Notes()
    tokens = prompt(600, seed=2)
    keys = engine.connector.page_keys(tokens)
    mapping = [pair for pair in mapping_of(0, 600, 0) if pair[0] != 300]
    future, _ = engine.connector.store_kv_async("r", mapping, tokens)
    assert future.result(20).ok
    engine.connector.close()
    assert [key for run, _, _ in notes.runs for key in run] == keys[:300] + keys[301:]
    parents = dict(zip(keys, [None, *keys]))
    assert all(parent == parents[run[0]] for run, parent, _ in notes.runs)
    said = [page for _, _, pages in notes.runs for page in pages]
    assert said[299] == tokens[299 * PAGE_TOKENS : 300 * PAGE_TOKENS] and said[-1] == tokens[-PAGE_TOKENS:]
    assert len(notes.runs) < 60, "a run for each chunk of a transfer, not for each page"


def test_what_comes_too_fast_is_counted_and_the_newest_stays():
    queue = PageQueue(limit=10)
    runs = [Pages([f"{number} {page}" for page in range(4)], None, (), False) for number in range(3)]
    for run in runs:
        queue.put(run)
    taken, dropped = queue.take_all()
    assert list(taken) == runs[1:] and dropped == 4
    large = Pages([str(page) for page in range(20000)], None, (), False)
    queue.put(large)
    assert [list(queue.take_all()[0]), queue.take_all()] == [[large], (type(taken)(), 0)]
