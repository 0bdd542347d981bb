"""vLLM's scheduler for `peercache bench vllm`: looks chunks up, ends steps, and sweeps for the ends of jobs.

vLLM is not needed, and not loaded where it is: modules of its names stand in for it.
"""

from __future__ import annotations

import abc
import enum
import itertools
import sys
import time
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any, Dict, Optional, Sequence

from peercache.simulators.engine import Chunks, run

SWEEP_SECONDS = 0.0001
"""How often the ends of jobs are asked for: ten times as often as vLLM does, whose other work hides the time."""

OFFLOAD, TIERS = "vllm.v1.kv_offload.base", "vllm.v1.kv_offload.tiering.base"


class Tier(abc.ABC):
    """vLLM's base class of secondary tiers, as far as a tier has it."""

    def __init__(self, offloading_spec: Any, primary_kv_view: memoryview, tier_type: str) -> None: ...

    @abc.abstractmethod
    def lookup(self, key: bytes, req_context: Any) -> Any: ...

    @abc.abstractmethod
    def submit_store(self, job: Any) -> None: ...

    @abc.abstractmethod
    def submit_load(self, job: Any) -> None: ...

    @abc.abstractmethod
    def get_finished_jobs(self) -> Any: ...

    @abc.abstractmethod
    def on_new_request(self, req_context: Any) -> Any: ...

    @abc.abstractmethod
    def drain_jobs(self) -> None: ...

    def on_request_finished(self, req_context: Any) -> None: ...

    def on_schedule_end(self, context: Any) -> None: ...

    def shutdown(self) -> None: ...


class Lookup(enum.Enum):
    MISS = 1
    HIT = 2
    RETRY = 3


@dataclass
class Result:
    job_id: int
    success: bool
    successful_keys: Optional[Any] = None


def stand_in() -> None:
    """Makes modules with the names of vLLM's. Call before the tier is imported."""
    modules: Dict[str, Dict[str, Any]] = {
        "vllm": {"__version__": "simulated"},
        OFFLOAD: {"LookupResult": Lookup, "RequestOffloadingContext": type("RequestOffloadingContext", (), {})},
        TIERS: {"SecondaryTierManager": Tier, "JobResult": Result},
    }
    for name, members in modules.items():
        module = ModuleType(name)
        vars(module).update(members)
        sys.modules[name] = module


def _config() -> Any:
    names = SimpleNamespace
    return names(groups=(), worker_kv_bytes_per_block=0, model=names(name="simulated"), cache=names(), parallel=names(),
                 kv_cache_layout="NHD")


class TierDoor:
    """A tier whose jobs are waited for one by one."""

    def __init__(self, chunks: Chunks, options: Dict[str, Any]) -> None:
        from peercache.vllm.tier import PeerCacheTier  # Not before the stand-ins are there.

        view = memoryview(chunks.memory).cast("B", (chunks.count, chunks.chunk_bytes))
        self._tier = PeerCacheTier(SimpleNamespace(config=_config()), view, "simulated", lookup_timeout_s=10, **options)
        self.native = self._tier._client.native
        self._numbers = itertools.count()

    def put(self, keys: Sequence[bytes], rows: Sequence[int]) -> None:
        self._run(self._tier.submit_store, keys, rows)

    def fetch(self, keys: Sequence[bytes], rows: Sequence[int]) -> None:
        self._run(self._tier.submit_load, keys, rows)

    def _run(self, submit: Any, keys: Sequence[bytes], rows: Sequence[int]) -> None:
        submit(SimpleNamespace(job_id=next(self._numbers), keys=keys, chunk_ids=rows))
        while True:
            for result in self._tier.get_finished_jobs():
                if not result.success:
                    raise RuntimeError("a job failed")
                return
            time.sleep(SWEEP_SECONDS)

    def ask(self, keys: Sequence[bytes]) -> None:
        request = SimpleNamespace(req_id=str(next(self._numbers)))
        for key in keys:
            self._tier.lookup(key, request)
        self._tier.on_schedule_end(None)
        while self._tier.lookup(keys[-1], request) is Lookup.RETRY:
            time.sleep(SWEEP_SECONDS)
        if any(self._tier.lookup(key, request) is not Lookup.HIT for key in keys):
            raise RuntimeError("a look-up: not all chunks were found")
        self._tier.on_request_finished(request)

    def close(self) -> None:
        self._tier.shutdown()


if __name__ == "__main__":
    stand_in()
    run(TierDoor, lambda digest: digest + bytes(4))
