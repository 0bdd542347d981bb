#!/usr/bin/env python3
"""Judges what a run of the cache recorded: whether a hit was wrong, a call came back too late, or a process
went back to an older view. It shares no code with the product, the simulator, its oracle or the client: the
history is text, and this file needs Python's standard library only.

    scripts/check_history.py [--allowed-ms 50] [--if-recorded] FILE...

Exit code: 0 all histories are good, 1 something was wrong or a file is not a history, 2 usage, 77 with
--if-recorded where there is no such file (the run was skipped). The last line of each file's report is
"FILE: good: ..." or "FILE: N faults".

Who records: the simulator into the folder that PEERCACHE_SCENARIO_HISTORY names, a file for each run;
scripts/chaos --history FILE. Both write through tests/support/history.hpp.

FORMAT. One event a line, its columns apart by one blank; empty lines and lines that begin with "#"
count not. The first event is "history 1", the last one "end", so that a file which was cut off is
not a history. The other events may stand in any order, with two exceptions: a call begins before
its hits and its return, and events of one process at one time stand in the order in which they
happened. Times are whole microseconds since any beginning. PROCESS, KEY, CALL, VERSION, CONTENT are
words that are only compared.

    history 1                                      the version of this format
    put    AT PROCESS KEY VERSION LENGTH CONTENT   from AT on the process may show these bytes under the key: a
                                                   producer's call has begun
    hold   AT PROCESS KEY VERSION LENGTH CONTENT   the process says that it has these bytes in
                                                   place; said again when a page came from a disk
    drop   AT PROCESS KEY                          the process no longer has a page of the key
    ask    CALL AT DEADLINE PROCESS KIND           a call (get, set, exists, remove, flush) began
    hit    CALL KEY VERSION LENGTH CONTENT HOLDER  the call gave these bytes as the key's. HOLDER: the process in whose
                                                   memory they were; "-": the reader was not told
    return CALL AT                                 the call is back
    view   AT PROCESS TERM VERSION ISSUER MEMBERS  the process lives in this view now. MEMBERS: names of processes,
                                                   apart by commas; "-": none
    stall  FROM TO PROCESS                         the process got no processor; "*": nobody did
    clear  FROM TO SPACE                           a clear of all keys SPACE/... began at FROM and
                                                   was certain at TO
    gone   AT PROCESS                              the process has ended, and with it its calls
    end    AT                                      nothing was recorded after this

VERSION is what the bytes themselves say that they are (their first 8 bytes), CONTENT a digest of all of
them, LENGTH their number.

WHAT IS WRONG

    a hit    - of a version that nobody put under that key, or not before the call was back;
             - whose bytes are none that were put or held as that version and length;
             - whose bytes differ from another hit's of the same key, version and length;
             - whose HOLDER never had that version, or had it at no moment between the call's begin and its
               return (where a process records what it holds);
             - of a call that began after a clear of the key's space was certain, when all puts of the version
               began before that clear did.
             After a remove, or when another holder still has a copy, an older version is not a fault: a miss is
             always allowed, and so are any bytes that were put under the key and not cleared.
    a call   that is back later than its deadline and the allowed time, or was not back by then though its process
             lived. The time for which the process stood still between deadline and return is taken off.
    a view   whose stamp (term, version, issuer) is lower than the process had before. A view that shares no member
             with the one before is another cluster's: the clients of a node that was cut off on its own see that.
             Two views of one stamp have the same members.
"""
import argparse
import collections
import os
import sys

FORMAT_VERSION = "1"
SKIPPED = 77
SHOWN_MAX = 20

COLUMNS = {"put": 6, "hold": 6, "drop": 3, "ask": 5, "hit": 6, "return": 2, "view": 6, "stall": 3, "clear": 3,
           "gone": 2, "end": 1}


class NoHistory(Exception):
    """Raised when the text is not of this format, or is cut off."""


class Call:
    """A call into the cache, and the hits that it gave."""

    def __init__(self, began, deadline, process, kind):
        self.began, self.deadline, self.process, self.kind = began, deadline, process, kind
        self.returned = None
        self.hits = []


