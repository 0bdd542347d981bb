"""Tests that the C++ code checks every argument from Python that it can check."""

import gc
import math
import threading
import time
from array import array

import numpy
import peercache
import pytest
from local_nodes import until
from peercache import Status, _native

PAGE = 64 << 10
SPACE = peercache.KeySpace(["arguments"])


def page(seed, size=PAGE):
    return numpy.random.default_rng(seed).integers(0, 256, size, dtype=numpy.uint8)


@pytest.fixture
def client(ring, connect):
    return connect(ring[0])


def published(client):
    flushed = client.flush()
    assert flushed.complete and flushed.failed == 0


class Index:
    """An object that counts as an integer, and runs code of its own when its value is asked for."""

    def __init__(self, number, then=lambda: None):
        self.number, self.then = number, then

    def __index__(self):
        self.then()
        return self.number


# Tests of arguments that name pages


def test_a_chain_of_keys_is_that_of_the_tokens_which_the_caller_sees():
    tokens = numpy.arange(16, dtype=numpy.uint32)
    whole = _native.chain_keys(SPACE, tokens, 4)
    assert len(whole) == 4 and whole == _native.chain_keys(SPACE, array("I", range(16)), 4)
    assert _native.chain_keys(SPACE, tokens[4:12], 4) == _native.chain_keys(SPACE, tokens[4:12].copy(), 4)
    assert _native.chain_keys(SPACE, tokens.astype(numpy.int32), 4) == whole
    for wrong in (tokens[::2], tokens[::-1], tokens.reshape(4, 4), memoryview(tokens)[::3]):
        with pytest.raises(TypeError, match="contiguous row of 32-bit integers"):
            _native.chain_keys(SPACE, wrong, 4)


@pytest.mark.parametrize("kind", ["float32", "int64", "uint16", "bool", "complex64", ">u4", "S4"])
def test_tokens_are_integers_of_32_bits_and_nothing_else(kind):
    tokens = numpy.zeros(16, dtype=kind)
    with pytest.raises(TypeError, match="contiguous row of 32-bit integers"):
        _native.chain_keys(SPACE, tokens, 4)


def test_a_page_of_tokens_is_at_least_one_and_may_be_more_than_there_are():
    tokens = array("I", range(8))
    with pytest.raises(ValueError):
        _native.chain_keys(SPACE, tokens, 0)
    assert _native.chain_keys(SPACE, tokens, 1 << 62) == []
    with pytest.raises(TypeError):
        _native.chain_keys(SPACE, [1, 2, 3, 4], 1)


def test_keys_and_pages_without_an_order_are_refused(client):
    first, second = page(1).tobytes(), page(2).tobytes()
    for keys, pages in [({"a", "b"}, [first, second]), ({"a": 0, "b": 1}, [first, second]),
                        (["a", "b"], {first, second}), (["a", "b"], {first: 0, second: 1})]:
        with pytest.raises(TypeError, match="sequence"):
            client.set(SPACE, keys, pages)
    for keys in ({"a"}, {"a": 0}, iter(["a"])):
        with pytest.raises(TypeError, match="sequence"):
            client.exists(SPACE, keys)


# Tests of arguments that are numbers


@pytest.mark.parametrize("number", ["4096", 4096.0, None, b"4096", numpy.float64(4096)])
def test_what_is_no_integer_is_a_type_error(client, number):
    for addresses, sizes in [([number], [16]), ([4096], [number])]:
        for call in (client.native.get, client.native.set):
            with pytest.raises(TypeError):
                call([SPACE], ["k"], addresses, sizes)


@pytest.mark.parametrize("numbers", ["44", b"44", {4096, 8192}, iter([4096, 8192]), 4096])
def test_what_is_no_sequence_of_integers_is_a_type_error(client, numbers):
    with pytest.raises(TypeError):
        client.native.get([SPACE], ["a", "b"], numbers, [1, 1])


def test_numbers_that_fit_no_address_are_overflows(client):
    whole = page(3)
    for numbers in ([-1], [1 << 64], numpy.array([-1]), array("q", [-4096]), [Index(-1)]):
        with pytest.raises(OverflowError):
            client.native.get([SPACE], ["k"], numbers, [16])
        with pytest.raises(OverflowError):
            client.native.set([SPACE], ["k"], [whole.ctypes.data], numbers)


@pytest.mark.parametrize("which", ["keys", "addresses", "sizes"])
def test_a_list_that_changes_while_it_is_read_is_refused(client, which):
    whole = page(4)
    lists = {"keys": [f"key {i}" for i in range(64)], "addresses": [whole.ctypes.data] * 64, "sizes": [PAGE] * 64}

    def clear():
        for each in lists.values():
            each.clear()
        gc.collect()

    lists["sizes" if which == "keys" else which][1] = Index(PAGE if which != "addresses" else whole.ctypes.data, clear)
    with pytest.raises(ValueError):
        client.native.set([SPACE], lists["keys"], lists["addresses"], lists["sizes"])


