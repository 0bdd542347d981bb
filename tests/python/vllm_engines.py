"""A fake vLLM scheduler for its secondary tier: a primary tier, steps and jobs. Finds writes to slots that were given
back."""

import hashlib
import itertools
import mmap
import pathlib
import sys
import time
from collections import OrderedDict, defaultdict

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).parent / "vllm_shapes"))

from local_nodes import until  # noqa: E402
from vllm.v1.kv_offload.base import (  # noqa: E402
    LookupResult, OffloadingKVEventsConfig, OffloadingSpec, ReqContext, ScheduleEndContext, make_offload_key)
from vllm.v1.kv_offload.config import OffloadingConfig  # noqa: E402
from vllm.v1.kv_offload.tiering.base import TransferJob  # noqa: E402
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory  # noqa: E402

PATTERN = 0xEE
_count = itertools.count()
_requests = itertools.count()


def fresh_keys(count, group=0):
    """Returns chunk keys that no test has used before."""
    return [make_offload_key(hashlib.sha256(f"chunk {next(_count)}".encode()).digest(), group) for _ in range(count)]


def request():
    return ReqContext(f"request-{next(_requests)}")


def entry_of(node, **more):
    """Returns the tier's entry in the configuration of an engine at this node."""
    return {"type": "PeerCacheTier", "module_path": "peercache.vllm", **node.options(), **more}


class Engine:
    """A scheduler with a primary tier of `chunks` slots. Slots that the secondary tier gives back without their chunk
    are filled with PATTERN, so that `late_writes` finds later writes to them."""

    def __init__(self, entry, chunks=16, row_bytes=4096, config=None, events=False, storage_format=None):
        self.memory = mmap.mmap(-1, chunks * row_bytes)
        self.view = memoryview(self.memory).cast("B", (chunks, row_bytes))
        self.rows = numpy.frombuffer(self.memory, numpy.uint8).reshape(chunks, row_bytes)
        spec = OffloadingSpec(config or OffloadingConfig(), OffloadingKVEventsConfig(events), storage_format)
        self.tier = SecondaryTierFactory.create_secondary_tier(entry, self.view, spec)
        self.row_bytes, self.free = row_bytes, list(range(chunks))
        self.resident, self.loading, self.pinned = OrderedDict(), {}, set()
        self.pending, self.jobs, self.results, self._job_ids = defaultdict(list), {}, [], itertools.count()
        self.foreign = set()
        self.heard = 0.0
        """The time at which the engine last heard of a job's end, before it wiped any slot."""

    # Methods of the primary tier

    def bytes_of(self, key):
        """Returns the bytes of the chunk with this key."""
        digest = hashlib.sha256(key).digest()
        return numpy.frombuffer(digest * (self.row_bytes // len(digest)), numpy.uint8)

    def _slot(self):
        """Returns a slot for a chunk: a free slot, or that of the chunk that was used longest ago; None when all are
        pinned."""
        if not self.free:
            oldest = next((key for key in self.resident if key not in self.pinned), None)
            if oldest is None:
                return None
            self.free.append(self.resident.pop(oldest))
        slot = self.free.pop()
        self.foreign.discard(slot)
        return slot

    def evict(self):
        """Empties the primary tier, and wipes it."""
        assert not self.pinned and not self.loading
        self.free += self.resident.values()
        self.resident.clear()
        self._wipe(self.free)

    def _wipe(self, slots):
        for slot in slots:
            self.rows[slot] = PATTERN
            self.foreign.add(slot)

    def late_writes(self):
        """Returns the slots that were written to after they had been given back."""
        return [slot for slot in self.foreign if (self.rows[slot] != PATTERN).any()]

    def right(self, keys):
        """Returns how many of the keys are in the primary tier; fails if one has wrong bytes."""
        there = [key for key in keys if key in self.resident]
        for key in there:
            assert (self.rows[self.resident[key]] == self.bytes_of(key)).all(), "wrong bytes"
        return len(there)

    # Methods that play scheduler steps

    def lookup(self, key, context):
        if key in self.resident:
            self.resident.move_to_end(key)
            return LookupResult.HIT
        if key in self.loading:
            return LookupResult.HIT_PENDING
        answer = self.tier.lookup(key, context)
        assert isinstance(answer, LookupResult)
        if answer is not LookupResult.HIT:
            return answer
        slot = self._slot()
        if slot is None:
            return LookupResult.MISS
        self.loading[key] = slot
        self.pending[context.req_id].append((context, key, slot))
        return LookupResult.HIT_PENDING

    def step(self):
        """Ends a scheduler step: submits the loads, one job for each request, and then the step's look-ups."""
        for wanted in self.pending.values():
            self._submit(self.tier.submit_load, [key for _, key, _ in wanted], [slot for _, _, slot in wanted], True,
                         wanted[0][0])
        self.pending.clear()
        self.tier.on_schedule_end(ScheduleEndContext())
        self.sweep()

    def _submit(self, call, keys, slots, is_promotion, context):
        job = TransferJob(next(self._job_ids), keys, numpy.array(slots, numpy.int32), is_promotion, context)
        self.jobs[job.job_id] = job
        call(job)
        return job

    def compute(self, keys, context=None):
        """Puts new chunks into the primary tier and stores them, as after a prefill."""
        slots = []
        for key in keys:
            slot = self._slot()
            self.rows[slot] = self.bytes_of(key)
            self.resident[key] = slot
            self.pinned.add(key)
            slots.append(slot)
        return self._submit(self.tier.submit_store, keys, slots, False, context or request())

    def sweep(self):
        """Takes the jobs that have ended; fails if the engine does not know one."""
        results = list(self.tier.get_finished_jobs())
        if results:
            self.heard = time.monotonic()
        for result in results:
            job = self.jobs.pop(result.job_id)
            self.results.append(result)
            if not job.is_promotion:
                self.pinned -= set(job.keys)
                continue
            arrived = set(job.keys) if result.success else set(result.successful_keys or ())
            lost = [self.loading[key] for key in job.keys if key not in arrived]
            self.resident.update((key, self.loading[key]) for key in job.keys if key in arrived)
            for key in job.keys:
                del self.loading[key]
            self._wipe(lost)
            self.free += lost

    def finish(self, seconds=30):
        """Steps until no job is under way."""
        def idle():
            self.step()
            return not self.jobs
        assert until(idle, seconds)

    def ask(self, keys, context=None, seconds=10):
        """Looks the keys up, step after step, until each has a verdict. Returns the verdicts; by then the chunks that
        were found are being loaded into the primary tier."""
        context = context or request()
        answers = []

        def known():
            answers[:] = [self.lookup(key, context) for key in keys]
            self.step()
            return LookupResult.RETRY not in answers
        assert until(known, seconds)
        return answers

    def hits(self, keys, context=None):
        """Returns for how many of the keys the tier promises a hit."""
        return sum(answer is not LookupResult.MISS for answer in self.ask(keys, context))

    def fetch(self, keys):
        """Loads the keys' chunks into the primary tier. Returns how many arrived with the right bytes."""
        self.ask(keys)
        self.finish()
        return self.right(keys)

    def put(self, keys):
        """Stores new chunks, waits until every node finds them, and empties the primary tier."""
        self.compute(keys)
        self.finish()
        assert self.results[-1].success
        flushed = self.tier._client.flush()
        assert flushed.complete and flushed.failed == 0
        self.evict()

    def knows(self, count):
        """Waits until the tier's client knows `count` nodes."""
        assert until(lambda: len(self.tier._client.members()) == count)
        return self

    def close(self):
        self.tier.shutdown()
        self.view.release()  # Raises if anybody else still holds the view.
