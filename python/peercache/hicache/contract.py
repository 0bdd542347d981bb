"""SGLang's side of the contract: its own classes where SGLang is installed, small ones of the same form where it is
not.

Attributes that differ between SGLang's versions are read with getattr; classes that only newer versions have are
made here.
"""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

from peercache.forms import Form, whole
from peercache.hicache.settings import RANKS_MAX

STORAGE_PAGES = "sglang.srt.mem_cache.hicache_storage"
METRICS = ("sglang.srt.observability.metrics_collector", "sglang.srt.metrics.collector")


class OwnStorageBase:
    """The base class of the store where SGLang is not installed: remembers the host pools, as SGLang's
    HiCacheStorage does for its subclasses."""

    mem_pool_host: Any = None
    registered_pools: Dict[str, Any]

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        self.mem_pool_host = mem_pool_host

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        if not hasattr(self, "registered_pools"):
            self.registered_pools = {}
        self.registered_pools[host_pool_name] = host_pool


@dataclass
class OwnPoolTransferResult:
    """How many pages of a prefix are usable with only KV, and what each extra pool has of it."""

    kv_hit_pages: int
    extra_pool_hit_pages: Dict[str, int]


@dataclass
class OwnStorageMetrics:
    """SGLang's storage metrics: one entry of pages and GB/s for each batch since the metrics were last taken."""

    prefetch_pgs: List[int] = field(default_factory=list)
    backup_pgs: List[int] = field(default_factory=list)
    prefetch_bandwidth: List[float] = field(default_factory=list)
    backup_bandwidth: List[float] = field(default_factory=list)


def _theirs(modules: Sequence[str], name: str) -> Optional[Any]:
    """The class `name` of SGLang's modules; None when SGLang is not installed, or cannot be loaded."""
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, OSError, RuntimeError):
            continue
    return None


if TYPE_CHECKING:
    StorageBase = OwnStorageBase
    PoolTransferResult = OwnPoolTransferResult
    StorageMetrics = OwnStorageMetrics
else:
    StorageBase = _theirs([STORAGE_PAGES], "HiCacheStorage") or OwnStorageBase
    PoolTransferResult = _theirs([STORAGE_PAGES], "PoolTransferResult") or OwnPoolTransferResult
    StorageMetrics = _theirs(METRICS, "StorageMetrics") or OwnStorageMetrics


def server_argument(name: str) -> Any:
    """A setting of SGLang's command line, or the value that SGLang made of it. None when SGLang is not there, or
    does not tell."""
    module: Any = sys.modules.get("sglang.srt.server_args")
    try:
        return getattr(module.get_global_server_args(), name)
    except Exception:  # noqa: BLE001 - versions differ in what they have, and raise where nothing is set yet
        return None


OF_THE_MODEL = ("revision", "quantization", "quantization_param_path", "json_model_override_args")
"""Settings of SGLang that change the bytes of KV beside the weights, and what they mean: its page hashes and its
HiCacheStorageConfig have none of them."""


def name_of(pool_name: Any) -> str:
    """The name of a pool, given as SGLang's PoolName or as its text."""
    return str(getattr(pool_name, "value", pool_name))


def is_trailing(hit_policy: Any) -> bool:
    """Whether a pool's hit policy is PoolHitPolicy.TRAILING_PAGES: only the last pages before the end of a hit are
    needed."""
    return name_of(hit_policy) == "trailing_pages"


@dataclass(frozen=True)
class Ranks:
    """The rank of an engine's process in its groups, and the model that it serves: HiCacheStorageConfig of any
    version."""

    model: str
    tp_rank: int
    tp_size: int
    pp_rank: int
    pp_size: int
    cp_rank: int
    cp_size: int
    is_mla: bool
    """Whether all ranks of a TP group hold the same bytes."""
    tp_lcm_size: int
    """Into how many groups of heads a page is cut over all ranks: `tp_size` or a multiple of it."""
    wants_metrics: bool
    model_arguments: str
    """Settings of SGLang's command line that change the model's KV, as JSON; empty: all are SGLang's defaults."""

    @staticmethod
    def of(config: Any, lcm_from_json: Any = None) -> "Ranks":
        """Reads SGLang's config. Errors: ValueError for numbers that make no sense or do not fit together."""
        tp_rank, tp_size = _place(config, "tp_rank", "tp_size")
        pp_rank, pp_size = _place(config, "pp_rank", "pp_size")
        cp_rank, cp_size = _place(config, "attn_cp_rank", "attn_cp_size")
        lcm = _number(config, "tp_lcm_size", lcm_from_json or tp_size, whole(1, RANKS_MAX))
        if lcm % tp_size != 0:
            raise ValueError(f"tp_lcm_size {lcm} is no multiple of tp_size {tp_size}")
        return Ranks(
            model=str(getattr(config, "model_name", None) or ""),
            tp_rank=tp_rank,
            tp_size=tp_size,
            pp_rank=pp_rank,
            pp_size=pp_size,
            cp_rank=cp_rank,
            cp_size=cp_size,
            is_mla=bool(getattr(config, "is_mla_model", False)),
            tp_lcm_size=lcm,
            wants_metrics=bool(getattr(config, "enable_storage_metrics", False)),
            model_arguments=_model_arguments(),
        )


def _model_arguments() -> str:
    said = {name: server_argument(name) for name in OF_THE_MODEL}
    changed = {name: str(value) for name, value in said.items() if value not in (None, "", "{}")}
    return json.dumps(changed, sort_keys=True) if changed else ""


def _number(config: Any, name: str, default: int, form: Form) -> int:
    """A number of the config; `default` when the config has none. Errors: ValueError."""
    value = getattr(config, name, None)
    if value is None:
        return default
    form.check(name, value)
    return int(value)


def _place(config: Any, rank: str, size: str) -> Tuple[int, int]:
    """A rank and the size of its group. When a version of SGLang tells only the rank, any rank is accepted."""
    ranks = _number(config, size, 1, whole(1, RANKS_MAX))
    said = getattr(config, size, None) is not None
    return _number(config, rank, 0, whole(0, ranks - 1 if said else RANKS_MAX)), ranks


def dp_rank_of(storage_config: Any) -> int:
    """The rank of data parallelism, by which SGLang moves the port of its events. Versions whose HiCacheStorageConfig
    has no `dp_rank` are asked for the rank of their attention; 0 where there is none."""
    rank = getattr(storage_config, "dp_rank", None)
    module: Any = sys.modules.get("sglang.srt.layers.dp_attention")
    if rank is None and module is not None:
        try:
            rank = module.get_attention_dp_rank()
        except Exception:  # noqa: BLE001 - it raises AssertionError without data parallelism of the attention
            rank = None
    return int(rank or 0)
