"""The abstract classes of a transfer backend, and the records that SGLang gives to it."""

import dataclasses
import enum
from abc import ABC, abstractmethod
from typing import Optional


class StateType(str, enum.Enum):
    MAMBA = "mamba"
    SWA = "swa"
    DSA = "dsa"
    MINIMAX_INDEX_K = "minimax_index_k"
    SWA_RING = "swa_ring"
    C128_STATE = "c128_state"


@dataclasses.dataclass
class KVTransferMetric:
    transfer_latency_s: Optional[float] = None
    alloc_latency_s: Optional[float] = None
    transfer_total_bytes: Optional[int] = None


class KVArgs:
    """A record without default values: SGLang sets only the attributes that apply."""


class KVPoll:
    Failed = 0
    Bootstrapping = 1
    WaitingForInput = 2
    Transferring = 3
    Success = 4


class BaseKVManager(ABC):
    @abstractmethod
    def __init__(self, args, disaggregation_mode, server_args, is_mla_backend=False): ...

    @abstractmethod
    def register_to_bootstrap(self): ...


class BaseKVSender(ABC):
    @abstractmethod
    def __init__(
        self, mgr, bootstrap_addr, bootstrap_room, dest_tp_ranks, pp_rank, req_has_disagg_prefill_dp_rank=False
    ): ...

    @abstractmethod
    def init(self, num_kv_indices, aux_index=None): ...

    @abstractmethod
    def send(self, kv_indices, state_indices=None, num_kv_tokens=None): ...

    def pop_decode_prefix_len(self):
        return 0

    def should_send_kv_chunk(self, num_pages, last_chunk):
        return num_pages > 0

    @abstractmethod
    def get_transfer_metric(self): ...

    @abstractmethod
    def poll(self): ...

    @abstractmethod
    def failure_exception(self): ...

    def clear(self): ...

    def abort(self): ...


class BaseKVReceiver(ABC):
    @abstractmethod
    def __init__(self, mgr, bootstrap_addr, bootstrap_room=None): ...

    @abstractmethod
    def init(self, prefill_dp_rank): ...

    @abstractmethod
    def send_metadata(self, kv_indices, aux_index=None, state_indices=None, decode_prefix_len=None): ...

    @abstractmethod
    def poll(self): ...

    @abstractmethod
    def failure_exception(self): ...

    def clear(self): ...

    def abort(self): ...


class BaseKVBootstrapServer(ABC):
    @abstractmethod
    def __init__(self, host, port): ...
