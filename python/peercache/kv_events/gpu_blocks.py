"""The thread that hears from the engine's own KV events which blocks lie on its GPU, and tells the node, for the
overlap queries of routers."""

from __future__ import annotations

import hashlib
import importlib
import logging
import re
import sys
import threading
import time
from array import array
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set

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
MESSAGES_MAX = 10_000
"""Messages that wait for the thread; when more come, some are lost, which shows as a gap."""
SILENCE_SECONDS = 120.0
ANY_ADDRESS = re.compile(r"^tcp://(\*|0\.0\.0\.0|\[::\]|::)(?=:)")


class Block(NamedTuple):
    """The facts about a block of the engine."""

    key: str
    """The page hash."""
    parent: Optional[int]
    """The hash of the block before it in its prompt."""


class GpuBlocks:
    """The blocks on one engine's GPU, as the engine's events tell of them. Events name blocks by 64
    bits of SGLang's page hash, which do not name a page here; so each page's whole hash is made of
    its tokens and the hash of the page before it, and a block whose hash is then another than the
    event says is left out.

    After lost events the node forgets all blocks, since some may have been evicted. Those that a later block follows
    count again with it: a radix tree keeps no block without the ones before it.

    Threads: one at a time. Bounds: twice the blocks on the GPU.
    """

    def __init__(self, client: Client, spaces: Sequence[KeySpace], page_tokens: int) -> None:
        self._client, self._spaces, self._page_tokens = client, list(spaces), page_tokens
        self._known: Dict[int, Block] = {}
        """The blocks on the GPU, and those that were there before events were lost, by the block's hash."""
        self._held: Set[int] = set()
        """The blocks of which the node has been told."""
        self._next_seq: Optional[int] = None
        self.left_out = 0
        """Blocks whose page hash could not be made."""

    def take(self, seq: int, body: Sequence[Any]) -> None:
        """Takes a message [ts, [events], dp_rank], whose events are arrays or maps. Errors: any
        exception, for a message of another form; it counts as a gap."""
        if self._next_seq is not None and seq != self._next_seq:
            logger.warning("KV events %d to %d of the engine are missing: what was evicted meanwhile is not known, so "
                           "its blocks count from here on", self._next_seq, seq - 1)
            self.lost()
        self._next_seq = seq + 1
        try:
            rank = body[2] if len(body) > 2 else None
            for event in body[1]:
                self._take_event(_map_of(event), rank)
        except Exception:
            self.lost()  # The message may have told of evictions in the part that was not read.
            raise

    def lost(self) -> None:
        """Lets the node forget all blocks, since events were lost that may have told of evictions."""
        self._known = {block: self._known[block] for block in self._held}
        self._tell_empty()

    def _take_event(self, event: Mapping[str, Any], rank: Optional[int]) -> None:
        if event["type"] == CLEARED:
            self._known.clear()
            self._tell_empty()
        elif event.get("medium") not in (None, GPU):
            return
        elif event["type"] == STORED:
            self._client.report_gpu(self._spaces, self._stored(event), rank=rank)
        elif event["type"] == REMOVED:
            gone = [block for block in event["block_hashes"] if block in self._known]
            self._held.difference_update(gone)
            self._client.report_gpu(self._spaces, evicted=[self._known.pop(block).key for block in gone], rank=rank)

    def _stored(self, event: Mapping[str, Any]) -> List[str]:
        """The page hashes of one event's blocks, which follow each other in a prompt. Before them
        stand the hashes of earlier blocks of the prompt of which the node does not know."""
        parent, tokens = event.get("parent_block_hash"), event.get("token_ids") or ()
        told = self._told_again(parent)
        before = None if parent is None else self._known.get(parent)
        named = 0
        if parent is None or before is not None:
            for index, block in enumerate(event["block_hashes"]):
                page = tokens[index * self._page_tokens : (index + 1) * self._page_tokens]
                key = _page_hash(page, before.key if before else None) if len(page) == self._page_tokens else ""
                if block_hash(key) != block:
                    break
                self._known[block] = before = Block(key, parent)
                self._held.add(block)
                told.append(key)
                named, parent = named + 1, block
        self._leave_out(len(event["block_hashes"]) - named)
        return told

    def _told_again(self, block: Optional[int]) -> List[str]:
        """The keys of this block and those before it, up to one of which the node knows."""
        told: List[str] = []
        while block is not None and block not in self._held and block in self._known:
            self._held.add(block)
            told.append(self._known[block].key)
            block = self._known[block].parent
        return told

    def _leave_out(self, blocks: int) -> None:
        if blocks and not self.left_out:
            logger.warning("blocks on this GPU cannot be named, so routers do not hear of them: requests with cache_salt "
                           "or LoRA, blocks from before this process heard of any, or another page size")
        self.left_out += blocks

    def _tell_empty(self) -> None:
        self._held.clear()
        self._client.report_gpu(self._spaces, all_evicted=True)


