"""The cache for any Python program: pages in, pages out, in batches."""

from __future__ import annotations

import enum
from collections.abc import Set
from numbers import Integral
from types import TracebackType
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type, Union

from peercache import _native, forms, process_end
from peercache._native import KeySpace

Option = Union[str, int, float, bool, Sequence[str]]
"""The value of an option of the option table: "64GiB", 31998, true, ["host:31998", ...]."""

Options = Mapping[str, Option]
"""Values of options by the names of docs/configuration.md: {"client.node_port": 31998}."""

Memory = Any
"""A contiguous piece of memory: an object with the buffer protocol (bytes, bytearray, numpy array), a torch tensor
in host memory, or (address, bytes), a tuple of two integers of any type."""

Page = Union[Memory, Sequence[Memory]]
"""One piece of memory, or a list of pieces that make one page, such as K and V."""


class Status(enum.IntEnum):
    """The fate of one page in one call: a success, or the reason why not."""

    HIT = 0
    STORED = 1
    DUPLICATE = 2
    NOT_FOUND = 3
    STALE = 4
    HOLDER_GONE = 5
    WRONG_KEY = 6
    CORRUPT = 7
    TIMED_OUT = 8
    UNREACHABLE = 9
    BREAKER_OPEN = 10
    REFUSED = 11
    NO_SPACE = 12
    BAD_SIZE = 13
    CLOSED = 14


class Origin(enum.IntEnum):
    """The place that the bytes of a hit came from."""

    NONE = 0
    OWN_HOST = 1
    OTHER_HOST = 2
    DISK = 3
    OTHER_HOST_RDMA = 4


class PageResult(NamedTuple):
    """The result of one page. With `exists`, `length` is that of the page found; with other calls it is that of the
    parts given."""

    status: Status
    origin: Origin
    length: int
    """The length of the page in bytes."""
    held: bool = False
    """Whether `exists` holds the page."""

    @property
    def ok(self) -> bool:
        return self.status <= Status.DUPLICATE


class FlushResult(NamedTuple):
    """The result of a flush: the fate of the pages that `set` called stored since the flush
    before."""

    complete: bool
    """Whether all pages were acknowledged in time."""
    failed: int
    """Pages that other hosts do not find; clients of this host find those of the failed pages that it still has."""
    duplicates: int


class ClearResult(NamedTuple):
    """The result of a clear. True in a condition when the clear is certain."""

    certain: bool
    """Whether no page that was set before is ever a hit again, for any client of the cluster. An exception: pages that
    are brought back by a node that starts while all nodes that heard of the clear are away."""
    why_not: str
    """Why the clear is not certain: for people, with the names of the nodes in question."""

    def __bool__(self) -> bool:
        return self.certain


class Overlap(NamedTuple):
    """How many tokens of a prompt, from the first one on, one node has."""

    node: str
    longest: int
    """Tokens of blocks that lie in some tier."""
    gpu: int
    """Tokens that one engine of the host holds on its GPUs, as far as engines tell."""
    memory: int
    disk: int
    gpu_by_rank: Mapping[int, int]
    """What `gpu` is for the engines of each rank of data parallelism."""


def option_names() -> frozenset[str]:
    """The names of all options in the option table."""
    return frozenset(option_forms())


def option_forms() -> Dict[str, forms.Form]:
    """The form of each option of the option table, by the option's name."""
    return {name: forms.of_option(form) for name, form, _ in _native.option_table()}


def option_text(value: Option) -> str:
    """An option's value as text, as a flag of the command line would have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(value)


def option_texts(options: Options) -> Dict[str, str]:
    """The values of options as texts. Errors: ValueError for a value that no text could say, such as a list where
    one value is wanted."""
    known, texts = option_forms(), {}
    for name, value in options.items():
        form = known.get(name)
        if form is not None:
            form.check(name, value)
        # YAML reads the word off as false, so false means off where the option has that word.
        is_off = value is False and form is not None and form.has_off
        texts[name] = "off" if is_off else option_text(value)
    return texts


def _is_range(memory: Any) -> bool:
    """Whether `memory` is a pair (address, bytes), also of numpy's integers, which are not of type `int`."""
    return isinstance(memory, tuple) and len(memory) == 2 and isinstance(memory[0], Integral)


def memory_of(
    memory: Memory, writable: bool, lent: Optional[_native.LentMemory] = None
) -> Tuple[int, int]:
    """The (address, bytes) of a piece of memory. An object with the buffer protocol is held by `lent`, so that nobody
    resizes a bytearray while it is used. Errors: TypeError, ValueError, BufferError."""
    if _is_range(memory):
        return int(memory[0]), int(memory[1])
    # A bare number is refused: numpy's integers are buffers too, and would lend the bytes of the number itself.
    if isinstance(memory, Integral):
        raise TypeError(f"{memory} is a number, not memory; an address needs its bytes: (address, bytes)")
    if hasattr(memory, "data_ptr"):
        if not memory.is_contiguous():
            raise ValueError("the tensor is not contiguous")
        if memory.device.type != "cpu":
            raise ValueError(f"the tensor is in the memory of {memory.device}, not of the host")
        return int(memory.data_ptr()), int(memory.numel()) * int(memory.element_size())
    return (lent or _native.LentMemory()).lend(memory, writable)


