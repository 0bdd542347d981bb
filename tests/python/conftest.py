"""Fixtures of many test files: nodes that all tests share, nodes that one test may kill, clients and engines."""

import itertools
import os

import pytest

from local_nodes import Ring, until

_clusters = itertools.count()


def pytest_configure(config):
    config.addinivalue_line("markers", "timed: measures time, and runs alone (CMakeLists.txt)")


def _ring(folder, count, **options):
    ring = Ring(folder, count, f"python-{os.getpid()}-{next(_clusters)}", **options)
    return ring


@pytest.fixture(scope="session")
def ring(tmp_path_factory):
    """Two nodes that all tests of a run share: a test uses keys of its own, and does nothing to the nodes."""
    made = _ring(tmp_path_factory.mktemp("ring"), 2, pool="256MiB")
    yield made
    made.stop()


@pytest.fixture
def fragile_ring(tmp_path):
    """A function that makes rings for one test, which may kill or freeze their nodes."""
    made = []

    def make(count, **options):
        made.append(_ring(tmp_path, count, **options))
        return made[-1]

    yield make
    for each in made:
        for node in each.nodes:
            node.kill()


@pytest.fixture
def connect():
    """A function that makes clients, which are closed at the end of the test."""
    import peercache

    clients = []

    def make(node, members=None, **options):
        client = peercache.Client(node.options(**options))
        clients.append(client)
        if members:
            assert until(lambda: len(client.members()) == members)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def engine():
    """A function that makes SGLang storage backends of engines, which are closed at the end of the test."""
    from engines import knows, make_store

    stores = []

    def make(node, pool=None, members=0, **more):
        store = make_store(node, pool, **more)
        stores.append(store)
        if members:
            knows(store, members)
        return store

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def pairs():
    """A function that makes pairs of prefill and decode engines, which are closed at the end of the test."""
    from pd_engines import Pair  # Only here, because it makes fake SGLang modules importable.

    made = []

    def make(*words, **more):
        made.append(Pair(*words, **more))
        return made[-1]

    yield make
    for pair in made:
        pair.close()


@pytest.fixture
def vllm_engine():
    """A function that makes vLLM's engines with a tier at a node, which are closed at the end of the test."""
    from vllm_engines import Engine, entry_of  # Only here, because it makes fake vLLM modules importable.

    made = []

    def make(node, members=0, entry=None, **more):
        made.append(Engine(entry_of(node, **(entry or {})), **more))
        return made[-1].knows(members) if members else made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def lmcache_server():
    """A function that makes LMCache's servers with a connector at a node, which are closed at the end of the test."""
    from lmcache_engines import Server, params_of

    made = []

    def make(node, members=0, params=None, **more):
        made.append(Server(params_of(node, **(params or {})), **more))
        return made[-1].knows(members) if members else made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def listen(tmp_path):
    """A function that makes a subscriber of KV events and the settings of an engine that publishes to it. Subscribers
    are closed at the end of the test."""
    made = []

    def make(kind, *words, **more):
        address, replay = f"ipc://{tmp_path}/{len(made)}", f"ipc://{tmp_path}/{len(made)}-replay"
        made.append(kind(*words, address, replay, binds=bool(more.get("connect"))))
        return made[-1], {"endpoint": address, "replay_endpoint": replay, "check_s": 0.3, **more}

    yield make
    for each in made:
        each.close()
