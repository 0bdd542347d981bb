"""A node inside this process; a page of two parts in, the same page out."""

import numpy as np
from peercache import Client, Option, Status


def main() -> None:
    options: dict[str, Option] = {"pool.size": "16MiB", "log.level": "error"}
    for port in ("control", "data", "http", "lookup"):
        options[f"net.{port}_port"] = 0  # Port 0: the kernel chooses a free one.
    with Client(options, embedded=True) as client:
        # Everything that decides what a page's bytes mean belongs into the space.
        space = client.space("llama-3-8b", "revision-1", "bf16", "page 64", "layer 0-31")
        k = np.arange(32768, dtype=np.uint8)
        v = k[::-1].copy()
        stored = client.set(space, ["prefix-4711/page-0"], [[k, v]])
        print("stored:", stored[0].status.name)
        # `set` has returned when the page's bytes are in place; `flush` returns when other hosts
        # can find the page.
        print("published:", client.flush())

        into = [np.zeros_like(k), np.zeros_like(v)]
        read = client.get(space, ["prefix-4711/page-0", "never put"], [into, [bytearray(8), bytearray(8)]])
        assert read[0].status is Status.HIT and (into[0] == k).all() and (into[1] == v).all()
        # A page that is not in the cache is a miss with a reason, never an exception.
        assert read[1].status is Status.NOT_FOUND
        print("read:", read[0].status.name, "from", read[0].origin.name, "and", read[1].status.name)


if __name__ == "__main__":
    main()