def _is_list_of_parts(page: Page) -> bool:
    return isinstance(page, list) or (isinstance(page, tuple) and not _is_range(page))


class _Parts:
    """The memory of a call's pages, all parts one after the other. It holds the pages' objects for as long as the
    call: a sequence may make its pages only when it is asked for them, and other threads may change it during the
    call."""

    def __init__(self, keys: Sequence[str], pages: Sequence[Page], writable: bool) -> None:
        """Collects the parts of all pages. Errors: TypeError for pages in no order, ValueError when pages differ in
        their number of parts, or from the keys in number."""
        if isinstance(pages, (Set, Mapping)):
            raise TypeError("pages is a sequence, in the order of the keys")
        if len(keys) != len(pages):
            raise ValueError(f"{len(keys)} keys, but {len(pages)} pages")
        self.addresses: List[int] = []
        self.sizes: List[int] = []
        self._lent = _native.LentMemory()
        self._pages = list(pages)
        count = -1
        for page in self._pages:
            parts = page if _is_list_of_parts(page) else [page]
            if count not in (-1, len(parts)):
                raise ValueError("the pages of one call have the same number of parts")
            count = len(parts)
            for part in parts:
                address, size = memory_of(part, writable, self._lent)
                self.addresses.append(address)
                self.sizes.append(size)


def _results(native: _native.Results) -> List[PageResult]:
    pages: List[PageResult] = []
    for status, origin, length, count in native.groups:
        pages += [PageResult(Status(status), Origin(origin), length)] * count
    return pages


