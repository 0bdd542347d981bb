#!/usr/bin/env python3
"""Fails when a folder includes what it may not see. The tables are the architecture (docs/architecture.md)."""
import pathlib
import re
import sys

VALUES = ["common", "discovery", "directory", "storage", "rdma"]

# A folder, and the folders that it may include besides itself.
FOLDERS = {
    "common": [],
    "config": ["common"],
    "discovery": ["common"],
    "directory": ["common"],
    "storage": ["common"],
    "rdma": ["common"],
    "metrics": ["common"],
    "actors/protocol": VALUES,
    "actors": [*VALUES, "config", "metrics", "actors/protocol"],
    "client": [*VALUES, "config", "actors/protocol"],
    "cli": [*VALUES, "config", "metrics", "actors/protocol", "actors", "client", "bench"],
    "python": ["common", "config", "client"],
    "bench": [*VALUES, "config", "client", "metrics"],
    "examples": ["common", "config", "client"],
    "tests/support/fake_verbs": ["common"],
}

# Files (prefixes) that may include more than their folder: the embedded node is the composition root.
FILES = {
    "client/embedded": ["actors"],
    "bench/posting_rate": ["tests/support/fake_verbs"],
}

# Headers that more than their folder's readers may include: a plain value, and what an actor system
# of a client's own shares with a node's.
SHARED = {
    "metrics/latency_histogram.hpp": ["actors/protocol", "client"],
    "actors/connector_actor.hpp": ["client"],
    "actors/links_actor.hpp": ["client"],
    "actors/owner_batches.hpp": ["client"],
    "actors/rail_settings.hpp": ["client"],
    "actors/system_config.hpp": ["client"],
    "actors/thread_actor.hpp": ["client"],
}

EVERYTHING = ["tests"]  # folders that may include anything

SOCKET_USERS = ["rdma/", "actors/connector", "actors/node_middleman", "bench/", "cli/bench"]

# A header (prefix), and the only paths (prefixes) that may include it.
FENCES = {
    "caf/": ["actors/", "client/", "cli/"],
    "infiniband/": ["rdma/"],
    "sys/socket.h": SOCKET_USERS,
    "sys/un.h": SOCKET_USERS,
    "netinet/": SOCKET_USERS,
    "arpa/inet.h": SOCKET_USERS,
    "netdb.h": SOCKET_USERS,
    "sys/epoll.h": SOCKET_USERS,
    "liburing": ["storage/disk/"],
    "rocksdb/": ["storage/disk/"],
    "toml++/": ["config/"],
    "toml.hpp": ["config/"],
    "CLI/": ["config/", "cli/"],
    "pybind11/": ["python/"],
    "benchmark/": ["bench/"],
    "prometheus/": ["metrics/"],
    "httplib.h": ["metrics/"],
    "nlohmann/": ["actors/", "cli/", "bench/"],
    "blake3.h": ["common/"],
    "xxhash.h": ["common/"],
    "spdlog/": ["common/"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def folder_of(path):
    """The longest folder of the table that holds this path, or None."""
    return max((f for f in FOLDERS if path.startswith(f + "/")), key=len, default=None)


def may_see(path, here):
    extra = [folder for prefix, more in FILES.items() if path.startswith(prefix) for folder in more]
    return [here, *FOLDERS[here], *extra]


def line_faults(path, here, quoted, target):
    there = folder_of(target)
    if quoted and there is None:
        yield f'"{target}" is not a path from the root ("folder/file.hpp")'
    shared = here in SHARED.get(target, [])
    if quoted and there and not shared and there not in may_see(path, here):
        yield f"{here}/ may not include {there}/"
    for prefix, allowed in FENCES.items():
        if target.startswith(prefix) and not path.startswith(tuple(allowed)):
            yield f"<{target}> belongs in {', '.join(allowed)}"


def file_faults(root, path):
    here = folder_of(path)
    if here is None:
        yield f"{path}:1: its folder is not in the table of scripts/check_includes.py"
        return
    for number, line in enumerate((root / path).read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            for fault in line_faults(path, here, match[1] == '"', match[2]):
                yield f"{path}:{number}: {fault}"


def sources(root):
    """Every C++ file of ours, as a path from the root."""
    for file in sorted(root.rglob("*.[ch]pp")):
        path = file.relative_to(root).as_posix()
        top = path.split("/")[0]
        if not top.startswith((".", "build")):
            yield path


def faults(root):
    for path in sources(root):
        if path.split("/")[0] not in EVERYTHING:
            yield from file_faults(root, path)


if __name__ == "__main__":
    found = list(faults(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
    print("\n".join(found) or "includes: ok")
    sys.exit(bool(found))
