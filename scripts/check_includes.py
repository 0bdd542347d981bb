#!/usr/bin/env python3
"""Fails when a folder includes what it may not see, or may see what it does not include: the tables are a picture of
the architecture (docs/architecture.md), not a bound."""
import pathlib
import re
import sys

# Each folder of the tree, and the folders that it may include besides itself. A folder may include only folders above
# it in this table; that it may include a folder does not let it include that folder's own folders.
FOLDERS = {
    "common": [],
    "config": ["common"],
    "discovery": ["common"],
    "storage": ["common"],
    "storage/disk/io": ["common"],
    "storage/disk": ["common", "storage/disk/io"],
    "storage/disk/bucket": ["common", "storage/disk/io", "storage/disk"],
    "storage/disk/file_per_key": ["common", "storage/disk"],
    "storage/disk/offset": ["common", "storage/disk"],
    "directory": ["common", "discovery", "storage"],
    "net": ["common"],
    "rdma": ["common", "net"],
    "rdma/verbs": ["common", "net", "rdma", "rdma/tcp"],
    "rdma/tcp": ["common", "net", "rdma", "rdma/verbs"],
    "handoff": ["common"],
    "handoff/links": ["common", "net", "handoff"],
    "metrics": ["common", "net"],
    "link/protocol": ["common", "discovery"],
    "link": ["common", "config", "discovery", "net", "rdma/verbs", "link/protocol"],
    "actors": ["common"],
    "actors/clearing": ["common", "discovery", "storage", "link/protocol", "link", "actors"],
    "actors/directory": ["common", "discovery", "storage", "directory", "link/protocol", "link", "actors"],
    "actors/disk": ["common", "config", "discovery", "storage", "storage/disk", "storage/disk/offset", "directory",
                    "metrics", "link/protocol", "link", "actors", "actors/clearing"],
    "actors/pool": ["common", "storage", "storage/disk/io", "directory", "link/protocol", "link", "actors",
                    "actors/directory", "actors/disk"],
    "actors/serving": ["common", "storage", "directory", "net", "rdma", "rdma/tcp", "link/protocol", "link", "actors",
                       "actors/directory"],
    "actors/membership": ["common", "discovery", "link/protocol", "link", "actors"],
    "actors/monitoring": ["common", "discovery", "storage", "directory", "rdma/verbs", "metrics", "link/protocol", "link",
                          "actors", "actors/serving"],
    "actors/overlap": ["common", "discovery", "storage", "directory", "net", "metrics", "link/protocol", "actors",
                       "actors/monitoring"],
    "actors/gateway": ["common", "discovery", "link/protocol", "link", "actors", "actors/pool", "actors/membership",
                       "actors/overlap"],
    "actors/node": ["common", "config", "discovery", "storage", "directory", "net", "rdma/verbs", "metrics",
                    "link/protocol", "link", "actors", "actors/clearing", "actors/directory", "actors/disk", "actors/pool",
                    "actors/serving", "actors/membership", "actors/monitoring", "actors/overlap", "actors/gateway"],
    "client/values": ["common", "directory", "rdma/verbs"],
    "client/notes": ["common", "discovery", "directory", "link/protocol", "client/values"],
    "client/pool": ["common", "config", "discovery", "storage", "directory", "link/protocol", "client/values"],
    "client/members": ["common", "discovery", "directory", "net", "link/protocol", "link", "client/values"],
    "client/session": ["common", "discovery", "directory", "net", "link/protocol", "link", "client/values", "client/notes",
                       "client/pool", "client/members"],
    "client/read": ["common", "discovery", "net", "rdma", "rdma/verbs", "rdma/tcp", "client/values"],
    "client/lookup": ["common", "discovery", "storage", "directory", "net", "rdma", "link/protocol", "client/values",
                      "client/notes", "client/members", "client/session", "client/read"],
    "client/calls": ["common", "storage", "directory", "net", "rdma", "link/protocol", "link", "client/values",
                     "client/notes", "client/members", "client/session", "client/read", "client/lookup"],
    "client": ["common", "config", "discovery", "directory", "net", "link/protocol", "link", "client/values",
               "client/pool", "client/session", "client/calls"],
    "client/handoff": ["common", "net", "rdma", "rdma/verbs", "rdma/tcp", "handoff", "handoff/links", "link/protocol",
                       "link", "client/values", "client/read"],
    "client/c": ["common", "config", "client"],
    "bench": ["common", "storage", "rdma", "rdma/verbs", "rdma/tcp"],
    "cli": ["common", "config", "discovery", "net", "actors/node", "client", "bench"],
    "cli/bench": ["common", "config", "storage/disk", "storage/disk/offset", "net", "rdma", "rdma/verbs", "rdma/tcp",
                  "handoff", "client", "client/handoff", "bench", "cli"],
    "cli/demo": ["common", "config", "client", "bench", "cli"],
    "cli/doctor": ["common", "config", "storage", "storage/disk/io", "storage/disk", "net", "rdma/verbs", "link", "client",
                   "bench", "cli"],
    "python": ["common", "config", "handoff", "client/notes", "client", "client/handoff"],
    "examples": ["common", "config", "client"],
    "tests/support/fake_verbs": ["common"],
}

