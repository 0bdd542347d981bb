"""The bootstrap server of prefill: an HTTP server at which prefill's ranks register, and which decode asks for their
addresses."""

import dataclasses
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Optional
from urllib.parse import parse_qs, urlparse

from sglang.srt.disaggregation.base.conn import BaseKVBootstrapServer


@dataclasses.dataclass
class PrefillServerInfo:
    attn_tp_size: int
    attn_cp_size: int
    dp_size: int
    pp_size: int
    page_size: Optional[int]
    kv_cache_dtype: Optional[str]
    follow_bootstrap_room: bool
    enable_dsa_cache_layer_split: bool = False
    prefill_http_port: Optional[int] = None
    target_tp_rank: Optional[int] = None
    target_tp_ranks: Optional[list] = None
    target_cp_ranks: Optional[list] = None
    target_pp_ranks: Optional[list] = None
    required_dst_info_num: Optional[int] = None
    required_prefill_response_num: Optional[int] = None


RANKS = ("prefill_dp_rank", "prefill_cp_rank", "target_tp_rank", "target_pp_rank")


class CommonKVBootstrapServer(BaseKVBootstrapServer):
    def __init__(self, host, port):
        self.lock = threading.Lock()
        self.info = None
        self.ranks = {}
        self.registered = 0
        self.room_to_dp_rank = {}
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *words): ...

            def answer(self, status, body):
                text = body if isinstance(body, str) else json.dumps(body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def body(self):
                return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

            def do_PUT(self):
                self.answer(*owner.put_route(self.body()))

            def do_POST(self):
                calls = {"/register_dp_rank": owner.register_dp_rank, "/query_dp_ranks": owner.query_dp_ranks}
                self.answer(*calls[self.path](self.body()))

            def do_GET(self):
                url = urlparse(self.path)
                query = {name: values[0] for name, values in parse_qs(url.query).items()}
                self.answer(*((200, "OK") if url.path == "/health" else owner.get_route(query)))

        class Server(ThreadingHTTPServer):
            daemon_threads = True

        self.server = Server((host, port), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def put_route(self, said):
        with self.lock:
            dp_size = said["attn_dp_size"] if said["system_dp_size"] == 1 else said["system_dp_size"]
            dp_rank = said["attn_dp_rank"] if said["system_dp_size"] == 1 else said["system_dp_rank"]
            if self.info is None:
                self.info = PrefillServerInfo(
                    attn_tp_size=said["attn_tp_size"],
                    attn_cp_size=said["attn_cp_size"],
                    dp_size=dp_size,
                    pp_size=said["pp_size"],
                    page_size=said["page_size"],
                    kv_cache_dtype=said["kv_cache_dtype"],
                    follow_bootstrap_room=said["load_balance_method"] == "follow_bootstrap_room",
                    prefill_http_port=said["prefill_http_port"],
                )
            place = dp_rank, said["attn_cp_rank"], said["attn_tp_rank"], said["pp_rank"]
            self.ranks[place] = {"rank_ip": said["rank_ip"], "rank_port": said["rank_port"]}
            self.registered += 1
        return 200, "OK"

    def get_route(self, query):
        if any(name not in query for name in RANKS):
            return 400, "Missing inputs for bootstrap server."
        place = tuple(int(query[name]) for name in RANKS)
        with self.lock:
            info = self.info
            wanted = info.dp_size * info.attn_cp_size * info.attn_tp_size * info.pp_size if info else 1
            if self.registered < wanted:
                return 503, "Prefill server not fully registered yet"
            if place == (-1, -1, -1, -1):
                return 200, dataclasses.asdict(info)
            return (200, self.ranks[place]) if place in self.ranks else (404, "Bootstrap info not found")

    def register_dp_rank(self, said):
        with self.lock:
            self.room_to_dp_rank[said["bootstrap_room"]] = said["dp_rank"]
        return 200, "OK"

    def query_dp_ranks(self, said):
        with self.lock:
            known = self.room_to_dp_rank
            return 200, {str(room): known[room] for room in said["bootstrap_rooms"] if room in known}

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
