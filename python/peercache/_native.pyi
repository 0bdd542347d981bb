"""The extension module: the C++ client with batches of addresses. Programs use it through
`peercache.Client`.

Every method that waits gives the GIL up meanwhile; those that only tell or note something keep it. Memory is named by
address and lent for the call: when a method has returned, nothing reads or writes it. An address that is not the
caller's memory ends the process, as in C.

`keys` is a sequence of str or bytes. A call's pages are each key in each space, the spaces of one key
together: key 0 in space 0, key 0 in space 1, key 1 in space 0, ... `addresses` and `sizes` (bytes) hold
the parts of all pages in this order, the same number for each page, as a list of int or a numpy array of
64-bit integers. `timeout` is in seconds; None takes the option `client.timeout`.
"""

from typing import Any, Mapping, Optional, Sequence, Union

Keys = Sequence[Union[str, bytes]]
Integers = Any
"""A sequence of int, or a one-dimensional array of 64-bit integers."""

class Error(Exception):
    """Raised when the cache cannot be opened, or does not answer a query for overlaps. `code` is the kind of error, such
    as "unreachable"."""

    code: str

class KeySpace:
    """An ordered list of fields that decides, beside the caller's key, what a page's bytes mean."""

    def __init__(self, fields: Keys) -> None: ...
    def key_of(self, key: str) -> bytes:
        """The 32 bytes that name the page of this key in the cluster."""

class Results:
    """The results of the pages of one call, in their order."""

    def __len__(self) -> int: ...
    @property
    def run(self) -> int:
        """How many pages are successes from the first one on, up to the first page that is not."""
    @property
    def success_bytes(self) -> int:
        """Total length of the pages that are successes."""
    @property
    def ok(self) -> list[bool]: ...
    @property
    def held(self) -> list[bool]:
        """Whether `exists` holds each page."""
    @property
    def statuses(self) -> bytes:
        """The status of each page as one byte, an index into `status_words`."""
    @property
    def groups(self) -> list[tuple[int, int, int, int]]:
        """Runs of pages with equal results: (status, origin, length in bytes, how many pages in a row)."""

class PageRows:
    """Where the parts of a pool's pages lie, when part i of page p begins at firsts[i] + p * steps[i]."""

    def __init__(
        self, firsts: Sequence[int], steps: Sequence[int], page_tokens: int, pages: int
    ) -> None: ...
    def addresses(self, indices: int, pages: int) -> Optional[list[int]]:
        """The addresses of all parts of `pages` pages, page after page. `indices` is the address of the slots of all
        their tokens, 64-bit integers. None when these slots are not whole pages of the pool, each from its first
        token on."""

