"""An engine's KV buffers: where the parts of a page lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, List, Protocol, Sequence, Tuple

from peercache._native import page_bytes_max, parts_per_page_max

Range = Tuple[int, int]
"""A range of memory: (address, bytes)."""


class KVArgsLike(Protocol):
    """The attributes of SGLang KVArgs (disaggregation/base/conn.py) that are used; others are ignored.

    Each list has one entry for each buffer, in the engine's order: K of each layer, then V of each layer; with MLA one
    for each layer. Page p of buffer i is the `kv_item_lens[i]` bytes at `kv_data_ptrs[i] + p * kv_item_lens[i]`.

    `kv_layer_ids` and `prefill_start_layer`, where given, say which layers lie in the buffers.
    """

    kv_data_ptrs: Sequence[int]
    kv_data_lens: Sequence[int]
    kv_item_lens: Sequence[int]


def joined(ranges: Sequence[Range]) -> List[Range]:
    """Joins ranges of memory: the result covers the same memory in as few ranges as possible, none of which overlap,
    by address."""
    merged: List[Range] = []
    for begin, size in sorted(ranges):
        if merged and begin <= merged[-1][0] + merged[-1][1]:
            first, before = merged.pop()
            begin, size = first, max(before, begin + size - first)
        merged.append((begin, size))
    return merged


def _mappings() -> Iterator[Range]:
    """The memory that this process may read and write, as ranges by address (proc(5), /proc/pid/maps)."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        for line in maps:
            span, rights = line.split(maxsplit=2)[:2]
            if rights.startswith("rw"):
                begin, end = (int(each, 16) for each in span.split("-"))
                yield begin, end - begin


def check_mapped(ranges: Sequence[Range]) -> None:
    """Refuses ranges that the CPU cannot access, such as a GPU's memory: touching them would end
    the process. Errors: ValueError for a range that the CPU cannot read and write."""
    mapped = joined(list(_mappings()))
    for begin, size in ranges:
        if not any(start <= begin and begin + size <= start + length for start, length in mapped):
            raise ValueError(
                f"the KV buffer at {begin:#x} ({size} bytes) is not in this process's host memory; "
                "pages are moved by the CPU and by RDMA into host memory only"
            )


def _layers_of(kv_args: Any) -> str:
    """The layers that lie in the buffers, as far as the engine says: buffers of other layers have pages of the same
    size. An engine that says nothing (a decode engine) begins with layer 0, as no pipeline rank but the first does."""
    ids = getattr(kv_args, "kv_layer_ids", None)
    first = int(getattr(kv_args, "prefill_start_layer", None) or 0)
    listed = "" if ids is None else ",".join(str(int(each)) for each in ids)
    return f"{first}:{listed}"


@dataclass(frozen=True)
class KVBuffers:
    """The buffers of one engine process. Immutable; the memory stays the engine's."""

    addresses: Sequence[int]
    item_bytes: Sequence[int]
    pages: int
    """Pages that fit into each buffer."""
    layers: str
    """The first layer and the list of all layers, as the engine says."""

    @staticmethod
    def of(kv_args: KVArgsLike) -> "KVBuffers":
        """The buffers that `kv_args` describes. Errors: ValueError with what does not fit."""
        addresses = [int(each) for each in kv_args.kv_data_ptrs]
        lengths = [int(each) for each in kv_args.kv_data_lens]
        items = [int(each) for each in kv_args.kv_item_lens]
        if not addresses or not len(addresses) == len(lengths) == len(items):
            raise ValueError(
                f"{len(addresses)} kv_data_ptrs, {len(lengths)} kv_data_lens, {len(items)} kv_item_lens"
            )
        if min(items) <= 0:
            raise ValueError(f"a page of {min(items)} bytes")
        if len(items) > parts_per_page_max or sum(items) > page_bytes_max:
            raise ValueError(
                f"a page has {len(items)} parts and {sum(items)} bytes; the cache takes "
                f"{parts_per_page_max} and {page_bytes_max}"
            )
        check_mapped(list(zip(addresses, lengths)))
        pages = min(a // b for a, b in zip(lengths, items))
        return KVBuffers(addresses, items, pages, _layers_of(kv_args))

    @property
    def page_bytes(self) -> int:
        return sum(self.item_bytes)

    def memory(self) -> List[Range]:
        """The memory of all buffers as ranges, for registering."""
        return joined([(a, n * self.pages) for a, n in zip(self.addresses, self.item_bytes)])

    def parts(self, pages: Sequence[int]) -> Tuple[List[int], List[int]]:
        """Addresses and bytes of all parts of the given pages, the parts of one page together. Errors: ValueError
        for a page that is not in the buffers."""
        for page in pages:
            if not 0 <= page < self.pages:
                raise ValueError(f"page {page} of buffers with {self.pages} pages")
        places = [a + p * n for p in pages for a, n in zip(self.addresses, self.item_bytes)]
        return places, list(self.item_bytes) * len(pages)

    def geometry(self) -> List[str]:
        """The fields of the key space that describe the buffers: their properties that decide the meaning of a
        page's bytes."""
        return [f"items={','.join(str(each) for each in self.item_bytes)}", f"layers={self.layers}"]
