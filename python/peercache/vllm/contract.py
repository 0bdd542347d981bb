"""vLLM's side of the contract: its classes, and the check that they are the ones this package was written for."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any, Dict, FrozenSet, Mapping, Optional

TIERS = "vllm.v1.kv_offload.tiering.base"
OFFLOAD = "vllm.v1.kv_offload.base"
STATS = "vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics"
HASHES = "vllm.v1.core.kv_cache_utils"
CANONICAL = "vllm.distributed.kv_transfer.kv_connector.v1.offloading.canonical_mapping"

KNOWN_VERSIONS = "0.25 to 0.32"

IMPLEMENTED: Mapping[str, int] = {
    "lookup": 2,
    "submit_store": 1,
    "submit_load": 1,
    "get_finished_jobs": 0,
    "on_new_request": 1,
    "drain_jobs": 0,
}
"""The methods that vLLM's base class leaves to a tier: how many arguments vLLM passes to each."""

CALLED: Mapping[str, int] = {
    "on_request_finished": 1,
    "on_schedule_end": 1,
    "touch": 2,
    "has_pending_work": 0,
    "take_events": 0,
    "get_stats": 0,
    "shutdown": 0,
}
"""The other methods that the tier has: how many arguments vLLM passes to each. Versions may lack some of them."""

NEEDED: FrozenSet[str] = frozenset(
    {"lookup", "submit_store", "submit_load", "get_finished_jobs", "on_request_finished", "on_schedule_end", "shutdown"}
)
"""Methods without which vLLM could not use the tier: look-ups leave at the end of a step."""

MADE: Mapping[str, FrozenSet[str]] = {
    "JobResult": frozenset({"job_id", "success"}),
    "RequestOffloadingContext": frozenset(),
}
"""Classes of vLLM's that the tier makes objects of, and the arguments that it always gives."""

CONSTRUCTOR: FrozenSet[str] = frozenset({"offloading_spec", "primary_kv_view", "tier_type"})
OPTIONAL_PARAMETER = "backpressure_detector"


def theirs(module: str, name: str) -> Optional[Any]:
    """A class or function of vLLM's. None when vLLM is not installed, cannot be loaded or has none of this name."""
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, OSError, RuntimeError):
        return None


class NoTier:
    """The base class of the tier where vLLM has none: nothing can be made of it."""


if TYPE_CHECKING:
    TierBase = NoTier
else:
    TierBase = theirs(TIERS, "SecondaryTierManager") or NoTier


def version() -> str:
    """vLLM's version, in its own words."""
    return str(getattr(importlib.import_module("vllm"), "__version__", "without a version"))


def refusal(base: Any) -> Optional[str]:
    """Why a tier cannot be made over this base class of vLLM's, as a sentence. None: it can."""
    if base is NoTier:
        return f"peercache.vllm needs vLLM {KNOWN_VERSIONS} ({TIERS}.SecondaryTierManager): it is not there"
    strange = sorted([*_unknown(base), *_unknown_classes()])
    if not strange:
        return None
    return (
        f"vLLM {version()} has another interface of secondary tiers than the one that this PeerCache knows "
        f"(vLLM {KNOWN_VERSIONS}): {'; '.join(strange)}. Take such a vLLM, or a newer PeerCache"
    )


def _unknown(base: Any) -> "list[str]":
    """The differences of the base class from the one that this package was written for, a phrase
    each."""
    methods = {**IMPLEMENTED, **CALLED}
    found = [f"{name} is to be written by a tier" for name in base.__abstractmethods__ - methods.keys()]
    for name, count in methods.items():
        method = getattr(base, name, None)
        if method is None:
            if name in NEEDED:
                found.append(f"{name} is not there")
            continue
        taken = len(_parameters(method))
        if taken != count:
            found.append(f"{name} takes {taken} arguments, not {count}")
    parameters = set(_parameters(base.__init__)) - {OPTIONAL_PARAMETER}
    if parameters != CONSTRUCTOR:
        found.append(f"its constructor takes {', '.join(sorted(parameters))}")
    return found


def _unknown_classes() -> "list[str]":
    """The differences of the classes that the tier answers with from those that this package was
    written for, a phrase each."""
    found = []
    for name, given in MADE.items():
        made = theirs(TIERS, name) or theirs(OFFLOAD, name)
        if made is None:
            found.append(f"{name} is not there")
        elif _required_names(made.__init__) - given:
            found.append(f"{name} needs {', '.join(sorted(_required_names(made.__init__) - given))}")
    answers = theirs(OFFLOAD, "LookupResult")
    lacks = [word for word in ("HIT", "MISS", "RETRY") if answers is not None and not hasattr(answers, word)]
    return found + [f"LookupResult has no {word}" for word in lacks]


def _parameters(method: Any) -> Dict[str, inspect.Parameter]:
    """The parameters of a method but for `self` and those that take any number."""
    named = inspect.signature(method).parameters
    rest = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {name: each for name, each in named.items() if name != "self" and each.kind not in rest}


def _required_names(method: Any) -> FrozenSet[str]:
    """The arguments that a method must be given."""
    named = _parameters(method).items()
    return frozenset(name for name, each in named if each.default is inspect.Parameter.empty)


def fields_of(made: Any) -> FrozenSet[str]:
    """The names of the constructor arguments of a class of vLLM's; none for a class that vLLM does not have."""
    return frozenset() if made is None else frozenset(_parameters(made.__init__))


def base_arguments(base: Any, given: Mapping[str, Any]) -> Dict[str, Any]:
    """The arguments that the constructor of the base class takes."""
    return {name: given[name] for name in _parameters(base.__init__) if name in given}


class Answers:
    """How a look-up is answered: vLLM's LookupResult, or True, False and None in versions that have none."""

    def __init__(self) -> None:
        results = theirs(OFFLOAD, "LookupResult")
        self.hit: Any = True if results is None else results.HIT
        self.miss: Any = False if results is None else results.MISS
        self.retry: Any = None if results is None else results.RETRY

    def of(self, verdict: Optional[bool]) -> Any:
        """The answer for a verdict: True there, False not, None not known yet."""
        if verdict is None:
            return self.retry
        return self.hit if verdict else self.miss


class ResultMaker:
    """Makes vLLM's JobResult, with those of the fields that this version has."""

    def __init__(self) -> None:
        self._result: Any = theirs(TIERS, "JobResult")
        self._fields = fields_of(self._result)

    def make(self, job_id: int, success: bool, successful_keys: Any, seconds: float, size: int) -> Any:
        """`successful_keys`: what arrived of a load that failed, None for other jobs; `size` in bytes."""
        values = {"successful_keys": successful_keys, "transfer_time": seconds, "transfer_bytes": size,
                  "transfer_size": size}
        known = {name: value for name, value in values.items() if name in self._fields}
        return self._result(job_id=job_id, success=success, **known)


def slots_of(job: Any) -> "list[int]":
    """The primary tier's slots of a job: `chunk_ids`, which was `block_ids` before September 2026."""
    slots = getattr(job, "chunk_ids", None)
    slots = job.block_ids if slots is None else slots
    return [int(slot) for slot in slots]
