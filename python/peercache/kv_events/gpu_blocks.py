"""The thread that hears from the engine's own KV events which blocks lie on its GPU, and tells the node, for the
overlap queries of routers."""

from __future__ import annotations

import hashlib
import importlib
import logging
import threading
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence

from peercache._native import KeySpace
from peercache.client import Client
from peercache.kv_events.messages import block_hash
from peercache.kv_events.publisher import with_port_offset

logger = logging.getLogger("peercache.kv_events")

GPU = "GPU"
STORED, REMOVED, CLEARED = "BlockStored", "BlockRemoved", "AllBlocksCleared"
POLL_MS = 100
CLOSE_SECONDS = 5.0
REPEAT_SECONDS = 60.0
MESSAGES_AT_ONCE = 256
MESSAGES_WAITING = 100_000
"""The most messages that wait to be heard; further ones are lost, and count as a gap."""


class GpuBlocks:
    """What the events of one engine say of its GPU. Events name blocks by 64 bits of SGLang's page hash, which do not
    name a page here; so each page's whole hash is made of its tokens and the hash of the page before it, and a block
    whose hash is then another than the event says is left out.

    Threads: one at a time. Bounds: the blocks on the GPU.
    """

    def __init__(self, client: Client, spaces: Sequence[KeySpace], page_tokens: int) -> None:
        self._client, self._spaces, self._page_tokens = client, list(spaces), page_tokens
        self._keys: Dict[int, str] = {}
        """The page hash of each block on the GPU, by the block's hash."""
        self._next_seq: Optional[int] = None
        self.left_out = 0
        """Blocks whose page hash could not be made."""

    def take(self, seq: int, body: Sequence[Any]) -> None:
        """Takes a message [ts, [events], dp_rank], whose events are arrays or maps. After a gap nothing is known of
        the blocks before it, since some may have been evicted. Errors: those of a message of another form, which counts
        as a gap."""
        if self._next_seq is not None and seq != self._next_seq:
            logger.warning("KV events %d to %d of the engine are missing: its blocks count from here on",
                           self._next_seq, seq - 1)
            self._forget_all()
        self._next_seq = seq + 1
        try:
            rank = body[2] if len(body) > 2 else None
            for event in body[1]:
                self._take_event(_map_of(event), rank)
        except Exception:
            self._forget_all()  # What the rest of the message says is evicted may not count.
            raise

    def _take_event(self, event: Mapping[str, Any], rank: Optional[int]) -> None:
        if event["type"] == CLEARED:
            self._forget_all()
        elif event.get("medium") not in (None, GPU):
            return
        elif event["type"] == STORED:
            self._client.report_gpu(self._spaces, self._stored(event), rank=rank)
        elif event["type"] == REMOVED:
            gone = [self._keys.pop(block, None) for block in event["block_hashes"]]
            self._client.report_gpu(self._spaces, evicted=[key for key in gone if key is not None], rank=rank)

    def _stored(self, event: Mapping[str, Any]) -> List[str]:
        """The page hashes of the blocks of one event, which follow each other in a prompt."""
        parent, tokens = event.get("parent_block_hash"), event.get("token_ids") or ()
        last = None if parent is None else self._keys.get(parent)
        keys: List[str] = []
        if parent is None or last is not None:
            for index, block in enumerate(event["block_hashes"]):
                page = tokens[index * self._page_tokens : (index + 1) * self._page_tokens]
                key = _page_hash(page, last) if len(page) == self._page_tokens else ""
                if block_hash(key) != block:
                    break
                self._keys[block] = last = key
                keys.append(key)
        self.left_out += len(event["block_hashes"]) - len(keys)
        return keys

    def _forget_all(self) -> None:
        self._keys.clear()
        self._client.report_gpu(self._spaces, all_evicted=True)


def _page_hash(tokens: Sequence[Any], before: Optional[str]) -> str:
    """SGLang's hash of a page; tokens are numbers, or pairs of numbers where it drafts by EAGLE."""
    digest = hashlib.sha256(bytes.fromhex(before) if before else b"")
    for token in tokens:
        for part in token if isinstance(token, (list, tuple)) else (token,):
            digest.update(int(part).to_bytes(4, "little"))
    return digest.hexdigest()


def _map_of(event: Any) -> Mapping[str, Any]:
    """An event as a map, whichever form it has."""
    if isinstance(event, Mapping):
        return event
    names = {STORED: ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium"),
             REMOVED: ("block_hashes", "medium")}
    return {"type": event[0], **dict(zip(names.get(event[0], ()), event[1:]))}


class GpuFollower:
    """Follows the events of the engine of this process until it is closed.

    Threads: one of its own. Ownership: the client is the caller's, and open until `close` has returned. Errors: the
    constructor raises ImportError or zmq.ZMQError; later errors go to the log.
    """

    def __init__(self, endpoint: str, blocks: GpuBlocks) -> None:
        """Connects to the endpoint at which the engine publishes."""
        zmq: Any = importlib.import_module("zmq")
        self._unpack = importlib.import_module("msgpack").unpackb
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        self._socket.setsockopt(zmq.RCVHWM, MESSAGES_WAITING)
        self._socket.connect(endpoint)
        self._socket.subscribe(b"")
        self._blocks = blocks
        self._ended = threading.Event()
        self._said_at = -REPEAT_SECONDS
        self._thread = threading.Thread(target=self._run, name="peercache-gpu-blocks", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._ended.is_set():
            for _ in range(MESSAGES_AT_ONCE if self._socket.poll(POLL_MS) else 0):
                if not self._socket.poll(0):
                    break
                self._hear()
        self._socket.close(0)
        self._context.term()

    def _hear(self) -> None:
        try:
            _, seq, payload = self._socket.recv_multipart()
            self._blocks.take(int.from_bytes(seq, "big"), self._unpack(payload))
        except Exception:  # noqa: BLE001 - events of another form do not end the thread
            if time.monotonic() - self._said_at > REPEAT_SECONDS:
                self._said_at = time.monotonic()
                logger.exception("a KV event of the engine was not understood")


def follow(
    endpoint: str, client: Client, spaces: Sequence[KeySpace], page_tokens: int, dp_rank: int = 0
) -> Optional[GpuFollower]:
    """Follows the engine's events at this endpoint (SGLang's own, of --kv-events-config; the rank is added to its
    port). None without an endpoint, or when that cannot be done: an engine serves all the same."""
    if not endpoint:
        return None
    try:
        return GpuFollower(with_port_offset(endpoint, dp_rank), GpuBlocks(client, spaces, page_tokens))
    except Exception as why:  # noqa: BLE001 - zmq's own errors have no type before it is loaded
        logger.error("routers do not hear of this GPU: %s (python3-zmq and python3-msgpack are needed)", why)
        return None
