"""Tests of routers' overlap queries at real nodes: /query and /query_by_hash must tell what a storage backend finds."""

import hashlib
import http.client
import json
import logging
import subprocess
import sys

import msgpack
import peercache
import pytest
import zmq
from engines import fresh_keys, put
from host_pools import MhaPool
from local_nodes import until

PAGE_TOKENS = 4


def ask(node, path, **query):
    """Sends a query to a node. Returns (HTTP status, JSON)."""
    port = http.client.HTTPConnection("127.0.0.1", int(node.ports[2]), timeout=10)
    port.request("POST", path, json.dumps(query), {"Content-Type": "application/json"})
    answer = port.getresponse()
    return answer.status, json.loads(answer.read())


@pytest.fixture
def namespaces(caplog):
    """A function that returns the key spaces which the engines of this test have logged, as an operator finds them."""
    caplog.set_level(logging.INFO, "peercache.hicache")
    mark = "key space of pool kv: "

    def found():
        texts = [record.getMessage() for record in caplog.records]
        return [json.loads(text[len(mark):]) for text in texts if text.startswith(mark)]

    return found


def test_any_node_says_how_much_of_a_prompt_each_node_has(ring, engine, namespaces):
    pool, keys = MhaPool(), fresh_keys(6)
    one, two = engine(ring[0], pool, 2), engine(ring[1], pool, 2)
    put(one, pool, keys[:4], [0, 1, 2, 3])
    put(two, pool, [keys[4]], [4])
    query = {"model": "test-model", "block_size": PAGE_TOKENS, "seq_hashes": keys, "namespaces": namespaces()[:1]}
    for node in (ring[0], ring[1]):
        assert ask(node, "/query_by_hash", **query) == (
            200, {"default": {"node-1": {"longest_matched": 16, "GPU": 0, "DP": {}, "CPU": 16, "DISK": 0}}})
    query["seq_hashes"] = keys[4:]
    assert ask(ring[0], "/query_by_hash", **query, tenant_id="t") == (
        200, {"t": {"node-2": {"longest_matched": 4, "GPU": 0, "DP": {}, "CPU": 4, "DISK": 0}}})
    query["seq_hashes"] = keys[5:]
    assert ask(ring[0], "/query_by_hash", **query) == (200, {"default": {}})
    one._backend.client.native.remove(one._pools["kv"].own, keys[1:2])
    query["seq_hashes"] = keys
    assert until(lambda: ask(ring[1], "/query_by_hash", **query)[1]["default"]["node-1"]["longest_matched"] == 4)


def test_a_prompt_may_be_asked_for_by_its_tokens(ring, engine, namespaces):
    tokens = [int.from_bytes(hashlib.sha256(fresh_keys(1)[0].encode()).digest()[:3], "big") for _ in range(10)]
    keys, last = [], b""
    for first in (0, 4):
        page = b"".join(token.to_bytes(4, "little") for token in tokens[first : first + PAGE_TOKENS])
        last = hashlib.sha256(last + page).digest()
        keys.append(last.hex())
    pool = MhaPool()
    put(engine(ring[0], pool), pool, keys, [0, 1])
    query = {"token_ids": tokens, "block_size": PAGE_TOKENS, "namespaces": namespaces()}
    assert ask(ring[1], "/query", **query)[1]["default"]["node-1"]["longest_matched"] == 8
    assert ask(ring[1], "/query", **query, instance_id="node-2") == (200, {"default": {}})


def test_a_block_counts_where_all_ranks_have_their_pages(ring, engine, namespaces):
    pool, keys = MhaPool(), fresh_keys(3)
    ranks = [engine(ring[0], pool, tp_rank=rank, tp_size=2) for rank in range(2)]
    put(ranks[0], pool, keys, [0, 1, 2])
    put(ranks[1], pool, keys[:2], [0, 1])
    query = {"block_size": PAGE_TOKENS, "seq_hashes": keys, "namespaces": namespaces()}
    assert len(query["namespaces"]) == 2
    assert ask(ring[0], "/query_by_hash", **query)[1]["default"]["node-1"]["longest_matched"] == 8


