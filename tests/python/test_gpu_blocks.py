"""Tests, without a node, of what a client learns from an engine's own KV events about the blocks on its GPU."""

import hashlib
import sys
import types

import pytest
from local_nodes import until
from msgpack import packb
from peercache.hicache.contract import dp_rank_of
from peercache.kv_events import gpu_blocks
from peercache.kv_events.gpu_blocks import GpuBlocks, GpuFollower, follow, reachable


class Node:
    """A fake client that records what it is told."""

    def __init__(self):
        self.held, self.ranks = set(), set()

    def report_gpu(self, spaces, stored=(), evicted=(), all_evicted=False, rank=None):
        if all_evicted:
            self.held.clear()
        self.held = (self.held - set(evicted)) | set(stored)
        self.ranks.add(rank)


def chain(pages):
    """Returns the keys of a prompt's pages, and the pages' hashes as events have them."""
    keys, last = [], b""
    for page in pages:
        last = hashlib.sha256(last + b"".join(token.to_bytes(4, "little") for token in page)).digest()
        keys.append(last.hex())
    return keys, [int.from_bytes(bytes.fromhex(key)[:8], "big", signed=True) for key in keys]


PAGES = [[1, 2], [3, 4], [5, 6]]
KEYS, BLOCKS = chain(PAGES)


def stored(blocks, parent, tokens, medium="GPU"):
    return ["BlockStored", blocks, parent, tokens, 2, None, medium]


@pytest.fixture
def publisher():
    """A socket that publishes events as SGLang does, its endpoint, and a fake client."""
    import zmq

    context = zmq.Context()
    socket = context.socket(zmq.PUB)
    port = socket.bind_to_random_port("tcp://*")
    yield socket, reachable(f"tcp://*:{port}"), Node()
    socket.close(0)
    context.term()


def made():
    node = Node()
    return node, GpuBlocks(node, [], 2)


def test_blocks_have_the_keys_of_their_pages():
    node, blocks = made()
    blocks.take(5, [0.0, [stored(BLOCKS[:2], None, [1, 2, 3, 4])], 1])
    blocks.take(6, [0.0, [stored(BLOCKS[2:], BLOCKS[1], [5, 6], None)], 1])
    assert node.held == set(KEYS) and node.ranks == {1}
    blocks.take(7, [0.0, [["BlockRemoved", [BLOCKS[0], 99], "GPU"]]])
    assert node.held == set(KEYS[1:])
    blocks.take(8, [0.0, [["AllBlocksCleared"]]])
    assert node.held == set()


def test_other_media_are_none_of_its_business():
    node, blocks = made()
    blocks.take(0, [0.0, [stored(BLOCKS[:1], None, [1, 2], "CPU")]])
    assert node.held == set()
    blocks.take(1, [0.0, [stored(BLOCKS[:1], None, [1, 2]), ["BlockRemoved", BLOCKS[:1], "CPU"]]])
    assert node.held == {KEYS[0]}


def test_a_block_that_cannot_be_named_is_left_out_and_counted():
    node, blocks = made()
    blocks.take(0, [0.0, [stored(BLOCKS[1:2], BLOCKS[0], [3, 4])]])  # No event has told of its parent.
    blocks.take(1, [0.0, [stored([BLOCKS[0] + 1], None, [1, 2])]])  # A hash that is not SGLang's.
    blocks.take(2, [0.0, [stored(BLOCKS[:2], None, [1, 2, 3])]])  # Tokens are missing.
    assert node.held == {KEYS[0]} and blocks.left_out == 3


def test_after_a_gap_blocks_count_anew():
    node, blocks = made()
    blocks.take(0, [0.0, [stored(BLOCKS[:1], None, [1, 2])]])
    blocks.take(2, [0.0, [stored(chain([[7, 8]])[1], None, [7, 8])]])
    assert node.held == set(chain([[7, 8]])[0])


def test_a_message_of_another_form_counts_as_a_gap():
    node, blocks = made()
    blocks.take(0, [0.0, [stored(BLOCKS[:1], None, [1, 2])]])
    with pytest.raises(TypeError):
        blocks.take(1, [0.0, [["BlockRemoved", None, "GPU"], ["BlockRemoved", BLOCKS[:1], "GPU"]]])
    assert node.held == set()
    blocks.take(2, [0.0, [stored(BLOCKS[:1], None, [1, 2])]])
    assert node.held == {KEYS[0]}


