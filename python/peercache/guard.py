"""Keeps exceptions from engines, whose threads die of one and stay dead."""

from __future__ import annotations

import functools
import logging
import time
from typing import Any, Callable, Dict, TypeVar

REPEAT_SECONDS = 60.0


class Closed(Exception):
    """Raised when the called object has been closed: the call is a miss, and not a fault."""


Call = TypeVar("Call", bound=Callable[..., Any])
_said_at: Dict[str, float] = {}


def _is_due(what: str) -> bool:
    """Whether a line of this kind may be logged again: once per minute."""
    now = time.monotonic()
    last = _said_at.get(what)
    if last is not None and now - last <= REPEAT_SECONDS:
        return False
    _said_at[what] = now
    return True


def say(logger: logging.Logger, what: str) -> None:
    """Logs the exception that is being handled, with its trace; each kind at most once per minute."""
    if _is_due(what):
        logger.exception("%s failed, and counts as a miss", what)


def warn(logger: logging.Logger, what: str, line: str) -> None:
    """Logs a line about something of this kind, at most once per minute."""
    if _is_due(what):
        logger.warning("%s", line)


def never_raises(logger: logging.Logger, miss: Callable[..., Any]) -> Callable[[Call], Call]:
    """Decorates a method so that it answers `miss(*arguments)` where it would have raised."""

    def around(call: Call) -> Call:
        @functools.wraps(call)
        def guarded(self: Any, *arguments: Any, **named: Any) -> Any:
            try:
                return call(self, *arguments, **named)
            except Closed:
                return miss(*arguments, **named)
            except Exception:  # noqa: BLE001 - whatever it is, it ends here
                say(logger, call.__name__)
                return miss(*arguments, **named)

        return guarded  # type: ignore[return-value]

    return around
