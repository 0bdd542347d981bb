"""Subscribers of KV events that play different routers: each reads events as its router does, and refuses what this
router would not understand. They check that frames are exactly a topic, a sequence number and one msgpack body."""

import hashlib
import time

import msgpack
import zmq

END = (-1).to_bytes(8, "big", signed=True)


class Subscriber:
    """Receives the frames of one stream, each sequence number once and in order. Asks for a replay after a gap, and
    also after some silence, because a subscriber that connects late notices no gap."""

    topic = b""

    def __init__(self, endpoint, replay, binds=False):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.SUB)
        (self.socket.bind if binds else self.socket.connect)(endpoint)
        self.socket.subscribe(self.topic)
        self.missed = self.context.socket(zmq.DEALER)
        self.missed.connect(replay)
        self.last, self.taken, self.published, self.heard = -1, 0, 0, time.monotonic()

    def hear(self):
        while self.socket.poll(0):
            topic, seq, payload = self.socket.recv_multipart()
            self.check_topic(topic)
            self.published += 1
            number = int.from_bytes(seq, "big")
            if number > self.last + 1:
                self.replay()
            self.apply(number, payload)
        if time.monotonic() - self.heard > 0.3:
            self.replay()
        return self

    def replay(self):
        self.missed.send_multipart([b"", (self.last + 1).to_bytes(8, "big")])
        while self.missed.poll(5000):
            _, seq, payload = self.missed.recv_multipart()
            if seq == END:
                break
            self.apply(int.from_bytes(seq, "big"), payload)
        self.heard = time.monotonic()

    def apply(self, number, payload):
        if number <= self.last:
            return
        assert number == self.last + 1, "a message is missing"
        self.last, self.heard = number, time.monotonic()
        self.taken += 1
        self.take(msgpack.unpackb(payload))

    def check_topic(self, topic):
        assert topic == self.topic

    def close(self):
        self.socket.close(0)
        self.missed.close(0)
        self.context.term()


class WorkerRelay(Subscriber):
    """Dynamo's relay of a worker's events: accepts arrays and maps, ignores unknown fields. `table` maps (block,
    medium) to the parent. `past` has blocks that an earlier publisher may have announced. Events that all is cleared
    count only while `hears_clear` is true."""

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.table, self.tokens, self.past, self.hears_clear = {}, {}, set(), True

    def take(self, body):
        stamp, events, dp_rank = body
        assert abs(time.time() - stamp) < 60 and isinstance(dp_rank, int)
        for event in events:
            self.take_event(*(self.of_map(event) if isinstance(event, dict) else self.of_array(event)))

    @staticmethod
    def of_map(event):
        names = ("type", "block_hashes", "parent_block_hash", "token_ids", "medium")
        return [event.get(name) for name in names]

    @staticmethod
    def of_array(event):
        if event[0] == "BlockStored":
            assert len(event) >= 5
            return [event[0], event[1], event[2], event[3], event[6] if len(event) > 6 else None]
        return [event[0], event[1] if len(event) > 1 else None, None, None, event[2] if len(event) > 2 else None]

    def take_event(self, kind, blocks, parent, tokens, medium):
        if kind == "BlockStored":
            for block in blocks:
                self.table[block, medium], self.tokens[block] = parent, tokens
        elif kind == "BlockRemoved":
            for block in blocks:
                assert (block, medium) in self.table or block in self.past, "it was not announced before"
                self.table.pop((block, medium), None)
        else:
            assert kind == "AllBlocksCleared"
            if self.hears_clear:
                self.table.clear()

    def has(self, medium):
        self.hear()
        return {block for block, where in self.table if where == medium}


class LlmD(WorkerRelay):
    """llm-d's index: the topic names pod and model. The index computes a key of its own for a block from its tokens and
    its parent's key; it leaves out blocks without tokens or with an unknown parent."""

    topic = b"kv@"

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.pods, self.request_keys, self.index = set(), {}, {}

    def check_topic(self, topic):
        mark, pod, model = topic.decode().split("@", 2)
        assert mark == "kv" and pod and model
        self.pods.add((pod, model))

    def take_event(self, kind, blocks, parent, tokens, medium):
        super().take_event(kind, blocks, parent, tokens, medium)
        if kind == "AllBlocksCleared":
            self.index.clear()
        for block in blocks or ():
            if kind == "BlockStored" and block not in self.request_keys and tokens:
                before = "" if parent is None else self.request_keys.get(parent)
                if before is not None:
                    self.request_keys[block] = request_key(before, tokens)
            where = self.index.setdefault(self.request_keys.get(block), set())
            (where.add if kind == "BlockStored" else where.discard)(medium.lower())
        self.index.pop(None, None)

    def score(self, tokens, size):
        """Returns how many leading blocks of a prompt the index has."""
        self.hear()
        key, found = "", 0
        for first in range(0, len(tokens), size):
            key = request_key(key, tokens[first : first + size])
            if not self.index.get(key):
                break
            found += 1
        return found


def request_key(before, tokens):
    return hashlib.sha256(repr((before, list(tokens))).encode()).hexdigest()


class SharedCache(Subscriber):
    """Dynamo's shared cache (`--shared-cache-type hicache`): reads the event stream of Mooncake's master, and counts a
    page as stored when all of its objects are. It knows no media, ignores events that all is cleared, and would clear
    its index after a gap."""

    def __init__(self, suffixes, *arguments, **more):
        super().__init__(*arguments, **more)
        self.suffixes, self.objects, self.events = suffixes, set(), 0

    def take(self, body):
        stamp, events, rank = body
        assert isinstance(stamp, int) and rank == 0 and 0 < len(events) <= 64
        for event in events:
            assert event["tenant_id"] == "default" and event["event_id"] == self.events
            self.events += 1
            if event["event_type"] == "stored":
                self.objects.add(event["object_key"])
            elif event["event_type"] == "removed":
                self.objects.remove(event["object_key"])  # Raises KeyError if the object was not announced before.
            else:
                assert event["event_type"] == "cleared"

    def hits(self, pages):
        self.hear()
        return [all(page + suffix in self.objects for suffix in self.suffixes) for page in pages]
