#!/usr/bin/env python3
"""Fails on what docs/style.md bans and clang-format and clang-tidy cannot see."""
import pathlib
import re
import sys

from check_includes import sources
from cpp_text import TOKEN, blanked

REAL_WORLD_TESTS = ("tests/real/", "tests/verbs/", "tests/python/", "tests/support/real", "tests/fakes/")


def in_quiet_ring(path):
    """Whether the file is a test of the rings pure, actor or scenario, where time is an argument and no test sleeps.
    Tests' fakes are not counted: a fake device may wait as a real one does."""
    return path.startswith("tests/") and not path.startswith(REAL_WORLD_TESTS)


def outside_log(path):
    return not path.startswith("common/log.")


def anywhere(_):
    return True


# Patterns that are banned in code, not in comments: the files they are banned in, the pattern, and the reason.
# `BANNED_WORDS` are looked for in comments too.
BANNED_CODE = [
    (in_quiet_ring, r"\b(?:sleep_for|sleep_until|usleep|nanosleep)\b|\bsleep\s*\(",
     "a test of this ring waits for conditions or moves the clock, it never sleeps"),
    (outside_log, r"\bsystem_clock\b", "the wall clock jumps: take the steady clock, or time as an argument"),
    (anywhere, r"\bIBV_ACCESS_REMOTE_(?:WRITE|ATOMIC)\b", "nothing of ours is ever remotely writable"),
    (anywhere, r"\busing\s+namespace\s+std\s*;", "name what you use"),
]
BANNED_WORDS = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
# Begins of comments that lack a subject: a genitive without its noun, a pronoun, or the end of somebody else's
# sentence. The subject then stands on some other line.
NO_SUBJECT = re.compile(
    r"//[/!]?<?[ \t]+((?:Of|Whom|Whose|Those|Its?|They|Them|Their|That|Such|And|Nor|Or|But|Than|Also|Else|Otherwise|Unless"
    r"|The same|As in|So (?:many|much|long))\b)"
)
# A tag that ends its line stands in another paragraph than the one it belongs to: clang-format has joined them.
LONELY_TAG = re.compile(r"//.*[@\\](?:pre|post|param|return|throws)[ \t]*$", re.MULTILINE)
COMMENT = re.compile(r"//[/!]?<?")
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


def first_lines(text):
    """The position and the first line of each comment. A comment's further lines are left out: they may begin as
    they like."""
    before = None
    for token in TOKEN.finditer(text):
        if not token[0].startswith("//"):
            continue
        begin = text.rfind("\n", 0, token.start()) + 1
        line, column = text.count("\n", 0, begin), token.start() - begin
        if text[begin:token.start()].strip() or before != (line - 1, column, COMMENT.match(token[0])[0]):
            yield token.start(), token[0]
        before = line, column, COMMENT.match(token[0])[0]


def file_faults(path, text):
    code = blanked(text)
    if path.endswith(".hpp"):
        yield from header_faults(path, text, code)
    for match in BANNED_WORDS.finditer(text):
        yield line_of(text, match.start()), f"{match[0]}: finish it, or open an issue"
    for match in LONELY_TAG.finditer(text):
        yield line_of(text, match.start()), "a tag ends the line: put an empty comment line before its paragraph"
    for position, comment in first_lines(text):
        if match := NO_SUBJECT.match(comment):
            yield line_of(text, position), f"a comment names its subject: it does not begin with '{match[1]}'"
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