class Client:
    """The C++ client. Threads: any number at once."""

    def __init__(
        self, options: Mapping[str, str], embedded: bool = ..., wait_for_node: bool = ...
    ) -> None: ...
    def set(
        self,
        spaces: Sequence[KeySpace],
        keys: Keys,
        addresses: Integers,
        sizes: Integers,
        timeout: Optional[float] = ...,
    ) -> Results: ...
    def get(
        self,
        spaces: Sequence[KeySpace],
        keys: Keys,
        addresses: Integers,
        sizes: Integers,
        timeout: Optional[float] = ...,
    ) -> Results: ...
    def exists(
        self,
        spaces: Sequence[KeySpace],
        keys: Keys,
        timeout: Optional[float] = ...,
        hold: Optional[float] = ...,
        chain: bool = ...,
    ) -> Results:
        """Tells which pages could be read. `hold`: seconds for which those that are found in memory are kept from
        eviction; the pages of one key, in all spaces, are held all or none. `chain`: only the pages before the first
        one that is not found are of use (`run`): later ones are not held, and in a large cluster not asked about."""
    def remove(
        self, spaces: Sequence[KeySpace], keys: Keys, timeout: Optional[float] = ...
    ) -> Results: ...
    def prefetch(self, spaces: Sequence[KeySpace], keys: Keys) -> None: ...
    def report_gpu(
        self, spaces: Sequence[KeySpace], stored: Keys, evicted: Keys, all_evicted: bool, rank: Optional[int]
    ) -> None:
        """Tells the node which blocks the engine has evicted from its GPU, and then stored there. Returns at once."""
    def overlap(
        self,
        spaces: Sequence[Sequence[str]],
        hashes: Keys,
        tokens: Optional[Sequence[int]],
        block_tokens: int,
        node: str,
        timeout: Optional[float] = ...,
    ) -> list[tuple[str, int, int, int, int, list[tuple[int, int]]]]:
        """Asks how much of a prompt each node has. `spaces` are the fields of key spaces. Returns, for each node, its
        name, the tokens that it has in any tier, on GPUs, in memory and on disk, and those on GPUs by rank of data
        parallelism. Errors: Error."""
    def tiers(
        self, spaces: Sequence[KeySpace], keys: Keys, timeout: Optional[float] = ...
    ) -> Optional[bytes]:
        """The tiers in which the directory (no cache of this client) knows each page, a byte each: bit 0 memory, bit 1
        disk, of any node; bits 2 and 3 the same of this host's node; bit 7: the part of the directory that knows this
        page has not answered. None when the client is closed, when this host's node died in the middle of a clear, or
        when the time is over before all keys are known."""
    def flush(self, timeout: Optional[float] = ...) -> tuple[bool, int, int]:
        """Waits until all pages set so far are published. Returns (whether all are published, pages that failed, pages
        that were duplicates)."""
    def clear(self, space: str, timeout: Optional[float] = ...) -> tuple[bool, str]:
        """Withdraws all pages whose key space has `space` as its first field. Returns whether it is certain that none
        of these pages is still a hit, and why not."""
    def register_memory(self, address: int, bytes: int) -> Optional[str]:
        """Registers memory with the RDMA devices. Returns None, or why that failed."""
    def unregister_memory(self, address: int) -> None: ...
    def describe(self, space: KeySpace, door: str, fields: Sequence[str], facts: dict[str, str]) -> None:
        """Describes a key space for `peercache why`: who made it, its fields, and settings of the
        engine."""
    def note_unasked(self, space: KeySpace, reason: str, pages: int) -> None:
        """Notes pages that were called missing without asking the cache, for `peercache why`. The reason is a name, or
        a name and words: "name: words"."""
    def stats(self) -> dict[str, Any]: ...
    def members(self) -> list[tuple[str, str, int]]: ...
    def call_times(self) -> tuple[int, float, float]:
        """Total times of set, get, exists and remove so far: (calls, seconds within them, seconds of these without
        the GIL)."""
    def close(self) -> None:
        """Ends the client. Returns when the running calls and the client have ended."""
    @property
    def data_plane(self) -> str: ...
    @property
    def node_address(self) -> str: ...
    @property
    def timeout(self) -> float: ...
    @property
    def closed(self) -> bool: ...

class RoomWatch:
    """The state of one room."""

    def poll(self) -> int:
        """The room's state in SGLang's numbers (KVPoll). A memory read, without a lock; the GIL is kept."""

class PrefillWorker:
    """The prefill worker of one rank of an engine: it announces KV pages room by room, and decode
    workers read them.

    `layout` describes its memory, which is lent until `give_memory_back` or `close`; keys that are missing have the
    value 0, False or nothing:

      dtype               the engine's word for the type of KV elements
      page_tokens         tokens of a page
      mla, hybrid_mla     the kind of attention; of a hybrid there are states beside MLA's KV
      all_cp_ranks_send   every context parallel rank sends its share of the pages
      kv_heads            of the model, over all ranks; 0 with MLA, and at decode
      first_layer, end_layer, model_layers    of this pipeline stage; layers of the model without its draft
      ranks               (tp rank, tp size, pp rank, pp size, cp rank, cp size)
      buffers             [(address, bytes, bytes of a page, layer or None), ...]
      states              [(kind, [(buffer as above, dim, outer count, [group, ...]), ...]), ...]
      aux                 buffers as above, whose items are rows

    `options` are those of the option table (`rdma.*`, `cluster.name`, `tls.*`, `insecure_cluster` matter). Rooms are
    named by the number that `open` gives. Pages are numpy.int32 arrays, states [(place of the first item, such an
    array), ...].
    Errors: `Error` for what the worker refuses; ValueError, TypeError. Threads: any; every call gives the GIL up.
    """

    def __init__(
        self, options: Mapping[str, str], host: str, name: str, layout: Mapping[str, Any]
    ) -> None: ...
    def open(self, room: int) -> tuple[int, RoomWatch]:
        """Opens a room; the decode workers that join say how many they are. Returns the room's name for the other
        calls, and its state."""
    def prefix_pages(self, room: int) -> Optional[int]:
        """Number of pages that the decode workers have already; None before all of them have joined."""
    def init(self, room: int, pages: int) -> None: ...
    def send(
        self,
        room: int,
        pages: Any,
        last: bool,
        states: Sequence[tuple[int, Any]] = ...,
        aux_row: int = ...,
    ) -> None: ...
    def abort(self, room: int, reason: str, from_another_rank: bool = ...) -> None:
        """Fails the room. When the call returns, decode workers reject any bytes that they read
        from the room's pages afterwards."""
    def clear(self, room: int) -> None: ...
    def failure(self, room: int) -> Optional[tuple[str, bool]]:
        """Why the room has failed, and whether this worker had no part in it; None when it has not."""
    def metric(self, room: int) -> tuple[int, float]:
        """Returns (bytes that all decode workers have read, seconds that the slowest of them
        took)."""
    def give_memory_back(self) -> None: ...
    def lend_memory(self) -> None: ...
    def stats(self) -> dict[str, int]: ...
    def close(self) -> None: ...
    @property
    def port(self) -> int: ...
    @property
    def data_plane(self) -> str: ...
    @property
    def closed(self) -> bool: ...

