#!/usr/bin/env python3
"""Fails on functions over 60 lines (aim at 40) and files over 400. --list prints the longest functions.

Lines of a function are counted from its signature to its closing brace; lines inside raw strings are
data and not counted.
"""
import pathlib
import re
import sys

from check_includes import sources
from cpp_text import blanked, raw_string_lines

FUNCTION_GOAL = 40
FUNCTION_MAX = 60
FILE_MAX = 400

SCOPE = re.compile(r"^(?:inline\s+)?(?:namespace|class|struct|union|enum|extern)\b")
TEMPLATE = re.compile(r"^(?:template\s*<[^{};]*?>\s*(?=[a-z\[])|(?:public|private|protected)\s*:|\s)+")
CONSTRUCTOR_COLON = re.compile(r"\)\s*(?:noexcept\s*)?:(?!:)")


def kind_of(head):
    """The kind of the brace that opens after this text: of a "function", of an "initializer" of a member, or of a
    "scope"."""
    text = TEMPLATE.sub("", head.strip())
    last = text[-1:]
    if "(" not in text or (SCOPE.match(text) and last != ")" and "(" not in text.split("{")[0]):
        return "scope" if SCOPE.match(text) or not text else "initializer"
    if SCOPE.match(text) and last != ")" and re.match(r"\w+\s+(?:alignas|__attribute__)", text):
        return "scope"
    if CONSTRUCTOR_COLON.search(text) and (last.isalnum() or last in "_>"):
        return "initializer"
    return "function"


def closing(text, opening):
    """The position of the brace that closes the one at `opening`."""
    depth = 0
    for position in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return position
    return len(text) - 1


def name_of(head):
    match = re.search(r"([~\w:]+(?:\s*operator\s*\S+)?)\s*\(\s*([\w]*)\s*,?\s*([\w]*)", head)
    if not match:
        return "?"
    return f"{match[2]}.{match[3]}" if match[1].startswith("TEST") else match[1]


def functions(text):
    """All outermost functions of a C++ text: (name, first line, last line) of each."""
    text = blanked(text)
    position = start = 0
    while position < len(text):
        character = text[position]
        if character in ";}":
            start = position + 1
        elif character == "{":
            kind = kind_of(text[start:position])
            if kind == "scope":
                start = position + 1
            else:
                end = closing(text, position)
                if kind == "function":
                    head = text[start:position]
                    before = TEMPLATE.match(head)
                    begin = start + (before.end() if before else 0)
                    yield name_of(head), text.count("\n", 0, begin) + 1, text.count("\n", 0, end) + 1
                    start = end + 1
                position = end
        position += 1


def measured(root):
    """All functions of the tree: (lines, path, first line, name) of each."""
    for path in sources(root):
        text = (root / path).read_text()
        data = raw_string_lines(text)
        for name, first, last in functions(text):
            lines = sum(1 for number in range(first, last + 1) if number not in data)
            yield lines, path, first, name


def faults(root):
    for lines, path, first, name in measured(root):
        if lines > FUNCTION_MAX:
            yield f"{path}:{first}: {name} has {lines} lines; at most {FUNCTION_MAX}, aim at {FUNCTION_GOAL}"
    for path in sources(root):
        lines = len((root / path).read_text().splitlines())
        if lines > FILE_MAX:
            yield f"{path}:1: the file has {lines} lines; at most {FILE_MAX}"


def main(arguments):
    listing = "--list" in arguments
    roots = [argument for argument in arguments if argument != "--list"]
    root = pathlib.Path(roots[0] if roots else ".")
    if listing:
        for lines, path, first, name in sorted(measured(root), reverse=True)[:30]:
            print(f"{lines:4} {path}:{first} {name}")
    found = list(faults(root))
    print("\n".join(found) or "lengths: ok")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
