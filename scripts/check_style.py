#!/usr/bin/env python3
"""Fails on what docs/style.md bans and clang-format and clang-tidy cannot see."""
import ast
import io
import pathlib
import re
import sys
import tokenize

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
# Beginnings of comments that lack a subject, which then stands on some other line: a genitive
# without its noun, a pronoun, or the end of the line before.
NO_SUBJECT = re.compile(
    r"(?:Of|Whom?|Whose|Those|Its?|They|Them|Their|That|Such|And|Nor|Or|But|Than|Also|Else|Otherwise|Unless"
    r"|The same|As in|So (?:many|much|long|often)|One (?:for|per|that)|(?:By|To|For|From|With) whom?"
    r"|(?:This|These) (?:is|are|was|were|makes?))\b"
)
# Words anywhere in a comment that point at another line, or turn the sense of the sentence around at its end.
NOT_PLAIN = [
    (re.compile(r"\b[Ss]o (?:many|much|long|often)\b(?! (?:that|as)\b)"), "say 'this many', or name the number"),
    (re.compile(r"\bany more\b(?=[.,;:)]|$)"), "say 'no longer'"),
    (re.compile(r"\bTo be called (?:when|after|before|at|with|while|once)\b"), "say 'Call when'"),
    (re.compile(r"(?<![Tt]here )\b(?:is|are|was|were) no (?!\w+er\b|more\b|less\b|use\b)[a-z`]+"), "say 'is not a'"),
    (re.compile(r"\b[Tt]he own \w+"), "say whose it is"),
]
# Beginnings of sentences in documents that lack a subject. Questions begin with them too.
NO_SUBJECT_IN_DOCUMENT = re.compile(
    r"(?:[.!?|]\s+|\n\n|^- )\**(Of|Whom?|Whose|Nor)\b(?!(?:(?!\n\n|\n- )[^.|])*\?)", re.MULTILINE
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


def cpp_comments(text):
    """The line and the text of each comment of C++ code. Comments on consecutive lines in the same column, with the
    same marker, are one comment."""
    found, end = [], None
    for token in TOKEN.finditer(text):
        if not token[0].startswith("//"):
            continue
        begin = text.rfind("\n", 0, token.start()) + 1
        line, column, marker = line_of(text, token.start()), token.start() - begin, COMMENT.match(token[0])[0]
        words = token[0][len(marker):].split()
        if text[begin:token.start()].strip() or end != (line - 1, column, marker):
            found.append((line, words))
        else:
            found[-1][1].extend(words)
        end = line, column, marker
    return [(line, " ".join(words)) for line, words in found]


def python_comments(text):
    """The line and the text of each comment and of each docstring of Python code. Strings that stand below an
    attribute count as docstrings."""
    found, end = [], None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT or token.string.startswith("#!"):
            continue
        (line, column), words = token.start, token.string.lstrip("#").split()
        if token.line[:column].strip() or end != (line - 1, column):
            found.append((line, words))
        else:
            found[-1][1].extend(words)
        end = line, column
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.append((node.lineno, node.value.value.split()))
    return [(line, " ".join(words)) for line, words in found]


def comment_faults(comments):
    for line, comment in comments:
        if match := NO_SUBJECT.match(comment):
            yield line, f"a comment names its subject: it does not begin with '{match[0]}'"
            continue
        for pattern, advice in NOT_PLAIN:
            if match := pattern.search(comment):
                yield line, f"a comment is plain at first reading: instead of '{match[0]}' {advice}"


def file_faults(path, text):
    code = blanked(text)
    if path.endswith(".hpp"):
        yield from header_faults(path, text, code)
    for match in BANNED_WORDS.finditer(text):
        yield line_of(text, match.start()), f"{match[0]}: finish it, or open an issue"
    for match in LONELY_TAG.finditer(text):
        yield line_of(text, match.start()), "a tag ends the line: put an empty comment line before its paragraph"
    yield from comment_faults(cpp_comments(text))
    for where, pattern, reason in BANNED_CODE:
        if where(path):
            for match in re.finditer(pattern, code):
                yield line_of(code, match.start()), f"{match[0]}: {reason}"


def document_faults(text):
    for match in NO_SUBJECT_IN_DOCUMENT.finditer(text):
        yield line_of(text, match.start(1)), f"a sentence names its subject: it does not begin with '{match[1]}'"


def python_sources(root):
    """The paths of all Python files and type stubs of this project, from the root."""
    own = (top for top in root.iterdir() if top.is_dir() and not top.name.startswith((".", "build")))
    for file in sorted(file for top in own for ending in ("py", "pyi") for file in top.rglob(f"*.{ending}")):
        yield file.relative_to(root).as_posix()


def faults(root):
    for path in sources(root):
        for line, fault in file_faults(path, (root / path).read_text()):
            yield f"{path}:{line}: {fault}"
    for path in python_sources(root):
        for line, fault in comment_faults(python_comments((root / path).read_text())):
            yield f"{path}:{line}: {fault}"
    for file in sorted((root / "docs").glob("*.md")):
        for line, fault in document_faults(file.read_text()):
            yield f"{file.relative_to(root)}:{line}: {fault}"


if __name__ == "__main__":
    found = list(faults(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
    print("\n".join(found) or "style: ok")
    sys.exit(bool(found))
