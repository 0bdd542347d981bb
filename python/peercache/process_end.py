"""Ends clients and workers, which have threads of C++, before the interpreter ends."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Union

from peercache import _native

END_SECONDS = 0.5
"""How long the interpreter's end waits for calls of other threads. Calls of clients that have a node end at once;
where the node stands still, one may not, and its thread stays in it."""

Closable = Union[_native.Client, _native.PrefillWorker, _native.DecodeWorker, _native.TransferEngine]

_open: "weakref.WeakSet[Closable]" = weakref.WeakSet()


def close_at_end(each: Closable) -> None:
    """Has a client or a worker closed when the interpreter ends, if it still lives then."""
    _open.add(each)


@atexit.register
def _end_all() -> None:
    """Ends all clients and workers before the interpreter ends. Hooks of atexit that were registered before this one
    run after it: the pages of their calls are CLOSED. Daemon threads that are in a call and have not returned by
    then stay there."""
    _native.end_all(list(_open), END_SECONDS)


os.register_at_fork(after_in_child=_native.forked)
