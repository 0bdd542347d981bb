"""Fakes of the classes that all of SGLang's transfer backends share: statuses of rooms, registration, rank mapping,
time-outs, loss of prefill."""

import collections
import json
import os
import threading
import time
import urllib.error
import urllib.request

from sglang.srt.disaggregation.base.conn import BaseKVManager, BaseKVReceiver, BaseKVSender, KVPoll, KVTransferMetric
from sglang.srt.disaggregation.common.bootstrap import CommonKVBootstrapServer, PrefillServerInfo
from sglang.srt.disaggregation.utils import DisaggregationMode
from sglang.srt.runtime_context import get_parallel

__all__ = ["CommonKVBootstrapServer", "CommonKVManager", "CommonKVReceiver", "CommonKVSender", "KVTransferError"]


def _ask(method, url, body=None):
    """Makes an HTTP request. Returns (status, answer); for an error the answer is its text."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=data, method=method), timeout=5) as answer:
            text = answer.read().decode()
            return answer.status, json.loads(text) if text != "OK" else text
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


class KVTransferError(Exception):
    def __init__(self, bootstrap_room, failure_reason, is_from_another_rank=False):
        super().__init__(failure_reason)
        self.bootstrap_room = bootstrap_room
        self.failure_reason = failure_reason
        self.is_from_another_rank = is_from_another_rank


class CommonKVManager(BaseKVManager):
    def __init__(self, args, disaggregation_mode, server_args, is_mla_backend=False):
        self.kv_args = args
        self.is_mla_backend = is_mla_backend
        self.is_hybrid_mla_backend = getattr(args, "is_hybrid_mla_backend", False)
        self.disaggregation_mode = disaggregation_mode
        self.server_args = server_args
        self.bootstrap_host = server_args.host
        self.bootstrap_port = server_args.disaggregation_bootstrap_port
        place = get_parallel()
        self.attn_tp_size, self.attn_tp_rank = place.attn_tp_size, place.attn_tp_rank
        self.attn_cp_size, self.attn_cp_rank = place.attn_cp_size, place.attn_cp_rank
        self.attn_dp_size, self.attn_dp_rank = place.attn_dp_size, place.attn_dp_rank
        self.system_dp_size = 1 if server_args.enable_dp_attention else server_args.dp_size
        self.system_dp_rank = args.system_dp_rank or 0
        self.pp_size, self.pp_rank = server_args.pp_size, args.pp_rank
        self.local_ip = "127.0.0.1"
        all_ranks = os.environ.get("SGLANG_DISAGGREGATION_ALL_CP_RANKS_TRANSFER", "") in ("1", "true")
        self.enable_all_cp_ranks_for_transfer = all_ranks or (
            self.is_hybrid_mla_backend
            and (self.attn_cp_size > 1 or disaggregation_mode == DisaggregationMode.DECODE)
        )
        self.rank_port = 1  # SGLang binds a ZMQ socket here; in these tests nobody listens at the port.
        self.request_status = {}
        self.failure_records = {}
        self.failure_lock = threading.Lock()
        if disaggregation_mode == DisaggregationMode.PREFILL:
            self.is_dummy_cp_rank = (
                not self.enable_all_cp_ranks_for_transfer and self.attn_cp_size > 1 and self.attn_cp_rank != 0
            )
            self.register_to_bootstrap()
            self.transfer_infos = {}
            self.req_to_decode_prefix_len = {}
            self.bootstrap_timeout = float(os.environ.get("SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT", 300))
        else:
            self.connection_pool = {}
            self.connection_lock = threading.Lock()
            self.prefill_info_table = {}
            self.required_prefill_response_num_table = {}
            self.heartbeat_failures = collections.Counter()
            self.addr_to_rooms_tracker = collections.defaultdict(set)
            self.heartbeat_interval = max(float(os.environ.get("SGLANG_DISAGGREGATION_HEARTBEAT_INTERVAL", 5)), 2.0)
            self.max_failures = max(int(os.environ.get("SGLANG_DISAGGREGATION_HEARTBEAT_MAX_FAILURE", 2)), 1)
            self.waiting_timeout = float(os.environ.get("SGLANG_DISAGGREGATION_WAITING_TIMEOUT", 300))

    def check_status(self, bootstrap_room):
        return self.request_status[bootstrap_room]

    def update_status(self, bootstrap_room, status):
        known = self.request_status.get(bootstrap_room)
        if known is None and status != KVPoll.Failed:
            self.request_status[bootstrap_room] = status
        elif known is not None:
            failed = KVPoll.Failed in (known, status)
            self.request_status[bootstrap_room] = KVPoll.Failed if failed else max(known, status)

    def record_failure(self, bootstrap_room, failure_reason):
        with self.failure_lock:
            self.failure_records[bootstrap_room] = failure_reason

    def register_to_bootstrap(self):
        said = {name: getattr(self, name) for name in (
            "attn_tp_size", "attn_tp_rank", "attn_cp_size", "attn_cp_rank", "attn_dp_size", "attn_dp_rank", "pp_size",
            "pp_rank", "system_dp_size", "system_dp_rank", "rank_port")}
        said |= {
            "rank_ip": self.local_ip,
            "page_size": self.kv_args.page_size,
            "kv_cache_dtype": self.server_args.kv_cache_dtype,
            "load_balance_method": self.server_args.load_balance_method,
            "enable_dsa_cache_layer_split": self.server_args.enable_dsa_cache_layer_split,
            "prefill_http_port": self.server_args.port,
        }
        for attempt in range(5):
            status, _ = _ask("PUT", f"http://{self.bootstrap_host}:{self.bootstrap_port}/route", said)
            if status == 200:
                return
            time.sleep(0.1 * 2**attempt)

    def try_ensure_parallel_info(self, bootstrap_addr):
        if bootstrap_addr in self.prefill_info_table:
            return True
        status, answer = _ask("GET", f"http://{bootstrap_addr}/route?prefill_dp_rank=-1&prefill_cp_rank=-1"
                                     "&target_tp_rank=-1&target_pp_rank=-1")
        if status != 200:
            return False
        info = PrefillServerInfo(**answer)
        if info.page_size not in (None, self.kv_args.page_size):
            raise RuntimeError("page sizes differ")
        self._resolve_rank_mapping(info)
        self.prefill_info_table[bootstrap_addr] = info
        return True

    def _resolve_rank_mapping(self, info):
        mine, p, d = self.kv_args.engine_rank % self.attn_tp_size, info.attn_tp_size, self.attn_tp_size
        per = max(1, p // d)
        info.target_tp_ranks = list(range(mine * per, (mine + 1) * per)) if p >= d else [mine // (d // p)]
        info.target_tp_rank = info.target_tp_ranks[0]
        info.required_dst_info_num = max(1, d // p)
        info.required_prefill_response_num = 1 if self.is_mla_backend else per
        info.target_cp_ranks = list(range(info.attn_cp_size if self.enable_all_cp_ranks_for_transfer else 1))
        info.required_prefill_response_num *= len(info.target_cp_ranks)
        assert self.pp_size in (1, info.pp_size)
        info.target_pp_ranks = [self.pp_rank] if info.pp_size == self.pp_size else list(range(info.pp_size))
        info.required_prefill_response_num *= len(info.target_pp_ranks)

    def _start_heartbeat_checker_thread(self):
        def check():
            while True:
                time.sleep(self.heartbeat_interval)
                for address in list(self.prefill_info_table):
                    if _ask("GET", f"http://{address}/health")[0] == 200:
                        self.heartbeat_failures[address] = 0
                        self._on_heartbeat_success(address)
                        continue
                    self.heartbeat_failures[address] += 1
                    if self.heartbeat_failures[address] >= self.max_failures:
                        self._handle_node_failure(address)

        threading.Thread(target=check, daemon=True).start()

    def _on_heartbeat_success(self, bootstrap_addr): ...

    def _handle_node_failure(self, failed_bootstrap_addr):
        with self.connection_lock:
            for key in [key for key in self.connection_pool if key.startswith(failed_bootstrap_addr)]:
                del self.connection_pool[key]
            self.prefill_info_table.pop(failed_bootstrap_addr, None)
            rooms = self.addr_to_rooms_tracker.pop(failed_bootstrap_addr, set())
        for room in rooms:
            if self.request_status.get(room, KVPoll.Success) != KVPoll.Success:
                self.record_failure(room, f"Lost connection with prefill instance {failed_bootstrap_addr}")
                self.update_status(room, KVPoll.Failed)


class CommonKVSender(BaseKVSender):
    def __init__(
        self, mgr, bootstrap_addr, bootstrap_room, dest_tp_ranks, pp_rank, req_has_disagg_prefill_dp_rank=False
    ):
        self.kv_mgr = mgr
        self.bootstrap_room = bootstrap_room
        self.bootstrap_server_url = bootstrap_addr
        self.aux_index = None
        self.conclude_state = None
        self.curr_idx = 0
        self.init_time = None
        if mgr.is_dummy_cp_rank:
            mgr.update_status(bootstrap_room, KVPoll.WaitingForInput)
            return
        mgr.update_status(bootstrap_room, KVPoll.Bootstrapping)
        if mgr.server_args.dp_size == 1 or req_has_disagg_prefill_dp_rank:
            return
        if mgr.server_args.load_balance_method != "follow_bootstrap_room":
            said = {"bootstrap_room": bootstrap_room, "dp_rank": mgr.attn_dp_rank}
            _ask("POST", f"http://{bootstrap_addr}/register_dp_rank", said)
        elif mgr.attn_dp_rank != bootstrap_room % mgr.server_args.dp_size:
            mgr.record_failure(bootstrap_room, "follow_bootstrap_room conflict")
            mgr.update_status(bootstrap_room, KVPoll.Failed)

    def init(self, num_kv_indices, aux_index=None):
        self.num_kv_indices = num_kv_indices
        self.aux_index = aux_index

    def pop_decode_prefix_len(self):
        return self.kv_mgr.req_to_decode_prefix_len.pop(self.bootstrap_room, 0)

    def should_send_kv_chunk(self, num_pages, last_chunk):
        return num_pages > 0 or last_chunk

    def get_transfer_metric(self):
        return KVTransferMetric()

    def send(self, kv_indices, state_indices=None, num_kv_tokens=None): ...

    def _check_bootstrap_timeout(self):
        if self.init_time is None or time.time() - self.init_time < self.kv_mgr.bootstrap_timeout:
            return None
        self.kv_mgr.record_failure(self.bootstrap_room, "timed out in KVPoll.Bootstrapping")
        self.kv_mgr.update_status(self.bootstrap_room, KVPoll.Failed)
        return KVPoll.Failed

    def poll(self): ...

    def failure_exception(self):
        raise NotImplementedError

    def clear(self):
        self.kv_mgr.request_status.pop(self.bootstrap_room, None)
        self.kv_mgr.req_to_decode_prefix_len.pop(self.bootstrap_room, None)

    def abort(self):
        self.kv_mgr.record_failure(self.bootstrap_room, "Aborted by AbortReq.")
        self.kv_mgr.update_status(self.bootstrap_room, KVPoll.Failed)
        self.conclude_state = KVPoll.Failed


class CommonKVReceiver(BaseKVReceiver):
    def __init__(self, mgr, bootstrap_addr, bootstrap_room=None):
        self.kv_mgr = mgr
        self.bootstrap_addr = bootstrap_addr
        self.bootstrap_room = bootstrap_room
        self.conclude_state = None
        self.require_staging = False
        self.init_time = None
        self.abort_notified = False
        mgr.addr_to_rooms_tracker[bootstrap_addr].add(bootstrap_room)
        mgr.update_status(bootstrap_room, KVPoll.Bootstrapping)

    def _fail(self, reason):
        self.kv_mgr.record_failure(self.bootstrap_room, reason)
        self.conclude_state = KVPoll.Failed
        self.kv_mgr.update_status(self.bootstrap_room, KVPoll.Failed)

    def init(self, prefill_dp_rank):
        self.prefill_info = self.kv_mgr.prefill_info_table.get(self.bootstrap_addr)
        if self.prefill_info is None:
            self._fail("the prefill server was healthy before, but now it is down")
            return
        self.required_dst_info_num = self.prefill_info.required_dst_info_num
        self.prefill_dp_rank = prefill_dp_rank
        self._setup_bootstrap_infos()
        if self.conclude_state != KVPoll.Failed:
            self.kv_mgr.update_status(self.bootstrap_room, KVPoll.WaitingForInput)

    def _setup_bootstrap_infos(self):
        info, everybody = self.prefill_info, []
        for cp in info.target_cp_ranks:
            key = f"{self.bootstrap_addr}_{self.prefill_dp_rank}_{cp}_{info.target_tp_rank}"
            if key not in self.kv_mgr.connection_pool:
                found = []
                for tp in info.target_tp_ranks:
                    for pp in reversed(info.target_pp_ranks):
                        status, rank = _ask(
                            "GET", f"http://{self.bootstrap_addr}/route?prefill_dp_rank={self.prefill_dp_rank}"
                                   f"&prefill_cp_rank={cp}&target_tp_rank={tp}&target_pp_rank={pp}")
                        if status != 200:
                            self.bootstrap_infos = None
                            self._fail(f"Could not fetch bootstrap info: {rank}")
                            return
                        rank["is_dummy"] = self.kv_mgr.is_mla_backend and tp != info.target_tp_rank
                        found.append(rank)
                self.bootstrap_infos = self.kv_mgr.connection_pool[key] = found
                self._register_kv_args()
            everybody += self.kv_mgr.connection_pool[key]
        self.bootstrap_infos = everybody

    def _register_kv_args(self): ...

    @staticmethod
    def query_prefill_dp_ranks(bootstrap_addr, bootstrap_rooms):
        status, known = _ask("POST", f"http://{bootstrap_addr}/query_dp_ranks", {"bootstrap_rooms": bootstrap_rooms})
        return known if status == 200 else {}

    def send_metadata(self, kv_indices, aux_index=None, state_indices=None, decode_prefix_len=None):
        raise NotImplementedError

    def _check_waiting_timeout(self):
        if self.init_time is None or time.time() - self.init_time < self.kv_mgr.waiting_timeout:
            return None
        self.kv_mgr.record_failure(self.bootstrap_room, "timed out in KVPoll.WaitingForInput")
        self.kv_mgr.update_status(self.bootstrap_room, KVPoll.Failed)
        self._notify_once()
        return KVPoll.Failed

    def _notify_once(self):
        if not self.abort_notified and getattr(self, "bootstrap_infos", None) is not None:
            self._send_abort_notification()
            self.abort_notified = True

    def failure_exception(self):
        raise NotImplementedError

    def clear(self):
        self.kv_mgr.request_status.pop(self.bootstrap_room, None)

    def abort(self):
        self._fail("Aborted by AbortReq.")
        self._notify_once()

    def _send_abort_notification(self):
        raise AssertionError("SGLang would dial the rank's ZMQ port")
