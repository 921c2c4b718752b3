"""A file of vectors that are read where they lie: a search reads the few that it compares exactly.

Read with `pread` and not mapped into memory: a mapped page that the disk cannot read would end the
process, and pages that were read once would count as its memory.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memoryd import files

MAGIC = b"memoryd vectors\n"
NAME_BYTES = 16
HEADER = 64  # bytes: the magic, the name, zeros
NEAR = 8  # rows that are this close are read at once

Rows = NDArray[np.int64]
Floats = NDArray[np.float32]


class LocalVectorFile:
    """See `memoryd.index_files.VectorFile`."""

    def __init__(self, file: files.Handle, name: str, dimension: int) -> None:
        self.name = name
        self._file, self._handle = file, file.fileno()
        self._dimension = dimension
        self._row_bytes = 4 * dimension

    @classmethod
    def create(cls, path: Path, dimension: int) -> LocalVectorFile:
        """A new file; replaces what was there."""
        handle, name = files.open_anew(path), secrets.token_hex(NAME_BYTES // 2)
        os.pwrite(handle, (MAGIC + name.encode()).ljust(HEADER, b"\0"), 0)
        return cls(files.Handle(handle), name, dimension)

    @classmethod
    def open(cls, path: Path, name: str, dimension: int) -> LocalVectorFile:
        """The file of this name; ValueError if it is another one."""
        file = files.Handle(files.open_file(path, os.O_RDWR))
        expected = (MAGIC + name.encode()).ljust(HEADER, b"\0")
        if os.pread(file.fileno(), HEADER, 0) != expected:
            raise ValueError("not the vectors of this snapshot")
        return cls(file, name, dimension)

    def __len__(self) -> int:
        """How many rows it has room for."""
        return (os.fstat(self._handle).st_size - HEADER) // self._row_bytes

    def write(self, rows: Rows, vectors: Floats) -> None:
        for begin, end in _runs(rows, 1):
            data = np.ascontiguousarray(vectors[begin:end], dtype=np.float32)
            left = memoryview(data.reshape(-1).view(np.uint8).data)
            at = HEADER + int(rows[begin]) * self._row_bytes
            while left:
                done = os.pwrite(self._handle, left, at)
                at, left = at + done, left[done:]

    def read(self, rows: Rows) -> Floats:
        found = np.empty((len(rows), self._dimension), dtype=np.float32)
        for begin, end in _runs(rows, NEAR):
            first, last = int(rows[begin]), int(rows[end - 1])
            part = self._read_run(first, last - first + 1)
            found[begin:end] = part if len(part) == end - begin else part[rows[begin:end] - first]
        return found

    def _read_run(self, first: int, count: int) -> Floats:
        data = bytearray(count * self._row_bytes)
        done = 0
        while done < len(data):
            left = memoryview(data)[done:]
            got = os.preadv(self._handle, [left], HEADER + first * self._row_bytes + done)
            if not got:
                raise OSError("The file of vectors is too short.")
            done += got
        return np.frombuffer(data, dtype=np.float32).reshape(count, self._dimension)

    def blank(self, row: int) -> None:
        os.pwrite(self._handle, bytes(self._row_bytes), HEADER + row * self._row_bytes)

    def flush(self) -> None:
        os.fsync(self._handle)


def _runs(rows: Rows, near: int) -> list[tuple[int, int]]:
    """Where runs of sorted rows begin and end that are at most `near` apart from each other."""
    if not len(rows):
        return []
    breaks = (np.flatnonzero(np.diff(rows) > near) + 1).tolist()
    return list(zip([0, *breaks], [*breaks, len(rows)], strict=True))
