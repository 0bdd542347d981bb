"""Tries an installed wheel in a bare tree, as scripts/test-in-debian does: an embedded node sets and gets pages of bytes."""

from peercache import Client, Status

PAGES = 1000
PAGE_BYTES = 4096


def page(number: int) -> bytes:
    return number.to_bytes(4, "little") * (PAGE_BYTES // 4)


def main() -> None:
    options = {"pool.size": "64MiB", "log.level": "error"} | {
        f"net.{port}_port": 0 for port in ("control", "data", "http", "lookup")}  # The kernel chooses free ports.
    keys = [f"page-{number}" for number in range(PAGES)]
    with Client(options, embedded=True) as client:
        space = client.space("trial")
        client.set(space, keys, [[bytearray(page(number))] for number in range(PAGES)])
        into = [[bytearray(PAGE_BYTES)] for _ in keys]
        results = client.get(space, keys, into)
    hits = sum(result.status is Status.HIT for result in results)
    wrong = sum(result.status is Status.HIT and into[number][0] != page(number) for number, result in enumerate(results))
    print(f"trial: {hits} hits, {wrong} wrong")
    assert hits == PAGES and wrong == 0


if __name__ == "__main__":
    main()
