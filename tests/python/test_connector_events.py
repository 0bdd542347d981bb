"""Tests of the connector's KV events, which have token ids."""

from connector_engines import PAGE_TOKENS, Engine, fresh_model, mapping_of, prompt
from event_subscribers import LlmD
from local_nodes import until
from peercache.kv_events import block_hash


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


def test_only_the_first_rank_of_a_connector_speaks(ring, listen):
    _, settings = listen(LlmD, pod="pod-1")
    second = Engine(ring[0], fresh_model(), kv_events=settings, tp_rank=1, tp_size=2)
    assert second.connector._events is None
    second.connector.close()
