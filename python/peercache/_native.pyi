"""The extension module: the C++ client with batches of addresses. `peercache.Client` is the door to it.

Every method gives the GIL up while it works. Memory is named by address and lent for the call: when a
method has returned, nothing reads or writes it any more. An address that is not the caller's memory ends
the process, as in C.

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
    """The cache cannot be opened. `code` is the kind, such as "unreachable"."""

    code: str

class KeySpace:
    """What decides, beside the caller's key, what a page's bytes mean: an ordered list of fields."""

    def __init__(self, fields: Keys) -> None: ...
    def key_of(self, key: str) -> bytes:
        """The 32 bytes that name this page in the cluster."""

class Results:
    """What became of the pages of one call, in their order."""

    def __len__(self) -> int: ...
    @property
    def run(self) -> int:
        """How many pages from the first one on are successes."""
    @property
    def success_bytes(self) -> int:
        """Bytes of the pages that are successes."""
    @property
    def ok(self) -> list[bool]: ...
    @property
    def statuses(self) -> bytes:
        """One byte a page: an index into `status_words`."""
    @property
    def groups(self) -> list[tuple[int, int, int, int]]:
        """Status, origin and length (bytes), and how many pages in a row have them."""

class PageRows:
    """Where the parts of a pool's pages lie, when part i of page p begins at firsts[i] + p * steps[i]."""

    def __init__(
        self, firsts: Sequence[int], steps: Sequence[int], page_tokens: int, pages: int
    ) -> None: ...
    def addresses(self, indices: int, pages: int) -> Optional[list[int]]:
        """Of all parts of so many pages, page after page. `indices` is the address of the slots of all
        their tokens, 64-bit integers. None where these are not whole pages of the pool from their first
        token on."""

class Client:
    """Threads: any number at once."""

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
        self, spaces: Sequence[KeySpace], keys: Keys, timeout: Optional[float] = ...
    ) -> Results: ...
    def remove(
        self, spaces: Sequence[KeySpace], keys: Keys, timeout: Optional[float] = ...
    ) -> Results: ...
    def prefetch(self, spaces: Sequence[KeySpace], keys: Keys) -> None: ...
    def tiers(
        self, spaces: Sequence[KeySpace], keys: Keys, timeout: Optional[float] = ...
    ) -> Optional[bytes]:
        """Where the directory (no cache of ours) says that each page is, a byte each: bit 0 in memory,
        bit 1 on disk, of any node. None when a part of the directory could not be asked."""
    def flush(self, timeout: Optional[float] = ...) -> tuple[bool, int, int]:
        """(all is published, pages that failed, pages that were duplicates)"""
    def clear(self, space: str, timeout: Optional[float] = ...) -> tuple[bool, str]:
        """Whether it is certain that no page of these key spaces is a hit any more, and why not."""
    def register_memory(self, address: int, bytes: int) -> Optional[str]:
        """None, or why it did not work."""
    def unregister_memory(self, address: int) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def members(self) -> list[tuple[str, str, int]]: ...
    def call_times(self) -> tuple[int, float, float]:
        """(calls, seconds within them, seconds of these without the GIL)"""
    def close(self) -> None:
        """Returns when the calls that run, and the client, have ended."""
    @property
    def data_plane(self) -> str: ...
    @property
    def node_address(self) -> str: ...
    @property
    def timeout(self) -> float: ...
    @property
    def closed(self) -> bool: ...

class LentMemory:
    """Memory of objects with the buffer protocol: stays where it is, and of its size, while this lives."""

    def __init__(self) -> None: ...
    def lend(self, buffer: Any, writable: bool) -> tuple[int, int]:
        """(address, bytes). Errors: TypeError, BufferError, or what the object raises; its bytes must lie
        without gaps, and be writable where that is asked for."""

def chain_keys(space: KeySpace, tokens: Any, page_tokens: int) -> list[str]:
    """A key for each full page of a prompt, of all tokens up to its end (BLAKE3, chained page by page).
    `tokens` has the buffer protocol and holds 32-bit integers without gaps: array("I", ...), numpy.uint32.
    Errors: TypeError for anything else, such as every second token of an array."""

def end_clients(clients: list[Client], seconds: float) -> None:
    """For the interpreter's end: no client opens from here on; the calls of these end, and so do they. What
    does not end within `seconds` goes with the process, which then ends without C++'s static destructors."""

def forked() -> None:
    """To be called in each forked child: its parent's threads and clients are not there."""

def option_table() -> list[tuple[str, str, str]]:
    """(name, form, meaning) of every option."""

status_words: list[str]
origin_words: list[str]
parts_per_page_max: int
page_bytes_max: int
