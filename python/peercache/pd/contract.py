"""SGLang's side of the contract: its Common classes, and whether they have the shape that this package was written for.

Where SGLang is not installed this module cannot be imported. The classes below `TYPE_CHECKING` name the attributes of
SGLang objects that are used.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ContextManager, Dict, List, Mapping, Optional, Sequence, Set, Tuple

if TYPE_CHECKING:

    class KVPoll:
        Failed = 0
        Bootstrapping = 1
        WaitingForInput = 2
        Transferring = 3
        Success = 4

    class KVTransferError(Exception):
        def __init__(self, bootstrap_room: int, failure_reason: str, is_from_another_rank: bool = False) -> None: ...

    class KVTransferMetric:
        transfer_latency_s: Optional[float]
        transfer_total_bytes: Optional[int]

    KVArgs = Any

    class CommonKVManager:
        kv_args: Any
        server_args: Any
        is_mla_backend: bool
        is_hybrid_mla_backend: bool
        is_dummy_cp_rank: bool
        enable_all_cp_ranks_for_transfer: bool
        enable_deferred_decode_kv_release: bool
        bootstrap_timeout: float
        attn_tp_rank: int
        attn_tp_size: int
        attn_cp_rank: int
        attn_cp_size: int
        pp_rank: int
        pp_size: int
        local_ip: str
        rank_port: int
        request_status: Dict[int, int]
        failure_records: Dict[int, str]
        failure_lock: ContextManager[Any]
        req_to_decode_prefix_len: Dict[int, int]
        connection_pool: Dict[str, List[Dict[str, Any]]]
        connection_lock: ContextManager[Any]
        prefill_info_table: Dict[str, Any]
        addr_to_rooms_tracker: Dict[str, Set[int]]

        def __init__(self, args: Any, disaggregation_mode: Any, server_args: Any, is_mla_backend: bool) -> None: ...
        def register_to_bootstrap(self) -> None: ...
        def update_status(self, bootstrap_room: int, status: int) -> None: ...
        def record_failure(self, bootstrap_room: int, failure_reason: str) -> None: ...
        def try_ensure_parallel_info(self, bootstrap_addr: str) -> bool: ...
        def _start_heartbeat_checker_thread(self) -> None: ...
        def _handle_node_failure(self, failed_bootstrap_addr: str) -> None: ...

    class CommonKVSender:
        bootstrap_room: int
        conclude_state: Optional[int]
        init_time: Optional[float]
        num_kv_indices: int
        aux_index: Optional[int]
        curr_idx: int

        def __init__(self, mgr: Any, bootstrap_addr: str, bootstrap_room: int, *more: Any, **named: Any) -> None: ...
        def init(self, num_kv_indices: int, aux_index: Optional[int] = None) -> None: ...
        def _check_bootstrap_timeout(self) -> Optional[int]: ...
        def clear(self) -> None: ...
        def abort(self) -> None: ...

    class CommonKVReceiver:
        bootstrap_addr: str
        bootstrap_room: int
        bootstrap_infos: Optional[List[Dict[str, Any]]]
        conclude_state: Optional[int]
        abort_notified: bool
        init_time: Optional[float]

        def __init__(self, mgr: Any, bootstrap_addr: str, bootstrap_room: Optional[int] = None) -> None: ...
        def init(self, prefill_dp_rank: int) -> None: ...
        def _check_waiting_timeout(self) -> Optional[int]: ...
        def clear(self) -> None: ...
        def abort(self) -> None: ...

    class CommonKVBootstrapServer:
        def __init__(self, host: str, port: int) -> None: ...

else:
    from sglang.srt.disaggregation.base.conn import KVArgs, KVPoll, KVTransferMetric
    from sglang.srt.disaggregation.common.conn import (
        CommonKVBootstrapServer,
        CommonKVManager,
        CommonKVReceiver,
        CommonKVSender,
        KVTransferError,
    )

__all__ = [
    "CommonKVBootstrapServer",
    "CommonKVManager",
    "CommonKVReceiver",
    "CommonKVSender",
    "KVArgs",
    "KVPoll",
    "KVTransferError",
    "KVTransferMetric",
]

Shape = Mapping[str, Sequence[str]]
"""The methods of a class, each with the parameters that this package gives it or is given, in their order."""

MANAGER: Shape = {
    "__init__": ["args", "disaggregation_mode", "server_args", "is_mla_backend"],
    "register_to_bootstrap": [],
    "update_status": ["bootstrap_room", "status"],
    "record_failure": ["bootstrap_room", "failure_reason"],
    "try_ensure_parallel_info": ["bootstrap_addr"],
    "_start_heartbeat_checker_thread": [],
    "_handle_node_failure": ["failed_bootstrap_addr"],
    "_on_heartbeat_success": ["bootstrap_addr"],
}
SENDER: Shape = {
    "__init__": ["mgr", "bootstrap_addr", "bootstrap_room", "dest_tp_ranks", "pp_rank"],
    "init": ["num_kv_indices", "aux_index"],
    "send": ["kv_indices", "state_indices"],
    "pop_decode_prefix_len": [],
    "should_send_kv_chunk": ["num_pages", "last_chunk"],
    "_check_bootstrap_timeout": [],
    "clear": [],
    "abort": [],
}
RECEIVER: Shape = {
    "__init__": ["mgr", "bootstrap_addr", "bootstrap_room"],
    "init": ["prefill_dp_rank"],
    "send_metadata": ["kv_indices", "aux_index", "state_indices", "decode_prefix_len"],
    "_check_waiting_timeout": [],
    "_send_abort_notification": [],
    "clear": [],
    "abort": [],
}
BOOTSTRAP_SERVER: Shape = {"__init__": ["host", "port"]}
ERROR: Shape = {"__init__": ["bootstrap_room", "failure_reason", "is_from_another_rank"]}

MAY_BE_THERE = {
    "CommonKVSender.__init__": {"req_has_disagg_prefill_dp_rank"},
    "CommonKVSender.send": {"num_kv_tokens", "token_position_offset"},
}
"""Parameters that not all versions have, and that change nothing here. Any other one may say where bytes go, and is
refused."""

STATES = {"Failed": 0, "Bootstrapping": 1, "WaitingForInput": 2, "Transferring": 3, "Success": 4}


def _faults_of_method(kind: type, name: str, wanted: Sequence[str]) -> List[str]:
    method = getattr(kind, name, None)
    title = f"{kind.__name__}.{name}"
    if method is None:
        return [f"{title} is not there"]
    there = [p for p in inspect.signature(method).parameters if p != "self"]
    known = MAY_BE_THERE.get(title, set())
    if [p for p in there if p not in known] == list(wanted):
        return []
    return [f"{title} takes ({', '.join(there)}) and not ({', '.join(wanted)})"]


def faults_of_shape() -> List[str]:
    """The differences between SGLang's classes and those that this package was written for, a
    sentence each."""
    shapes: Tuple[Tuple[type, Shape], ...] = (
        (CommonKVManager, MANAGER),
        (CommonKVSender, SENDER),
        (CommonKVReceiver, RECEIVER),
        (CommonKVBootstrapServer, BOOTSTRAP_SERVER),
        (KVTransferError, ERROR),
    )
    faults: List[str] = []
    for kind, shape in shapes:
        for name, wanted in shape.items():
            faults += _faults_of_method(kind, name, wanted)
    for name, number in STATES.items():
        if getattr(KVPoll, name, None) != number:
            faults.append(f"KVPoll.{name} is not {number}")
    return faults


USED_OF_MANAGER = (
    "attn_tp_rank attn_tp_size attn_cp_rank attn_cp_size pp_rank pp_size local_ip rank_port request_status "
    "failure_records failure_lock enable_all_cp_ranks_for_transfer is_hybrid_mla_backend"
).split()
USED_OF_PREFILL = ["bootstrap_timeout"]
USED_OF_DECODE = "connection_pool connection_lock prefill_info_table addr_to_rooms_tracker waiting_timeout".split()


def check_manager(manager: CommonKVManager, names: Sequence[str]) -> None:
    """Checks that SGLang's manager has made the attributes that are used here. Errors: RuntimeError."""
    missing = [name for name in names if not hasattr(manager, name)]
    if missing:
        raise RuntimeError(unknown_version([f"its KV manager has no {', '.join(missing)}"]))


def unknown_version(faults: Sequence[str]) -> str:
    return (
        f"this version of SGLang is not one that PeerCache knows: {'; '.join(faults)}. Take another version of either, "
        "or another --disaggregation-transfer-backend."
    )
