"""The forms of settings. JSON has few types, and Python turns nearly anything into text or a truth."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Callable

SECONDS_MAX = 1_000_000_000


@dataclass(frozen=True)
class Form:
    """The values that a setting takes."""

    allowed: str
    """The form in words, for the error: "true or false"."""
    fits: Callable[[Any], bool]
    has_off: bool = False
    """One of the words that it takes is off."""

    def check(self, name: str, value: Any) -> None:
        """Errors: ValueError, which names the setting, the value and what is allowed."""
        if not self.fits(value):
            raise ValueError(f"{name}: {reprlib.repr(value)} is given, {self.allowed} is allowed")


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def whole(least: int, most: int) -> Form:
    """A whole number within these bounds, both included."""
    return Form(f"a whole number from {least} to {most}", lambda value: _is_whole(value) and least <= value <= most)


def _is_text(value: Any) -> bool:
    """Half of a surrogate pair, which JSON can say, is in no UTF-8."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_one_value(value: Any) -> bool:
    return _is_text(value) or isinstance(value, Real)


def _is_seconds(value: Any) -> bool:
    # NaN is in no range.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= SECONDS_MAX


def _is_list_or_text(value: Any) -> bool:
    return _is_text(value) or (isinstance(value, (list, tuple)) and all(_is_text(item) for item in value))


TEXT = Form("a text", _is_text)
SWITCH = Form("1, 0, true or false", lambda value: isinstance(value, int) and value in (0, 1))
SECONDS = Form(f"a number of seconds from 0 to {SECONDS_MAX}", _is_seconds)
ONE_VALUE = Form("one text, number, true or false", _is_one_value)
TEXTS = Form("a text or a list of texts", _is_list_or_text)


def of_option(form: str) -> Form:
    """The form of an option, by the name in the option table. Other faults of a value are told by its reader."""
    if form.endswith(",..."):
        return TEXTS
    if "off" in form.split("|"):
        return replace(ONE_VALUE, has_off=True)
    return TEXT if form == "TEXT" else ONE_VALUE