def test_a_node_that_is_gone_has_nothing(fragile_ring, engine, namespaces):
    ring, pool, keys = fragile_ring(3), MhaPool(), fresh_keys(8)
    store = engine(ring[1], pool, 3)
    put(store, pool, keys, range(8))
    query = {"block_size": PAGE_TOKENS, "seq_hashes": keys, "namespaces": namespaces()}
    assert ask(ring[0], "/query_by_hash", **query)[1]["default"]["node-2"]["longest_matched"] == 32
    ring[1].kill()
    assert until(lambda: ask(ring[0], "/query_by_hash", **query) == (200, {"default": {}}), 20)


def test_a_clear_counts_at_once(ring, engine, namespaces):
    pool, keys = MhaPool(), fresh_keys(2)
    store = engine(ring[0], pool, extra={"space": "cleared"})
    put(store, pool, keys, [0, 1])
    query = {"block_size": PAGE_TOKENS, "seq_hashes": keys, "namespaces": namespaces()}
    assert ask(ring[0], "/query_by_hash", **query)[1]["default"]["node-1"]["longest_matched"] == 8
    assert store.clear()
    assert ask(ring[0], "/query_by_hash", **query) == (200, {"default": {}})


REPORTER = """
import json, sys, peercache
client = peercache.Client(json.loads(sys.argv[1]))
space = client.space("gpu-test", sys.argv[2])
client.report_gpu(space, stored=sys.argv[3:], rank=1)
print("told", flush=True)
sys.stdin.read()
"""
"""A process that tells of blocks on its GPU and lives on. Its words: the client's options, a name, and the keys."""


@pytest.fixture
def reporter():
    """A function that starts a process whose client reports blocks on its GPU."""
    made = []

    def start(node, name, keys):
        words = [sys.executable, "-B", "-c", REPORTER, json.dumps(node.options()), name, *keys]
        made.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert made[-1].stdout.readline() == "told\n"
        return made[-1]

    yield start
    for each in made:
        each.kill()
        each.communicate()


def on_gpu(node, name, keys, of="node-1"):
    """Asks `node` for the tokens that the node `of` has on GPUs. Returns (GPU, DP)."""
    query = {"block_size": PAGE_TOKENS, "seq_hashes": keys, "namespaces": [["gpu-test", name]]}
    told = ask(node, "/query_by_hash", **query)[1]["default"].get(of)
    return (told["GPU"], told["DP"]) if told else (0, {})


def test_blocks_on_a_gpu_go_with_the_process_that_told_of_them(ring, reporter):
    keys = fresh_keys(3)
    process = reporter(ring[0], "life", keys[:2])
    for node in (ring[0], ring[1]):
        assert until(lambda node=node: on_gpu(node, "life", keys) == (8, {"1": 8}))
    process.kill()
    for node in (ring[0], ring[1]):
        assert until(lambda node=node: on_gpu(node, "life", keys) == (0, {}), 2)


def test_what_an_engine_evicts_from_its_gpu_is_not_there(ring, connect):
    client, keys = connect(ring[0]), fresh_keys(3)
    space = client.space("gpu-test", "evicts")
    client.report_gpu(space, stored=keys)
    assert until(lambda: on_gpu(ring[0], "evicts", keys) == (12, {}))
    client.report_gpu(space, evicted=keys[1:2])
    assert until(lambda: on_gpu(ring[0], "evicts", keys) == (4, {}))
    client.report_gpu(space, all_evicted=True, stored=keys[2:])
    assert until(lambda: on_gpu(ring[0], "evicts", keys) == (0, {}))
    assert on_gpu(ring[0], "evicts", keys[2:]) == (4, {})


def test_a_node_that_was_restarted_is_told_of_the_gpu_again(fragile_ring, reporter):
    (node,), keys = fragile_ring(1).nodes, fresh_keys(2)
    reporter(node, "again", keys)
    assert until(lambda: on_gpu(node, "again", keys) == (8, {"1": 8}))
    node.kill()
    node.start()
    assert until(lambda: on_gpu(node, "again", keys) == (8, {"1": 8}))


