"""Tests of peercache.Client: batches, memory of all kinds, errors, threads, life cycle."""

import gc
import threading
import time

import numpy
import peercache
import pytest
from local_nodes import late_watch, until
from peercache import Origin, Status

PAGE = 64 << 10


def page(seed, size=PAGE):
    return numpy.random.default_rng(seed).integers(0, 256, size, dtype=numpy.uint8)


def published(client):
    flushed = client.flush()
    assert flushed.complete and flushed.failed == 0


def test_what_was_set_is_read_on_the_same_host_and_on_the_other(ring, connect):
    here, there = connect(ring[0], 2), connect(ring[1], 2)
    space = here.space("model", "same and other host")
    pages = [page(1), page(2)]
    assert [r.status for r in here.set(space, ["a", "b"], pages)] == [Status.STORED] * 2
    published(here)
    for client, origin in [(here, Origin.OWN_HOST), (there, Origin.OTHER_HOST)]:
        read = [numpy.zeros(PAGE, numpy.uint8) for _ in pages]
        results = client.get(space, ["a", "b"], read)
        assert [(r.status, r.origin, r.length) for r in results] == [(Status.HIT, origin, PAGE)] * 2
        assert all((a == b).all() for a, b in zip(pages, read))


def test_a_page_of_two_parts_reads_back_as_one_piece(ring, connect):
    client = connect(ring[0])
    space = client.space("parts")
    whole = page(3)
    client.set(space, ["k"], [[whole[: PAGE // 4], whole[PAGE // 4 :]]])
    published(client)
    read = numpy.zeros(PAGE, numpy.uint8)
    assert client.get(space, ["k"], [read])[0].ok
    assert (read == whole).all()


def test_memory_is_a_tensor_an_array_a_buffer_or_an_address(ring, connect):
    torch = pytest.importorskip("torch")
    client = connect(ring[0])
    space = client.space("kinds of memory")
    whole = page(4)
    tensor = torch.from_numpy(whole.copy())
    kinds = {"array": whole, "bytes": whole.tobytes(), "tensor": tensor,
             "address": (whole.ctypes.data, PAGE), "view": memoryview(whole.tobytes())}
    for name, memory in kinds.items():
        assert client.set(space, [name], [memory])[0].ok, name
    published(client)
    into = {"array": numpy.zeros(PAGE, numpy.uint8), "bytearray": bytearray(PAGE),
            "tensor": torch.zeros(PAGE // 4, dtype=torch.int32)}
    for memory in into.values():
        assert all(r.ok for r in client.get(space, list(kinds), [memory] * len(kinds)))
    assert bytes(into["bytearray"]) == whole.tobytes() == into["tensor"].numpy().tobytes()


def test_numpy_s_integers_make_an_address_and_a_lone_number_is_no_memory(ring, connect):
    client = connect(ring[0])
    space, whole, read = client.space("numpy's integers"), page(16), numpy.zeros(PAGE, numpy.uint8)
    address, size = numpy.int64(whole.ctypes.data), numpy.int64(PAGE)
    halves = [(address, size // 2), (numpy.uint64(address + size // 2), numpy.uint32(size // 2))]
    assert all(r.ok for r in client.set(space, ["one", "two"], [(address, size), (address, int(size))]))
    assert client.set(space, ["parts"], [halves])[0].ok
    published(client)
    for key in ("one", "two", "parts"):
        read[:] = 0
        assert client.get(space, [key], [(numpy.int64(read.ctypes.data), size)])[0].length == PAGE
        assert (read == whole).all(), key
    for number in ([[address, size]], [address], [(whole, size)]):
        with pytest.raises(TypeError, match="is a number"):
            client.set(space, ["number"], number)
    assert client.exists(space, ["number"])[0].status == Status.NOT_FOUND


def test_memory_that_is_not_one_writable_piece_is_refused(ring, connect):
    torch = pytest.importorskip("torch")
    client = connect(ring[0])
    space = client.space("refused")
    for memory in [page(5)[::2], torch.zeros(4, 4).t()]:
        with pytest.raises((BufferError, ValueError)):
            client.set(space, ["k"], [memory])
    with pytest.raises((BufferError, ValueError)):
        client.get(space, ["k"], [b"read-only"])


def test_arguments_that_make_no_sense_are_exceptions(ring, connect):
    client = connect(ring[0])
    space = client.space("arguments")
    native = client.native
    for bad in [lambda: client.set(space, "one key", [page(6)]), lambda: client.set(space, [1], [page(6)]),
                lambda: client.get(space, ["a"], [[page(6)], [page(6)]]),
                lambda: client.get(space, ["a", "b"], [[page(6)], [page(6), page(6)]]),
                lambda: native.get([space], ["a"], [0], [16]), lambda: native.get([space], ["a"], [-1], [16]),
                lambda: native.get([space], ["a"], [4096], [1 << 33]),
                lambda: native.get([space], ["a"], [4096, 4096], [16]),
                lambda: native.get([space], ["a"], numpy.zeros(1, numpy.float64), [16])]:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            bad()


def test_addresses_may_be_an_array(ring, connect):
    client = connect(ring[0])
    space, whole = client.space("array of addresses"), page(7)
    addresses = numpy.array([whole.ctypes.data, whole.ctypes.data + PAGE // 2], numpy.uint64)
    sizes = numpy.full(2, PAGE // 2, numpy.int64)
    assert client.native.set([space], ["k"], addresses, sizes).ok == [True]
    published(client)
    read = numpy.zeros(PAGE, numpy.uint8)
    assert client.get(space, ["k"], [read])[0].ok and (read == whole).all()


def test_a_page_with_as_many_parts_as_layers_is_one_page(ring, connect):
    here, there = connect(ring[0], 2), connect(ring[1], 2)
    space, whole, parts = here.space("parts of layers"), page(8, 512 << 10), 512
    def cut(memory):
        return [list(numpy.split(memory, parts))]
    assert here.set(space, ["k"], cut(whole))[0].ok
    published(here)
    for client in (here, there):
        read = numpy.zeros_like(whole)
        assert client.get(space, ["k"], cut(read))[0].status == Status.HIT
        assert (read == whole).all()
    too_many = [[whole[:64]] * (parts + 1)]
    assert here.set(space, ["more"], too_many)[0].status == Status.BAD_SIZE


def test_the_leading_run_ends_at_the_first_gap(ring, connect):
    client = connect(ring[0])
    space = client.space("run")
    client.set(space, ["0", "1", "3"], [page(i, 4096) for i in range(3)])
    published(client)
    assert client.leading_run(space, ["0", "1", "2", "3"]) == 2
    assert [r.ok for r in client.exists(space, ["0", "1", "2", "3"])] == [True, True, False, True]


def test_a_chain_is_one_question_to_each_of_few_nodes(ring, connect):
    """The pages before the gap are held, those beyond it are found and not held, and each node is asked once."""
    writer, client = connect(ring[1], members=2), connect(ring[0], members=2)
    space = client.space("chain")
    keys = [str(i) for i in range(128)]
    writer.set(space, keys[:20] + keys[21:], [page(i % 251, 4096) for i in range(127)])
    published(writer)
    before = client.stats()["directory_messages"]
    found = client.native.exists([space], keys, None, 5.0, True)
    assert found.run == 20
    assert found.ok == [True] * 20 + [False] + [True] * 107
    assert found.held == [True] * 20 + [False] * 108
    assert client.stats()["directory_messages"] - before <= 2 + 2, "two owners, and the second one's opinion of the gap"
    assert client.stats()["exists_pages"] == {"hit": 127, "not_found": 1}
    assert sum(client.native.exists([space], keys, None, 5.0).held) == 127


def test_a_removed_page_is_gone(ring, connect):
    client = connect(ring[0])
    space = client.space("remove")
    client.set(space, ["k"], [page(9)])
    published(client)
    assert client.remove(space, ["k", "never"])[0].status == Status.HIT
    assert client.get(space, ["k"], [numpy.zeros(PAGE, numpy.uint8)])[0].status == Status.NOT_FOUND


def test_spaces_differ_in_each_field_and_in_their_borders(ring, connect):
    client = connect(ring[0])
    digests = {client.space(*fields).key_of("k")
               for fields in [("a", "b"), ("ab",), ("a", "b", ""), ("b", "a"), ("a",), ()]}
    assert len(digests) == 6


def test_a_client_that_waits_for_nobody_finds_its_node_later(fragile_ring):
    ring = fragile_ring(1)
    node = ring[0]
    options = node.options()
    node.kill()
    with peercache.Client(options, wait_for_node=False) as client:
        space, whole = client.space("later"), page(10)
        begin = time.monotonic()
        assert client.set(space, ["k"], [whole])[0].status == Status.UNREACHABLE
        assert time.monotonic() - begin < 10, "it did not wait for the node until client.timeout"
        ring.restart(0)
        assert until(lambda: client.set(space, ["k"], [whole])[0].ok)
        published(client)
        read = numpy.zeros(PAGE, numpy.uint8)
        assert client.get(space, ["k"], [read])[0].ok and (read == whole).all()


def test_a_cache_that_cannot_be_opened_says_why(ring):
    with pytest.raises(peercache.Error, match="there is no option `pool.sise`.*`pool.size`") as fault:
        peercache.Client({"pool.sise": 1})
    assert fault.value.code == "invalid argument"
    with pytest.raises(peercache.Error, match="no peercache-node answers") as fault:
        peercache.Client({"client.node_port": 1, "client.timeout": "200ms"})
    assert fault.value.code == "unreachable"
    with pytest.raises(peercache.Error):
        peercache.Client({**ring[0].options(), "cluster.name": "another", "client.timeout": "500ms"})


def test_an_embedded_node_is_a_node_that_others_join():
    ports = {f"net.{name}_port": 0 for name in ("control", "data", "http", "lookup")}
    small = {"pool.size": "16MiB", "cluster.name": "embedded-test", "log.level": "error", **ports}
    with peercache.Client({**small, "node.name": "one"}, embedded=True) as one:
        joined = {**small, "node.name": "two", "discovery.seeds": [one.node_address], "insecure_cluster": True}
        with peercache.Client(joined, embedded=True) as two:
            assert until(lambda: len(one.members()) == len(two.members()) == 2)
            space, whole = one.space("embedded"), page(11)
            one.set(space, ["k"], [whole])
            published(one)
            read = numpy.zeros(PAGE, numpy.uint8)
            assert two.get(space, ["k"], [read])[0].origin == Origin.OTHER_HOST
            assert (read == whole).all()


def test_after_close_every_page_is_closed(ring, connect):
    client = connect(ring[0])
    client.close()
    client.close()
    space = client.space("closed")
    assert client.closed
    for results in [client.set(space, ["k"], [page(12)]), client.exists(space, ["k"]),
                    client.get(space, ["k"], [numpy.zeros(PAGE, numpy.uint8)]), client.remove(space, ["k"])]:
        assert [r.status for r in results] == [Status.CLOSED]
    assert not client.flush().complete


def test_what_a_client_has_made_outlives_it(ring, connect):
    client, other = peercache.Client(ring[0].options()), connect(ring[0])
    space, whole, prefetched = client.space("outlives"), page(19), [str(i) for i in range(1000)]
    client.set(space, ["k"], [whole])
    results, native = client.exists(space, ["k"]), client.native.exists([space], ["k", "none"], None, None)
    client.prefetch(space, prefetched)
    client.close()
    client.prefetch(space, prefetched)
    assert [r.status for r in client.exists(space, ["k"])] == [Status.CLOSED]
    del client
    gc.collect()
    assert results[0].ok and results[0].length == PAGE and native.run == 1 and native.ok == [True, False]
    read = numpy.zeros(PAGE, numpy.uint8)
    assert other.get(space, ["k"], [read])[0].ok and (read == whole).all()
    assert space.key_of("k") == other.space("outlives").key_of("k")


def test_close_while_others_call_ends_their_calls_first(ring, connect):
    client = connect(ring[0])
    space, whole = client.space("close while calling"), page(13, 1 << 20)
    seen, began = [], threading.Event()

    def traffic():
        read = numpy.zeros_like(whole)
        while Status.CLOSED not in seen:
            seen.append(client.set(space, [str(len(seen))], [whole])[0].status)
            client.get(space, [str(len(seen))], [read])
            began.set()

    threads = [threading.Thread(target=traffic) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert began.wait(10)
    client.close()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def goes_on_during(call, node):
    """Makes a call that the frozen `node` delays. Returns whether another Python thread ran meanwhile; this thread
    thaws the node."""
    begun, went_on = threading.Event(), threading.Event()

    def other():
        assert begun.wait(10)
        for _ in range(10):
            time.sleep(0.001)  # Each sleep releases the GIL, which this thread must then get again.
        went_on.set()
        node.thaw()

    thread = threading.Thread(target=other)
    thread.start()
    node.freeze()
    begun.set()
    call()
    before_its_end = went_on.is_set()
    thread.join(10)
    return before_its_end


def test_other_threads_go_on_during_a_call(fragile_ring, connect):
    """Every call that can wait for a node must release the GIL."""
    node = fragile_ring(1)[0]
    node.hide_shard()
    client = connect(node)
    space, small = client.space("gil"), page(14)
    calls = {
        "exists": lambda: client.exists(space, ["none 1"]),
        "get": lambda: client.get(space, ["none 2"], [small]),
        "remove": lambda: client.remove(space, ["none 3"]),
        "tiers": lambda: client.native.tiers([space], ["none 4"]),
        "set and flush": lambda: client.set(space, ["k"], [small]) and client.flush(),
    }
    assert {name: goes_on_during(call, node) for name, call in calls.items()} == dict.fromkeys(calls, True)


def test_the_time_of_calls_is_counted(ring, connect):
    client = connect(ring[0])
    space, whole = client.space("times"), page(14, 1 << 20)
    before = client.native.call_times()
    for key in range(10):
        client.set(space, [str(key)], [whole])
    calls, seconds, released = (b - a for a, b in zip(before, client.native.call_times()))
    assert calls == 10 and 0 < released <= seconds


def test_stats_count_what_was_done(ring, connect):
    client = connect(ring[0])
    space = client.space("stats")
    client.set(space, ["k"], [page(15)])
    published(client)
    client.get(space, ["k", "none"], [numpy.zeros(PAGE, numpy.uint8)] * 2)
    stats = client.stats()
    assert stats["set_pages"] == {"stored": 1} and stats["set_bytes"] == PAGE
    assert stats["get_pages"] == {"hit": 1, "not_found": 1}
    assert stats["get_bytes"]["own_host"] == PAGE


def test_status_and_origin_have_the_words_of_the_library():
    from peercache import _native

    assert [s.name.lower() for s in Status] == _native.status_words[: len(Status)]
    assert _native.status_words[len(Status) :] == ["pending"]
    assert [o.name.lower() for o in Origin] == _native.origin_words


def some_memory(kind):
    """Returns memory of one kind, to register and to read into, and an array of its bytes."""
    array = numpy.zeros(PAGE, numpy.uint8)
    if kind == "tensor":
        return pytest.importorskip("torch").from_numpy(array), array
    return (array, array) if kind == "array" else ((array.ctypes.data, PAGE), array)


@pytest.mark.parametrize("kind", ["array", "tensor", "address"])
def test_registered_memory_is_read_into_and_given_back(ring, connect, kind):
    here, there = connect(ring[0], 2), connect(ring[1], 2)
    space, whole = here.space("registered", kind), page(17)
    here.set(space, ["k"], [whole])
    published(here)
    memory, array = some_memory(kind)
    for _ in range(3):
        there.register(memory)
        array[:] = 0
        assert there.get(space, ["k"], [memory])[0].ok and (array == whole).all()
        there.unregister(memory)


def test_what_is_no_host_memory_is_not_registered(ring, connect):
    torch = pytest.importorskip("torch")
    client = connect(ring[0])
    for memory, why in [(torch.zeros(8, 8).t(), "not contiguous"), (torch.zeros(8, device="meta"), "memory of meta")]:
        for call in (client.register, client.unregister):
            with pytest.raises(ValueError, match=why):
                call(memory)
    with pytest.raises(BufferError):
        client.register(b"read-only")
    client.close()
    with pytest.raises(ValueError, match="the client is closed"):
        client.register(page(18))


@pytest.mark.timed
def test_close_returns_when_the_calls_that_run_have_ended_and_they_end_at_once(fragile_ring, connect):
    node = fragile_ring(1)[0]
    node.hide_shard()
    client = connect(node)
    space, begun, ended = client.space("closed meanwhile"), threading.Semaphore(0), []

    def call(what):
        begun.release()
        ended.append(what())

    calls = [lambda: client.get(space, ["none"], [page(1)], timeout=30)[0].status,
             lambda: client.exists(space, ["none"], timeout=30)[0].status,
             lambda: client.remove(space, ["none"], timeout=30)[0].status]
    node.freeze()
    threads = [threading.Thread(target=call, args=[each]) for each in calls]
    for thread in threads:
        thread.start()
        begun.acquire()
    with late_watch() as watch:
        client.close()
    assert watch.seconds - watch.stalled < 1.5
    for thread in threads:
        thread.join()
    assert ended == [Status.CLOSED] * len(calls)