def test_a_timeout_is_a_number_of_seconds(client):
    with pytest.raises(ValueError):
        client.exists(SPACE, ["k"], timeout=math.nan)
    assert client.exists(SPACE, ["k"], timeout=-math.inf)[0].status in (Status.TIMED_OUT, Status.UNREACHABLE)
    assert client.exists(SPACE, ["k"], timeout=math.inf)[0].status == Status.NOT_FOUND


# Tests of arguments that are memory


class MadeOnDemand:
    """A sequence that makes each page when it is asked for and keeps no reference, so that the page is freed when the
    caller drops it."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index >= self.count:
            raise IndexError
        return bytes([index]) * PAGE


def test_pages_that_are_made_as_they_are_asked_for_are_stored_as_they_were(client):
    names = [f"made {i}" for i in range(64)]
    assert all(r.ok for r in client.set(SPACE, names, MadeOnDemand(64)))
    published(client)
    read = [bytearray(PAGE) for _ in names]
    assert all(r.ok for r in client.get(SPACE, names, read))
    assert [each == bytes([i]) * PAGE for i, each in enumerate(read)] == [True] * 64


def test_memory_cannot_be_resized_while_a_call_uses_it(fragile_ring, connect):
    node = fragile_ring(1)[0]
    node.hide_shard()
    client = connect(node)
    memory, refused = bytearray(PAGE), threading.Event()

    def resize():
        try:
            memory.extend(bytes(64 * PAGE))
        except BufferError:
            refused.set()

    node.freeze()
    call = threading.Thread(target=lambda: client.get(SPACE, ["resized"], [memory], timeout=5))
    call.start()
    assert until(lambda: client.native.call_times() and (resize() or refused.is_set()), 4)
    node.thaw()
    call.join()
    memory.extend(b"afterwards")


def test_registered_memory_stays_in_its_place(client):
    memory = bytearray(PAGE)
    client.register(memory)
    with pytest.raises(BufferError):
        memory.extend(bytes(64 * PAGE))
    client.unregister(memory)
    memory.extend(b"afterwards")
    client.register(memory)
    client.close()
    memory.extend(b"the end")


@pytest.mark.parametrize("cut", ["every second", "backwards", "columns", "by columns", "read-only"])
def test_memory_that_is_not_one_piece_or_read_only_is_refused(client, cut):
    whole = numpy.zeros((64, 64), numpy.uint8)
    views = {"every second": whole.ravel()[::2], "backwards": whole.ravel()[::-1], "columns": whole[:, :8],
             "by columns": numpy.asfortranarray(numpy.arange(4096, dtype=numpy.uint8).reshape(64, 64)),
             "read-only": whole.copy()}
    views["read-only"].flags.writeable = False
    for memory in (views[cut], memoryview(views[cut])):
        with pytest.raises((BufferError, ValueError)):
            client.get(SPACE, ["cut"], [memory])
        if cut != "read-only":
            with pytest.raises((BufferError, ValueError)):
                client.set(SPACE, ["cut"], [memory])


@pytest.mark.parametrize("kind", ["O", [("number", "i4"), ("object", "O")]])
def test_memory_of_objects_is_refused(client, kind):
    memory = numpy.zeros(512, dtype=kind)
    for call in (client.get, client.set):
        with pytest.raises(TypeError, match="not objects"):
            call(SPACE, ["objects"], [memory])
    with pytest.raises(TypeError, match="not objects"):
        client.register(memory)
    named = numpy.zeros(512, dtype=[("Object", "i8")])
    assert client.set(SPACE, ["numbers"], [named])[0].ok


# Tests of the deadlines of calls with many arguments


def test_of_a_million_keys_nothing_is_made_after_the_deadline(client):
    keys = [f"a key of a chain of pages, of some length {i:040d}" for i in range(1_000_000)]

    def processor_time(timeout):
        begin = time.thread_time()
        results = client.native.exists([SPACE], keys, timeout)
        spent = time.thread_time() - begin
        assert len(results) == len(keys)
        return spent, results.groups

    spent, groups = min(processor_time(0) for _ in range(3))
    assert [(Status(status), count) for status, _, _, count in groups] == [(Status.TIMED_OUT, len(keys))]
    assert spent < min(processor_time(30)[0] for _ in range(3)) / 4


def test_results_are_one_for_each_key_in_their_order(client):
    assert client.set(SPACE, ["x", "y"], [page(1), page(2)])[1].ok
    published(client)
    found = client.exists(SPACE, ["none", "x", "y", "neither", "nor"])
    assert [(r.status, r.length) for r in found] == [
        (Status.NOT_FOUND, 0), (Status.HIT, PAGE), (Status.HIT, PAGE), (Status.NOT_FOUND, 0), (Status.NOT_FOUND, 0)]