def test_a_client_asks_as_a_router_does(ring, connect):
    one, two, keys = connect(ring[0], 2), connect(ring[1], 2), fresh_keys(2)
    space = one.space("gpu-test", "asks")
    assert one.set(space, keys[:1], [bytes(4096)])[0].ok and one.flush().complete
    one.report_gpu(space, stored=keys, rank=0)
    asked = {"spaces": [["gpu-test", "asks"]], "block_tokens": PAGE_TOKENS}
    assert until(lambda: [tuple(row) for row in two.overlap(hashes=keys, **asked)]
                 == [("node-1", 8, 8, 4, 0, {0: 8})])
    assert two.overlap(hashes=keys, node="node-2", **asked) == []
    assert two.overlap(tokens=[1, 2, 3, 4], **asked) == []
    with pytest.raises(peercache.Error, match="block_size") as wrong:
        two.overlap([["gpu-test", "asks"]], 0, keys)
    assert wrong.value.code == "invalid argument"
    with pytest.raises(ValueError, match="not both"):
        two.overlap(hashes=keys, tokens=[1, 2, 3, 4], **asked)
    two.close()
    with pytest.raises(peercache.Error) as closed:
        two.overlap(hashes=keys, **asked)
    assert closed.value.code == "closed"


def pages_of(tokens):
    """Returns SGLang's hash of each page of these tokens: in hex, and as events have it."""
    keys, last = [], b""
    for first in range(0, len(tokens), PAGE_TOKENS):
        page = b"".join(token.to_bytes(4, "little") for token in tokens[first : first + PAGE_TOKENS])
        last = hashlib.sha256(last + page).digest()
        keys.append(last.hex())
    return keys, [int.from_bytes(bytes.fromhex(key)[:8], "big", signed=True) for key in keys]


def test_sglangs_own_events_say_what_is_on_its_gpu(ring, engine, namespaces, tmp_path):
    context = zmq.Context()
    publisher = context.socket(zmq.XPUB)
    publisher.bind(f"ipc://{tmp_path}/engine")
    engine(ring[0], MhaPool(), extra={"gpu_events": f"ipc://{tmp_path}/engine"})
    assert publisher.recv() == b"\x01"  # Waits until the backend has subscribed.
    tokens = [int(fresh_keys(1)[0][:6], 16)] + list(range(11))
    (keys, blocks), sent = pages_of(tokens), []
    query = {"block_size": PAGE_TOKENS, "token_ids": tokens, "namespaces": namespaces()[:1]}

    def say(*events):
        publisher.send_multipart([b"", len(sent).to_bytes(8, "big"), msgpack.packb([0.0, events, 3])])
        sent.append(events)

    def gpu():
        told = ask(ring[1], "/query", **query)[1]["default"].get("node-1")
        return (told["GPU"], told["DP"]) if told else (0, {})

    say(["BlockStored", blocks[:2], None, tokens[:8], PAGE_TOKENS, None, "GPU"])
    say({"type": "BlockStored", "block_hashes": blocks[2:], "parent_block_hash": blocks[1], "token_ids": tokens[8:],
         "block_size": PAGE_TOKENS, "medium": "GPU"})
    assert until(lambda: gpu() == (12, {"3": 12}))
    say(["BlockRemoved", blocks[2:], "CPU"], ["BlockRemoved", blocks[1:2], "GPU"])
    assert until(lambda: gpu() == (4, {"3": 4}))
    say(["AllBlocksCleared"])
    assert until(lambda: gpu() == (0, {}))
    publisher.close(0)
    context.term()


def test_a_query_that_makes_no_sense_is_told_why(ring):
    status, said = ask(ring[0], "/query", block_size=4, namespaces=[["m"]], token_ids="all")
    assert status == 400 and "token_ids" in said["error"]
