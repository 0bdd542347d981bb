"""Reads a tier's entry of vLLM's `secondary_tiers`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional

from peercache.client import Option, option_forms
from peercache.forms import SECONDS, SWITCH, TEXT, Form, flat_names, whole

ENTRY = "PeerCache's entry of secondary_tiers"
THREADS = whole(1, 64)
LOCALITY = Form("LOCAL or REMOTE", lambda value: value in ("LOCAL", "REMOTE"))

READ_KEYS: Mapping[str, Form] = {
    "space": TEXT,
    "kv_cache_layout": TEXT,
    "lookup_timeout_s": SECONDS,
    "load_timeout_s": SECONDS,
    "store_timeout_s": SECONDS,
    "load_threads": THREADS,
    "store_threads": THREADS,
    "enable_kv_events": SWITCH,
    "hold_s": SECONDS,
    "locality": LOCALITY,
}
"""The keys that are read beside those of the option table, with the form of each."""


@dataclass(frozen=True)
class Settings:
    options: Dict[str, Option]
    """Options of the client, by the names of the option table."""
    space: str
    """The tenant's space: no page of one space is ever found in another."""
    kv_cache_layout: str
    """The layout of KV in the user's words, for versions of vLLM that do not tell; empty: not given."""
    lookup_timeout_s: float
    """Seconds from the end of the step that asked first to the verdict."""
    hold_s: float
    """Seconds for which chunks that a look-up finds are kept from eviction, for the load that follows; 0: chunks are
    not held."""
    load_timeout_s: Optional[float]
    """Seconds from the submission of a load to its end; None: as long as a call of the client."""
    store_timeout_s: Optional[float]
    load_threads: int
    store_threads: int
    kv_events: bool
    locality: str


def settings_of(entry: Mapping[str, Any]) -> Settings:
    """The settings of an entry, without the keys that vLLM takes out of it. Errors: ValueError for keys that nobody
    reads and values that make no sense; the texts of options are checked by the client."""
    options = option_forms()
    forms = {**options, **READ_KEYS}
    said = {key: value for key, value in flat_names(entry, forms).items() if value is not None}
    unknown = sorted(said.keys() - forms.keys())
    if unknown:
        raise ValueError(
            f"{ENTRY} has {', '.join(unknown)}: that is no option of PeerCache (docs/configuration.md), nor one of "
            f"{', '.join(READ_KEYS)}"
        )
    for key, value in said.items():
        forms[key].check(f"{ENTRY}: {key}", value)
    return Settings(
        options={key: value for key, value in said.items() if key in options},
        space=said.get("space", ""),
        kv_cache_layout=said.get("kv_cache_layout", ""),
        lookup_timeout_s=float(said.get("lookup_timeout_s", 0.05)),
        hold_s=float(said.get("hold_s", 2.0)),
        load_timeout_s=said.get("load_timeout_s"),
        store_timeout_s=said.get("store_timeout_s"),
        load_threads=said.get("load_threads", 4),
        store_threads=said.get("store_threads", 2),
        kv_events=bool(said.get("enable_kv_events", False)),
        locality=said.get("locality", "REMOTE"),
    )
