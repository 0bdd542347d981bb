"""Tries an installed wheel in a bare tree, as scripts/test-in-debian does: pages that one process sets in the pool of its
embedded node are got there and in a second process, and every byte is compared."""

import subprocess
import sys
from typing import List

from peercache import Client, Status

PAGES = 1000
PAGE_BYTES = 4096
KEYS = [f"page-{number}" for number in range(PAGES)]


def page(number: int) -> bytes:
    return number.to_bytes(4, "little") * (PAGE_BYTES // 4)


def get_all(client: Client, who: str) -> None:
    into = [[bytearray(PAGE_BYTES)] for _ in KEYS]
    results = client.get(client.space("trial"), KEYS, into)
    hits = sum(result.status is Status.HIT for result in results)
    wrong = sum(result.status is Status.HIT and into[number][0] != page(number) for number, result in enumerate(results))
    print(f"trial, {who}: {hits} hits, {wrong} wrong", flush=True)
    assert hits == PAGES and wrong == 0


def main(arguments: List[str]) -> None:
    if arguments:
        host, port = arguments[0].rsplit(":", 1)
        with Client({"client.node_host": host, "client.node_port": port, "log.level": "error"}) as client:
            return get_all(client, "the second process")
    options = {"pool.size": "64MiB", "log.level": "error"} | {
        f"net.{port}_port": 0 for port in ("control", "data", "http", "lookup")}  # The kernel chooses free ports.
    with Client(options, embedded=True) as client:
        client.set(client.space("trial"), KEYS, [[bytearray(page(number))] for number in range(PAGES)])
        get_all(client, "the process of the node")
        subprocess.run([sys.executable, "-B", __file__, client.node_address], check=True, timeout=60)


if __name__ == "__main__":
    main(sys.argv[1:])
