"""Tests of the calls of `mooncake.engine`: the numbers that they return, the bytes that they move, and engines that die
or freeze."""

import logging
import os
import random
import subprocess
import sys
import threading
import time

import pytest
from local_nodes import until
from peercache import transfer_engine
from transfer_peers import LOOPBACK, Memory, Peer, begun, session_of

MIB = 1 << 20
LOSS_SECONDS = 2.0
"""How long an engine may be silent before it counts as lost."""
MARGIN_SECONDS = 2.0
SEGMENTS = 10_000


@pytest.fixture(scope="module")
def engine():
    made = begun()
    yield made
    made.close()


@pytest.fixture
def memory(engine):
    """A function that makes memory which the engine has registered until the end of the test."""
    made = []

    def make(size, fill=0):
        made.append(Memory(size, fill))
        assert engine.register_memory(made[-1].address, size) == 0
        return made[-1]

    yield make
    for each in made:
        engine.unregister_memory(each.address)


@pytest.fixture
def peer():
    """A function that starts processes with a transfer engine each, which end with the test."""
    made = []

    def start(size):
        made.append(Peer(size))
        return made[-1]

    yield start
    for each in made:
        each.thaw()
        each.kill()


# -- tests of how programs find and start the engine

def test_programs_find_it_as_mooncake_engine():
    folder = subprocess.run([sys.executable, "-m", "peercache.transfer_engine"], capture_output=True, text=True,
                            check=True).stdout.strip()
    path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
    program = "from mooncake.engine import TransferEngine; print(TransferEngine.__module__)"
    said = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, capture_output=True,
                          text=True, check=True).stdout
    assert said.strip() == "peercache.transfer_engine"


@pytest.mark.parametrize("arguments, why", [
    ((LOOPBACK, "etcd://10.0.0.1:2379", "tcp", ""), "P2PHANDSHAKE"),
    ((LOOPBACK, "P2PHANDSHAKE", "nvlink", ""), "rdma or tcp"),
    (("192.0.2.1", "P2PHANDSHAKE", "tcp", ""), "PEERCACHE_INSECURE_CLUSTER=1"),
    (("0.0.0.0", "P2PHANDSHAKE", "tcp", ""), "address"),
    ((f"{LOOPBACK}:99999", "P2PHANDSHAKE", "tcp", ""), "host:port"),
])
def test_what_cannot_begin_says_why(arguments, why, caplog):
    made = transfer_engine.TransferEngine()
    assert made.initialize(*arguments) == -1
    assert why in caplog.text
    assert made.get_rpc_port() == 0
    assert made.register_memory(4096, 1) == -1
    assert made.transfer_sync_write("127.0.0.1:1", 4096, 4096, 1) == -1


def test_other_hosts_are_let_in_when_the_variable_says_so(monkeypatch, caplog):
    monkeypatch.setenv("PEERCACHE_INSECURE_CLUSTER", "1")
    made = transfer_engine.TransferEngine()
    made.initialize("192.0.2.1", "P2PHANDSHAKE", "tcp", "")  # Not this host's address, so bind fails.
    assert "PEERCACHE_INSECURE_CLUSTER" not in caplog.text


def test_rdma_without_a_device_is_tcp(monkeypatch):
    monkeypatch.setenv("MC_FORCE_TCP", "1")
    made = begun(protocol="rdma")
    assert made.native.data_plane.startswith("tcp")
    made.close()


@pytest.mark.parametrize("text, seconds", [(None, 30), ("60", 60), ("1", 5), ("soon", 5)])
def test_the_time_of_a_call_is_mooncake_s(text, seconds, monkeypatch):
    monkeypatch.delenv("MC_TRANSFER_TIMEOUT", raising=False)
    if text is not None:
        monkeypatch.setenv("MC_TRANSFER_TIMEOUT", text)
    assert transfer_engine.timeout_seconds() == seconds


@pytest.mark.parametrize("text, parts", [
    ("10.0.0.1", ("10.0.0.1", 0)), ("10.0.0.1:80", ("10.0.0.1", 80)), ("host-1:80", ("host-1", 80)),
    ("fd00::1", ("fd00::1", 0)), ("[fd00::1]", ("fd00::1", 0)), ("[fd00::1]:80", ("fd00::1", 80)),
])
def test_a_host_may_have_a_port(text, parts):
    assert transfer_engine.host_and_port(text) == parts


