"""Reads the `adapter_params` of LMCache's `--l2-adapter`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional

from peercache.client import Option, option_forms
from peercache.forms import SECONDS, SWITCH, TEXT, Form, flat_names, whole

PARAMS = "adapter_params of PeerCache"
THREADS = whole(1, 64)

READ_KEYS: Mapping[str, Form] = {
    "namespace": TEXT,
    "allow_empty_namespace": SWITCH,
    "lookup_timeout_s": SECONDS,
    "timeout_s": SECONDS,
    "hold_s": SECONDS,
    "get_threads": THREADS,
    "set_threads": THREADS,
}
"""The keys that are read beside those of the option table, with the form of each."""

NO_NAMESPACE = (
    f'{PARAMS}: "namespace" is missing. LMCache\'s keys do not say the dtype, the layout, the geometry of a chunk, nor '
    "which weights a model's name means: give one word to all servers for which these are the same, and to no others "
    '("allow_empty_namespace": true does without)'
)


@dataclass(frozen=True)
class Settings:
    options: Dict[str, Option]
    """Options of the client, by the names of the option table."""
    namespace: str
    """What decides beside LMCache's key whether a chunk may be used, and the name that `clear` takes."""
    lookup_timeout_s: float
    """Seconds from the submission of an exists to its completion."""
    timeout_s: Optional[float]
    """Seconds from the submission of a get, set or delete to its completion; None: as long as a call of the client."""
    hold_s: float
    """Seconds for which chunks that an exists finds are kept from eviction, for the get that follows; 0: chunks are not
    held."""
    get_threads: int
    set_threads: int


def settings_of(params: Mapping[str, Any]) -> Settings:
    """The settings of `adapter_params`. Errors: ValueError for keys that nobody reads, values that make no sense, and
    without a namespace; the texts of options are checked by the client."""
    options = option_forms()
    forms = {**options, **READ_KEYS}
    said = {key: value for key, value in flat_names(params, forms).items() if value is not None}
    unknown = sorted(said.keys() - forms.keys())
    if unknown:
        raise ValueError(
            f"{PARAMS} have {', '.join(unknown)}: that is no option of PeerCache (docs/configuration.md), nor one of "
            f"{', '.join(READ_KEYS)}"
        )
    for key, value in said.items():
        forms[key].check(f"{PARAMS}: {key}", value)
    if not said.get("namespace") and not said.get("allow_empty_namespace"):
        raise ValueError(NO_NAMESPACE)
    return Settings(
        options={key: value for key, value in said.items() if key in options},
        namespace=said.get("namespace", ""),
        lookup_timeout_s=float(said.get("lookup_timeout_s", 0.25)),
        timeout_s=said.get("timeout_s"),
        hold_s=float(said.get("hold_s", 2.0)),
        get_threads=said.get("get_threads", 4),
        set_threads=said.get("set_threads", 2),
    )
