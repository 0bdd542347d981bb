"""Blanks the comments, literals and preprocessor lines of C++ text and keeps its line breaks, so that the text can
be searched and its braces counted without being fooled."""
import re

TOKEN = re.compile(
    r"""//(?:[^\n\\]|\\.|\\\n)*           # line comment
      | /\*.*?\*/                         # block comment
      | (?:u8|[uUL])?R"([^()\\\s]{0,16})\(.*?\)\1"   # raw string
      | "(?:[^"\\\n]|\\.|\\\n)*"          # string
      | (?<![0-9a-zA-Z_])(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+'   # character, not a digit separator
      | ^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*    # preprocessor line
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


def blanked(text):
    """The text with its comments, literals and preprocessor lines blanked. A literal leaves its quotes, so that
    `f("")` stays a call."""

    def blank(match):
        token = match.group(0)
        filler = "\n" * token.count("\n")
        is_literal = not token.lstrip().startswith(("/", "#"))
        return '""' + filler if is_literal else filler

    return TOKEN.sub(blank, text)


def raw_string_lines(text):
    """The numbers of the lines that lie wholly inside raw strings: data, not code."""
    inside = set()
    for match in TOKEN.finditer(text):
        if match.group(1) is not None:
            first = text.count("\n", 0, match.start()) + 1
            inside.update(range(first + 1, first + match.group(0).count("\n") + 1))
    return inside
