"""KV events in the simulator: random clusters of the product's own directory, membership and pools, with random kills,
partitions and removals in simulated time (tests/scenario/paced), and an engine at each host, whose events come from the
package's own rounds. The union of the events is what `exists` says.

PEERCACHE_EVENT_SEEDS=1000 runs a thousand seeds instead of a few.
"""

import contextlib
import json
import os
import random
import subprocess

import pytest
from peercache.kv_events import EventSettings, block_hash
from peercache.kv_events.journal import Journal
from peercache.kv_events.messages import Stored
from peercache.kv_events.publisher import CLUSTER, HOST
from peercache.kv_events.rounds import EngineFacts, Rounds
from peercache.kv_events.service import ASK_SECONDS

PROGRAM = os.environ.get("PEERCACHE_TEST_PACED_CLUSTER")
SEEDS = int(os.environ.pop("PEERCACHE_EVENT_SEEDS", 24))
PARTS = 4

KEYS = 48
STEP_MS = 100
FAULTS_MS, SET_MS, REMOVE_MS, END_MS = 20_000, 28_000, 35_000, 45_000
"""When the faults end, when pages are set and removed once more, and when the run ends."""
SOON_SECONDS = 2.0
"""The bar: for less than this the events say something else than `exists`."""
CHECK_SECONDS, STALE_SECONDS = 0.15, 1.0

pytestmark = pytest.mark.skipif(not PROGRAM, reason="the simulator is not built")


