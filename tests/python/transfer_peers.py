"""Helpers for tests of transfer engines: memory, and processes with an engine that evaluate expressions for a test."""

import json
import os
import signal
import subprocess
import sys

from peercache import _native, transfer_engine

LOOPBACK = "127.0.0.1"


class Memory:
    """Memory with a known address."""

    def __init__(self, size, fill=0):
        self.bytes = bytearray([fill]) * size
        self._lent = _native.LentMemory()
        self.address, self.size = self._lent.lend(self.bytes, True)

    def fill(self, value):
        self.bytes[:] = bytes([value]) * self.size

    def fill_at_random(self, seed):
        import random
        self.bytes[:] = random.Random(seed).randbytes(self.size)

    def only(self, value):
        return self.bytes.count(value) == self.size


def begun(hostname=LOOPBACK, protocol="tcp"):
    """Returns an engine that has been initialized."""
    engine = transfer_engine.TransferEngine()
    assert engine.initialize(hostname, "P2PHANDSHAKE", protocol, "") == 0
    return engine


def session_of(engine, host=LOOPBACK):
    return f"{host}:{engine.get_rpc_port()}"


PEER = """
import json, sys, threading
sys.path.insert(0, sys.argv[1])
from transfer_peers import Memory, begun, session_of
engine = begun(protocol=sys.argv[3])
memory = Memory(int(sys.argv[2]))
assert engine.register_memory(memory.address, memory.size) == 0
print(json.dumps([session_of(engine), memory.address]), flush=True)
for line in sys.stdin:
    print(json.dumps(eval(line)), flush=True)
"""


class Peer:
    """A process with an engine, and `size` bytes of memory that it has registered."""

    def __init__(self, size, protocol="tcp"):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PEER, os.path.dirname(os.path.abspath(__file__)), str(size), protocol],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.session, self.address = json.loads(self.process.stdout.readline())

    def tell(self, expression):
        """Makes the process evaluate an expression about its `engine` and `memory`. Does not wait for the result."""
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()

    def told(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, expression):
        self.tell(expression)
        return self.told()

    def freeze(self):
        """Stops the process; when it returns, none of its threads runs."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.communicate()
