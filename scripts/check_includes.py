#!/usr/bin/env python3
"""Fails when a folder includes what it may not see, or may see what it does not include: the tables are a picture of
the architecture (docs/architecture.md), not a bound."""
import pathlib
import re
import sys

VALUES = ["common", "discovery", "directory", "storage", "rdma"]

# A folder, and the folders that it may include besides itself. It sees only what stands above it in this table.
FOLDERS = {
    "common": [],
    "config": ["common"],
    "discovery": ["common"],
    "directory": ["common"],
    "storage": ["common"],
    "rdma": ["common"],
    "metrics": ["common"],
    "actors/protocol": ["common", "discovery"],
    "actors": [*VALUES, "config", "metrics", "actors/protocol"],
    "client": [*VALUES, "config", "actors/protocol"],
    "python": ["common", "config", "client"],
    "bench": ["common", "storage", "rdma"],
    "cli": ["common", "discovery", "storage", "rdma", "config", "actors/protocol", "actors", "client", "bench"],
    "examples": ["common", "config", "client"],
    "tests/support/fake_verbs": ["common"],
}

# Pairs of folders that see each other.
PAIRS = []

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

SOCKETS = ("sys/socket.h", "sys/un.h", "netinet/", "arpa/inet.h", "netdb.h", "sys/epoll.h")

# A library's headers (prefixes), and the only paths (prefixes) that may include them.
FENCES = {
    ("caf/",): ["actors/", "client/"],
    ("infiniband/",): ["rdma/"],
    SOCKETS: ["rdma/", "actors/connector", "actors/node_middleman", "bench/"],
    ("liburing",): ["storage/disk/"],
    ("rocksdb/",): ["storage/disk/"],
    ("toml++/", "toml.hpp"): ["config/"],
    ("CLI/",): ["config/", "cli/"],
    ("pybind11/",): ["python/"],
    ("prometheus/",): ["metrics/"],
    ("httplib.h",): ["metrics/"],
    ("nlohmann/",): ["cli/", "bench/"],
    ("blake3.h",): ["common/"],
    ("xxhash.h",): ["common/"],
    ("spdlog/",): ["common/"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def folder_of(path):
    """The longest folder of the table that holds this path, or None."""
    return max((f for f in FOLDERS if path.startswith(f + "/")), key=len, default=None)


def more_for(path):
    return [folder for prefix, more in FILES.items() if path.startswith(prefix) for folder in more]


def may_see(path, here):
    return [here, *FOLDERS[here], *more_for(path)]


def line_faults(path, here, quoted, target):
    there = folder_of(target)
    if quoted and there is None:
        yield f'"{target}" is not a path from the root ("folder/file.hpp")'
    shared = here in SHARED.get(target, [])
    if quoted and there and not shared and there not in may_see(path, here):
        yield f"{here}/ may not include {there}/"
    for headers, allowed in FENCES.items():
        if target.startswith(headers) and not path.startswith(tuple(allowed)):
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


def includes_of(root):
    """(file, its folder, quoted, target) of every include."""
    for path in sources(root):
        here = folder_of(path)
        if here is not None:
            for match in filter(None, map(INCLUDE.match, (root / path).read_text().splitlines())):
                yield path, here, match[1] == '"', match[2]


def permissions(seen):
    """Each entry of the tables in words, and the includes that need it."""
    own = [(path, folder, folder_of(target), target) for path, folder, quoted, target in seen if quoted]
    foreign = [(path, target) for path, _, quoted, target in seen if not quoted]
    for here, allowed in FOLDERS.items():
        for there in allowed:
            yield f"{here}/ may include {there}/", [
                path for path, folder, seen_folder, target in own if (folder, seen_folder) == (here, there)
                and here not in SHARED.get(target, []) and there not in more_for(path)]
    for prefix, allowed in FILES.items():
        for there in allowed:
            yield f"{prefix} may include {there}/", [
                path for path, _, seen_folder, _ in own if path.startswith(prefix) and seen_folder == there]
    for header, allowed in SHARED.items():
        for here in allowed:
            yield f"{here}/ may include {header}", [
                path for path, folder, _, target in own if (folder, target) == (here, header)]
    for headers, allowed in FENCES.items():
        for prefix in allowed:
            yield f"{prefix} may include <{headers[0]}>", [
                path for path, target in foreign if path.startswith(prefix) and target.startswith(headers)]


def unused_permissions(root):
    for words, users in permissions(list(includes_of(root))):
        if not users:
            yield f"scripts/check_includes.py:1: {words}, and nothing of it does: take the permission away"


def upward_permissions():
    """Of folders that may include what stands below them in the table: a circle, sooner or later."""
    order = list(FOLDERS)
    for here, allowed in FOLDERS.items():
        for there in allowed:
            if order.index(there) > order.index(here) and {here, there} not in PAIRS:
                yield f"scripts/check_includes.py:1: {here}/ may include {there}/, which stands below it in the table"


if __name__ == "__main__":
    where = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    found = [*faults(where), *unused_permissions(where), *upward_permissions()]
    print("\n".join(found) or "includes: ok")
    sys.exit(bool(found))
