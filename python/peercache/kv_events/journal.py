"""The blocks that a publisher has announced, in a file: the next publisher of the same engine asks the directory about
them."""

from __future__ import annotations

import fcntl
import importlib
import os
from typing import Any, Dict, List, Sequence

from peercache.kv_events.messages import Block, block_hash

FORMAT = ["peercache-kv-events", 1]
"""The first record of a file; a file that begins with another one is begun anew."""


def _is_record(record: Any) -> bool:
    return (isinstance(record, list) and len(record) == 3 and isinstance(record[0], str)
            and block_hash(record[0]) is not None and (record[1] is None or isinstance(record[1], int))
            and isinstance(record[2], list) and all(isinstance(token, int) for token in record[2]))


def _open_alone(path: str) -> int:
    """Opens a file that no other process has open in this way. Errors: OSError, when one has."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


class Journal:
    """A file of blocks: after `FORMAT` a record [key, parent, token ids] of msgpack for each announcement.

    Threads: one at a time. Bound: 2 * `limit` records; the user rewrites the file when it is full. What was written
    outlives the process, though not the host. Errors: OSError, also when another process has the file open.
    """

    def __init__(self, path: str, limit: int) -> None:
        self._msgpack: Any = importlib.import_module("msgpack")
        self._path, self._limit, self._records = path, limit, 0
        self._fd = _open_alone(path)
        if not os.path.samestat(os.stat(path), os.fstat(self._fd)):
            os.close(self._fd)
            raise BlockingIOError(f"{path}: another process has just rewritten it")

    @property
    def is_full(self) -> bool:
        return self._records > 2 * self._limit

    def read(self) -> List[Block]:
        """The blocks of all records up to the first that is broken, each once, the one that was announced last at the
        end; at most `limit`, the newest."""
        with open(self._fd, "rb", closefd=False) as file:
            file.seek(0)
            records = self._msgpack.Unpacker(file, max_buffer_size=1 << 26)
            found: Dict[str, Block] = {}
            try:
                if next(records, None) != FORMAT:
                    return []
                for record in records:
                    if not _is_record(record):
                        break
                    key, parent, tokens = record
                    found.pop(key, None)
                    found[key] = Block(key, block_hash(key) or 0, parent, tuple(tokens))
            except (ValueError, self._msgpack.exceptions.UnpackException):
                pass  # The file ends in the midst of a record, or another program has written it.
        return list(found.values())[-self._limit :]

    def add(self, blocks: Sequence[Block]) -> None:
        self._write(b"".join(self._packed(block) for block in blocks))
        self._records += len(blocks)

    def rewrite(self, blocks: Sequence[Block]) -> None:
        """Makes the file hold these blocks and no others. A process that is killed here, or finds the disk full, leaves
        the file as it was."""
        next_path, before = self._path + ".next", self._fd
        self._fd = _open_alone(next_path)
        try:
            os.ftruncate(self._fd, 0)
            self._write(self._msgpack.packb(FORMAT) + b"".join(self._packed(block) for block in blocks))
            os.rename(next_path, self._path)
        except OSError:
            before, self._fd = self._fd, before
            raise
        finally:
            os.close(before)
        self._records = len(blocks)

    def close(self) -> None:
        os.close(self._fd)

    def _packed(self, block: Block) -> bytes:
        packed: bytes = self._msgpack.packb([block.key, block.parent, list(block.tokens)])
        return packed

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._fd, rest) :]
