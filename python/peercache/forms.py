"""The forms of settings, against which values are checked: JSON has few types, and Python turns nearly any value
into text or a truth value."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Callable, Container, Dict, Mapping

SECONDS_MAX = 1_000_000_000


@dataclass(frozen=True)
class Form:
    """A form: what values a setting may have."""

    allowed: str
    """The allowed values in words, for error messages: "true or false"."""
    fits: Callable[[Any], bool]
    has_off: bool = False
    """Whether off is one of the words that the form takes."""

    def check(self, name: str, value: Any) -> None:
        """Checks the value. Errors: ValueError, which names the setting, the value and what is allowed."""
        if not self.fits(value):
            raise ValueError(f"{name}: {reprlib.repr(value)} is given, {self.allowed} is allowed")


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def whole(least: int, most: int) -> Form:
    """The form of a whole number within these bounds, both included."""
    return Form(f"a whole number from {least} to {most}", lambda value: _is_whole(value) and least <= value <= most)


def _is_text(value: Any) -> bool:
    """Whether the value is text that UTF-8 can hold: half of a surrogate pair, which JSON can say, is not."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_one_value(value: Any) -> bool:
    return _is_text(value) or isinstance(value, Real)


def _is_seconds(value: Any) -> bool:
    # NaN is refused as well: it compares false with both bounds.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= SECONDS_MAX


def _is_list_or_text(value: Any) -> bool:
    return _is_text(value) or (isinstance(value, (list, tuple)) and all(_is_text(item) for item in value))


TEXT = Form("a text", _is_text)
SWITCH = Form("1, 0, true or false", lambda value: isinstance(value, int) and value in (0, 1))
SECONDS = Form(f"a number of seconds from 0 to {SECONDS_MAX}", _is_seconds)
ONE_VALUE = Form("one text, number, true or false", _is_one_value)
TEXTS = Form("a text or a list of texts", _is_list_or_text)


def of_option(form: str) -> Form:
    """The form of an option, by the form's name in the option table. Only faults of type are found here; other faults
    are reported where the option is read."""
    if form.endswith(",..."):
        return TEXTS
    if "off" in form.split("|"):
        return replace(ONE_VALUE, has_off=True)
    return TEXT if form == "TEXT" else ONE_VALUE


def flat_names(given: Mapping[str, Any], known: Container[str], prefix: str = "") -> Dict[str, Any]:
    """Joins nested tables to dotted names: {"client": {"node_port": 1}} becomes {"client.node_port": 1}, since a
    file in TOML has tables. The value of a known key is never taken for a table."""
    flat: Dict[str, Any] = {}
    for key, value in given.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and name not in known:
            flat.update(flat_names(value, known, f"{name}."))
        else:
            flat[name] = value
    return flat
