"""A transfer engine with the calls of `mooncake.engine`: bytes between the registered memory of two processes.

    export PYTHONPATH=$(python3 -m peercache.transfer_engine)

has programs that import `mooncake.engine` take this one (docs/transfer_engine.md).
"""

from __future__ import annotations

import logging
import os
import pathlib
from typing import Optional, Sequence, Tuple

from peercache import _native
from peercache.process_end import close_at_end

logger = logging.getLogger("peercache.transfer_engine")

FAILED, UNKNOWN_MEMORY, OVERLAP = -1, -3, -7
"""Negative answers of calls: any failure; no registered memory begins there; memory that is registered already."""

NOT_BEGUN = FAILED, "the engine has not begun"
PROTOCOLS = ("rdma", "tcp")
HANDSHAKE = "P2PHANDSHAKE"
LEAST_TIMEOUT, TIMEOUT = 5, 30
"""Seconds that MC_TRANSFER_TIMEOUT may say at least, and that a call may take without it; each byte is a nanosecond
more."""


def folder() -> str:
    """The folder for PYTHONPATH, from which `mooncake.engine` is this engine."""
    return str(pathlib.Path(__file__).resolve().parent / "as_mooncake")


def timeout_seconds() -> float:
    """The longest time of a call, as MC_TRANSFER_TIMEOUT says it; a text that is not a number counts as the shortest
    time."""
    text = os.environ.get("MC_TRANSFER_TIMEOUT")
    if text is None:
        return TIMEOUT
    try:
        return max(LEAST_TIMEOUT, int(text))
    except ValueError:
        return LEAST_TIMEOUT


def host_and_port(hostname: str) -> Tuple[str, int]:
    """Takes "host", "host:port", "[v6]", "[v6]:port" and "v6" apart; the port is 0 when there is none. Errors:
    ValueError."""
    host, colon, port = hostname.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        host, port = hostname, "0"
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    number = int(port)
    if not host or not 0 <= number <= 65535:
        raise ValueError(f"{hostname!r} is no host, nor host:port")
    return host, number