class Client:
    """The cache as a program sees it.

    Options come from `options`, then PEERCACHE_* variables, then the file that PEERCACHE_CONFIG names.
    Without any, the client connects to the peercache-node of this host; with `embedded`, it starts one
    in this process, and `client.node_address` is what others join through. With `wait_for_node=False`
    it returns at once and misses until the node is found.

    Threads: any number may call at once; every call that moves or looks up pages gives the GIL up. Ownership: memory is lent for the
    duration of a call; keep it alive and of its size. After a call nothing reads or writes it, also for pages that were
    missed; those may hold any bytes. Deadlines: `timeout` in seconds, default the option `client.timeout`; no call
    returns more than 50 ms later. Errors: `peercache.Error` when the cache cannot
    be opened; TypeError, ValueError, OverflowError and BufferError for arguments that make no sense, and what
    handlers of signals raise; nothing else: each page has a status, and after `close` every one is CLOSED.
    Forks: in a child the client is closed; it may open one of its own. Signals: handlers run while the main
    thread is in a call, at most 0.1 s late, and the call of a handler that raises (Ctrl-C) ends with that
    exception, as does opening a client. A handler may call, and close, any client. End of the process:
    clients are closed by a hook of atexit, so daemon threads may be in any call. Threads that are not daemons are
    joined by the interpreter first: they end by the deadlines of their calls, unless the client is closed
    before.
    """

    def __init__(
        self, options: Optional[Options] = None, *, embedded: bool = False, wait_for_node: bool = True
    ) -> None:
        self.native = _native.Client(option_texts(options or {}), embedded, wait_for_node)
        self._registered: Dict[int, _native.LentMemory] = {}
        """Registered memory, by address."""
        process_end.close_at_end(self.native)

    def space(self, *fields: str) -> KeySpace:
        """A key space for pages whose bytes mean the same. The fields, in this order, say what that is: model,
        revision, dtype, layout, ..."""
        made = KeySpace(fields)
        self.native.describe(made, "python", fields, {})
        return made

    def set(
        self,
        space: KeySpace,
        keys: Sequence[str],
        pages: Sequence[Page],
        timeout: Optional[float] = None,
    ) -> List[PageResult]:
        """Copies the pages into this host's pool. When the call returns, the caller may use their memory again, and
        every client of this host finds the pages; `flush` waits until other hosts can."""
        parts = _Parts(keys, pages, writable=False)
        return _results(self.native.set([space], keys, parts.addresses, parts.sizes, timeout))

    def get(
        self,
        space: KeySpace,
        keys: Sequence[str],
        pages: Sequence[Page],
        timeout: Optional[float] = None,
    ) -> List[PageResult]:
        """Reads the pages into the given memory, from wherever they are. Where pieces of memory
        overlap, the overlap may end up with the bytes of any of their pages."""
        parts = _Parts(keys, pages, writable=True)
        return _results(self.native.get([space], keys, parts.addresses, parts.sizes, timeout))

    def exists(
        self,
        space: KeySpace,
        keys: Sequence[str],
        timeout: Optional[float] = None,
        hold: Optional[float] = None,
    ) -> List[PageResult]:
        """Tells which pages could be read, and their lengths. `hold`: seconds (10 at most) for which the pages that
        are found in memory stay there: their holders do not evict them before that time is over or this client has
        read them. A page is found and not `held` when it lies on a disk, when its holder does not answer in time, or
        when the share of its pool for held pages (`pool.hold_share`) is taken."""
        results = self.native.exists([space], keys, timeout, hold)
        if not hold:
            return _results(results)
        return [page._replace(held=held) for page, held in zip(_results(results), results.held)]

    def leading_run(
        self, space: KeySpace, keys: Sequence[str], timeout: Optional[float] = None
    ) -> int:
        """Counts how many pages could be read from the first key on, up to the first page that could not."""
        return self.native.exists([space], keys, timeout, None, True).run

    def remove(
        self, space: KeySpace, keys: Sequence[str], timeout: Optional[float] = None
    ) -> List[PageResult]:
        """Withdraws the pages wherever they are. HIT: a node had the page, and it is gone; NOT_FOUND: nobody had it."""
        return _results(self.native.remove([space], keys, timeout))

    def clear(self, space: str, timeout: Optional[float] = None) -> ClearResult:
        """Withdraws every page of all key spaces whose first field is `space`, on every node and disk, whoever set
        it. At a node that has heard of the clear, the pages are withdrawn at once and for good,
        whatever the result; a page that is set while the clear runs may be withdrawn or not."""
        return ClearResult(*self.native.clear(space, timeout))

    def prefetch(self, space: KeySpace, keys: Sequence[str]) -> None:
        """Starts to bring the pages closer to this host; best effort, returns at once."""
        self.native.prefetch([space], keys)

    def report_gpu(
        self,
        space: Union[KeySpace, Sequence[KeySpace]],
        stored: Sequence[str] = (),
        evicted: Sequence[str] = (),
        *,
        all_evicted: bool = False,
        rank: Optional[int] = None,
    ) -> None:
        """Tells this host's node which blocks an engine holds on its GPU, for the overlap queries of routers: the keys
        that it has evicted since the last call, and those that it has stored; a key in both lists
        was evicted first, and counts as stored. `all_evicted`: the engine has emptied its GPU's
        cache before. With several key spaces, each key counts in all of them. `rank`: the engine's
        rank of data parallelism. The node forgets all of it when this client is closed or this
        process dies. Returns at once; news travels within a tenth of a second."""
        spaces = [space] if isinstance(space, KeySpace) else list(space)
        self.native.report_gpu(spaces, stored, evicted, all_evicted, rank)

    def overlap(
        self,
        spaces: Sequence[Sequence[str]],
        block_tokens: int,
        hashes: Sequence[str] = (),
        tokens: Optional[Sequence[int]] = None,
        node: str = "",
        timeout: Optional[float] = None,
    ) -> List[Overlap]:
        """Asks, for a router, how much of a prompt each node has. The prompt is given by the keys of its pages, or by
        its tokens, whose pages are hashed as SGLang's HiCache does. `spaces` are the fields of the key space of each
        rank of a TP group; a block counts where the pages of all ranks are. `node`: the name of the one node that is
        asked about. Errors: ValueError for hashes and tokens in one query; Error with the code "invalid argument" and
        what is wrong with the query, or "refused" when it is to be asked again, "unreachable", "timed out", "closed"."""
        if hashes and tokens is not None:
            raise ValueError("a query has hashes or tokens, not both")
        rows = self.native.overlap(spaces, hashes, tokens, block_tokens, node, timeout)
        return [Overlap(*row[:5], gpu_by_rank=dict(row[5])) for row in rows]

    def flush(self, timeout: Optional[float] = None) -> FlushResult:
        """Waits until every page set so far can be found by other hosts, or is known not to be."""
        return FlushResult(*self.native.flush(timeout))

    def register(self, memory: Memory) -> None:
        """Makes memory known to the RDMA devices, so that pages of other hosts are read straight into it; over TCP
        registering changes nothing. The memory stays the caller's, and must stay in place until `unregister` or
        `close`. Ranges must not overlap. Errors: ValueError with the reason."""
        lent = _native.LentMemory()
        address, size = memory_of(memory, True, lent)
        fault = self.native.register_memory(address, size)
        if fault is not None:
            raise ValueError(fault)
        self._registered[address] = lent

    def unregister(self, memory: Memory) -> None:
        """Unregisters the memory; no `get` into it may be running."""
        address, _ = memory_of(memory, writable=True)
        self.native.unregister_memory(address)
        self._registered.pop(address, None)

    def stats(self) -> Mapping[str, Any]:
        """Totals since the client was made: pages by status, and bytes and hits by origin."""
        return self.native.stats()

    def members(self) -> List[Tuple[str, str, int]]:
        """The nodes of the cluster, as this client knows them: (name, host, control port) of each."""
        return self.native.members()

    @property
    def data_plane(self) -> str:
        """The data plane by which pages of other hosts come, and why: "tcp: no RDMA device"."""
        return self.native.data_plane

    @property
    def node_address(self) -> str:
        """The address, "host:port", of the node that this client is connected with."""
        return self.native.node_address

    @property
    def closed(self) -> bool:
        return self.native.closed

    def close(self) -> None:
        """Ends the client, and its embedded node. Running calls of other threads end first; the handler of a signal
        that interrupts a call does not wait for them."""
        self.native.close()
        self._registered.clear()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()