def test_after_a_gap_a_block_brings_back_those_before_it():
    node, blocks = made()
    blocks.take(0, [0.0, [stored(BLOCKS[:2], None, [1, 2, 3, 4]), stored(chain([[9, 9]])[1], None, [9, 9])]])
    blocks.take(5, [0.0, []])
    assert node.held == set()
    blocks.take(6, [0.0, [stored(BLOCKS[2:], BLOCKS[1], [5, 6])]])
    assert node.held == set(KEYS), "a prompt that never left the GPU counts again, another one does not"
    blocks.take(7, [0.0, [["BlockRemoved", BLOCKS[:1], "GPU"]]])
    assert node.held == set(KEYS[1:])


def test_what_was_known_before_two_gaps_is_forgotten():
    node, blocks = made()
    blocks.take(0, [0.0, [stored(BLOCKS[:2], None, [1, 2, 3, 4])]])
    blocks.take(5, [0.0, []])
    blocks.take(9, [0.0, [stored(BLOCKS[2:], BLOCKS[1], [5, 6])]])
    assert node.held == set() and blocks.left_out == 1


def test_a_message_that_is_not_understood_is_a_gap(publisher):
    zmq_socket, endpoint, node = publisher
    blocks = GpuBlocks(node, [], 2)
    follower = GpuFollower(endpoint, blocks)
    try:
        def heard():
            zmq_socket.send_multipart([b"", (0).to_bytes(8, "big"), packb([0.0, [stored(BLOCKS[:1], None, [1, 2])]])])
            return node.held == {KEYS[0]}
        assert until(heard)
        zmq_socket.send_multipart([b"", (1).to_bytes(8, "big"), packb([0.0, [{"no": "type"}]])])
        assert until(lambda: node.held == set())
        zmq_socket.send_multipart([b"", (2).to_bytes(8, "big"), packb([0.0, [stored(BLOCKS[1:2], BLOCKS[0], [3, 4])]])])
        assert until(lambda: node.held == set(KEYS[:2])), "the thread goes on"
    finally:
        follower.close()
    assert node.held == set(), "a follower that is closed takes its blocks along"


def test_a_subscriber_reaches_what_sglang_binds():
    assert reachable("tcp://*:5557") == reachable("tcp://0.0.0.0:5557") == "tcp://127.0.0.1:5557"
    assert reachable("tcp://[::]:5557") == "tcp://127.0.0.1:5557"
    assert reachable("tcp://10.0.0.1:5557") == "tcp://10.0.0.1:5557" and reachable("ipc:///x") == "ipc:///x"


def test_an_engine_that_publishes_nothing_is_said(publisher, monkeypatch, caplog):
    _, endpoint, node = publisher
    monkeypatch.setattr(gpu_blocks, "SILENCE_SECONDS", 0.0)
    follower = GpuFollower(endpoint, GpuBlocks(node, [], 2))
    try:
        assert until(lambda: "no KV event of the engine has come from " + endpoint in caplog.text)
    finally:
        follower.close()


def test_the_rank_of_data_parallelism_is_the_attention_s(monkeypatch):
    module = types.SimpleNamespace(get_attention_dp_rank=lambda: 3)
    assert dp_rank_of(types.SimpleNamespace()) == 0
    monkeypatch.setitem(sys.modules, "sglang.srt.layers.dp_attention", module)
    assert dp_rank_of(types.SimpleNamespace()) == 3 and dp_rank_of(types.SimpleNamespace(dp_rank=1)) == 1


def test_pairs_of_tokens_are_hashed_as_sglang_does():
    node, blocks = made()
    keys, names = chain([[1, 2, 2, 3]])
    blocks.take(0, [0.0, [stored(names, None, [[1, 2], [2, 3]])]])
    assert node.held == set(keys)


def test_it_is_off_without_an_endpoint_and_where_it_cannot_be(caplog):
    assert follow("", None, [], 2) is None and caplog.text == ""
    assert follow("nowhere", None, [], 2) is None and "gpu_events nowhere: Invalid argument" in caplog.text