def test_a_port_that_was_asked_for_is_the_session_s():
    first = begun()
    port = first.get_rpc_port()
    first.close()
    again = begun(f"{LOOPBACK}:{port}")
    assert again.get_rpc_port() == port
    again.close()


# -- tests of registering memory

def test_memory_is_registered_once(engine):
    memory = Memory(4096)
    assert engine.register_memory(memory.address, 4096, "cpu:0") == 0
    assert engine.register_memory(memory.address, 4096) == -7
    assert engine.register_memory(memory.address + 4095, 1) == -7
    assert engine.register_memory(memory.address, 0) == -1
    assert engine.unregister_memory(memory.address + 1) == -3
    assert engine.unregister_memory(memory.address) == 0
    assert engine.unregister_memory(memory.address) == -3
    assert engine.register_memory(memory.address, 4096) == 0
    assert engine.unregister_memory(memory.address) == 0


def test_a_batch_is_registered_as_a_whole_or_not_at_all(engine):
    memory = Memory(3000)
    addresses = [memory.address, memory.address + 1000, memory.address + 1500]
    assert engine.batch_register_memory(addresses, [1000, 1000, 1000]) == -7
    assert engine.batch_register_memory(addresses[:1], [1000]) == 0
    assert engine.batch_register_memory(addresses, [1000]) == -1
    assert engine.batch_unregister_memory(addresses[:2]) == -3
    assert engine.unregister_memory(addresses[0]) == -3


def test_ten_thousand_pieces_of_memory_are_registered(engine, peer):
    other = peer(SEGMENTS * 16)
    memory = Memory(SEGMENTS * 16)
    memory.fill_at_random(1)
    addresses = [memory.address + 16 * i for i in range(SEGMENTS)]
    assert engine.batch_register_memory(addresses, [16] * SEGMENTS) == 0
    to = [other.address + 16 * i for i in range(SEGMENTS)]
    assert engine.batch_transfer_sync_write(other.session, addresses, to, [16] * SEGMENTS) == 0
    assert other.ask("memory.bytes.hex()") == memory.bytes.hex()
    assert engine.batch_unregister_memory(addresses) == 0
    assert engine.batch_transfer_sync_write(other.session, addresses[:1], to[:1], [16]) == -1


# -- tests of the bytes that calls move

def scattered(mine, theirs, count, seed):
    """Returns (addresses in `mine`, addresses in `theirs`, lengths) of pieces that do not overlap. In `theirs` the
    pieces are in random order."""
    chance = random.Random(seed)
    step = min(mine.size, theirs[1]) // count
    places = list(range(count))
    chance.shuffle(places)
    own = [mine.address + i * step for i in range(count)]
    others = [theirs[0] + place * step for place in places]
    return own, others, [chance.randint(1, step) for _ in range(count)]


def test_ten_thousand_segments_arrive_in_both_directions(engine, memory, peer):
    size = SEGMENTS * 64
    mine, other = memory(size), peer(size)
    mine.fill_at_random(2)
    own, others, lengths = scattered(mine, (other.address, size), SEGMENTS, 3)
    assert engine.batch_transfer_sync_write(other.session, own, others, lengths) == 0
    there = bytes.fromhex(other.ask("memory.bytes.hex()"))
    for at, to, length in zip(own, others, lengths):
        at, to = at - mine.address, to - other.address
        assert there[to:to + length] == mine.bytes[at:at + length]
    sent = bytes(mine.bytes)
    mine.fill(0)
    assert engine.batch_transfer_sync_read(other.session, own, others, lengths) == 0
    for at, length in zip(own, lengths):
        at -= mine.address
        assert mine.bytes[at:at + length] == sent[at:at + length]
    assert mine.bytes.count(0) >= size - sum(lengths), "nothing else was written"


def test_one_large_piece_arrives(engine, memory, peer):
    mine, other = memory(40 * MIB), peer(40 * MIB)
    mine.fill_at_random(4)
    assert engine.transfer_sync_write(other.session, mine.address, other.address, mine.size, "tcp") == 0
    copy = memory(40 * MIB)
    assert engine.transfer_sync_read(other.session, copy.address, other.address, copy.size) == 0
    assert copy.bytes == mine.bytes


