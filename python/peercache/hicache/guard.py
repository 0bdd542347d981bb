"""Keeps exceptions from SGLang, whose prefetch, IO and backup threads die of one and stay dead."""

from __future__ import annotations

import functools
import logging
import time
from typing import Any, Callable, Dict, TypeVar

logger = logging.getLogger("peercache.hicache")

REPEAT_SECONDS = 60.0


class Closed(Exception):
    """Raised when the store has been closed: the call is a miss, and no fault."""


Call = TypeVar("Call", bound=Callable[..., Any])
_said_at: Dict[str, float] = {}


def _say(what: str) -> None:
    """Logs a fault: the first one of a kind with its trace, later ones in at most one line per minute."""
    now = time.monotonic()
    last = _said_at.get(what)
    if last is None or now - last > REPEAT_SECONDS:
        _said_at[what] = now
        logger.exception("%s failed, and counts as a miss", what)


def never_raises(miss: Callable[..., Any]) -> Callable[[Call], Call]:
    """Decorates a method so that it answers `miss(*arguments)` where it would have raised."""

    def around(call: Call) -> Call:
        @functools.wraps(call)
        def guarded(self: Any, *arguments: Any, **named: Any) -> Any:
            try:
                return call(self, *arguments, **named)
            except Closed:
                return miss(*arguments, **named)
            except Exception:  # noqa: BLE001 - whatever it is, it ends here
                _say(call.__name__)
                return miss(*arguments, **named)

        return guarded  # type: ignore[return-value]

    return around


def count_of(things: Any) -> int:
    """How many answers a call must give for `things`, whatever the caller passed."""
    try:
        return len(things)
    except TypeError:
        return 0


def none_of_each(transfers: Any = (), *_: Any, **__: Any) -> Dict[Any, Any]:
    """An answer of misses for a call with transfers: as many for each pool as can be read from the arguments."""
    named = [t for t in (transfers if count_of(transfers) else ()) if hasattr(t, "name")]
    return {t.name: none_of(getattr(t, "keys", None)) for t in named}


def none_of(keys: Any = (), *_: Any, **__: Any) -> Any:
    """An answer of misses: one False for each key."""
    return [False] * count_of(keys)
