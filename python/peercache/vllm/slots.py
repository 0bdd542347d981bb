"""The slots of vLLM's primary tier: where the bytes of each chunk lie."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from peercache._native import LentMemory, page_bytes_max


class Slots:
    """The rows of the primary view; slot i is row i, and one page of ours.

    Threads: any. Ownership: the memory is vLLM's; the view is held until `give_back`, so that vLLM cannot unmap it
    before. Units: bytes. Errors: ValueError from the constructor for a view of another shape, or rows that no page
    can hold.
    """

    def __init__(self, view: memoryview) -> None:
        shape = view.shape or ()
        if len(shape) != 2 or not view.c_contiguous or view.itemsize != 1 or view.readonly:
            raise ValueError(f"the primary view has the shape {shape} and items of {view.itemsize} bytes; one with rows "
                             "of bytes, without gaps, is known")
        self.count, self.row_bytes = shape
        if not 0 < self.row_bytes <= page_bytes_max:
            raise ValueError(
                f"a chunk has {self.row_bytes} bytes and the cache takes {page_bytes_max}: "
                'make "block_size" of kv_connector_extra_config smaller'
            )
        self._lent = LentMemory()
        self.address, self.bytes = self._lent.lend(view, True)

    def addresses(self, slots: Sequence[int]) -> List[int]:
        """The addresses of some slots. Errors: ValueError for a slot that is not there, or is named twice: it holds
        one chunk."""
        if any(not 0 <= slot < self.count for slot in slots):
            raise ValueError(f"slots {min(slots)} to {max(slots)} of {self.count}")
        if len(set(slots)) != len(slots):
            raise ValueError("a slot is named twice")
        return [self.address + slot * self.row_bytes for slot in slots]

    def memory(self) -> Tuple[int, int]:
        """All of the view's memory: (address, bytes)."""
        return self.address, self.bytes

    def give_back(self) -> None:
        """Lets go of the view; no call may touch its memory afterwards."""
        self._lent = LentMemory()