def test_the_other_engine_may_be_of_the_same_process_and_of_ipv6(memory, engine):
    other = begun("::1")
    there = Memory(4096)
    assert other.register_memory(there.address, 4096) == 0
    mine = memory(4096)
    mine.fill_at_random(5)
    assert engine.transfer_sync_write(session_of(other, "[::1]"), mine.address, there.address, 4096) == 0
    assert there.bytes == mine.bytes
    other.close()


def test_only_registered_memory_is_touched(engine, memory, peer, caplog):
    mine, other = memory(4096, 7), peer(4096)
    secret = other.ask("(globals().update(secret=Memory(4096, 9)), secret.address)[1]")
    pieces = [mine.address, mine.address + 8], [other.address, secret], [8, 8]
    assert engine.batch_transfer_sync_write(other.session, *pieces) == -1
    assert engine.batch_transfer_sync_read(other.session, *pieces) == -1
    assert "registered" in caplog.text
    assert other.ask("[secret.only(9), memory.only(0)]") == [True, True]
    assert mine.only(7)
    unregistered = Memory(16)
    assert engine.transfer_sync_write(other.session, unregistered.address, other.address, 16) == -1
    assert engine.transfer_sync_read(other.session, unregistered.address, other.address, 16) == -1
    assert engine.batch_transfer_sync_write(other.session, [mine.address], [], [8]) == -1
    assert engine.transfer_sync_write("nonsense", mine.address, other.address, 8) == -1
    assert engine.transfer_sync_write(other.session, mine.address, other.address, 8) == 0, "it still works"


def test_calls_that_do_not_wait_have_numbers(engine, memory, peer):
    mine, other = memory(4 * MIB), peer(4 * MIB)
    mine.fill_at_random(6)
    write = engine.batch_transfer_async_write(other.session, [mine.address], [other.address], [mine.size])
    assert write > 0
    assert engine.get_batch_transfer_status([write]) == 0
    assert engine.get_batch_transfer_status([write]) == -1, "its result was given already"
    copy = memory(4 * MIB)
    read = engine.batch_transfer_async_read(other.session, [copy.address], [other.address], [copy.size])
    failing = engine.batch_transfer_async_write(other.session, [mine.address], [8], [8])
    assert engine.get_batch_transfer_status([read, failing]) == -1
    assert copy.bytes == mine.bytes
    assert engine.batch_transfer_async_write(other.session, [8], [other.address], [8]) == 0
    one = engine.transfer_submit_write(other.session, mine.address, other.address, mine.size)
    assert one > 0
    answers = []
    assert until(lambda: answers.append(engine.transfer_check_status(one)) or answers[-1] != 0)
    assert answers[-1] == 1
    assert engine.transfer_check_status(one) == -1
    assert engine.transfer_submit_write(other.session, 8, other.address, 8) == -1


# -- tests of engines that die or stand still

def timed(call):
    begin = time.monotonic()
    return call(), time.monotonic() - begin


@pytest.mark.timed
def test_a_dead_engine_is_told_at_once(engine, memory, peer):
    mine, other = memory(32 * MIB), peer(32 * MIB)
    assert engine.send_probe(other.session) == 0
    killer = threading.Timer(0.005, other.process.kill)
    killer.start()
    assert until(lambda: engine.transfer_sync_write(other.session, mine.address, other.address, mine.size) == -1)
    killer.join()
    for call in (lambda: engine.transfer_sync_write(other.session, mine.address, other.address, 8),
                 lambda: engine.transfer_sync_read(other.session, mine.address, other.address, 8),
                 lambda: engine.send_probe(other.session)):
        code, seconds = timed(call)
        assert code == -1
        assert seconds < LOSS_SECONDS + MARGIN_SECONDS


@pytest.mark.timed
@pytest.mark.parametrize("direction", ["write", "read"])
def test_a_frozen_engine_is_lost_and_comes_back(direction, engine, memory, peer):
    mine, other = memory(MIB), peer(MIB)
    call = getattr(engine, f"transfer_sync_{direction}")
    assert call(other.session, mine.address, other.address, mine.size) == 0
    other.freeze()
    code, seconds = timed(lambda: call(other.session, mine.address, other.address, mine.size))
    assert code == -1
    assert seconds < LOSS_SECONDS + MARGIN_SECONDS
    other.thaw()
    assert until(lambda: call(other.session, mine.address, other.address, mine.size) == 0)


