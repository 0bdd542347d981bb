"""A room at a prefill rank."""

from __future__ import annotations

import time
import weakref
from typing import Any, Optional

from peercache import _native
from peercache.pd.contract import CommonKVSender, KVPoll, KVTransferMetric
from peercache.pd.layout import Pages, pages_of
from peercache.pd.manager import KVManager
from peercache.pd.room_ends import ANOTHER_RANK, failure_error, or_abort
from peercache.pd.sends import WaitingSend


class KVSender(CommonKVSender):
    """The object by which prefill's scheduler announces the pages of a room, chunk by chunk, for
    decode to read.

    A room's pages are the engine's again when `poll` says Success or Failed, or when `abort`, `failure_exception` or
    `clear` has returned. Threads: the scheduler's. Errors: `failure_exception` raises KVTransferError, and nothing
    else raises: what goes wrong fails the room.
    """

    kv_mgr: KVManager

    def __init__(self, mgr: KVManager, bootstrap_addr: str, bootstrap_room: int, *more: Any, **named: Any) -> None:
        mgr.forget(bootstrap_room)
        self._watch: Optional[_native.RoomWatch] = None
        self._room = 0
        self._first_page = 0
        self._metric: Optional[KVTransferMetric] = None
        super().__init__(mgr, bootstrap_addr, bootstrap_room, *more, **named)
        self.init_time = time.time()
        assert mgr.prefill is not None
        self._worker = mgr.prefill
        # A dummy context parallel rank sends nothing: it has no room, and its state is in SGLang's
        # table.
        if not mgr.is_dummy_cp_rank:
            self._open()

    def _open(self) -> None:
        try:
            self._room, self._watch = self._worker.open(self.bootstrap_room)
        except _native.Error as why:
            self._note_failure(str(why))
            return
        # SGLang drops the sender of a chunked request that was aborted, and never clears it.
        self._forget = weakref.finalize(self, self._worker.clear, self._room)
        self._forget.atexit = False

    def init(self, num_kv_indices: int, aux_index: Optional[int] = None) -> None:
        super().init(num_kv_indices, aux_index)
        if self._watch is None:
            return
        self._first_page = self._worker.prefix_pages(self._room) or 0
        self._or_fail(lambda: self._worker.init(self._room, int(num_kv_indices)))

    def pop_decode_prefix_len(self) -> int:
        """Tokens that decode has already."""
        pages = self._worker.prefix_pages(self._room) if self._watch is not None else None
        return (pages or 0) * int(self.kv_mgr.kv_args.page_size)

    def should_send_kv_chunk(self, num_pages: int, last_chunk: bool) -> bool:
        return num_pages > 0 or last_chunk

    def send(
        self,
        kv_indices: Any,
        state_indices: Any = None,
        num_kv_tokens: Optional[int] = None,
        token_position_offset: int = 0,
    ) -> None:
        """Announces pages. Pages that a forward is still writing (`_early_send_wait_event`) are announced by another
        thread, when the forward is done; one that is not done after SGLang's time-out of a bootstrap fails the room."""
        event = getattr(self, "_early_send_wait_event", None)
        self._early_send_wait_event = None
        self.curr_idx += len(kv_indices)
        is_last = self.curr_idx == self.num_kv_indices
        if self._watch is None:
            if is_last and self.kv_mgr.is_dummy_cp_rank:
                self.kv_mgr.update_status(self.bootstrap_room, KVPoll.Success)
            return
        self._or_fail(lambda: self._send(kv_indices, state_indices, event, is_last))

    def _send(self, kv_indices: Any, state_indices: Any, event: Optional[Any], is_last: bool) -> None:
        """Announces pages now, or when `event` is done. Errors: ValueError for an index that cannot be a page's."""
        if event is None and not self.kv_mgr.sends.has(self._room):
            self._announce(pages_of(kv_indices), state_indices, is_last)
            return
        # SGLang may use the arrays for something else before the pages are announced.
        pages = pages_of(kv_indices).copy()
        states = state_indices
        if states is not None:
            states = [None if each is None else pages_of(each).copy() for each in states]
        self.kv_mgr.sends.add(
            WaitingSend(
                self._room,
                event,
                lambda: self._announce(pages, states, is_last),
                lambda why: self._worker.abort(self._room, why),
                self._has_ended,
                time.monotonic() + float(self.kv_mgr.bootstrap_timeout),
            )
        )

    def _has_ended(self) -> bool:
        cleared = not self._forget.alive
        return cleared or self._watch is None or self._watch.poll() in (KVPoll.Success, KVPoll.Failed)

    def _announce(self, pages: Pages, state_indices: Any, is_last: bool) -> None:
        if not is_last:
            self._or_fail(lambda: self._worker.send(self._room, pages, False))
            return
        behind = self._first_page + int(self.num_kv_indices)
        self._or_fail(
            lambda: self._worker.send(
                self._room,
                pages,
                True,
                self.kv_mgr.states_of(state_indices, behind),
                self.kv_mgr.aux_row(self.aux_index),
            )
        )

    def _or_fail(self, call: Any) -> None:
        or_abort(call, lambda why: self._worker.abort(self._room, why))

    def poll(self) -> int:
        if self._watch is None:
            return self.kv_mgr.request_status.get(self.bootstrap_room, KVPoll.Failed)
        state = self._watch.poll()
        if state == KVPoll.Success or state == KVPoll.Failed:
            return state
        # SGLang itself may have marked the room as failed in its table: for a conflict of DP ranks,
        # or after its time-out.
        failed = self.kv_mgr.request_status.get(self.bootstrap_room) == KVPoll.Failed
        if failed or (state == KVPoll.Bootstrapping and self._check_bootstrap_timeout() is not None):
            self._worker.abort(self._room, self.kv_mgr.failure_of(self.bootstrap_room) or ANOTHER_RANK)
            return self._watch.poll()
        return state

    def get_transfer_metric(self) -> KVTransferMetric:
        """Bytes and seconds as decode has told them; a metric without figures while it has not."""
        return self._metric or self._metric_now()

    def _metric_now(self) -> KVTransferMetric:
        metric = KVTransferMetric()
        if self._watch is not None and self._watch.poll() == KVPoll.Success:
            metric.transfer_total_bytes, metric.transfer_latency_s = self._worker.metric(self._room)
        return metric

    def _note_failure(self, reason: str) -> None:
        self.kv_mgr.record_failure(self.bootstrap_room, reason)
        self.kv_mgr.update_status(self.bootstrap_room, KVPoll.Failed)
        self.conclude_state = KVPoll.Failed

    def failure_exception(self) -> None:
        """Ends the room also where another rank has failed. Errors: KVTransferError, always."""
        failure = None
        if self._watch is not None:
            self._worker.abort(self._room, ANOTHER_RANK, True)
            failure = self._worker.failure(self._room)
        recorded = self.kv_mgr.failure_of(self.bootstrap_room)
        self.conclude_state = KVPoll.Failed
        self.clear()
        raise failure_error(self.bootstrap_room, recorded, failure)

    def abort(self) -> None:
        super().abort()
        if self._watch is not None:
            self._worker.abort(self._room, self.kv_mgr.failure_of(self.bootstrap_room) or "aborted")

    def clear(self) -> None:
        if self._watch is not None:
            self._metric = self.get_transfer_metric()
            self._forget()
        super().clear()
        self.kv_mgr.forget_failure(self.bootstrap_room)
