"""PeerCacheTier: PeerCache as a secondary tier of vLLM's OffloadingConnector."""

from __future__ import annotations

import json
import logging
import os
import time
from typing import Any, Callable, Dict, Iterable, Optional, Sequence

from peercache import guard
from peercache._native import Error, KeySpace, Results
from peercache.client import Client
from peercache.jobs import Ended, Job, Jobs
from peercache.opening import open_or_miss
from peercache.vllm import contract, namespace
from peercache.vllm.contract import Answers, ResultMaker, TierBase
from peercache.vllm.lookups import Lookups, missing_keys
from peercache.vllm.news import LOAD, STORE, Events, Figures, metric_definitions
from peercache.vllm.settings import ENTRY, Settings, settings_of
from peercache.vllm.slots import Slots
from peercache.vllm.verdicts import Verdicts

logger = logging.getLogger("peercache.vllm")

NO_SEED_LINE = (
    "PYTHONHASHSEED is not set: unless this version of vLLM has a seed of its own, no other process finds what this one "
    "stores. Set it to the same number for all engines that are to share"
)


def never_raises(miss: Any) -> Callable[[guard.Call], guard.Call]:
    """Decorates a method that vLLM calls so that it answers `miss` where it would have raised."""
    return guard.never_raises(logger, lambda *_, **__: miss)


def _open(settings: Settings) -> Client:
    """Opens the tier's client. Errors: ValueError for options that make no sense."""
    try:
        return open_or_miss(settings.options, logger)
    except Error as why:
        raise ValueError(f"{ENTRY}: {why}") from why