@pytest.mark.timed
def test_the_gil_is_free_while_a_call_waits(engine, memory, peer):
    mine, other = memory(8), peer(8)
    other.freeze()
    waiting = threading.Thread(target=engine.transfer_sync_write, args=[other.session, mine.address, other.address, 8])
    before = engine.native.stats()["failed"]
    waiting.start()
    assert until(lambda: engine.native.stats()["calls"] == 1), "this thread runs in the middle of the call"
    assert engine.native.stats()["failed"] == before
    waiting.join()


# -- tests of what may happen after the end of a call

@pytest.mark.timed
def test_nothing_arrives_after_a_read_has_returned(engine, memory, peer):
    """The other engines are frozen in the middle of the data, and go on long after the call has returned."""
    mine, other = memory(32 * MIB), peer(32 * MIB)
    assert other.ask("memory.fill(5)") is None
    cut = 0
    for round_ in range(4):
        mine.fill(0)
        freezer = threading.Timer(0.002 * (1 + round_), other.freeze)
        freezer.start()
        cut += engine.transfer_sync_read(other.session, mine.address, other.address, mine.size) != 0
        freezer.join()
        mine.fill(1)
        other.thaw()
        assert until(lambda: engine.send_probe(other.session) == 0)
        assert mine.only(1)
    assert cut > 0


@pytest.mark.timed
def test_nothing_arrives_after_a_write_has_returned(engine, memory, peer):
    """The writer ends its calls in the middle, by unregistering their source."""
    mine, other = memory(32 * MIB), peer(32 * MIB)
    cut = 0
    for round_ in range(6):
        mine.fill(5)
        ender = threading.Timer(0.003 * round_, engine.unregister_memory, [mine.address])
        ender.start()
        cut += engine.transfer_sync_write(other.session, mine.address, other.address, mine.size) != 0
        assert other.ask("memory.fill(1)") is None
        ender.join()
        assert engine.register_memory(mine.address, mine.size) == 0
        assert engine.send_probe(other.session) == 0
        assert other.ask("memory.only(1)")
    assert cut > 0


@pytest.mark.timed
def test_nothing_arrives_in_memory_that_is_no_longer_registered(engine, peer):
    mine, other = Memory(32 * MIB), peer(32 * MIB)
    session = session_of(engine)
    assert other.ask("memory.fill(5)") is None
    met = 0
    for round_ in range(6):
        mine.fill(1)
        assert engine.register_memory(mine.address, mine.size) == 0
        other.tell(f"engine.transfer_sync_write({session!r}, memory.address, {mine.address}, memory.size)")
        end = time.monotonic() + 20
        while mine.bytes[mine.size * round_ // 6] != 5:  # Without a pause, which might last longer than the write.
            assert time.monotonic() < end
        assert engine.unregister_memory(mine.address) == 0
        met += not mine.only(5)
        mine.fill(1)
        assert other.told() in (0, -1)
        assert mine.only(1)
    assert met > 0, "the memory was taken back in the middle of a write"


# -- tests of the end of the process

ENDS = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from transfer_peers import Memory, begun
engine, memory = begun(), Memory(1 << 20)
assert engine.register_memory(memory.address, memory.size) == 0
def work():
    while True:
        engine.transfer_sync_write(sys.argv[2], memory.address, int(sys.argv[3]), memory.size)
for _ in range(8):
    threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
sys.exit(7)
"""


@pytest.mark.timed
@pytest.mark.parametrize("state", ["running", "frozen", "killed"])
def test_a_process_ends_with_its_own_status_in_the_middle_of_calls(state, peer):
    other = peer(MIB)
    process = subprocess.Popen([sys.executable, "-c", ENDS, os.path.dirname(__file__), other.session,
                                str(other.address)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    if state == "frozen":
        other.freeze()
    if state == "killed":
        other.kill()
    begin = time.monotonic()
    _, said = process.communicate("end\n", timeout=30)
    assert process.returncode == 7
    assert time.monotonic() - begin < LOSS_SECONDS + MARGIN_SECONDS
    assert "terminate called" not in said and "Fatal Python error" not in said


def test_a_child_has_an_engine_that_is_closed(engine, memory, peer):
    mine, other = memory(8), peer(8)
    child = os.fork()
    if child == 0:
        logging.disable()
        codes = (engine.transfer_sync_write(other.session, mine.address, other.address, 8),
                 engine.unregister_memory(mine.address), engine.send_probe(other.session))
        os._exit(0 if codes == (-1, -1, -1) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert engine.transfer_sync_write(other.session, mine.address, other.address, 8) == 0
