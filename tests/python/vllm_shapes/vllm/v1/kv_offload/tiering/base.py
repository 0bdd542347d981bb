"""The base class of secondary tiers, and the jobs that they run."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Optional


@dataclass
class TransferJob:
    job_id: int
    keys: Any
    chunk_ids: Any
    is_promotion: bool
    req_context: Any


@dataclass
class JobResult:
    job_id: int
    success: bool
    successful_keys: Optional[tuple] = None
    transfer_time: Optional[float] = None
    transfer_bytes: Optional[int] = None


class SecondaryTierManager(ABC):
    medium = None

    def __init__(self, offloading_spec, primary_kv_view, tier_type, backpressure_detector=None):
        self._primary_kv_view = primary_kv_view
        self.tier_type = tier_type
        self.bp_detector = backpressure_detector

    @abstractmethod
    def lookup(self, key, req_context): ...

    @abstractmethod
    def submit_store(self, job): ...

    @abstractmethod
    def submit_load(self, job): ...

    @abstractmethod
    def get_finished_jobs(self): ...

    @abstractmethod
    def on_new_request(self, req_context): ...

    @abstractmethod
    def drain_jobs(self): ...

    def on_request_finished(self, req_context): ...

    def on_schedule_end(self, context): ...

    def touch(self, keys, req_context): ...

    def has_pending_work(self):
        return False

    def take_events(self):
        return ()

    @classmethod
    def build_metric_definitions(cls, tier_config):
        return {}

    def get_stats(self):
        return None

    def shutdown(self): ...
