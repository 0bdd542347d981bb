"""PeerCacheConnector: the seven calls of LMCache's `native_plugin` L2 adapter."""

from __future__ import annotations

import itertools
import logging
import os
import time
import weakref
from collections import Counter
from typing import Any, Dict, List, Optional, Sequence, Tuple

from peercache import guard
from peercache._native import Error, KeySpace, LentMemory, Results, status_words
from peercache.client import Client, Status
from peercache.jobs import Ended, Job, Jobs
from peercache.lmcache.settings import PARAMS, Settings, settings_of
from peercache.opening import open_or_miss

logger = logging.getLogger("peercache.lmcache")

linux: Any = os
"""The module `os` with what only Linux has, which type checkers do not all know."""

FORMAT = "lmcache-l2-1"

SET, GET, EXISTS, DELETE = "set", "get", "exists", "delete"

Completion = Tuple[int, bool, str, List[bool]]
"""The end of a batch: its future, whether all of it is a success, why not, and the result of each key."""


def _open(settings: Settings) -> Client:
    """Opens the connector's client. Errors: ValueError for options that make no sense."""
    try:
        return open_or_miss(settings.options, logger)
    except Error as why:
        raise ValueError(f"{PARAMS}: {why}") from why


class PeerCacheConnector:
    """The connector of one LMCache server:

        --l2-adapter '{"type": "native_plugin", "module_path": "peercache.lmcache", "class_name": "PeerCacheConnector",
                       "adapter_params": {"namespace": "..."}}'

    Other keys of `adapter_params` are those of `Settings` and names of the option table (docs/configuration.md).

    Threads: any number may call. A submit never waits; the copies run on threads of ours, without Python's lock.
    Ownership: the buffers of a batch are lent until `drain_completions` has returned its future, or `close` has
    returned; after that nothing reads or writes them, also where the batch failed. Buffers of keys that were not got
    may hold any bytes. Errors: the constructor raises ValueError for parameters that make no sense, and without a
    namespace. No other method raises: a key that cannot be served is False. Deadlines: an exists
    completes `lookup_timeout_s` after it was submitted, any other batch after `timeout_s`, 50 ms
    later at most, with the keys that made it.
    """

    def __init__(self, **adapter_params: Any) -> None:
        settings = settings_of(adapter_params)
        self._client = _open(settings)
        try:
            self._start(settings)
        except BaseException:
            self._client.close()
            raise

    def _start(self, settings: Settings) -> None:
        fields = [settings.namespace, FORMAT]
        self._space = KeySpace(fields)
        self._client.native.describe(self._space, "lmcache", fields, {"lookup_timeout_s": str(settings.lookup_timeout_s)})
        seconds = self._client.native.timeout if settings.timeout_s is None else float(settings.timeout_s)
        self._hold_s = settings.hold_s
        self._seconds = {SET: seconds, GET: seconds, DELETE: seconds, EXISTS: settings.lookup_timeout_s}
        self._futures = itertools.count(1)
        self._event = int(linux.eventfd(0, linux.EFD_NONBLOCK | linux.EFD_CLOEXEC))
        # The descriptor lives as long as the connector, closed or not: LMCache may still poll its number.
        # At the interpreter's end threads may still write to it.
        weakref.finalize(self, os.close, self._event).atexit = False
        threads = {SET: settings.set_threads, GET: settings.get_threads, EXISTS: 1, DELETE: 1}
        self._jobs = Jobs(self._move, threads, "lmcache", ended=self._ended, ready=self._signal)
        self._closed = False
        logger.info("PeerCache serves namespace %r at %s; data plane %s", settings.namespace,
                    self._client.node_address, self._client.data_plane)

    def event_fd(self) -> int:
        """A descriptor that is readable while completions wait."""
        return self._event

    def submit_batch_set(self, keys: Sequence[str], memoryviews: Sequence[memoryview]) -> int:
        """Submits buffers to be copied into the cache; keys that are there already are not copied
        again."""
        return self._submit(SET, keys, memoryviews)

    def submit_batch_get(self, keys: Sequence[str], memoryviews: Sequence[memoryview]) -> int:
        """Submits buffers to be filled. A key whose value has another length than its buffer is not
        got."""
        return self._submit(GET, keys, memoryviews)

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        return self._submit(EXISTS, keys)

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        """Submits keys to be withdrawn wherever they are. A key that nobody has counts as
        deleted."""
        return self._submit(DELETE, keys)

    def drain_completions(self) -> List[Completion]:
        """The batches that have ended since the last call, each once. Resets the descriptor."""
        try:
            linux.eventfd_read(self._event)
        except BlockingIOError:
            pass  # No batch has ended since the last call.
        return [_completion_of(ended) for ended in self._jobs.take()]

    def close(self) -> None:
        """Ends the connector: batches that wait end as failed, those that run are waited for, by their deadlines. When
        it has returned, nothing touches a buffer; batches that come later end at once."""
        if self._closed:
            return
        self._closed = True
        self._jobs.close()
        self._client.close()

    def _submit(self, kind: str, keys: Sequence[str], buffers: Optional[Sequence[memoryview]] = None) -> int:
        future, now, named = next(self._futures), time.monotonic(), list(keys)
        try:
            lent, places = LentMemory(), []
            if buffers is not None:
                if len(buffers) != len(named):
                    raise ValueError(f"{len(named)} keys, but {len(buffers)} buffers")
                places = [lent.lend(buffer, kind == GET) for buffer in buffers]
            addresses, sizes = [place[0] for place in places], [place[1] for place in places]
        except Exception:  # noqa: BLE001 - whatever is wrong with the buffers, LMCache waits for the future
            guard.say(logger, f"the {kind} of a batch that makes no sense")
            self._jobs.refuse(Job(future, kind, named, (), (), now, now))
            return future
        self._jobs.submit(Job(future, kind, named, addresses, sizes, now, now + self._seconds[kind], lent))
        return future

    def _move(self, job: Job, seconds: float) -> Results:
        native = self._client.native
        if job.kind == EXISTS:
            return native.exists([self._space], job.keys, seconds, self._hold_s)
        if job.kind == DELETE:
            return native.remove([self._space], job.keys, seconds)
        move = native.get if job.kind == GET else native.set
        return move([self._space], job.keys, job.addresses, job.sizes, seconds)

    @guard.never_raises(logger, lambda *_: None)
    def _ended(self, ended: Ended) -> None:
        _say_why(ended)
        if ended.results is None and ended.job.kind in (EXISTS, GET) and not self._closed:
            self._client.native.note_unasked(self._space, "not_run: the deadline came first", len(ended.job.keys))

    def _signal(self) -> None:
        try:
            linux.eventfd_write(self._event, 1)
        except OSError:
            guard.say(logger, "the signal of a completion")


