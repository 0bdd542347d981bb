"""Tests of Client.clear: whose pages a clear withdraws, and when it is certain."""

import numpy
import pytest
from local_nodes import LocalNode, until
from peercache import Status


def page(seed, size):
    return numpy.random.default_rng(seed).integers(0, 256, size, dtype=numpy.uint8)


def published(client):
    flushed = client.flush()
    assert flushed.complete and flushed.failed == 0


def test_a_space_is_cleared_for_all_clients_whoever_set_it(ring, connect):
    clients = [connect(ring[i], members=2) for i in (0, 1)]
    old, kept = clients[0].space("cleared", "bf16"), clients[0].space("kept", "cleared")
    for client, name in zip(clients, "ab"):
        client.set(old, [name], [page(1, 4096)])
        client.set(kept, [name], [page(2, 4096)])
        published(client)
    assert all(r.ok for client in clients for r in client.exists(old, ["a", "b"]))
    cleared = clients[1].clear("cleared")
    assert cleared and cleared == (True, "")
    for client in [*clients, connect(ring[0])]:
        assert [r.status for r in client.exists(old, ["a", "b"])] == [Status.NOT_FOUND] * 2
        into = [numpy.zeros(4096, numpy.uint8) for _ in range(2)]
        assert [r.status for r in client.get(old, ["a", "b"], into)] == [Status.NOT_FOUND] * 2
        assert all(r.ok for r in client.exists(kept, ["a", "b"])), "of another space, whatever its other fields are"
    clients[0].set(old, ["a"], [page(3, 4096)])
    published(clients[0])
    assert clients[1].exists(old, ["a"])[0].ok, "it can be used again"


@pytest.mark.timed
def test_a_clear_that_is_not_certain_is_false_and_says_why(fragile_ring, connect):
    ring = fragile_ring(2)
    client = connect(ring[0], members=2)
    ring[1].freeze()
    cleared = client.clear("space", timeout=0.3)
    assert not cleared and cleared.certain is False and "node-2" in cleared.why_not
    ring[1].thaw()
    assert until(lambda: client.clear("space"), 30)
    client.close()
    assert client.clear("space") == (False, "the client is closed")


def test_a_clear_is_not_certain_while_another_process_has_a_lost_nodes_name(fragile_ring, connect, tmp_path):
    """The first process of the lost node's name may only be frozen, and may later serve its clients beside the new
    process."""
    ring = fragile_ring(2)
    client = connect(ring[1], members=2)
    space = client.space("namesake")
    client.set(space, ["a"], [page(1, 4096)])
    published(client)
    ring[1].freeze()
    namesake = LocalNode(tmp_path, ring[1].name, ring[1].cluster, seeds=[ring[0].address])
    try:
        asking = connect(ring[0], members=2)
        cleared = asking.clear("namesake")
        assert not cleared and f"node-2 at {ring[1].address}" in cleared.why_not
        ring[1].thaw()
        into = numpy.zeros(4096, numpy.uint8)
        assert until(lambda: client.get(space, ["a"], [into], timeout=1)[0].ok), "nobody told that process"
        assert not asking.clear("namesake")
    finally:
        namesake.kill()