class Cluster:
    """A simulated cluster. Its answer to `run` has: "hosts", by name null (not running) or "inc" (the process), "side"
    (the processes of all hosts that this one reaches; empty unless they have one view and a network without faults) and
    "exists" (for each key the hosts that a client finds to have it; "?": nobody could say; null: no answer came during
    this run); "sets", pairs of host and key of
    successful sets, and "mirrors", those of pages that were read from another host; "answers", by host the tiers of the keys that its engine has asked about, or null; "disputed", the keys of
    whose page not all shards that know it know the same holders (until producers compare their pages with them)."""

    def __init__(self, seed):
        self.process = subprocess.Popen([PROGRAM, str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def say(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")

    def run(self, milliseconds):
        self.say("run", milliseconds)
        return json.loads(self.process.stdout.readline())

    def close(self):
        """Ends the cluster; AssertionError when the simulator's own oracle has found a fault."""
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait() == 0, "the simulator has found a fault, or died"


def key_of(number):
    """The page hash of a key: its number is the block's hash."""
    return f"{number:016x}" + "0" * 48


class Engine:
    """An engine with its events, and a subscriber that hears them. It may crash; then the next one begins with its
    journal, and with the subscriber's table or, when the subscriber hears that all is cleared, without."""

    def __init__(self, journal, attribution):
        self.settings = EventSettings("", check_s=CHECK_SECONDS, stale_s=STALE_SECONDS, attribution=attribution,
                                      journal=str(journal))
        self.table, self.asked, self.inc = set(), None, None
        self.start(0.0, hears_clear=True)

    def start(self, now, hears_clear):
        with contextlib.closing(Journal(self.settings.journal, self.settings.blocks_max)) as journal:
            self.past = {block.hash for block in journal.read()}
        self.rounds, self.asked, self.begun = Rounds(self.settings, EngineFacts([None], 1, lambda _: ())), None, now
        self.was_set = set(self.past)
        self.rounds.recall(now)
        self.table = set() if hears_clear else self.table

    def crash(self, now, hears_clear):
        self.rounds.close()
        self.start(now, hears_clear)

    def set(self, number):
        self.rounds.stored([key_of(number)], [True], None)
        self.was_set.add(number)

    def read(self, number):
        self.rounds.read([key_of(number)], [True], None)

    def begin(self, now):
        """Begins a round, unless one waits for its answer. Returns the numbers of the keys to ask about."""
        if self.asked is not None:
            return []
        self.asked, self.begun = self.rounds.begin(now), now
        numbers = [block_hash(key) for key in self.asked]
        if not numbers:
            self.end(None)
        return numbers

    def end(self, tiers):
        if self.asked is not None:
            asked, self.asked = self.asked, None
            self.take(self.rounds.end(asked, None if tiers is None else bytes(tiers), self.begun))

    def take(self, events):
        for event in events:
            if isinstance(event, Stored):
                self.table.add((event.block.hash, event.medium))
            else:
                for block in event.blocks:
                    assert (block.hash, event.medium) in self.table or block.hash in self.past, "it was not announced"
                    self.table.discard((block.hash, event.medium))

    def announced(self):
        return {block for block, _ in self.table}


class Judge:
    """Compares the events with `exists`, key by key, among hosts that reach each other and have one view: what clients of
    all of them find, the events may contradict for less than SOON_SECONDS. Blocks attributed by cluster: whether any host
    has the page, and any engine announces it; by host: whether this host has it, and its engine announces it. An engine
    whose node does not run announces nothing after a while."""

    def __init__(self, attribution):
        self.of_host, self.wrong_since, self.answered, self.yes, self.no = attribution == HOST, {}, set(), 0, 0
        self.down_since, self.down, self.in_faults = {}, 0, 0

    def look(self, now, happened, engines):
        hosts, sides, wrong = happened["hosts"], {}, {}
        for name, host in hosts.items():
            if host and host["side"] and name in engines:
                sides.setdefault(host["side"], []).append(name)
        # Which holders a client finds of a disputed key is a matter of whom it asks; whether there are any is not.
        left_out = set(happened["disputed"]) if self.of_host else set()
        said = [(side, names, number, found) for side, names in sides.items()
                for number, found in enumerate(zip(*[hosts[name]["exists"] or () for name in names])) if "?" not in found]
        self.answered = {number for _, _, number, _ in said}
        for side, names, number, found in said:
            if number in left_out:
                continue
            for group in [(name,) for name in names] if self.of_host else [tuple(names)]:
                there = {group[0] in holders.split() if self.of_host else holders != "" for holders in found}
                if len(there) == 1 and self.contradicts(number, there.pop(), [engines[name] for name in group]):
                    wrong[side, number, group] = self.wrong_since.get((side, number, group), now)
        self.wrong_since = wrong
        late = {number for (_, number, _), since in wrong.items() if now - since >= SOON_SECONDS}
        assert not late, f"{now:.1f} s: the events about {late} have been wrong for {SOON_SECONDS} s"
        self.look_at_the_lonely(now, hosts, engines)

    def look_at_the_lonely(self, now, hosts, engines):
        """Checks the engines whose nodes do not run."""
        down = [name for name, host in hosts.items() if not host and name in engines]
        self.down_since = {name: self.down_since.get(name, now) for name in down}
        for name, since in self.down_since.items():
            if now - since >= STALE_SECONDS + ASK_SECONDS + SOON_SECONDS:
                assert not engines[name].table, f"{now:.1f} s: nobody has answered the engine of {name} since {since:.1f} s"
                self.down += 1

    def contradicts(self, number, there, engines):
        """Whether the events of these engines, together, say something else of a page than that it is there or not."""
        announced = any(number in engine.announced() for engine in engines)
        self.yes += there and announced
        self.no += not there and not announced
        return announced != there and (announced or any(number in engine.was_set for engine in engines))


def play(cluster, folder, numbers, attribution):
    """Plays the engines of a cluster until some time after its faults. Returns the judge."""
    judge, engines = Judge(attribution), {}
    for now_ms in range(STEP_MS, END_MS, STEP_MS):
        if now_ms == FAULTS_MS:
            cluster.say("calm")
            judge.in_faults = judge.yes + judge.no
        if now_ms == SET_MS:
            for name in engines:
                cluster.say("set", name, *numbers.sample(range(KEYS), KEYS // 4))
        if now_ms == REMOVE_MS:
            cluster.say("remove", "node1", *numbers.sample(range(KEYS), KEYS // 3))
        happened, now = cluster.run(STEP_MS), now_ms / 1000
        judge.look(now, happened, engines)  # Compares this step's findings with the events until then.
        for name, host in happened["hosts"].items():
            if name not in engines:
                engines[name] = Engine(folder / name, attribution)
            engine = engines[name]
            if host and host["inc"] != engine.inc:
                if engine.inc and attribution == CLUSTER and numbers.random() < 0.3:
                    engine.crash(now, hears_clear=numbers.random() < 0.5)
                engine.inc = host["inc"]
        for name, tiers in happened["answers"].items():
            engines[name].end(tiers)
        for name, number in happened["sets"]:
            engines[name].set(number)
        for name, number in happened["mirrors"]:
            engines[name].read(number)
        for name, engine in engines.items():
            keys = engine.begin(now)
            if keys:
                cluster.say("ask", name, *keys)
    for engine in engines.values():
        engine.rounds.close()
    return judge


def judged(seed, folder):
    """Plays a seed's cluster. Errors: AssertionError, with the seed."""
    try:
        with contextlib.closing(Cluster(seed)) as cluster:
            judge = play(cluster, folder, random.Random(seed), (CLUSTER, HOST)[seed // PARTS % 2])
        assert judge.yes and judge.no, f"{judge.yes} and {judge.no} comparisons"
        assert len(judge.answered) == KEYS, f"at the end `exists` answers for {len(judge.answered)} keys"
        return judge
    except Exception as why:
        raise AssertionError(f"seed {seed}: {why}") from why


@pytest.mark.parametrize("part", range(PARTS))
def test_the_union_of_events_is_what_exists_says(tmp_path, part):
    judges = []
    for seed in range(1 + part, SEEDS + 1, PARTS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        judges.append(judged(seed, folder))
    assert any(judge.in_faults for judge in judges), "no side was whole before the faults ended"
    assert any(judge.down for judge in judges), "no node was down for long"
