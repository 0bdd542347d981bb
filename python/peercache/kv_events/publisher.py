"""Sends KV events as SGLang's own publisher does: over a ZMQ PUB socket, and over a ROUTER for missed ones."""

from __future__ import annotations

import importlib
import logging
import re
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence, Tuple

from peercache.kv_events.dialects import ARRAY, ENCODINGS, MOONCAKE, Dialect
from peercache.kv_events.messages import Event

logger = logging.getLogger("peercache.kv_events")

CLUSTER, HOST = "cluster", "host"
"""The ways to attribute a block to an engine."""

END_OF_REPLAY = (-1).to_bytes(8, "big", signed=True)
LINGER_MS = 200
REPLAYS_AT_ONCE = 8


@dataclass(frozen=True)
class EventSettings:
    """Settings of KV events: SGLang's names of --kv-events-config where it has one, and seconds and counts of
    PeerCache's own."""

    endpoint: str
    """The address of the PUB socket, such as "tcp://127.0.0.1:5567"; the rank of data parallelism, where it is
    known, is added to the port. Nothing is encrypted or authenticated."""
    replay_endpoint: str = ""
    """The address of the ROUTER socket for replays; empty: there is none."""
    topic: str = ""
    encoding: str = ARRAY
    """The dialect: "array" (SGLang, vLLM before 0.23), "map" (vLLM from 0.23 on), or "mooncake" (the stream of
    Mooncake's master)."""
    pod: str = ""
    """The name of this engine's pod at llm-d: the topic is then kv@POD@MODEL."""
    model: str = ""
    """The model in that topic; empty: the name that the engine serves."""
    connect: bool = False
    """Whether the PUB socket connects to a subscriber that listens at the endpoint, instead of listening itself; the
    port is then the same for all ranks."""
    attribution: str = CLUSTER
    """Which blocks this engine announces: "cluster" (those that it has set, while any node has them), or "host" (those
    that it has set or read, while its host's node has them)."""
    journal: str = ""
    """The file in which announced blocks are noted, so that after a crash the next publisher announces those that are
    still there. Empty: it begins with none."""
    buffer_steps: int = 10000
    """Messages that are kept for replays."""
    hwm: int = 100000
    """Messages that ZMQ keeps for a slow subscriber; it loses the rest, and sees a gap in `seq`."""
    blocks_max: int = 131072
    """Blocks that are announced at a time; beyond that, blocks that have been longest without an answer of the
    directory are taken back first."""
    check_s: float = 5.0
    """Seconds between two questions to the directory about the place of an announced block."""
    stale_s: float = 15.0
    """Seconds without an answer of the directory after which a block is taken back."""

    @staticmethod
    def of(flat: Mapping[str, Any]) -> "Optional[EventSettings]":
        """Reads the "kv_events.*" keys of the JSON; None without an endpoint: events are off. Unknown keys are logged
        once and ignored. Errors: ValueError for a value of a wrong form."""
        given = {k[len("kv_events.") :]: v for k, v in flat.items() if k.startswith("kv_events.")}
        known = EventSettings.__dataclass_fields__
        unknown = sorted(set(given) - set(known))
        if unknown:
            logger.warning("ignored: kv_events has no %s; it has %s", ", ".join(unknown), ", ".join(known))
        if not given.get("endpoint"):
            return None
        try:
            forms: Dict[str, Callable[[Any], Any]] = {
                name: type(getattr(EventSettings, name, "")) for name in known
            }
            values: Dict[str, Any] = {name: forms[name](given[name]) for name in known if name in given}
            made = EventSettings(**values)
        except (TypeError, ValueError) as why:
            raise ValueError(f"kv_events: {why}") from why
        made.check()
        return made

    def check(self) -> None:
        """Checks settings that exclude each other. Errors: ValueError."""
        if self.encoding not in ENCODINGS:
            raise ValueError(f"kv_events.encoding: {self.encoding!r} is given, {', '.join(ENCODINGS)} are allowed")
        if self.attribution not in (CLUSTER, HOST):
            raise ValueError(f"kv_events.attribution: {self.attribution!r} is given, {CLUSTER}, {HOST} are allowed")
        if self.topic and self.pod:
            raise ValueError("kv_events: a topic and a pod are given, and a pod makes the topic")
        if self.encoding == MOONCAKE and (self.topic or self.pod):
            raise ValueError("kv_events: Mooncake's stream has an empty topic; leave out topic and pod")

    def topic_for(self, served_model: str) -> str:
        """The topic of all messages of an engine that serves this model."""
        return f"kv@{self.pod}@{self.model or served_model}" if self.pod else self.topic


