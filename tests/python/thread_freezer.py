"""Stops threads of another process, and lets them go on: `thread_freezer.py PID PREFIX` attaches to the threads of the
process whose names begin with the prefix, and prints "ready". A line "stop" on stdin stops them all, a line "go" or ten
seconds without a line let them go on; each is answered with a line. The end of stdin ends the program."""

import ctypes
import os
import pathlib
import select
import sys

SEIZE, INTERRUPT, CONTINUE = 0x4206, 0x4207, 7
ALL_CHILDREN = 0x40000000  # __WALL: threads are waited for, too.
STOPPED_SECONDS_MAX = 10

libc = ctypes.CDLL(None, use_errno=True)


def ptrace(request, tid):
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(request, tid, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace({request:#x}) of thread {tid}")


def stop(tids):
    for tid in tids:
        ptrace(INTERRUPT, tid)
    for tid in tids:
        os.waitpid(tid, ALL_CHILDREN)


def main(pid, prefix):
    tasks = pathlib.Path(f"/proc/{pid}/task")
    tids = [int(task.name) for task in tasks.iterdir() if (task / "comm").read_text().startswith(prefix)]
    for tid in tids:
        ptrace(SEIZE, tid)
    print("ready", len(tids), flush=True)
    stopped = False
    while True:
        ready, _, _ = select.select([sys.stdin], [], [], STOPPED_SECONDS_MAX if stopped else None)
        word = sys.stdin.readline().strip() if ready else "go"
        if word == "stop":
            stop(tids)
        elif word != "go":
            return
        elif stopped:
            for tid in tids:
                ptrace(CONTINUE, tid)
        stopped = word == "stop"
        print(word, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