class History:
    """All events of one file, by kind and then by the key, process or version for which the checks look them up."""

    def __init__(self, lines):
        self.puts = collections.defaultdict(list)  # begins of put calls: (key, version) -> [(at, process)]
        self.contents = collections.defaultdict(set)  # bytes that were put or held: (key, version, length) -> contents
        self.put_under = collections.defaultdict(set)  # keys that a version was put under: version -> keys
        # versions that processes held: (process, key) -> [(at, version or None for a drop)]
        self.holds = collections.defaultdict(list)
        self.holders = set()  # names of the processes that record their holds
        self.calls = {}
        self.views = collections.defaultdict(list)  # views that a process lived in: process -> [(at, stamp, members)]
        self.stalls = collections.defaultdict(list)  # times without a processor: process -> [(from, to)]
        self.clears = []  # clears that became certain: (from, to, space)
        self.gone = {}
        self.end = None
        self.counts = collections.Counter()
        self._read(lines)

    def _read(self, lines):
        events = 0
        for number, line in enumerate(lines, 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if events == 0 and words != ["history", FORMAT_VERSION]:
                raise NoHistory(f"line {number}: it does not begin with 'history {FORMAT_VERSION}'")
            if self.end is not None:
                raise NoHistory(f"line {number}: something comes after the end")
            events += 1
            if events == 1:
                continue
            try:
                self._take(words[0], words[1:])
            except (KeyError, ValueError) as why:
                raise NoHistory(f"line {number}: {line.strip()!r}: {why}") from why
        if self.end is None:
            raise NoHistory("it has no end: the run was cut off")

    def _take(self, kind, words):
        if len(words) != COLUMNS[kind]:
            raise ValueError(f"{COLUMNS[kind]} columns expected")
        self.counts[kind] += 1
        getattr(self, "_take_" + kind)(*words)

    def _take_put(self, at, process, key, version, length, content):
        self.puts[key, version].append((int(at), process))
        self.put_under[version].add(key)
        self.contents[key, version, int(length)].add(content)

    def _take_hold(self, at, process, key, version, length, content):
        self.holds[process, key].append((int(at), version))
        self.holders.add(process)
        self.contents[key, version, int(length)].add(content)

    def _take_drop(self, at, process, key):
        self.holds[process, key].append((int(at), None))

    def _take_ask(self, call, at, deadline, process, kind):
        if call in self.calls:
            raise ValueError("this call has begun already")
        self.calls[call] = Call(int(at), int(deadline), process, kind)

    def _take_hit(self, call, key, version, length, content, holder):
        self.calls[call].hits.append((key, version, int(length), content, holder))

    def _take_return(self, call, at):
        if self.calls[call].returned is not None:
            raise ValueError("this call was back already")
        self.calls[call].returned = int(at)

    def _take_view(self, at, process, term, version, issuer, members):
        self.views[process].append((int(at), (int(term), int(version), issuer), frozenset(members.split(",")) - {"-"}))

    def _take_stall(self, begin, end, process):
        self.stalls[process].append((int(begin), int(end)))

    def _take_clear(self, begin, end, space):
        self.clears.append((int(begin), int(end), space))

    def _take_gone(self, at, process):
        self.gone[process] = int(at)

    def _take_end(self, at):
        self.end = int(at)


def union_within(spans, begin, end):
    """How much of begin..end the given spans cover together."""
    covered, reached = 0, begin
    for first, last in sorted(spans):
        first, last = max(first, reached), min(last, end)
        if last > first:
            covered += last - first
            reached = last
    return covered


def held_during(events, version, begin, end):
    """Whether the process held this version at some moment within begin..end; `events` are its holds and drops of
    the key."""
    held_since = None
    for at, what in sorted(events, key=lambda event: event[0]):
        if what is not None and what == version:
            held_since = at if held_since is None else held_since
        # The process drops the page or holds another version in its place: the hold of this version ends.
        elif held_since is not None:
            if held_since <= end and at >= begin:
                return True
            held_since = None
    return held_since is not None and held_since <= end


def hit_faults(history, call, hit):
    """Sentences that say why this hit is wrong; none when the hit is right."""
    key, version, length, content, holder = hit
    puts = history.puts.get((key, version))
    if not puts:
        others = sorted(history.put_under.get(version, ()))
        yield f"version {version} was put under {others[0]}" if others else f"nobody put version {version}"
        return
    if call.returned is not None and min(at for at, _ in puts) > call.returned:
        yield f"version {version} was put only later"
    known = history.contents.get((key, version, length))
    if not known:
        yield f"version {version} never had {length} bytes"
    elif content not in known:
        yield f"its bytes are not those of version {version}"
    for began, certain, space in history.clears:
        if key.startswith(space + "/") and call.began > certain and all(at < began for at, _ in puts):
            yield f"version {version} was cleared before"
    if holder == "-":
        return
    if holder in history.holders:
        events = history.holds.get((holder, key), [])
        if all(what != version for _, what in events):
            yield f"{holder} never had version {version}"
        elif not held_during(events, version, call.began, history.end if call.returned is None else call.returned):
            yield f"{holder} had version {version} at no moment of the call"
    elif all(process != holder for _, process in puts):
        yield f"{holder} never put version {version}"


def wrong_hits(history):
    for name, call in history.calls.items():
        for hit in call.hits:
            for why in hit_faults(history, call, hit):
                yield f"wrong hit: {call.process} got {hit[0]} (call {name} at {call.began}): {why}"


def differing_bytes(history):
    """Faults of versions with more than one content: among hits, and among puts and holds, where a second content
    would hide wrong hits."""
    for (key, version, length), contents in history.contents.items():
        if len(contents) > 1:
            yield f"two contents of {key} version {version} of {length} bytes were put or held"
    first = {}
    for call in history.calls.values():
        for key, version, length, content, _ in call.hits:
            if first.setdefault((key, version, length), content) != content:
                yield f"two hits disagree: {key} version {version} of {length} bytes, the later one at {call.began}"


def late_calls(history, allowed_us):
    for name, call in history.calls.items():
        until = history.gone.get(call.process, history.end) if call.returned is None else call.returned
        stalls = history.stalls[call.process] + history.stalls["*"]
        late = until - call.deadline - union_within(stalls, call.deadline, until)
        if late > allowed_us:
            came = "was not" if call.returned is None else "was"
            yield (f"late: {call.process}'s {call.kind} (call {name} at {call.began}) {came} back "
                   f"{late / 1000:.1f} ms after its deadline")


def older_views(history):
    members_of = {}
    for process, views in history.views.items():
        before, inside = None, frozenset()
        for at, stamp, members in sorted(views, key=lambda view: view[0]):
            if members_of.setdefault(stamp, members) != members:
                yield f"two views are called {shown(stamp)}; {process} had one at {at}"
            if before is not None and stamp < before and members & inside:
                yield f"back in views: {process} went from {shown(before)} to {shown(stamp)} at {at}"
            before, inside = stamp, members


def shown(stamp):
    return f"{stamp[0]}.{stamp[1]}"


def faults(history, allowed_us=50_000):
    """All sentences that say what is wrong in this history."""
    yield from wrong_hits(history)
    yield from differing_bytes(history)
    yield from late_calls(history, allowed_us)
    yield from older_views(history)


def report(path, allowed_us):
    """Prints the faults of one history file and its last line. @return whether the history is good."""
    try:
        with open(path, encoding="ascii", errors="replace") as lines:
            history = History(lines)
    except (NoHistory, OSError) as why:
        print(f"{path}: no history: {why}")
        return False
    found = list(faults(history, allowed_us))
    for fault in found[:SHOWN_MAX]:
        print(f"{path}: {fault}")
    if len(found) > SHOWN_MAX:
        print(f"{path}: and {len(found) - SHOWN_MAX} more")
    counted = ", ".join(f"{history.counts[kind]} {kind}s" for kind in ("put", "ask", "hit", "view", "stall"))
    print(f"{path}: {len(found)} faults" if found else f"{path}: good: {counted}")
    return not found


def main():
    parser = argparse.ArgumentParser(description="Judges recorded histories of the cache.")
    parser.add_argument("--allowed-ms", type=float, default=50, help="how late a call may be back (50)")
    parser.add_argument("--if-recorded", action="store_true", help="a file that is not there: exit code 77")
    parser.add_argument("files", nargs="+", metavar="FILE")
    options = parser.parse_args()
    if options.if_recorded and not all(os.path.exists(path) for path in options.files):
        print("nothing was recorded")
        return SKIPPED
    good = [report(path, options.allowed_ms * 1000) for path in options.files]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
