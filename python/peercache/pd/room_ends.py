"""How rooms of both sides fail."""

from __future__ import annotations

from typing import Callable, Optional, Tuple

from peercache import _native
from peercache.pd.contract import KVTransferError

ANOTHER_RANK = "another rank of the engine has failed"


def or_abort(call: Callable[[], None], abort: Callable[[str], None]) -> None:
    """Runs a call to the worker; what it refuses fails the room. A room that has ended keeps its end."""
    try:
        call()
    except (_native.Error, ValueError, TypeError, OverflowError) as why:
        abort(str(why))


def failure_error(room: int, recorded: Optional[str], failure: Optional[Tuple[str, bool]]) -> KVTransferError:
    """The error of a room for which SGLang's tables have `recorded`, and the worker has `failure`."""
    reason, is_others = failure or (ANOTHER_RANK, True)
    return KVTransferError(room, recorded or reason, is_others and recorded is None)
