"""Keeps exceptions from SGLang, whose prefetch, IO and backup threads would die of one and stay
dead: instead, calls give answers that SGLang counts as misses."""

from __future__ import annotations

import functools
import logging
from typing import Any, Dict

from peercache import guard
from peercache.guard import Closed

__all__ = ["Closed", "count_of", "never_raises", "none_of", "none_of_each"]

never_raises = functools.partial(guard.never_raises, logging.getLogger("peercache.hicache"))
"""Decorates a method so that it answers `miss(*arguments)` where it would have raised."""


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
