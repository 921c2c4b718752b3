"""Vectors in RAM, compared exactly.

Rows live in blocks of fixed size, so that growth never copies: a copy of a hundred megabytes
would stall the event loop. A freed row is zeroed and used again. A scan runs on threads, writes
go on meanwhile, and the caller drops hits whose owner changed (see `Index`). Without `keep` the
table only numbers the rows: above a configured size candidates come from the store instead.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

BLOCK = 8192
FREE = -1
SPARSE = 3  # fewer than one row in so many: comparing those alone is faster than all

FEW = 4  # blocks that are not worth a second thread

# Our own threads: the ones of the linear algebra library wait for each other by spinning, and
# take ten times as long as soon as another process wants a core (see `memoryd/__init__.py`).
_POOL = ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="scan")

Floats = NDArray[np.float32]
Owners = NDArray[np.int32]
Mask = NDArray[np.bool_]


class VectorTable:
    """Rows of one dimension, each owned by a slot."""

    def __init__(self, dimension: int, *, keep: bool = True) -> None:
        self.dimension = dimension
        self.keep = keep
        self._blocks: list[Floats] = []
        self._owner = np.full(BLOCK, FREE, dtype=np.int32)
        self._free: list[int] = []
        self._used = 0  # rows ever handed out

    def __len__(self) -> int:
        """How many rows were ever in use at once."""
        return self._used

    def add(self, vectors: Sequence[Floats | None], owner: int) -> list[int]:
        """Rows that now hold the vectors; None is a row without one."""
        rows = [self._row() for _ in vectors]
        for row, vector in zip(rows, vectors, strict=True):
            if vector is not None and self.keep:
                self._blocks[row // BLOCK][row % BLOCK] = vector
            self._owner[row] = owner
        return rows

    def remove(self, rows: Sequence[int]) -> None:
        """Zero and free the rows."""
        for row in rows:
            if self.keep:
                self._blocks[row // BLOCK][row % BLOCK] = 0.0
            self._owner[row] = FREE
            self._free.append(row)

    def restore(self, vectors: Floats, owners: Owners) -> None:
        """Take over rows from the first on, in an empty table."""
        self._used = len(owners)
        self._owner = np.append(owners, np.full(BLOCK, FREE, dtype=np.int32))
        for start in range(0, len(vectors) if self.keep else 0, BLOCK):
            block = np.zeros((BLOCK, self.dimension), dtype=np.float32)
            part = vectors[start : start + BLOCK]
            block[: len(part)] = part
            self._blocks.append(block)

    def drop_vectors(self) -> None:
        """Keep the numbering alone from now on."""
        self.keep = False
        self._blocks = []

    def get(self, row: int) -> Floats:
        """A copy of one row."""
        found: Floats = self._blocks[row // BLOCK][row % BLOCK].copy()
        return found

    def rows(self, rows: NDArray[np.int64]) -> Floats:
        """Copies of many rows. Runs on any thread."""
        found = np.zeros((len(rows), self.dimension), dtype=np.float32)
        for number, block in enumerate(self._blocks):
            here = np.flatnonzero(rows // BLOCK == number)
            found[here] = block[rows[here] % BLOCK]
        return found

    def owners(self) -> Owners:
        """A snapshot: which slot owns each row, FREE where none does."""
        return self._owner[: self._used].copy()

    def cosines(self, query: Floats, wanted: Mask) -> Floats:
        """By row, the cosine with a unit query, 0..1; 0 where not wanted. Runs on any thread."""
        scores = np.zeros(len(wanted), dtype=np.float32)
        blocks = self._blocks[: -(-len(wanted) // BLOCK)]

        def compare(number: int) -> None:
            part = wanted[number * BLOCK : (number + 1) * BLOCK]
            into = scores[number * BLOCK : (number + 1) * BLOCK]
            picked = np.flatnonzero(part)
            if len(picked) * SPARSE < len(part):
                into[picked] = blocks[number][picked] @ query
            else:
                np.dot(blocks[number][: len(part)], query, out=into)

        list((_POOL.map if len(blocks) > FEW else map)(compare, range(len(blocks))))
        np.clip(scores, 0.0, 1.0, out=scores)
        return scores

    def _row(self) -> int:
        if self._free:
            return self._free.pop()
        if self._used == len(self._owner):
            self._owner = np.append(self._owner, np.full(BLOCK, FREE, dtype=np.int32))
        if self.keep and self._used == len(self._blocks) * BLOCK:
            self._blocks.append(np.zeros((BLOCK, self.dimension), dtype=np.float32))
        self._used += 1
        return self._used - 1
