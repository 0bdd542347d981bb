"""The configuration of an engine, as its offloading sees it."""

from dataclasses import dataclass, field
from typing import Any, Optional


@dataclass(frozen=True)
class OffloadingGroupConfig:
    tokens_per_block: int = 16
    layer_names: tuple = ("layers.0", "layers.1")


@dataclass(frozen=True)
class OffloadingModelConfig:
    name: str = "test/model"
    dtype: str = "bfloat16"


@dataclass(frozen=True)
class OffloadingCacheConfig:
    tokens_per_hash: int = 16
    blocks_per_chunk: int = 4


@dataclass(frozen=True)
class OffloadingParallelConfig:
    rank: int = 0
    world_size: int = 1
    tp_size: int = 1
    pp_size: int = 1
    pcp_size: int = 1
    dcp_size: int = 1
    data_parallel_index: int = 0
    is_parallelism_agnostic: bool = False


@dataclass(frozen=True)
class OffloadingConfig:
    groups: tuple = (OffloadingGroupConfig(),)
    worker_kv_bytes_per_block: int = 1024
    enable_kv_cache_events: bool = False
    extra_config: Any = field(default_factory=dict)
    engine_id: str = "an engine"
    model: Any = OffloadingModelConfig()
    cache: Any = OffloadingCacheConfig()
    parallel: Any = OffloadingParallelConfig()
    replicated_layout: bool = False
    canonical_layout: bool = False
    kv_cache_layout: Optional[str] = "NHD"
    num_cpu_blocks: Optional[int] = None
