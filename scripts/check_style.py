#!/usr/bin/env python3
"""Fails on what docs/style.md bans and clang-format and clang-tidy cannot see."""
import pathlib
import re
import sys

from check_includes import sources
from cpp_text import blanked

REAL_WORLD_TESTS = ("tests/real/", "tests/verbs/", "tests/python/", "tests/support/real", "tests/fakes/")


def in_quiet_ring(path):
    """Tests of the pure, actor and scenario rings, where time is an argument; a fake device may wait as a real one."""
    return path.startswith("tests/") and not path.startswith(REAL_WORLD_TESTS)


def outside_log(path):
    return not path.startswith("common/log.")


def anywhere(_):
    return True


# Where, what, and why not. Words are looked for in comments too; code only in code.
BANNED_CODE = [
    (in_quiet_ring, r"\b(?:sleep_for|sleep_until|usleep|nanosleep)\b|\bsleep\s*\(",
     "a test of this ring waits for conditions or moves the clock, it never sleeps"),
    (outside_log, r"\bsystem_clock\b", "the wall clock jumps: take the steady clock, or time as an argument"),
    (anywhere, r"\bIBV_ACCESS_REMOTE_(?:WRITE|ATOMIC)\b", "nothing of ours is ever remotely writable"),
    (anywhere, r"\busing\s+namespace\s+std\s*;", "name what you use"),
]
BANNED_WORDS = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
# A genitive without its noun, which stands on some other line.
NO_SUBJECT = re.compile(r"//[/!]?<?[ \t]+Of\b")
SUBJECTS_LATER = (
    "actors/", "client/", "tests/actors/", "tests/client/", "tests/scenario/",
    "directory/disk_records.hpp", "directory/hand_over.hpp", "directory/publisher.hpp",
    "directory/publisher_pages.cpp", "directory/record_repair.hpp", "link/protocol/disk.hpp",
    "link/protocol/disk_wire.hpp", "link/protocol/gateway.hpp", "link/protocol/pool_wire.hpp",
    "link/protocol/reports.hpp", "tests/link/messages_test.cpp",
)
NAMESPACE = re.compile(r"^\s*(?:inline\s+)?namespace peercache\b|^namespace std\b", re.MULTILINE)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def header_faults(path, text, code):
    first = next((line for line in blanked_comments(text).splitlines() if line.strip()), "")
    if first.strip() != "#pragma once":
        yield 1, "a header begins with #pragma once"
    if "{" in code and not NAMESPACE.search(code):
        yield 1, "what a header declares is in namespace peercache"


def blanked_comments(text):
    return re.sub(r"^\s*//[^\n]*|/\*.*?\*/", "", text, flags=re.MULTILINE | re.DOTALL)


def file_faults(path, text):
    code = blanked(text)
    if path.endswith(".hpp"):
        yield from header_faults(path, text, code)
    for match in BANNED_WORDS.finditer(text):
        yield line_of(text, match.start()), f"{match[0]}: finish it, or open an issue"
    if not path.startswith(SUBJECTS_LATER):
        for match in NO_SUBJECT.finditer(text):
            yield line_of(text, match.start()), "a comment names its subject: it does not begin with 'Of'"
    for where, pattern, reason in BANNED_CODE:
        if where(path):
            for match in re.finditer(pattern, code):
                yield line_of(code, match.start()), f"{match[0]}: {reason}"


def faults(root):
    for path in sources(root):
        for line, fault in file_faults(path, (root / path).read_text()):
            yield f"{path}:{line}: {fault}"


if __name__ == "__main__":
    found = list(faults(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
    print("\n".join(found) or "style: ok")
    sys.exit(bool(found))
