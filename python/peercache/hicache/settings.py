"""Reads the values of SGLang's `--hicache-storage-backend-extra-config`."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass, fields, replace
from typing import Any, Dict, Mapping, Optional, Tuple

from peercache.client import Option, option_forms
from peercache.forms import SECONDS, SWITCH, TEXT, Form, flat_names, whole
from peercache.kv_events.publisher import EventSettings

logger = logging.getLogger("peercache.hicache")

SGLANG_KEYS = frozenset(
    {
        "backend_name",
        "module_path",
        "class_name",
        "interface_v1",
        "allocator",
        "tp_lcm_size",
        "prefetch_threshold",
        "prefetch_timeout_base",
        "prefetch_timeout_per_ki_token",
        "prefetch_timeout_max",
        "hicache_storage_pass_prefix_keys",
    }
)
RANKS_MAX = 1 << 16
INT_MAX = (1 << 31) - 1
EVENT_KEYS = "kv_events."
PREFETCH = "prefetch_timeout_"

READ_KEYS: Mapping[str, Form] = {
    "interface_v1": SWITCH,
    "embedded": SWITCH,
    "space": TEXT,
    "tp_lcm_size": whole(1, RANKS_MAX),
    "own_pages_only": SWITCH,
    "draft_is_mla": SWITCH,
    "blank_drafts": SWITCH,
    "hold_s": SECONDS,
    "gpu_events": TEXT,
    "prefetch_timeout_base": SECONDS,
    "prefetch_timeout_per_ki_token": SECONDS,
    "prefetch_timeout_max": SECONDS,
    "kv_events.endpoint": TEXT,
    "kv_events.replay_endpoint": TEXT,
    "kv_events.topic": TEXT,
    "kv_events.encoding": TEXT,
    "kv_events.pod": TEXT,
    "kv_events.model": TEXT,
    "kv_events.connect": SWITCH,
    "kv_events.attribution": TEXT,
    "kv_events.journal": TEXT,
    "kv_events.buffer_steps": whole(0, INT_MAX),
    "kv_events.hwm": whole(0, INT_MAX),
    "kv_events.blocks_max": whole(1, INT_MAX),
    "kv_events.check_s": SECONDS,
    "kv_events.stale_s": SECONDS,
}
"""The keys that are read beside those of the option table, with the form of each. A key with the value None counts
as missing."""

INTERFACE_V1_LINE = (
    "PeerCache runs on SGLang's slow path: each page is copied twice more. Add this to "
    'the JSON of --hicache-storage-backend-extra-config:  "interface_v1": 1'
)


@dataclass(frozen=True)
class PrefetchTime:
    """How long SGLang waits for a prefetch, in seconds."""

    base: float
    per_ki_token: float
    max: float

    def of(self, tokens: int) -> float:
        return min(self.max, self.base + self.per_ki_token * tokens / 1024)

    def with_those_of(self, said: Mapping[str, Any]) -> "PrefetchTime":
        """A copy of these times, with the changes that the extra config `said` makes."""
        names = [each.name for each in fields(self)]
        return replace(self, **{n: float(said[f"{PREFETCH}{n}"]) for n in names if f"{PREFETCH}{n}" in said})


RADIX_TREE = PrefetchTime(base=2.0, per_ki_token=0.1, max=30.0)
"""How long SGLang's HiRadixCache waits for a prefetch by default."""

UNIFIED_TREE = PrefetchTime(base=1.0, per_ki_token=0.25, max=math.inf)
"""How long SGLang's UnifiedRadixCache (HybridCacheController) waits by default, for models with pools beside KV."""


@dataclass(frozen=True)
class Settings:
    options: Dict[str, Option]
    """Options of the client, by the names of the option table."""
    space: str
    """The tenant's space: no page of one space is ever found in another."""
    embedded: bool
    interface_v1: bool
    tp_lcm_size: int
    """Groups of heads over all ranks; 0: the extra config does not say."""
    own_pages_only: bool
    """Whether a rank asks for its own pages only, and leaves it to SGLang that all ranks have theirs."""
    draft_is_mla: Optional[bool]
    """Whether all ranks of an MLA engine hold the same bytes of its draft, too. None: the extra config does not say."""
    blank_drafts: bool
    """Whether reads give zeros for the shares of a draft that SGLang does not back up."""
    hold_s: float
    """Seconds for which pages that an exists finds are kept from eviction, for the get that follows; 0: pages are not
    held."""
    radix_tree: PrefetchTime
    unified_tree: PrefetchTime
    gpu_events: str = ""
    """The endpoint where SGLang publishes its own KV events, of which the node is told the blocks on the GPU; empty: it
    is told nothing."""
    events: Optional[EventSettings] = None
    """The publisher of KV events; None: nobody is told which pages are in L3."""

    def batch_budget_s(self, tokens: int, unified: bool = False) -> float:
        """Seconds after which SGLang gives up a prefetch of `tokens` tokens: a batch of it should take no longer."""
        return (self.unified_tree if unified else self.radix_tree).of(tokens)


def _as_mapping(extra_config: Any) -> Mapping[str, Any]:
    """The extra config as a mapping. Errors: ValueError when it is not a JSON object."""
    if extra_config is None:
        return {}
    try:
        given = json.loads(extra_config) if isinstance(extra_config, (str, bytes)) else extra_config
    except ValueError as why:
        raise ValueError(f"the extra config of the storage backend is no JSON: {why}") from why
    if not isinstance(given, Mapping):
        raise ValueError(f"the extra config of the storage backend is no JSON object: {given!r}")
    return given


def _split(given: Mapping[str, Any]) -> Tuple[Dict[str, Option], Dict[str, Any]]:
    """Splits settings into options of the option table and all others. An unknown key is logged once and ignored.
    Errors: ValueError for a value that its key does not take."""
    options = option_forms()
    forms = {**options, **READ_KEYS}
    flat = flat_names(given, forms)
    unknown = sorted(
        key for key in flat if key not in SGLANG_KEYS | forms.keys() and not key.startswith(EVENT_KEYS)
    )
    if unknown:
        logger.warning(
            "ignored in the extra config, no option of PeerCache has these names: %s",
            ", ".join(unknown),
        )
    said = {key: value for key, value in flat.items() if value is not None}
    for key, value in said.items():
        if key in forms:
            forms[key].check(f"extra config of the storage backend: {key}", value)
    told = {key: value for key, value in said.items() if key in options}
    return told, {key: value for key, value in said.items() if key not in options}


def settings_of(extra_config: Any) -> Settings:
    """The settings of an extra config. Errors: ValueError when the config is not a JSON object, or a value makes no
    sense; the texts of options are checked by the client."""
    options, rest = _split(_as_mapping(extra_config))
    if not rest.get("interface_v1"):
        logger.warning("%s", INTERFACE_V1_LINE)
    return Settings(
        options=options,
        space=rest.get("space", ""),
        embedded=bool(rest.get("embedded", False)),
        interface_v1=bool(rest.get("interface_v1", 0)),
        tp_lcm_size=rest.get("tp_lcm_size", 0),
        own_pages_only=bool(rest.get("own_pages_only", False)),
        draft_is_mla=None if rest.get("draft_is_mla") is None else bool(rest["draft_is_mla"]),
        blank_drafts=bool(rest.get("blank_drafts", False)),
        hold_s=float(rest.get("hold_s", 2.0)),
        gpu_events=rest.get("gpu_events", ""),
        radix_tree=RADIX_TREE.with_those_of(rest),
        unified_tree=UNIFIED_TREE.with_those_of(rest),
        events=EventSettings.of(rest),
    )
