"""A process that uses the cache until it is told to end: what test_process_end.py starts.

    ending.py OPTIONS ENDING THREADS [--joined]

When the process prints "ready", THREADS daemon threads are in calls of each kind, with deadlines far away. It ends,
in the way that ENDING names, when a line comes in. With --joined the threads are not daemons: each begins a call of
JOINED_SECONDS when the line comes in, and ends with that call.
"""

import atexit
import gc
import itertools
import json
import os
import random
import signal
import sys
import threading
import time

import peercache

SECONDS, FIRST_SECONDS, JOINED_SECONDS = 30.0, 0.2, 2.5
SIGNAL_SECONDS = 0.2
"""How long the main thread has been calling when a signal comes."""
PAGE = 64 << 10
STATUS = 7
END_SECONDS = 2.0


def calls_of(client, options):
    """Returns a function for each kind of call. The function makes the call, which may take the seconds that are its
    argument."""
    space, memory, count = client.space("ending"), bytearray(PAGE), itertools.count()

    def names():
        return [f"{threading.get_ident()} {next(count)}"]

    return [
        lambda seconds: client.set(space, names(), [memory], timeout=seconds),
        lambda seconds: client.get(space, names(), [memory], timeout=seconds),
        lambda seconds: client.exists(space, names(), timeout=seconds),
        lambda seconds: client.remove(space, names(), timeout=seconds),
        lambda seconds: client.flush(timeout=seconds),
        lambda seconds: client.clear("cleared", timeout=seconds),
        lambda seconds: client.native.tiers([space], names(), seconds),
        lambda seconds: client.prefetch(space, names() * 100),
        lambda seconds: open_another(options, seconds),
    ]


def open_another(options, seconds):
    try:
        peercache.Client({**options, "client.timeout": f"{seconds * 1000:.0f}ms"}).close()
    except peercache.Error:
        time.sleep(0.01)


def start_threads(client, options, count, told):
    """Starts `count` threads that make calls for ever or, if there is an event `told`, until it is set and once more.
    Returns when each thread has made a call."""
    begun = threading.Semaphore(0)

    def work(call):
        call(FIRST_SECONDS)
        begun.release()
        if told:
            told.wait()
            call(JOINED_SECONDS)
        while not told:
            call(SECONDS)

    kinds = calls_of(client, options)
    for index in range(count):
        threading.Thread(target=work, args=[kinds[index % len(kinds)]], daemon=not told).start()
    for _ in range(count):
        begun.acquire()


def end_of(child):
    """Waits for a child process. Returns its exit status; 99 when it does not end in time."""
    until = time.monotonic() + END_SECONDS
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return 99


def forked(in_child):
    """Forks and runs `in_child` in the child; the parent then ends with the child's status."""
    child = os.fork()
    if child == 0:
        in_child()
        sys.exit(STATUS)
    sys.exit(end_of(child))


def use_closed(client):
    """Checks, in a forked child, that calls of the parent's client say `closed` for every page, and do not wait."""
    space = client.space("ending")
    statuses = [r.status for r in client.set(space, ["child"], [bytearray(PAGE)])]
    statuses += [r.status for r in client.get(space, ["child"], [bytearray(PAGE)])]
    statuses += [r.status for r in client.exists(space, ["child"]) + client.remove(space, ["child"])]
    client.prefetch(space, ["child"])
    cleared = client.clear("cleared")
    whole = client.closed, client.flush().complete, cleared.certain, client.native.tiers([space], ["child"])
    if set(statuses) != {peercache.Status.CLOSED} or whole != (True, False, False, None) or client.members():
        os._exit(98)
    if "closed" not in cleared.why_not:
        os._exit(98)
    client.close()


def collect(clients):
    clients.clear()
    gc.collect()


def use_until_the_end(client):
    """A hook of atexit that was registered after the package's own, and so runs before it: the client must still
    work."""
    space = client.space("ending")
    if client.closed or client.exists(space, ["late"], timeout=FIRST_SECONDS)[0].status == peercache.Status.CLOSED:
        os._exit(97)


def call_until(number, client, options):
    """Makes calls of all kinds in the main thread until the signal `number` comes, which may be in the middle of any of
    them."""
    threading.Timer(SIGNAL_SECONDS, os.kill, [os.getpid(), number]).start()
    kinds = calls_of(client, options)
    while True:
        random.choice(kinds)(SECONDS)


def end(ending, clients, options):
    if ending == "exit":
        sys.exit(STATUS)
    if ending == "exception":
        raise RuntimeError("the end")
    if ending == "interrupt":
        signal.raise_signal(signal.SIGINT)
        time.sleep(SECONDS)
    if ending == "terminate":
        signal.raise_signal(signal.SIGTERM)
    if ending == "interrupt in a call":
        call_until(signal.SIGINT, clients[0], options)
    if ending == "terminate in a call":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(STATUS))
        call_until(signal.SIGTERM, clients[0], options)
    if ending == "_exit":
        os._exit(STATUS)
    if ending == "close":
        clients[0].close()
    if ending == "fork":
        forked(lambda: None)
    if ending == "fork and use":
        forked(lambda: use_closed(clients[0]))
    if ending == "fork and collect":
        forked(lambda: collect(clients))


def main():
    # Sets the handler, because a shell starts its background processes with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    options, ending, threads = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    # Only this list holds the client, so a child that clears the list collects the client.
    clients = [peercache.Client(options, wait_for_node="--no-node" not in sys.argv)]
    told = threading.Event() if "--joined" in sys.argv else None
    if threads:
        start_threads(clients[0], options, threads, told)
    if ending == "hook":
        atexit.register(use_until_the_end, clients[0])
    print("ready", flush=True)
    sys.stdin.readline()
    if told:
        told.set()
    end(ending, clients, options)


main()
