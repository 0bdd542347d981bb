"""What `--hicache-storage-backend-extra-config` says, as values."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Tuple

from peercache.client import Option, option_names
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
OWN_KEYS = frozenset({"embedded", "space"})
EVENT_KEYS = "kv_events."

INTERFACE_V1_LINE = (
    "PeerCache runs on SGLang's slow path: each page is copied twice more. Add this to "
    'the JSON of --hicache-storage-backend-extra-config:  "interface_v1": 1'
)


@dataclass(frozen=True)
class Settings:
    options: Dict[str, Option]
    """By the names of the option table."""
    space: str
    """Keeps tenants apart: no page of one space is ever found in another."""
    embedded: bool
    interface_v1: bool
    tp_lcm_size: int
    """0: not said here."""
    prefetch_base_s: float
    prefetch_per_ki_token_s: float
    prefetch_max_s: float
    events: Optional[EventSettings] = None
    """None: nobody is told which pages are in L3."""

    def batch_budget_s(self, tokens: int) -> float:
        """SGLang gives a prefetch of so many tokens up after this time: a batch is not worth more."""
        grown = self.prefetch_base_s + self.prefetch_per_ki_token_s * tokens / 1024
        return min(self.prefetch_max_s, grown)


def _flat(given: Mapping[str, Any], prefix: str = "") -> Dict[str, Any]:
    """{"client": {"node_port": 1}} as {"client.node_port": 1}: a file in TOML has tables."""
    flat: Dict[str, Any] = {}
    for key, value in given.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _as_mapping(extra_config: Any) -> Mapping[str, Any]:
    """Errors: ValueError for what is no JSON object."""
    if extra_config is None:
        return {}
    given = json.loads(extra_config) if isinstance(extra_config, (str, bytes)) else extra_config
    if not isinstance(given, Mapping):
        raise ValueError(f"the extra config of the storage backend is no JSON object: {given!r}")
    return given


def _split(given: Mapping[str, Any]) -> Tuple[Dict[str, Option], Dict[str, Any]]:
    """Options of the table, and the rest. What nobody knows is said once and left alone."""
    names = option_names()
    flat = _flat(given)
    options = {key: value for key, value in flat.items() if key in names and value is not None}
    rest = {key: value for key, value in flat.items() if key not in names}
    unknown = sorted(
        key for key in rest if key not in SGLANG_KEYS | OWN_KEYS and not key.startswith(EVENT_KEYS)
    )
    if unknown:
        logger.warning(
            "ignored in the extra config, no option of PeerCache has these names: %s",
            ", ".join(unknown),
        )
    return options, rest


def _seconds(rest: Mapping[str, Any], key: str, default: float) -> float:
    """What is said, also when it is 0. Errors: ValueError, TypeError for what is no number."""
    said = rest.get(key)
    return default if said is None else float(said)


def settings_of(extra_config: Any) -> Settings:
    """Errors: ValueError when it is no JSON object; values of options are checked by the client."""
    options, rest = _split(_as_mapping(extra_config))
    if not rest.get("interface_v1"):
        logger.warning("%s", INTERFACE_V1_LINE)
    return Settings(
        options=options,
        space=str(rest.get("space") or ""),
        embedded=bool(rest.get("embedded")),
        interface_v1=bool(rest.get("interface_v1")),
        tp_lcm_size=int(rest.get("tp_lcm_size") or 0),
        prefetch_base_s=_seconds(rest, "prefetch_timeout_base", 2.0),
        prefetch_per_ki_token_s=_seconds(rest, "prefetch_timeout_per_ki_token", 0.1),
        prefetch_max_s=_seconds(rest, "prefetch_timeout_max", 30.0),
        events=EventSettings.of(rest),
    )
