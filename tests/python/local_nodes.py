"""Starts real nodes (processes of the built peercache-node) on loopback for the Python tests, and measures stalls of
the machine."""

import contextlib
import ctypes
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import time
import urllib.request

PROGRAM = os.environ.get(
    "PEERCACHE_TEST_NODE_PROGRAM",
    str(pathlib.Path(__file__).parents[2] / "build/release/cli/peercache-node"),
)
READY = re.compile(r"ready control=(\d+) data=(\d+) http=(\d+) pid=(\d+)")
START_SECONDS = 30
LATE_SECONDS = 0.05
"""Seconds that a call may take beyond its deadline."""
PR_SET_PDEATHSIG = 1

BEAT_SECONDS, STALL_SECONDS = 0.005, 0.015
CONTROL = f"""
import select, sys, time
last, ended, stalls = time.monotonic(), False, []
print("ready", flush=True)
while not ended:
    ended = bool(select.select([sys.stdin], [], [], {BEAT_SECONDS})[0])
    now = time.monotonic()
    if now - last > {STALL_SECONDS}:
        stalls.append(f"{{last}} {{now}}")
    last = now
print(*stalls, sep="\\n", end="")
"""
"""The program of a watch's control, a process that runs until its input ends and wants to wake every few
milliseconds."""


def until(condition, seconds=10.0):
    """Waits until `condition()` is true. Returns false when it was not within `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())


class StallWatch:
    """Times that `late_watch` has measured, by time.monotonic()."""

    def __init__(self, control):
        self._control, self._stalls = control, []
        self.begin = self.end = time.monotonic()

    def stop(self):
        self.end = time.monotonic()
        lines, _ = self._control.communicate()
        self._stalls = [[float(each) for each in line.split()] for line in lines.splitlines()]

    @property
    def seconds(self):
        """Returns the seconds that the `with` block took."""
        return self.end - self.begin

    @property
    def stalls(self):
        """Returns when the machine stood still during the `with` block, as (begin, end) pairs; known once the block has
        ended."""
        return self._stalls

    @property
    def stalled(self):
        """Returns for how many seconds the machine stood still during the `with` block."""
        return self.stood_still(self.begin, self.end)

    def stood_still(self, begin, end):
        """Returns for how many seconds the machine stood still between `begin` and `end`, for example during one call;
        known once the `with` block has ended."""
        return sum(max(0.0, min(to, end) - max(last, begin)) for last, to in self._stalls)


@contextlib.contextmanager
def late_watch():
    """Measures a `with` block, so that a test can judge whether a call returned in time although the machine itself
    may stand still meanwhile, which is nobody's fault:

        with late_watch() as watch:
            call(timeout=deadline)
        assert watch.seconds < deadline + LATE_SECONDS + watch.stalled

    The control that notices stalls (it oversleeps by 10 ms or more) is a process: as a thread it would wait for the
    GIL, and count as a stall what is a call's fault. So time in which this process holds the GIL is lateness, also
    when the test's own threads hold it. Two stalls are not noticed, and so count as lateness too: that of one processor
    while the control has another, and that of a thread that waits for its turn while the control gets its own at once.
    """
    control = subprocess.Popen([sys.executable, "-E", "-S", "-c", CONTROL], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert control.stdout.readline() == "ready\n"
    watch = StallWatch(control)
    try:
        yield watch
    finally:
        watch.stop()


def _die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class LocalNode:
    """A process of peercache-node, which is killed when the fixture that made it, or this process, ends."""

    def __init__(self, folder, name, cluster, pool="64MiB", seeds=(), flags=()):
        self.name, self.cluster, self.pool = name, cluster, pool
        self.folder = pathlib.Path(folder)
        self.flags = list(flags)
        self.ports = ("0", "0", "0")
        self.process = None
        self.start(seeds)

    def start(self, seeds=()):
        control, data, http = self.ports
        words = [PROGRAM, "--no-pool-keep", "--node-name", self.name, "--cluster-name", self.cluster,
                 "--pool-size", self.pool, "--net-control-port", control,
                 "--net-data-port", data, "--net-http-port", http, *self.flags]
        if seeds:
            words += ["--insecure-cluster", "--discovery-seeds", ",".join(seeds)]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PEERCACHE_")}
        with open(self.folder / f"{self.name}.log", "ab") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=log, env=clean, preexec_fn=_die_with_parent)
        self.ports = self._read_ports()

    def _read_ports(self):
        readable, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        line = self.process.stdout.readline().decode() if readable else ""
        ready = READY.match(line)
        if not ready:
            log = (self.folder / f"{self.name}.log").read_text()
            raise RuntimeError(f"{self.name} did not start: {line!r}\n{log[-2000:]}")
        return ready[1], ready[2], ready[3]

    @property
    def address(self):
        return f"127.0.0.1:{self.ports[0]}"

    def options(self, **more):
        """Returns the options of a client of this node, in the form of SGLang's extra config (JSON)."""
        return {"client.node_port": int(self.ports[0]), "cluster.name": self.cluster,
                "client.timeout": "10s", "log.level": "error", **more}

    def metric(self, name):
        """Returns the current value of a metric without labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[2]}/metrics", timeout=5) as answer:
            series = answer.read().decode()
        return float(re.search(rf"^{name} (\S+)$", series, re.MULTILINE)[1])

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def hide_shard(self):
        """Lets clients that connect from now on ask the node, instead of reading its shard's memory: only a call that
        asks waits for a frozen node."""
        maps = pathlib.Path(f"/proc/{self.process.pid}/maps").read_text().splitlines()
        for path in {line.split()[5] for line in maps if line.endswith(".shard")}:
            pathlib.Path(path).unlink()

    def freeze(self):
        """Sends SIGSTOP, and waits until every thread of the node has really stopped."""
        self.process.send_signal(signal.SIGSTOP)
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        assert until(lambda: all(
            (task / "stat").read_text().rpartition(")")[2].split()[0] == "T" for task in tasks.iterdir()))

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)


class Ring:
    """Nodes of one cluster; the constructor returns when all nodes are in the views of all. `flags_of(name)` returns
    further flags of the node `name`."""

    def __init__(self, folder, count, cluster, flags_of=None, **options):
        self.nodes = []
        for index in range(count):
            seeds = [self.nodes[0].address] if self.nodes else []
            name = f"node-{index + 1}"
            own = {"flags": flags_of(name)} if flags_of else {}
            self.nodes.append(LocalNode(folder, name, cluster, seeds=seeds, **own, **options))

    def __getitem__(self, index):
        return self.nodes[index]

    def __len__(self):
        return len(self.nodes)

    def stop(self):
        for node in self.nodes:
            node.kill()

    def restart(self, index):
        self.nodes[index].start([node.address for node in self.nodes])
