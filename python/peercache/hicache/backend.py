"""The client of one rank: how it is opened, and the calls on it that pools need."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Dict, Iterable, Mapping, Optional, Sequence, Set, Tuple

from peercache.client import Client, Option
from peercache._native import Error
from peercache.hicache.guard import Closed
from peercache.hicache.host_pool import HostPool, PoolFault
from peercache.hicache.settings import Settings

logger = logging.getLogger("peercache.hicache")

CLOSE_SECONDS = 5.0
OTHER_RANKS_NODE_SECONDS = 30.0
"""How long a rank waits for the node that another rank of its engine embeds: the node may still be touching its
pool."""
LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "*": "127.0.0.1", "::": "::1"}
"""The address at which a node that listens at all addresses is reached on its own host."""


class Deadline:
    """The end of one public call of the store, shared by all questions that the call asks."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left; 0 when the deadline has passed, so that a further question is a miss."""
        return max(0.0, self._end - time.monotonic())

    def passed(self) -> bool:
        return self.left() == 0.0


def open_client(settings: Settings) -> Client:
    """Opens the rank's client, whether its node answers or not: until the node does, all pages are misses. Errors:
    ValueError for options that make no sense, which the person who starts the engine should see."""
    try:
        return Client(settings.options, embedded=settings.embedded)
    except Error as why:
        if why.code == "invalid argument":
            raise ValueError(f"extra config of the storage backend: {why}") from why
        if not settings.embedded:
            logger.error("L3 misses until this is mended: %s", why)
            return Client(settings.options, wait_for_node=False)
        logger.warning("no node of our own, we take the one of this host: %s", why)
    # The ports are taken by another rank of this engine, so its embedded node is the one that all ranks use.
    return _client_of_other_rank(options_of_embedded(settings.options))


def _client_of_other_rank(options: Mapping[str, Option]) -> Client:
    """Opens a client of the node that another rank embeds, and waits for that node: SGLang drops the rest of a
    backup whose first set fails."""
    limit = Deadline(OTHER_RANKS_NODE_SECONDS)
    while True:
        try:
            return Client(options)
        except Error as why:
            if why.code != "incompatible" and not limit.passed():
                time.sleep(0.1)
                continue
            logger.error("L3 misses until this is mended: %s", why)
            return Client(options, wait_for_node=False)


def options_of_embedded(options: Mapping[str, Option]) -> Dict[str, Option]:
    """The options of a client whose node another process embeds with the same options: the address where that node
    listens."""
    bind = str(options.get("net.bind", "127.0.0.1"))
    found: Dict[str, Option] = {"client.node_host": LOOPBACK_OF.get(bind, bind), **options}
    found["client.node_port"] = options.get("net.control_port", 31998)
    return found


class Backend:
    """Moves pages of one rank into and out of the cache, by pool. Threads: any.

    Invariant: when `close` has returned, no call is running and none touches a pool's memory again.
    """

    def __init__(self, settings: Settings) -> None:
        self.client = open_client(settings)
        self._settings = settings
        self.unified_tree = False
        """Whether SGLang's unified tree prefetches, and not its radix tree: the two wait for different times."""
        self._timeout_s = self.client.native.timeout
        self._lock = threading.RLock()
        self._idle = threading.Condition(self._lock)
        self._waiting = 0
        """Threads that wait until no call is running."""
        self._running = 0
        self.closed = False
        """Whether every call that begins now is a miss."""
        self._registered: Dict[int, int] = {}
        """Registered memory: bytes by address."""
        self._leaving: Set[int] = set()
        """Addresses of pools that are gone, while a call may still write there."""

    def __enter__(self) -> "Backend":
        """Begins a call of this rank. Errors: Closed."""
        with self._lock:
            if self.closed:
                raise Closed
            self._running += 1
        return self

    def __exit__(self, *_: Any) -> None:
        with self._lock:
            self._running -= 1
            if self._waiting and self._running == 0:
                self._idle.notify_all()

    def seconds(self, tokens: int) -> float:
        """How long a prefetch of `tokens` tokens may take: no longer than SGLang waits for it."""
        return min(self._timeout_s, self._settings.batch_budget_s(tokens, self.unified_tree))

    def deadline(self, tokens: Optional[int] = None) -> Deadline:
        """The deadline of a call that begins now, for a prefetch where `tokens` are given."""
        return Deadline(self._timeout_s if tokens is None else self.seconds(tokens))

    def register(self, pool: HostPool) -> None:
        """Registers the pool's memory with the RDMA devices; pages of memory that is not registered come through a
        bounce buffer. Errors: PoolFault while the devices still know a former pool's memory at the same addresses."""
        if self._leaving and not self._give_back() and self._overlaps(self._leaving, pool.memory):
            raise PoolFault("a call into the pool that lay there before does not end")
        for address, size in pool.memory:
            if any(at <= address and address + size <= at + has for at, has in self._registered.items()):
                continue
            fault = self.client.native.register_memory(address, size)
            if fault is None:
                self._registered[address] = size
            else:
                logger.warning("pool %s is not registered, its pages are copied: %s", pool.name, fault)

    def _overlaps(self, registered: Iterable[int], memory: Sequence[Tuple[int, int]]) -> bool:
        """Whether one of the registered ranges that begin at these addresses shares a byte with `memory`."""
        return any(
            at < address + size and address < at + self._registered[at]
            for at in registered
            for address, size in memory
        )

    def forget_pools(self) -> None:
        """Forgets all pools, since the engine registers another set of them. Waits until no call is running."""
        self._leaving.update(self._registered)
        self._give_back()

    def forget_pool(self, gone: HostPool, kept: Sequence[HostPool]) -> None:
        """Forgets one pool, except memory that it shares with the pools in `kept`. If any memory goes, waits until
        no call is running."""
        own = self._registered.keys() & {address for address, _ in gone.memory}
        leaving = {at for at in own if not any(self._overlaps([at], pool.memory) for pool in kept)}
        if leaving:
            self._leaving.update(leaving)
            self._give_back()

    def _give_back(self) -> bool:
        """Unregisters the memory of forgotten pools. Waits until no call is running, and holds new calls back while it
        unregisters: a read goes on in the memory that it began with. False when a running call does not end; the
        memory is then unregistered later, or by `close`."""
        with self._lock:
            self._waiting += 1
            idle = self._idle.wait_for(lambda: self._running == 0, self._timeout_s + CLOSE_SECONDS)
            self._waiting -= 1
            if not idle:
                logger.warning("a call does not end; memory of pools that are gone stays registered")
                return False
            for address in self._leaving:
                self.client.native.unregister_memory(address)
                del self._registered[address]
            self._leaving.clear()
        return True

    def clear(self, space: str, limit: Deadline) -> bool:
        """Withdraws all pages of the space. False, with a warning that says why, when a page from before the clear may
        still be a hit somewhere."""
        cleared = self.client.clear(space, limit.left())
        if not cleared:
            logger.warning("clear of %s is not certain: %s", space, cleared.why_not)
        return cleared.certain

    def close(self) -> None:
        with self._lock:
            self.closed = True
        self.forget_pools()
        self.client.close()
