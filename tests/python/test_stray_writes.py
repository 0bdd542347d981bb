"""Tests that a stray write of an engine into what its node believes ends that engine and nobody else."""

import errno
import json
import os
import signal
import subprocess
import sys

import numpy
import pytest
from local_nodes import until

SIZE = 64 << 10
ENGINE = """
import ctypes, json, os, sys
import numpy, peercache

client = peercache.Client(json.loads(sys.argv[1]))
space = client.space("stray")
assert client.set(space, ["engine's"], [numpy.full(65536, 7, numpy.uint8)])[0].ok
assert client.flush().complete

both = [line.split() for line in open("/proc/self/maps") if "/dev/shm/peercache" in line]
shard = [words for words in both if words[5].endswith(".shard")]
maps = [words for words in both if words not in shard]
read_only = [[int(end, 16) for end in words[0].split("-")] for words in maps if words[1] == "r--s"]
if len(sys.argv) > 2:
    ctypes.memset(read_only[int(sys.argv[2])][0], 0x5A, 4096)
    print("still here")
    sys.exit(1)

libc = ctypes.CDLL(None, use_errno=True)
protect = lambda begin, end: libc.mprotect(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), 3) and ctypes.get_errno()
pool = os.stat(maps[0][5])
sizable = []
for fd in map(int, os.listdir("/proc/self/fd")):
    try:
        if os.path.samestat(os.fstat(fd), pool):
            os.ftruncate(fd, pool.st_size)  # The size that it has, so that success harms nobody.
            sizable.append(fd)
    except OSError:
        pass
print(json.dumps({"rights": [words[1] for words in maps], "protected": [protect(*part) for part in read_only],
                  "shard": [protect(*(int(end, 16) for end in words[0].split("-"))) for words in shard],
                  "sizable": sizable}))
client.close()
"""


def engine(node, *place):
    """Runs an engine of the node that sets a page. Then it writes to its `place`-th read-only part of the pool, or, where
    there is none, tries to get the rights to write there, and to set the pool's size."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PEERCACHE_")}
    return subprocess.run([sys.executable, "-c", ENGINE, json.dumps(node.options()), *map(str, place)], env=clean,
                          stdout=subprocess.PIPE, text=True, timeout=60)


def pages(count):
    return [numpy.random.default_rng(i).integers(0, 256, SIZE, dtype=numpy.uint8) for i in range(count)]


def reads(client, space, names, wanted):
    into = [numpy.zeros(SIZE, numpy.uint8) for _ in names]
    return all(r.ok for r in client.get(space, names, into)) and all(map(numpy.array_equal, into, wanted))


def goes_on(node, clients, space, names, wanted):
    """Whether the node lives, and each client reads what was set, with its right bytes, and what the engine has set."""
    everything = [*names, "engine's"], [*wanted, numpy.full(SIZE, 7, numpy.uint8)]
    return node.process.poll() is None and all(until(lambda each=each: reads(each, space, *everything)) for each in clients)


@pytest.mark.parametrize(("part", "place"), [("header", 0), ("slot table", 1)])
def test_a_stray_write_ends_the_engine_and_all_others_read_on(fragile_ring, connect, part, place):
    ring = fragile_ring(2)
    others = [connect(ring[i], members=2) for i in (0, 1)]
    space, names, wanted = others[0].space("stray"), [f"{part} {i}" for i in range(20)], pages(20)
    assert all(r.ok for r in others[0].set(space, names, wanted))
    assert others[0].flush().complete
    ended = engine(ring[0], place)
    assert ended.returncode == -signal.SIGSEGV and "still here" not in ended.stdout
    assert goes_on(ring[0], [*others, connect(ring[0])], space, names, wanted)
    assert others[0].set(space, [f"{part} after"], wanted[:1])[0].ok, "the pool goes on"


def test_an_engine_can_neither_open_what_is_read_only_nor_set_the_pools_size(fragile_ring, connect):
    ring = fragile_ring(2)
    other = connect(ring[0], members=2)
    space, names, wanted = other.space("stray"), [f"whole {i}" for i in range(20)], pages(20)
    assert all(r.ok for r in other.set(space, names, wanted))
    assert other.flush().complete
    ended = engine(ring[0])
    assert ended.returncode == 0
    said = json.loads(ended.stdout)
    assert said["rights"] == ["r--s", "rw-s", "r--s", "rw-s"]
    assert said["protected"] == [errno.EACCES, errno.EACCES]
    assert said["shard"] == [errno.EACCES], "nor what is read-only of the directory's shard"
    assert said["sizable"] == []
    assert goes_on(ring[0], [other, connect(ring[0])], space, names, wanted)