def with_port_offset(endpoint: str, offset: int) -> str:
    """An endpoint with its port moved: tcp://*:5567 and 2 is tcp://*:5569; other transports get the number as a
    suffix."""
    port = re.fullmatch(r"(tcp://.*:)(\d+)", endpoint)
    if port:
        return f"{port[1]}{int(port[2]) + offset}"
    return f"{endpoint}_dp{offset}" if offset else endpoint


class EventPublisher:
    """Publishes messages [topic, seq (8 bytes, big-endian), msgpack of the dialect's body]; `seq` counts from 0.

    Threads: one, from the constructor to `close`. Errors: ImportError without python3-zmq and python3-msgpack,
    zmq.ZMQError when an endpoint cannot be bound.
    """

    def __init__(self, settings: EventSettings, dialect: Dialect, served_model: str = "", dp_rank: int = 0) -> None:
        self._zmq: Any = importlib.import_module("zmq")
        self._msgpack: Any = importlib.import_module("msgpack")
        self._dialect, self._dp_rank = dialect, dp_rank
        self._topic, self._seq = settings.topic_for(served_model).encode(), 0
        self._sent: Deque[Tuple[int, bytes]] = deque(maxlen=settings.buffer_steps)
        self._context = self._zmq.Context()
        self._sockets: List[Any] = []
        try:
            self._pub = self._open(self._zmq.PUB, settings.endpoint, settings)
            self._replay: Any = None
            if settings.replay_endpoint:
                self._replay = self._open(self._zmq.ROUTER, settings.replay_endpoint, settings)
        except BaseException:
            self.close()
            raise

    def _open(self, kind: int, endpoint: str, settings: EventSettings) -> Any:
        socket = self._context.socket(kind)
        self._sockets.append(socket)
        socket.set_hwm(settings.hwm)
        if settings.connect and kind == self._zmq.PUB:
            socket.connect(endpoint)
        else:
            socket.bind(with_port_offset(endpoint, self._dp_rank))
        return socket

    def send(self, events: Sequence[Event]) -> None:
        """Publishes the events, in as few messages as the dialect allows; does not wait for any subscriber."""
        for body in self._dialect.bodies(events, time.time(), self._dp_rank):
            payload, seq = self._msgpack.packb(body), self._seq
            # A message has its number before it is sent: where the send fails, subscribers see a gap and ask for it.
            self._sent.append((seq, payload))
            self._seq += 1
            self._pub.send_multipart((self._topic, seq.to_bytes(8, "big"), payload))

    def serve_replays(self, wait_s: float) -> None:
        """Waits for `wait_s` seconds, and answers subscribers that missed messages: [first seq wanted] -> [seq,
        payload] for each message that is still kept, then [-1, ""]."""
        replay = self._replay
        if replay is None:
            time.sleep(wait_s)
            return
        for _ in range(REPLAYS_AT_ONCE):
            if not replay.poll(int(wait_s * 1000)):
                return
            wait_s = 0
            frames = replay.recv_multipart()
            if len(frames) == 3 and len(frames[2]) == 8:
                self._answer(replay, frames[0], int.from_bytes(frames[2], "big"))

    def _answer(self, replay: Any, client: bytes, first: int) -> None:
        for seq, payload in self._sent:
            if seq >= first:
                self._reply(replay, client, seq.to_bytes(8, "big"), payload)
        self._reply(replay, client, END_OF_REPLAY, b"")

    def _reply(self, replay: Any, client: bytes, seq: bytes, payload: bytes) -> None:
        """Sends one message of a replay without waiting: a client that does not read its answers loses them."""
        try:
            replay.send_multipart((client, b"", seq, payload), self._zmq.NOBLOCK)
        except self._zmq.Again:
            pass

    def close(self) -> None:
        """Closes the sockets; messages that were sent get LINGER_MS to leave."""
        for socket in self._sockets:
            socket.close(LINGER_MS)
        self._context.term()
