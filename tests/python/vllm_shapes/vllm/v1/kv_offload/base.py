"""What vLLM's offloading managers exchange."""

import enum
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional


def make_offload_key(block_hash, group):
    return block_hash + group.to_bytes(4, "big")


class Medium(enum.Enum):
    CPU = "CPU"
    STORAGE = "STORAGE"


class Locality(enum.Enum):
    LOCAL = "LOCAL"
    REMOTE = "REMOTE"


class LookupResult(enum.Enum):
    MISS = enum.auto()
    HIT = enum.auto()
    HIT_PENDING = enum.auto()
    RETRY = enum.auto()


@dataclass
class ReqContext:
    req_id: str
    kv_transfer_params: Optional[dict] = None


@dataclass
class RequestOffloadingContext:
    policy: str = "chunk_level"


class ScheduleEndContext(NamedTuple):
    new_req_ids: Any = ()
    preempted_req_ids: Any = ()


@dataclass
class OffloadingEvent:
    keys: list
    medium: Medium
    removed: bool
    locality: Optional[Locality] = None
    ownership: Optional[str] = None
    removal_expected: bool = False


@dataclass(frozen=True)
class OffloadingCounterMetadata:
    documentation: str
    labelnames: tuple = ()


@dataclass(frozen=True)
class OffloadingKVEventsConfig:
    enable_kv_cache_events: bool = False
    self_describing_kv_events: bool = False


@dataclass
class OffloadingSpec:
    config: Any
    kv_events_config: Any = field(default_factory=OffloadingKVEventsConfig)
    storage_format: Optional[str] = None