def _page_hash(tokens: Sequence[Any], before: Optional[str]) -> str:
    """SGLang's hash of a page; tokens are numbers, or pairs of numbers where it drafts by EAGLE."""
    digest = hashlib.sha256(bytes.fromhex(before) if before else b"")
    if tokens and isinstance(tokens[0], (list, tuple)):
        tokens = [part for token in tokens for part in token]
    words = array("I", tokens)
    if sys.byteorder != "little":
        words.byteswap()
    digest.update(words.tobytes())
    return digest.hexdigest()


def _map_of(event: Any) -> Mapping[str, Any]:
    """An event as a map, whichever form it has."""
    if isinstance(event, Mapping):
        return event
    names = {STORED: ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium"),
             REMOVED: ("block_hashes", "medium")}
    return {"type": event[0], **dict(zip(names.get(event[0], ()), event[1:]))}


class GpuFollower:
    """Follows the events of the engine of this process until it is closed; the node forgets the blocks then.

    Threads: one of its own. Ownership: the client is the caller's, and open until `close` has returned. Errors: the
    constructor raises ImportError or zmq.ZMQError; later errors go to the log.
    """

    def __init__(self, endpoint: str, blocks: GpuBlocks) -> None:
        """Connects to the endpoint at which the engine publishes."""
        zmq: Any = importlib.import_module("zmq")
        self._unpack = importlib.import_module("msgpack").unpackb
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        self._socket.setsockopt(zmq.RCVHWM, MESSAGES_MAX)
        try:
            self._socket.connect(endpoint)
        except Exception:
            self._socket.close(0)
            self._context.term()
            raise
        self._socket.subscribe(b"")
        self._endpoint, self._blocks = endpoint, blocks
        self._ended = threading.Event()
        self._said_at = -REPEAT_SECONDS
        self._silent_since: Optional[float] = time.monotonic()
        """The time from which no event has come; None: some have, or the log has said it."""
        self._thread = threading.Thread(target=self._run, name="peercache-gpu-blocks", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self._hear_some()
        except Exception:  # noqa: BLE001 - after any error the socket is of no use, so the thread ends
            logger.exception("routers do not hear of this GPU from now on")
        finally:
            self._socket.close(0)
            self._context.term()
            self._blocks.lost()

    def _hear_some(self) -> None:
        if not self._socket.poll(POLL_MS):
            if self._silent_since is not None and time.monotonic() - self._silent_since > SILENCE_SECONDS:
                self._silent_since = None
                logger.warning("no KV event of the engine has come from %s: it publishes there if --kv-events-config "
                               'has the publisher "zmq" and an endpoint that it binds, such as tcp://*:5557', self._endpoint)
            return
        self._silent_since = None
        for _ in range(MESSAGES_AT_ONCE):
            self._hear(self._socket.recv_multipart())
            if self._ended.is_set() or not self._socket.poll(0):
                return

    def _hear(self, message: Sequence[bytes]) -> None:
        try:
            _, seq, payload = message
            self._blocks.take(int.from_bytes(seq, "big"), self._unpack(payload))
        except Exception:  # noqa: BLE001 - events of another form do not end the thread
            if time.monotonic() - self._said_at > REPEAT_SECONDS:
                self._said_at = time.monotonic()
                logger.exception("a KV event of the engine was not understood")


def reachable(endpoint: str) -> str:
    """The endpoint as a subscriber on the engine's host connects to it: one at which the engine listens on all
    addresses becomes the loopback's."""
    return ANY_ADDRESS.sub("tcp://127.0.0.1", endpoint)


def follow(
    endpoint: str, client: Client, spaces: Sequence[KeySpace], page_tokens: int, dp_rank: int = 0
) -> Optional[GpuFollower]:
    """Follows the engine's events at this endpoint (SGLang's own, of --kv-events-config; the rank is added to its
    port). None without an endpoint, or when that cannot be done: an engine serves all the same."""
    if not endpoint:
        return None
    try:
        return GpuFollower(reachable(with_port_offset(endpoint, dp_rank)), GpuBlocks(client, spaces, page_tokens))
    except Exception as why:  # noqa: BLE001 - zmq's own errors have no type before it is loaded
        logger.error("routers do not hear of this GPU, gpu_events %s: %s%s", endpoint, why,
                     " (python3-zmq and python3-msgpack are needed)" if isinstance(why, ImportError) else "")
        return None