# Pairs of folders that include each other. rdma/tcp and rdma/verbs do, since the hellos of both kinds of readers come
# to one port.
PAIRS = [{"rdma/tcp", "rdma/verbs"}]

# Files (prefixes) that may include more than their folder may. client/embedded is the composition root of an embedded
# node.
FILES = {
    "bench/posting_rate": ["tests/support/fake_verbs"],
    "client/embedded": ["actors/node"],
}

# Headers of plain values, each with the folders that may include it although they may not include its folder.
SHARED = {
    "directory/wire.hpp": ["link"],
    "link/cluster_health.hpp": ["cli"],
    "link/protocol/disk_wire.hpp": ["directory"],
    "link/protocol/pool_wire.hpp": ["directory"],
    "metrics/latency_histogram.hpp": ["client/notes", "client/handoff"],
    "metrics/metric_table.hpp": ["cli", "cli/doctor", "link"],
    "metrics/samples.hpp": ["client/notes", "client/read", "client/handoff", "link", "link/protocol"],
}

EVERYTHING = ["tests"]  # folders that may include any other folder

SOCKETS = ("sys/socket.h", "sys/un.h", "netinet/", "arpa/inet.h", "netdb.h", "sys/epoll.h")

# Headers of libraries (prefixes), and the only paths (prefixes) that may include them.
FENCES = {
    ("caf/",): ["actors/", "client/", "link/"],
    ("infiniband/",): ["rdma/verbs/"],
    SOCKETS: ["bench/", "link/node_middleman", "link/scribe", "net/", "rdma/verbs/"],
    ("liburing",): ["storage/disk/io/"],
    ("rocksdb/",): ["storage/disk/offset/"],
    ("toml++/", "toml.hpp"): ["config/"],
    ("CLI/",): ["cli/", "config/"],
    ("Python.h", "structmember.h"): ["python/binding/"],
    ("prometheus/",): ["metrics/"],
    ("httplib.h",): ["metrics/"],
    ("nlohmann/",): ["actors/monitoring/history_json", "actors/monitoring/key_search", "actors/overlap/overlap_json", "actors/monitoring/overview_json", "actors/monitoring/status_json", "bench/",
                     "cli/"],
    ("openssl/",): ["net/datagram_seal", "net/sha256", "net/tls_"],
    ("blake3.h",): ["common/"],
    ("xxhash.h",): ["common/"],
    ("spdlog/",): ["common/"],
}

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def folder_of(path):
    """The longest folder of `FOLDERS` that holds this path, or None."""
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
    """The paths of all C++ files of this project, from the root."""
    # Builds beside the check make and delete folders, in which a search would fail.
    own = (top for top in root.iterdir() if top.is_dir() and not top.name.startswith((".", "build")))
    for file in sorted(file for top in own for file in top.rglob("*.[ch]pp")):
        yield file.relative_to(root).as_posix()


def faults(root):
    for path in sources(root):
        if path.split("/")[0] not in EVERYTHING:
            yield from file_faults(root, path)


def includes_of(root):
    """All includes of the tree: (file, its folder, whether the target is quoted, target) of each."""
    for path in sources(root):
        here = folder_of(path)
        if here is not None:
            for match in filter(None, map(INCLUDE.match, (root / path).read_text().splitlines())):
                yield path, here, match[1] == '"', match[2]


def permissions(seen):
    """All permissions of the tables: for each a sentence, and the files that use it."""
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
    """Faults of folders that may include a folder below them in the table: sooner or later that makes a circle."""
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
