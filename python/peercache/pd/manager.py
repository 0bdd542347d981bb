"""The manager of a rank: SGLang's own, with a worker of PeerCache instead of a transfer engine."""

from __future__ import annotations

import logging
import socket
import threading
from typing import Any, Dict, List, Optional, Set, Tuple

from peercache import _native, process_end
from peercache.pd import contract, refusals
from peercache.pd.contract import CommonKVManager
from peercache.pd.layout import StateItems, kinds_of_states, layout_of, states_of
from peercache.pd.sends import WaitingSends

logger = logging.getLogger("peercache.pd")

PREFILL = "prefill"


class KVManager(CommonKVManager):
    """The manager of one rank. At prefill it announces the worker's port as SGLang's `rank_port`; decode learns it of
    the bootstrap server and connects there.

    Threads: SGLang's scheduler calls, and the thread of its heartbeat; `WaitingSends` has one of its own. Ownership:
    the memory of KVArgs is lent to the worker from the constructor on, except between `deregister_buffer_to_engine`
    and `register_buffer_to_engine`. Errors: ValueError and RuntimeError at start, for what is not served;
    `peercache.Error` when the worker cannot start.
    """

    def __init__(
        self, args: Any, disaggregation_mode: Any, server_args: Any, is_mla_backend: Optional[bool] = False
    ) -> None:
        refusals.check_start(server_args, args)
        self.prefill: Optional[_native.PrefillWorker] = None
        self.decode: Optional[_native.DecodeWorker] = None
        self.sends = WaitingSends()
        self._lost_lock = threading.Lock()
        self._lost_workers: Set[Tuple[str, str]] = set()
        """Lost workers whose engines are not known yet: (host, port)."""
        self._not_dropped: Set[str] = set()
        """Engines that have lost a worker, and that SGLang could not drop."""
        # SGLang's constructor registers a prefill rank, so the worker starts in `register_to_bootstrap`.
        super().__init__(args, disaggregation_mode, server_args, bool(is_mla_backend))
        # Pages are quiet before anybody hears that a room has failed, so nothing has to be kept for longer.
        self.enable_deferred_decode_kv_release = False
        if self.prefill is None and getattr(disaggregation_mode, "value", disaggregation_mode) != PREFILL:
            contract.check_manager(self, contract.USED_OF_MANAGER + contract.USED_OF_DECODE)
            self.decode = _native.DecodeWorker(**self._worker_arguments(is_prefill=False))
            self._started(self.decode)
            self._start_heartbeat_checker_thread()
        else:
            contract.check_manager(self, contract.USED_OF_PREFILL)

    def register_to_bootstrap(self) -> None:
        """Starts the worker of a prefill rank, and registers the port at which decode finds it."""
        if self.prefill is None:
            contract.check_manager(self, contract.USED_OF_MANAGER)
            self.prefill = _native.PrefillWorker(**self._worker_arguments(is_prefill=True))
            self._started(self.prefill)
        self.rank_port = self.prefill.port
        super().register_to_bootstrap()

    def _worker_arguments(self, is_prefill: bool) -> Dict[str, Any]:
        ib_device = getattr(self.kv_args, "ib_device", None)
        return {
            "options": refusals.devices_of(ib_device, getattr(self.kv_args, "gpu_id", None)),
            "host": self.local_ip,
            "name": socket.gethostname(),
            "layout": layout_of(self, is_prefill),
        }

    def _started(self, worker: Any) -> None:
        process_end.close_at_end(worker)
        try:
            refusals.check_memory(self.server_args, worker.data_plane)
        except ValueError:
            worker.close()
            raise
        logger.info("KV of prompts travels over %s", worker.data_plane)

    # -- memory that is lent to the worker

    @property
    def _worker(self) -> Any:
        return self.prefill or self.decode

    def register_buffer_to_engine(self) -> None:
        """Lends the memory of KVArgs to the worker again, after `deregister_buffer_to_engine`."""
        self._worker.lend_memory()

    def deregister_buffer_to_engine(self) -> None:
        """Fails all rooms and takes the memory back: when it returns, nothing reads it and nothing writes to it."""
        self._worker.give_memory_back()

    # -- what rooms ask of the manager

    def forget(self, room: int) -> None:
        """Removes from SGLang's tables the entries of an earlier room with this number."""
        self.request_status.pop(room, None)
        self.forget_failure(room)

    def forget_failure(self, room: int) -> None:
        with self.failure_lock:
            self.failure_records.pop(room, None)

    def failure_of(self, room: int) -> Optional[str]:
        with self.failure_lock:
            return self.failure_records.get(room)

    def states_of(self, state_indices: Any, sequence_pages: int) -> List[StateItems]:
        """The items of a room's states (`layout.states_of`). Errors: ValueError."""
        return states_of(kinds_of_states(self.kv_args), state_indices, sequence_pages)

    def aux_row(self, aux_index: Optional[int]) -> int:
        """The row of a room in the metadata buffers. Errors: ValueError when there are rows and the room has none."""
        if aux_index is None and len(self.kv_args.aux_data_ptrs):
            raise ValueError("SGLang names no metadata buffer for the room")
        return int(aux_index or 0)

    # -- loss of prefill workers

    def drop_lost(self, but_room: Optional[int] = None, again: bool = False) -> None:
        """Forgets the addresses of prefill engines that have lost a worker, or rooms would dial the ports of dead
        processes for ever; fails the rooms that these engines have, all but `but_room`. `again`: also of engines that
        SGLang could not drop before."""
        if self.decode is None:
            return
        with self._lost_lock:
            self._lost_workers.update((str(host), str(port)) for (host, port), _ in self.decode.take_lost())
            engines = self._engines_of_lost() | (self._not_dropped if again else set())
            for bootstrap_addr in sorted(engines):
                self._drop_engine(bootstrap_addr, but_room)

    def _engines_of_lost(self) -> Set[str]:
        """The engines of the lost workers. Where SGLang's table cannot be read, that is logged and the workers are kept
        for the next call: the worker names a loss once."""
        if not self._lost_workers:
            return set()
        try:
            engines = self._engines_with(self._lost_workers)
        except Exception:  # noqa: BLE001 - see above; the scheduler must live, too
            logger.exception("SGLang's table of prefill's ranks cannot be read")
            return set()
        self._lost_workers.clear()
        return engines

    def _drop_engine(self, bootstrap_addr: str, but_room: Optional[int]) -> None:
        """Forgets the addresses of a prefill engine, and fails its rooms, all but `but_room`. What SGLang's method
        raises is logged: the other engines are dropped all the same, and this one again at the next heartbeat."""
        rooms = self.addr_to_rooms_tracker.get(bootstrap_addr)
        spared = rooms is not None and but_room in rooms
        if rooms is not None and but_room is not None:
            rooms.discard(but_room)
        try:
            self._handle_node_failure(bootstrap_addr)
            self._not_dropped.discard(bootstrap_addr)
        except Exception:  # noqa: BLE001 - see above; the scheduler must live, too
            self._not_dropped.add(bootstrap_addr)
            logger.exception("the loss of prefill's engine %s was not handled to its end", bootstrap_addr)
        if spared and but_room is not None:
            self.addr_to_rooms_tracker[bootstrap_addr].add(but_room)

    def _engines_with(self, workers: Set[Tuple[str, str]]) -> Set[str]:
        """The bootstrap addresses of the engines that these workers belong to."""
        with self.connection_lock:
            return {
                # A key is the engine's address and three ranks.
                key.rsplit("_", 3)[0]
                for key, infos in self.connection_pool.items()
                if any((str(info.get("rank_ip")), str(info.get("rank_port"))) in workers for info in infos or [])
            }

    def _on_heartbeat_success(self, bootstrap_addr: str) -> None:
        self.drop_lost(again=True)