class TransferEngine:
    """A transfer engine. A session is "host:port" of the other engine (IPv6 in brackets). Buffers are
    plain addresses in this process, peer buffers in the other engine's. When a call that waits has
    returned, with 0 or an error code, nothing of it is under way, unless the other engine can no
    longer be reached. Any thread may call; the GIL is free while a call waits."""

    def __init__(self) -> None:
        self._native: Optional[_native.TransferEngine] = None

    def initialize(self, local_hostname: str, metadata_server: str, protocol: str, device_name: Optional[str]) -> int:
        """Starts the engine. `local_hostname` is the address at which others find this host, and
        may end in ":port"."""
        try:
            self._native = self._start(local_hostname, metadata_server, protocol, device_name or "")
        except (ValueError, _native.Error) as fault:
            logger.error("the transfer engine cannot begin: %s", fault)
            return FAILED
        close_at_end(self._native)
        return 0

    def _start(self, hostname: str, metadata: str, protocol: str, devices: str) -> _native.TransferEngine:
        if self._native is not None:
            raise ValueError("it has begun already")
        if metadata != HANDSHAKE:
            raise ValueError(f"the metadata server is {metadata!r}: engines find each other by {HANDSHAKE} alone")
        if protocol not in PROTOCOLS:
            raise ValueError(f"the protocol is {protocol!r}: it can be {' or '.join(PROTOCOLS)}")
        host, port = host_and_port(hostname)
        tcp_only = protocol == "tcp" or os.environ.get("MC_FORCE_TCP", "").lower() in ("1", "true", "on", "yes")
        try:
            return _native.TransferEngine(host, port, "" if tcp_only else devices, tcp_only, timeout_seconds())
        except _native.Error as fault:
            if getattr(fault, "code", "") == "refused":
                raise ValueError(f"{fault} (PEERCACHE_INSECURE_CLUSTER=1 allows it)") from None
            raise

    def get_rpc_port(self) -> int:
        """The port of this engine's session; 0 before `initialize`."""
        return self._native.port if self._native is not None else 0

    @property
    def native(self) -> Optional[_native.TransferEngine]:
        return self._native

    def close(self) -> None:
        """Ends the engine: all calls end early, and memory is no longer registered."""
        if self._native is not None:
            self._native.close()

    # -- registering of memory

    def register_memory(self, buffer_addr: int, capacity: int, location: str = "*") -> int:
        """Lends memory until it is unregistered. Returns 0; -7 for memory that is registered
        already; -1 for other failures. `location` is ignored."""
        if self._native is None:
            return self._told("register_memory", NOT_BEGUN)
        return self._told("register_memory", self._native.register_memory(buffer_addr, capacity))

    def unregister_memory(self, buffer_addr: int) -> int:
        """Takes memory back. Returns 0 once nobody reads or writes the memory; -3 when no
        registered memory begins at this address."""
        if self._native is None:
            return self._told("unregister_memory", NOT_BEGUN)
        return self._told("unregister_memory", self._native.unregister_memory(buffer_addr))

    def batch_register_memory(self, buffer_addresses: Sequence[int], capacities: Sequence[int],
                              location: str = "*") -> int:
        """Registers all of these pieces of memory, or none. Returns 0, or the code of the piece
        that failed."""
        if len(buffer_addresses) != len(capacities):
            return self._told("batch_register_memory", (FAILED, "the lists differ in length"))
        for index, (address, capacity) in enumerate(zip(buffer_addresses, capacities)):
            code = self.register_memory(address, capacity, location)
            if code != 0:
                self.batch_unregister_memory(buffer_addresses[:index])
                return code
        return 0

    def batch_unregister_memory(self, buffer_addresses: Sequence[int]) -> int:
        """Unregisters as many pieces as possible. Returns 0, or the code of the first failure."""
        codes = [self.unregister_memory(address) for address in buffer_addresses]
        return next((code for code in codes if code != 0), 0)

    # -- calls that wait

    def transfer_sync_write(self, target_hostname: str, buffer: int, peer_buffer_address: int, length: int,
                            transport_hint: str = "") -> int:
        return self._transfer("write", target_hostname, [buffer], [peer_buffer_address], [length])

    def transfer_sync_read(self, target_hostname: str, buffer: int, peer_buffer_address: int, length: int,
                           transport_hint: str = "") -> int:
        return self._transfer("read", target_hostname, [buffer], [peer_buffer_address], [length])

    def batch_transfer_sync_write(self, target_hostname: str, buffers: Sequence[int],
                                  peer_buffer_addresses: Sequence[int], lengths: Sequence[int],
                                  transport_hint: str = "") -> int:
        return self._transfer("write", target_hostname, buffers, peer_buffer_addresses, lengths)

    def batch_transfer_sync_read(self, target_hostname: str, buffers: Sequence[int],
                                 peer_buffer_addresses: Sequence[int], lengths: Sequence[int],
                                 transport_hint: str = "") -> int:
        return self._transfer("read", target_hostname, buffers, peer_buffer_addresses, lengths)

    def send_probe(self, target_hostname: str) -> int:
        """Asks whether the other engine answers. Returns 0 when it does, else -1."""
        return self._transfer("write", target_hostname, [], [], [])

    # -- calls that do not wait

    def batch_transfer_async_write(self, target_hostname: str, buffers: Sequence[int],
                                   peer_buffer_addresses: Sequence[int], lengths: Sequence[int],
                                   transport_hint: str = "") -> int:
        """Begins a write. Returns the number of the call, or 0 when it could not begin. The call's
        result is kept until it is asked for."""
        return self._begin("write", target_hostname, buffers, peer_buffer_addresses, lengths)

    def batch_transfer_async_read(self, target_hostname: str, buffers: Sequence[int],
                                  peer_buffer_addresses: Sequence[int], lengths: Sequence[int],
                                  transport_hint: str = "") -> int:
        return self._begin("read", target_hostname, buffers, peer_buffer_addresses, lengths)

    def get_batch_transfer_status(self, batch_ids: Sequence[int]) -> int:
        """Waits for all of these calls. Returns 0 when all have succeeded, else -1."""
        if self._native is None:
            return FAILED
        codes = [self._told("transfer", self._native.wait(each)) for each in batch_ids]
        return 0 if all(code == 0 for code in codes) else FAILED

    def transfer_submit_write(self, target_hostname: str, buffer: int, peer_buffer_address: int, length: int,
                              transport_hint: str = "") -> int:
        """Begins a write. Returns the number of the call, or -1 when it could not begin."""
        return self._begin("write", target_hostname, [buffer], [peer_buffer_address], [length]) or FAILED

    def transfer_check_status(self, batch_id: int) -> int:
        """Returns 1 when the call is done, 0 while it is open, -1 when it has failed, -2 when it
        took too long. After any answer but 0 the call's number is forgotten."""
        if self._native is None:
            return FAILED
        return self._told("transfer", self._native.check(batch_id))

    # -- functions that all calls use

    def _transfer(self, direction: str, session: str, own: Sequence[int], others: Sequence[int],
                  lengths: Sequence[int]) -> int:
        if self._native is None:
            return self._told(direction, NOT_BEGUN)
        return self._told(f"{direction} {session}",
                          self._native.transfer(session, direction == "write", own, others, lengths))

    def _begin(self, direction: str, session: str, own: Sequence[int], others: Sequence[int],
               lengths: Sequence[int]) -> int:
        if self._native is None:
            self._told(direction, NOT_BEGUN)
            return 0
        call, reason = self._native.begin(session, direction == "write", own, others, lengths)
        if call == 0:
            self._told(f"{direction} {session}", (FAILED, reason))
        return call

    @staticmethod
    def _told(what: str, answer: Tuple[int, str]) -> int:
        """The answer's code, after a line in the log when it says that something has failed."""
        code, reason = answer
        if code < 0:
            logger.warning("%s: %s", what, reason)
        return code


if __name__ == "__main__":
    print(folder())
