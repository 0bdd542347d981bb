"""A room at a decode rank."""

from __future__ import annotations

import time
import weakref
from typing import Any, Optional

from peercache import _native
from peercache.pd.contract import CommonKVReceiver, KVPoll, KVTransferError
from peercache.pd.layout import pages_of
from peercache.pd.manager import KVManager
from peercache.pd.room_ends import ANOTHER_RANK, failure_error, or_abort


class KVReceiver(CommonKVReceiver):
    """The object by which decode's scheduler follows a room, whose pages are filled with what
    prefill announces.

    Nothing writes to the room's pages when `poll` says Success or Failed, or when `failure_exception` or `clear` has
    returned; Failed is said only then, also after `abort`. Threads: the scheduler's; SGLang calls `abort` from others
    too. Errors: `failure_exception` raises KVTransferError, and nothing else raises: what goes wrong fails the room.
    """

    kv_mgr: KVManager

    def __init__(self, mgr: KVManager, bootstrap_addr: str, bootstrap_room: Optional[int] = None) -> None:
        assert mgr.decode is not None
        self._worker = mgr.decode
        self._watch: Optional[_native.RoomWatch] = None
        mgr.drop_lost()
        why_not = self._open(mgr, bootstrap_room) if bootstrap_room is not None else None
        super().__init__(mgr, bootstrap_addr, bootstrap_room)
        if why_not is not None:
            # The room's number may belong to another receiver, so SGLang's tables are left as they are.
            self.conclude_state = KVPoll.Failed
        self._why_not = why_not

    def _open(self, mgr: KVManager, room: int) -> Optional[str]:
        """Opens the room; returns why it cannot be."""
        try:
            self._watch = self._worker.open(room)
        except _native.Error as why:
            return str(why)
        mgr.forget(room)
        self._forget = weakref.finalize(self, self._worker.clear, room)
        self._forget.atexit = False
        return None

    def _has_room(self) -> bool:
        """Whether the number is this receiver's: once it was cleared, another one may have it."""
        return self._watch is not None and self._forget.alive

    def init(self, prefill_dp_rank: int) -> None:
        """Learns from SGLang's bootstrap server where the prefill ranks of the room listen, and connects to them."""
        if self._watch is None:
            return
        self.kv_mgr.drop_lost(but_room=self.bootstrap_room)
        self.kv_mgr.try_ensure_parallel_info(self.bootstrap_addr)
        super().init(prefill_dp_rank)
        if self.conclude_state == KVPoll.Failed or not self.bootstrap_infos:
            return
        # Ranks of which nothing is read (dummies) are joined as well: what each is follows from its layout.
        sources = [(str(info["rank_ip"]), int(info["rank_port"])) for info in self.bootstrap_infos]
        self._or_fail(lambda: self._worker.connect(self.bootstrap_room, sources))

    def send_metadata(
        self,
        kv_indices: Any,
        aux_index: Optional[int] = None,
        state_indices: Any = None,
        decode_prefix_len: Optional[int] = None,
    ) -> None:
        """Lends these pages to the room, and asks prefill to fill them."""
        self.init_time = time.time()
        if self._watch is not None:
            self._or_fail(lambda: self._allocate(kv_indices, aux_index, state_indices, int(decode_prefix_len or 0)))

    def _allocate(self, kv_indices: Any, aux_index: Optional[int], state_indices: Any, prefix: int) -> None:
        """Lends the room's pages to the worker. Errors: ValueError and those of the worker."""
        page_size = int(self.kv_mgr.kv_args.page_size)
        if prefix % page_size != 0:
            raise ValueError(f"decode has a prefix of {prefix} tokens, which are no whole pages of {page_size}")
        pages, prefix_pages = pages_of(kv_indices), prefix // page_size
        states = self.kv_mgr.states_of(state_indices, prefix_pages + len(pages))
        self._worker.allocate(self.bootstrap_room, prefix_pages, pages, states, self.kv_mgr.aux_row(aux_index))

    def _or_fail(self, call: Any) -> None:
        or_abort(call, lambda why: self._worker.abort(self.bootstrap_room, why))

    def poll(self) -> int:
        if self._watch is None:
            return KVPoll.Failed
        state = self._watch.poll()
        if state == KVPoll.Success or state == KVPoll.Failed:
            return state
        # SGLang itself may have marked the room as failed in its table: after a lost heartbeat, a
        # time-out or an abort.
        if (
            self.kv_mgr.request_status.get(self.bootstrap_room) == KVPoll.Failed
            or self._check_waiting_timeout() is not None
        ):
            self._send_abort_notification()
            return self._watch.poll()
        return state

    def _send_abort_notification(self) -> None:
        """Ends the room here, which tells prefill; SGLang's method would send to a port where nobody listens to it."""
        if self._has_room():
            self._worker.abort(self.bootstrap_room, self.kv_mgr.failure_of(self.bootstrap_room) or ANOTHER_RANK)

    def failure_exception(self) -> None:
        """Ends the room also where another rank has failed, and waits until nothing writes to its pages. Errors:
        KVTransferError, always."""
        if not self._has_room():
            raise KVTransferError(self.bootstrap_room, self._why_not or ANOTHER_RANK, self._why_not is None)
        failure = self._worker.end(self.bootstrap_room, ANOTHER_RANK, True)
        recorded = self.kv_mgr.failure_of(self.bootstrap_room)
        self.conclude_state = KVPoll.Failed
        self.clear()
        raise failure_error(self.bootstrap_room, recorded, failure)

    def abort(self) -> None:
        """Ends the room; `poll` says Failed as soon as nothing writes to its pages."""
        if not self._has_room():
            return
        super().abort()
        self._send_abort_notification()
        # SGLang would wait for an acknowledgement of the notification.
        self.abort_notified = False

    def clear(self) -> None:
        if not self._has_room():
            return
        self._forget()
        super().clear()
        self.kv_mgr.addr_to_rooms_tracker[self.bootstrap_addr].discard(self.bootstrap_room)
        self.kv_mgr.forget_failure(self.bootstrap_room)