class DecodeWorker:
    """The decode worker of one rank of an engine: it reads the pages that prefill workers offer. As
    `PrefillWorker`, but rooms are named by their own number, and `end`, `clear`, `give_memory_back`
    and `close` wait until nothing writes to the pages."""

    def __init__(
        self, options: Mapping[str, str], host: str, name: str, layout: Mapping[str, Any]
    ) -> None: ...
    def open(self, room: int) -> RoomWatch: ...
    def connect(self, room: int, sources: Sequence[tuple[str, int]]) -> None:
        """Says at which addresses the prefill workers of the room listen."""
    def allocate(
        self,
        room: int,
        prefix_pages: int,
        pages: Any,
        states: Sequence[tuple[int, Any]] = ...,
        aux_row: int = ...,
    ) -> None:
        """Lends pages to the room, until the room is seen to have ended, or `end` or `clear` has returned."""
    def abort(self, room: int, reason: str, from_another_rank: bool = ...) -> None:
        """Fails the room; the room is seen to have failed as soon as nothing writes to its pages."""
    def end(
        self, room: int, reason: str, from_another_rank: bool = ...
    ) -> Optional[tuple[str, bool]]:
        """Fails the room as `abort` does, and waits until nothing writes to its pages. Returns why the room has failed;
        None when it has not, or is not open."""
    def clear(self, room: int) -> None: ...
    def give_memory_back(self) -> None: ...
    def lend_memory(self) -> None: ...
    def take_lost(self) -> list[tuple[tuple[str, int], str]]:
        """Prefill workers that were lost since the last call: ((host, port), reason) of each."""
    def stats(self) -> dict[str, int]: ...
    def close(self) -> None: ...
    @property
    def data_plane(self) -> str: ...
    @property
    def closed(self) -> bool: ...

class TransferEngine:
    """A transfer engine (python/native_transfer_engine.hpp). Calls answer (number, reason); the numbers are those of
    mooncake.engine."""

    def __init__(self, host: str, port: int, devices: str, tcp_only: bool, timeout: float) -> None: ...
    def register_memory(self, address: int, bytes: int) -> tuple[int, str]: ...
    def unregister_memory(self, address: int) -> tuple[int, str]: ...
    def transfer(
        self, session: str, writes: bool, own: Integers, others: Integers, lengths: Integers
    ) -> tuple[int, str]: ...
    def begin(
        self, session: str, writes: bool, own: Integers, others: Integers, lengths: Integers
    ) -> tuple[int, str]: ...
    def wait(self, call: int) -> tuple[int, str]: ...
    def check(self, call: int) -> tuple[int, str]: ...
    def stats(self) -> dict[str, int]: ...
    def close(self) -> None: ...
    @property
    def port(self) -> int: ...
    @property
    def data_plane(self) -> str: ...
    @property
    def closed(self) -> bool: ...

class LentMemory:
    """Holds the memory of objects with the buffer protocol: the memory keeps its place and its size while this lives."""

    def __init__(self) -> None: ...
    def lend(self, buffer: Any, writable: bool) -> tuple[int, int]:
        """Holds the memory of `buffer` and returns its (address, bytes). The object's bytes must
        lie without gaps, and be writable if `writable`. Errors: TypeError, BufferError, or what the
        object raises."""

def chain_keys(space: KeySpace, tokens: Any, page_tokens: int) -> list[str]:
    """A key for each full page of a prompt, made from all tokens up to the page's end (BLAKE3, chained page by page).
    `tokens` has the buffer protocol and holds 32-bit integers without gaps: array("I", ...), numpy.uint32. Errors:
    TypeError for anything else, such as every second token of an array, or what the object raises that lends no
    memory (numpy: ValueError for datetime64)."""

def end_all(
    clients: list[Union[Client, PrefillWorker, DecodeWorker, TransferEngine]], seconds: float
) -> None:
    """Ends clients and workers for the interpreter's end: no further ones can be opened. The running calls of those in
    `clients` end first, then the clients and workers do. What does not end within `seconds` goes with the process,
    which then ends without C++'s static destructors."""

def forked() -> None:
    """Forgets the parent's threads and clients. Call in each forked child."""

def option_table() -> list[tuple[str, str, str]]:
    """The option table as a list of (name, form, meaning)."""

status_words: list[str]
origin_words: list[str]
parts_per_page_max: int
page_bytes_max: int
