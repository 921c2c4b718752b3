"""Vectors in RAM, compared exactly.

Rows live in blocks of fixed size, so that growth never copies: a copy of a hundred megabytes
would stall the event loop. A freed row is zeroed and used again. A scan runs on a thread over
a snapshot of who owns which row, taken by the caller; writes go on meanwhile, and the caller
drops hits whose owner changed (see `Index.search`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 8192
FREE = -1

Floats = NDArray[np.float32]
Owners = NDArray[np.int32]


class Best(NamedTuple):
    """A slot and the row of it that scored best."""

    slot: int
    row: int
    score: float


class VectorTable:
    """Rows of one dimension, each owned by a slot."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self._blocks: list[Floats] = []
        self._owner = np.full(0, FREE, dtype=np.int32)
        self._free: list[int] = []
        self._used = 0  # rows ever handed out

    def add(self, vectors: Sequence[Floats], owner: int) -> list[int]:
        """Rows that now hold the vectors."""
        rows = [self._row() for _ in vectors]
        for row, vector in zip(rows, vectors, strict=True):
            self._blocks[row // BLOCK][row % BLOCK] = vector
            self._owner[row] = owner
        return rows

    def remove(self, rows: Sequence[int]) -> None:
        """Zero and free the rows."""
        for row in rows:
            self._blocks[row // BLOCK][row % BLOCK] = 0.0
            self._owner[row] = FREE
            self._free.append(row)

    def get(self, row: int) -> Floats:
        """A copy of one row."""
        found: Floats = self._blocks[row // BLOCK][row % BLOCK].copy()
        return found

    def owners(self) -> Owners:
        """A snapshot: which slot owns each row, FREE where none does."""
        return self._owner[: self._used].copy()

    def best(
        self,
        query: Floats,
        owners: Owners,
        allowed: NDArray[np.bool_],
        limit: int,
        min_score: float,
    ) -> list[Best]:
        """The best allowed slots for a unit query, best first. Runs on any thread."""
        scores = np.clip(self._cosines(query, len(owners)), 0.0, 1.0)
        usable = (owners != FREE) & (scores >= min_score)
        usable[usable] = allowed[owners[usable]]
        rows = np.flatnonzero(usable)
        wanted = limit
        while True:
            top = _largest(rows, scores, wanted)
            best: dict[int, Best] = {}
            for row in top:
                slot = int(owners[row])
                best.setdefault(slot, Best(slot, int(row), float(scores[row])))
            if len(best) >= limit or len(top) == len(rows):
                return list(best.values())[:limit]
            wanted *= 4  # several passages of one memory took the places

    def _cosines(self, query: Floats, count: int) -> Floats:
        scores = np.empty(count, dtype=np.float32)
        for start in range(0, count, BLOCK):
            end = min(start + BLOCK, count)
            np.dot(self._blocks[start // BLOCK][: end - start], query, out=scores[start:end])
        return scores

    def _row(self) -> int:
        if self._free:
            return self._free.pop()
        if self._used == len(self._blocks) * BLOCK:
            self._blocks.append(np.zeros((BLOCK, self.dimension), dtype=np.float32))
            self._owner = np.append(self._owner, np.full(BLOCK, FREE, dtype=np.int32))
        self._used += 1
        return self._used - 1


def _largest(rows: NDArray[np.intp], scores: Floats, count: int) -> NDArray[np.intp]:
    """The `count` rows with the highest scores, highest first; equal scores by row."""
    if count < len(rows):
        rows = rows[np.argpartition(-scores[rows], count)[:count]]
    return rows[np.lexsort((rows, -scores[rows]))]