class PeerCacheTier(TierBase):
    """A secondary tier, of one engine's scheduler process:

        "secondary_tiers": [{"type": "PeerCacheTier", "module_path": "peercache.vllm"}]

    Other keys of the entry are those of `Settings` and names of the option table (docs/configuration.md).

    Threads: vLLM's scheduler and its sweep, at once. Ownership: the slots of a job are lent until `get_finished_jobs`
    has returned the job, or `shutdown` has returned; after that nothing reads or writes them, also when the job failed.
    The primary view is held until `shutdown`. Errors: the constructor raises ValueError for an entry that makes no sense
    and for a vLLM whose interface is not known, with a sentence. No other method raises: a chunk
    that cannot be loaded or stored is a miss.
    Deadlines: a key has its verdict `lookup_timeout_s` after the step that asked first; a job ends `load_timeout_s` or
    `store_timeout_s` after it was submitted, 50 ms later at most, with the keys that made it.
    """

    medium = getattr(contract.theirs(contract.OFFLOAD, "Medium"), "STORAGE", None)

    def __new__(cls, *_: Any, **__: Any) -> "PeerCacheTier":
        # Checked before the object is made, so that the user sees this sentence and not Python's
        # about an abstract class.
        fault = contract.refusal(TierBase)
        if fault is not None:
            raise ValueError(fault)
        return super().__new__(cls)

    def __init__(self, offloading_spec: Any, primary_kv_view: memoryview, tier_type: str, **entry: Any) -> None:
        detector = entry.pop(contract.OPTIONAL_PARAMETER, None)
        named = {"offloading_spec": offloading_spec, "primary_kv_view": primary_kv_view, "tier_type": tier_type,
                 contract.OPTIONAL_PARAMETER: detector}
        super().__init__(**contract.base_arguments(TierBase, named))
        self._settings = settings_of(entry)
        self._slots = Slots(primary_kv_view)
        try:
            self._prepare(offloading_spec, tier_type)
        except Exception:
            self._slots.give_back()  # vLLM cannot unmap its memory while the view is held.
            raise

    def _prepare(self, offloading_spec: Any, tier_type: str) -> None:
        self._fields = namespace.fields_of(offloading_spec, self._slots.row_bytes, self._settings.space,
                                           self._settings.kv_cache_layout)
        self._key_space: Optional[KeySpace] = None
        self._untold = namespace.untold(offloading_spec, self._settings.space)
        locality = contract.theirs(contract.OFFLOAD, "Locality")
        self.locality = None if locality is None else locality(self._settings.locality)
        self._events = self._make_events(offloading_spec, tier_type)
        self._client = _open(self._settings)
        try:
            self._start()
        except Exception:
            self._client.close()
            raise

    def _make_events(self, spec: Any, tier_type: str) -> Optional[Events]:
        if not self._settings.kv_events or not hasattr(TierBase, "take_events"):
            return None
        if not getattr(getattr(spec, "kv_events_config", None), "enable_kv_cache_events", False):
            logger.warning('tier %s has "enable_kv_events", and KV events are off in vLLM: there are none', tier_type)
            return None
        return Events(self.medium, self.locality)

    def _start(self) -> None:
        settings, native = self._settings, self._client.native
        self._load_s = native.timeout if settings.load_timeout_s is None else float(settings.load_timeout_s)
        self._store_s = native.timeout if settings.store_timeout_s is None else float(settings.store_timeout_s)
        fault = native.register_memory(*self._slots.memory())
        self._registered = fault is None
        if fault is not None:
            logger.warning("the primary tier is not registered, its chunks are copied: %s", fault)
        self._answers, self._result = Answers(), ResultMaker()
        self._no_wishes: Any = contract.theirs(contract.OFFLOAD, "RequestOffloadingContext")
        self._figures = Figures(self._slots.row_bytes)
        self._verdicts = Verdicts(settings.lookup_timeout_s)
        self._jobs = Jobs(self._move, {LOAD: settings.load_threads, STORE: settings.store_threads}, "vllm",
                          ended=self._ended)
        try:
            self._lookups = Lookups(native, self._space, self._verdicts, self._missing, settings.hold_s)
        except BaseException:
            self._jobs.close()
            raise
        self._closed = False
        logger.info("PeerCache serves chunks of %s bytes at %s; data plane %s", self._slots.row_bytes,
                    self._client.node_address, self._client.data_plane)
        if self._untold:
            logger.warning(self._untold)
        if "PYTHONHASHSEED" not in os.environ:
            logger.warning(NO_SEED_LINE)

    def _space(self) -> KeySpace:
        """The key space of the engine's chunks. It is made when it is first needed, since vLLM makes the seed of its
        hashes after its tiers."""
        if self._key_space is None:
            fields = [*self._fields, f"hash_seed={namespace.hash_seed()}"]
            # From these fields and a chunk's key an operator can find out why the chunk missed (docs/vllm.md).
            logger.info("key space: %s", json.dumps(fields))
            self._key_space = KeySpace(fields)
            facts = {"lookup_timeout_s": str(self._settings.lookup_timeout_s)}
            self._client.native.describe(self._key_space, "vllm", fields, facts)
        return self._key_space

    # Methods for look-ups

    def lookup(self, key: bytes, req_context: Any) -> Any:
        """Whether the chunk is there: a hit, a miss, or "ask again in the next step"."""
        try:
            return self._answers.of(self._verdicts.of(key, req_context.req_id, time.monotonic()))
        except Exception:  # noqa: BLE001 - without the decorator, since the scheduler makes this call for each chunk
            guard.say(logger, "lookup")
            return self._answers.miss

    @never_raises(None)
    def on_schedule_end(self, context: Any) -> None:
        """Sends the step's look-ups, as one batch."""
        self._lookups.step_end()

    def on_new_request(self, req_context: Any) -> Any:
        """Asks vLLM for no more than the chunks that it has computed."""
        return self._no_wishes()

    @never_raises(None)
    def on_request_finished(self, req_context: Any) -> None:
        self._verdicts.forget(req_context.req_id)

    def _missing(self, keys: Sequence[bytes]) -> None:
        """Notes keys that nobody has."""
        if self._events is not None:
            self._events.keys.gone(keys)

    # Methods for stores and loads

    @never_raises(None)
    def submit_store(self, job: Any) -> None:
        """Submits chunks to be copied out of the primary tier; those that the cache has already are
        not copied again."""
        self._submit(job, STORE, self._store_s)

    @never_raises(None)
    def submit_load(self, job: Any) -> None:
        """Submits chunks to be copied into the primary tier."""
        self._submit(job, LOAD, self._load_s)

    def _submit(self, job: Any, kind: str, seconds: float) -> None:
        now, keys = time.monotonic(), list(job.keys)
        try:
            addresses = self._slots.addresses(contract.slots_of(job))
            if len(addresses) != len(keys):
                raise ValueError(f"{len(keys)} keys, but {len(addresses)} slots")
        except Exception:  # noqa: BLE001 - whatever is wrong with the job, vLLM waits for its end
            guard.say(logger, f"the {kind} of a job that makes no sense")
            self._jobs.refuse(Job(job.job_id, kind, keys, (), (), now, now))
            return
        sizes = [self._slots.row_bytes] * len(keys)
        self._jobs.submit(Job(job.job_id, kind, keys, addresses, sizes, now, now + seconds))

    def _move(self, job: Job, seconds: float) -> Results:
        native = self._client.native
        move = native.get if job.kind == LOAD else native.set
        return move([self._space()], job.keys, job.addresses, job.sizes, seconds)

    @never_raises(None)
    def _ended(self, ended: Ended) -> None:
        """Notes the end of a job before vLLM hears of it."""
        job = ended.job
        if job.kind == LOAD:
            self._verdicts.flip(key for key, ok in zip(job.keys, ended.ok) if not ok)
        self._figures.ended(ended)
        if self._events is not None:
            missing = [] if ended.results is None else missing_keys(job.keys, ended.results)
            self._events.ended(ended, missing)

    @never_raises(())
    def get_finished_jobs(self) -> Iterable[Any]:
        """The jobs that have ended since the last call, each once."""
        results = [self._result_of(ended) for ended in self._jobs.take()]
        return [result for result in results if result is not None]

    @never_raises(None)
    def _result_of(self, ended: Ended) -> Any:
        """The end of a job in vLLM's words, which waits for it: a job of which not all can be told has failed. None
        where not even that can be made, which keeps no other job's end back."""
        try:
            return self._whole_result_of(ended)
        except Exception:  # noqa: BLE001 - whatever it is, vLLM waits for the end of its job
            guard.say(logger, "the result of a job")
            return self._result.make(ended.job.id, False, None, 0.0, 0)

    def _whole_result_of(self, ended: Ended) -> Any:
        success = all(ended.ok)
        arrived = tuple(key for key, ok in zip(ended.job.keys, ended.ok) if ok)
        partial = arrived if ended.job.kind == LOAD and not success and arrived else None
        size = len(arrived) * self._slots.row_bytes
        return self._result.make(ended.job.id, success, partial, ended.seconds, size)

    @never_raises(None)
    def drain_jobs(self) -> None:
        """Returns when no job touches the primary tier, by the deadline of the last one."""
        self._jobs.wait_idle()

    @never_raises(False)
    def has_pending_work(self) -> bool:
        """Whether jobs are still to be reported."""
        return self._jobs.unreported() > 0

    # Methods for events, metrics, and the end of the tier

    @never_raises(())
    def take_events(self) -> Iterable[Any]:
        return () if self._events is None else self._events.take()

    @classmethod
    @never_raises({})
    def build_metric_definitions(cls, *_: Any, **__: Any) -> Dict[str, Any]:
        """The metrics of the tier, as vLLM registers them, whatever its entry says."""
        return metric_definitions()

    @never_raises(None)
    def get_stats(self) -> Any:
        return self._figures.take(self._verdicts.take_counts())

    @never_raises(None)
    def shutdown(self) -> None:
        """Ends the tier: jobs that wait end as failed, those that run are waited for, by their deadlines. When it has
        returned, nothing touches the primary tier."""
        if self._closed:
            return
        self._closed = True
        self._jobs.close()
        self._lookups.close()
        if self._registered:
            self._client.native.unregister_memory(self._slots.address)
        self._client.close()
        self._slots.give_back()
