"""Tests of nodes under TLS: a client with a certificate stores and gets pages, a client without one gets nothing."""

import os
import pathlib
import socket
import subprocess

import numpy
import peercache
import pytest
from local_nodes import PROGRAM, Ring, until
from peercache import _native

CLI = str(pathlib.Path(PROGRAM).with_name("peercache"))


def _ca(*words):
    subprocess.run([CLI, "ca", *words], check=True, stdout=subprocess.DEVNULL)


def _files(folder, name):
    return {"cert": f"{folder}/{name}.crt", "key": f"{folder}/{name}.key", "ca": f"{folder}/ca/ca.crt"}


@pytest.fixture
def certificates(tmp_path):
    """Makes a CA that issues certificates for "node-1", "node-2" and the client "engine". Returns the folder, and the cluster."""
    cluster = f"python-tls-{os.getpid()}"
    _ca("init", f"{tmp_path}/ca", "--cluster", cluster)
    for role, name in (("node", "node-1"), ("node", "node-2"), ("client", "engine")):
        _ca("issue", role, name, "--ca", f"{tmp_path}/ca", "--out", str(tmp_path))
    return tmp_path, cluster


@pytest.fixture
def ring(certificates):
    folder, cluster = certificates
    made = Ring(folder, 2, cluster, flags_of=lambda node: [
        word for name, path in _files(folder, node).items() for word in (f"--tls-{name}", path)])
    yield made
    made.stop()


def test_a_client_with_a_certificate_stores_and_gets_pages(certificates, ring, connect):
    tls = {f"tls.{name}": path for name, path in _files(certificates[0], "engine").items()}
    first, second = (connect(node, members=2, **tls) for node in ring)
    space = first.space("tls")
    page = numpy.arange(4096, dtype=numpy.uint32)
    assert first.set(space, ["a page"], [page])[0].ok
    first.flush()
    got = numpy.zeros_like(page)
    # The page is recorded by one of its two owners at least; the reader may ask the other one first.
    assert until(lambda: second.get(space, ["a page"], [got])[0].ok)
    assert (got == page).all()


def test_a_client_without_one_is_refused(ring):
    with pytest.raises(peercache.Error, match="certificates"):
        peercache.Client(ring[0].options(**{"client.timeout": "3s"}))


def test_a_hand_over_worker_under_tls_listens_beyond_loopback(certificates):
    folder, cluster = certificates
    tls = {f"tls.{name}": path for name, path in _files(folder, "engine").items()}
    described = {"dtype": "uint8", "page_tokens": 1}
    worker = _native.PrefillWorker({"cluster.name": cluster, **tls}, "0.0.0.0", "host", described)
    # Accepted only if the worker listens at all addresses.
    socket.create_connection(("127.0.0.2", worker.port), timeout=5).close()
    worker.close()


def test_a_file_that_is_missing_is_named(certificates, ring):
    tls = {f"tls.{name}": path for name, path in _files(certificates[0], "nobody").items()}
    with pytest.raises(peercache.Error, match="nobody.key"):
        peercache.Client(ring[0].options(**tls))