def _done(ended: Ended) -> Sequence[bool]:
    """Whether what was asked has been done for each key. @pre the job was run"""
    if ended.job.kind == DELETE and ended.results is not None:
        return [status in (Status.HIT, Status.NOT_FOUND) for status in ended.results.statuses]
    return ended.ok


def _say_why(ended: Ended) -> None:
    """Logs why sets and deletes have failed, which LMCache does not."""
    kind, results = ended.job.kind, ended.results
    if kind in (SET, DELETE) and results is not None and not all(_done(ended)):
        guard.warn(logger, f"LMCache {kind}", f"a {kind} has failed: {_words_of(results, _done(ended))}")


def _completion_of(ended: Ended) -> Completion:
    """The completion of a batch, whatever its results are: LMCache waits for the future."""
    try:
        return _told(ended)
    except Exception:  # noqa: BLE001
        guard.say(logger, "the completion of a batch")
        return ended.job.id, False, "not known, see the log", [False] * len(ended.job.keys)


def _told(ended: Ended) -> Completion:
    kind, results = ended.job.kind, ended.results
    if results is None:
        why = "not run: closed, refused (see the log), or the deadline came first"
        return ended.job.id, False, why, list(ended.ok)
    done = _done(ended)
    # From a failed exists LMCache takes no key at all, and an exists that says no to some keys has not failed.
    success = kind == EXISTS or all(done)
    return ended.job.id, success, "" if success else _words_of(results, done), list(done)


def _words_of(results: Results, done: Sequence[bool]) -> str:
    """Why the keys that are not done are not, as text: "2 of 80 keys: 2 timed_out"."""
    words: Dict[str, int] = Counter(
        status_words[status] for status, ok in zip(results.statuses, done) if not ok
    )
    listed = ", ".join(f"{count} {word}" for word, count in sorted(words.items()))
    return f"{len(done) - sum(done)} of {len(done)} keys: {listed}"
