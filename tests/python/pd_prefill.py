"""A prefill engine as a program, which test_pd_loss.py starts and kills.

    pd_prefill.py PORT CHUNKS_MAX

The program prints "ready", and then serves a request for each line "ROOM SEED TOKENS" that comes in; for each request
it computes at most CHUNKS_MAX chunks.
"""

import queue
import sys
import threading

from pd_engines import Model, PrefillScheduler, Request, kv_class, prefill_ranks


def main():
    port, chunks_max = int(sys.argv[1]), int(sys.argv[2])
    server = kv_class("BOOTSTRAP_SERVER")("127.0.0.1", port)
    scheduler = PrefillScheduler(prefill_ranks(Model(), server.port), f"127.0.0.1:{server.port}")
    scheduler.chunks_max = chunks_max
    lines = queue.SimpleQueue()
    threading.Thread(target=lambda: [lines.put(line) for line in sys.stdin], daemon=True).start()
    print(f"ready {server.port}", flush=True)
    while True:
        while not lines.empty():
            scheduler.add(Request(*map(int, lines.get().split())))
        scheduler.turn()


main()
