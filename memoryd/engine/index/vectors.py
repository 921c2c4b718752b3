"""Vectors in RAM, compared exactly; and rounded to bytes, for a fast first pass over all of them.

Rows live in blocks of fixed size, so that growth never copies: a copy of a hundred megabytes
would stall the event loop. A freed row is zeroed and reused. A scan runs on one thread (a second
one gained nothing: memory bandwidth is the bound) while writes go on; the caller drops hits whose
owner changed (see `Index`). Without `keep` the table only numbers the rows: above a configured size
candidates come from the store instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numkong
import numpy as np
from numpy.typing import NDArray

BLOCK = 8192
FREE = -1
SPARSE = 3  # compare wanted rows only if fewer than one in this many is wanted
SPARSE_ROUNDED = 2  # the same for rounded rows, which are faster to pick

Floats = NDArray[np.float32]
Owners = NDArray[np.int32]
Mask = NDArray[np.bool_]
MAX_INT8 = 127
ROUNDING = 1e-6  # error of float32 arithmetic, added to the bound


class VectorTable:
    """Rows of one dimension, each owned by a slot."""

    def __init__(self, dimension: int, *, keep: bool = True) -> None:
        self.dimension = dimension
        self.keep = keep
        self._blocks: list[Floats] = []
        self._rounded: list[Rounded] = []
        self._unrounded: list[int] = []  # rows whose vector is not rounded yet
        self._owner = np.full(BLOCK, FREE, dtype=np.int32)
        self._free: list[int] = []
        self._used = 0  # rows ever allocated

    def __len__(self) -> int:
        """How many rows were ever in use at the same time."""
        return self._used

    def add(self, vectors: Sequence[Floats | None], owner: int) -> list[int]:
        """Store the vectors for a slot; their rows. None: a row without a vector."""
        rows = [self._row() for _ in vectors]
        for row, vector in zip(rows, vectors, strict=True):
            if vector is not None and self.keep:
                self._blocks[row // BLOCK][row % BLOCK] = vector
                self._unrounded.append(row)
            self._owner[row] = owner
        return rows

    def reserve(self, count: int) -> None:
        """Allocate room for `count` more rows. Raises MemoryError, with nothing changed."""
        while self.keep and self._used + count - len(self._free) > len(self._blocks) * BLOCK:
            self._grow()

    def remove(self, rows: Sequence[int]) -> None:
        """Zero and free the rows."""
        for row in rows:
            if self.keep:
                self._blocks[row // BLOCK][row % BLOCK] = 0.0
                self._rounded[row // BLOCK].blank(row % BLOCK)
            self._owner[row] = FREE
            self._free.append(row)

    def restore(self, vectors: Floats, owners: Owners) -> None:
        """Fill an empty table with these rows, in order."""
        self._used = len(owners)
        self._owner = np.append(owners, np.full(BLOCK, FREE, dtype=np.int32))
        for start in range(0, len(vectors) if self.keep else 0, BLOCK):
            part = vectors[start : start + BLOCK]
            self._grow()
            self._blocks[-1][: len(part)] = part
            self._rounded[-1].put(slice(len(part)), part)

    def round_new_rows(self) -> None:
        """Round the rows added since the last call, all at once: one by one takes ten times as
        long. Call on the event loop, before `approximate_cosines`."""
        rows, self._unrounded = np.array(self._unrounded, dtype=np.int64), []
        for number in np.unique(rows // BLOCK).tolist() if self.keep else ():
            here = rows[rows // BLOCK == number] % BLOCK
            self._rounded[number].put(here, self._blocks[number][here])

    def drop_vectors(self) -> None:
        """Free the vectors; from now on only number the rows."""
        self.keep = False
        self._blocks, self._rounded, self._unrounded = [], [], []

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
        blocks = self._blocks

        def compare(number: int, part: Mask) -> tuple[NDArray[np.intp] | None, Floats]:
            picked = np.flatnonzero(part)
            if len(picked) * SPARSE < len(part):
                return picked, blocks[number][picked] @ query
            return None, blocks[number][: len(part)] @ query

        return self._each(wanted, compare)

    def approximate_cosines(self, query: Floats, wanted: Mask) -> tuple[Floats, Floats]:
        """By row, the approximate cosine, 0 where not wanted; and the bound of its error."""
        blocks, asked = self._rounded, Rounded.of(query[None, :])

        def compare(number: int, part: Mask) -> tuple[NDArray[np.intp] | None, Floats]:
            picked = np.flatnonzero(part)
            rows = picked if len(picked) * SPARSE_ROUNDED < len(part) else None
            return rows, blocks[number].compare(asked, rows, len(part))

        errors = np.zeros(len(wanted), dtype=np.float32)
        for number, block in enumerate(blocks[: -(-len(wanted) // BLOCK)]):
            into = errors[number * BLOCK : (number + 1) * BLOCK]
            into[:] = block.errors(asked, len(into))
        return self._each(wanted, compare), errors

    def cosines_of(self, query: Floats, rows: NDArray[np.intp]) -> Floats:
        """The cosines of these sorted rows. Runs on any thread."""
        found = np.zeros(len(rows), dtype=np.float32)
        ends = np.searchsorted(rows, BLOCK * np.arange(len(self._blocks) + 1)).tolist()
        for number, (block, begin, end) in enumerate(
            zip(self._blocks, ends[:-1], ends[1:], strict=False)
        ):
            found[begin:end] = block.take(rows[begin:end] - number * BLOCK, axis=0) @ query
        np.clip(found, 0.0, 1.0, out=found)
        return found

    def _each(
        self,
        wanted: Mask,
        compare: Callable[[int, Mask], tuple[NDArray[np.intp] | None, Floats]],
    ) -> Floats:
        """By row, 0..1, the results of `compare`, which returns rows (None: all) and values."""
        scores = np.zeros(len(wanted), dtype=np.float32)
        for number in range(-(-len(wanted) // BLOCK) if self._blocks else 0):
            part = wanted[number * BLOCK : (number + 1) * BLOCK]
            into = scores[number * BLOCK : (number + 1) * BLOCK]
            if not part.any():
                continue
            rows, found = compare(number, part)
            if rows is None:
                np.multiply(found, part, out=into)
            else:
                into[rows] = found
        np.clip(scores, 0.0, 1.0, out=scores)
        return scores

    def _grow(self) -> None:
        block = np.zeros((BLOCK, self.dimension), dtype=np.float32)
        rounded = Rounded.zeros(BLOCK, self.dimension)
        self._blocks.append(block)
        self._rounded.append(rounded)

    def _row(self) -> int:
        if self._free:
            return self._free.pop()
        if self._used == len(self._owner):
            self._owner = np.append(self._owner, np.full(BLOCK, FREE, dtype=np.int32))
        if self.keep and self._used == len(self._blocks) * BLOCK:
            self._grow()
        self._used += 1
        return self._used - 1


def by_row(mask: Mask, owners: Owners) -> Mask:
    """A mask over slots as a mask over their rows; false for free rows."""
    return np.append(mask, False).take(owners, mode="wrap")  # FREE is -1: the appended False


@dataclass(slots=True)
class Rounded:
    """Rows of int8; a row times its scale is the vector, with an error of length `error`."""

    values: NDArray[np.int8]
    scale: Floats  # by row
    error: Floats  # by row, the length of the difference to the vector

    @classmethod
    def zeros(cls, rows: int, dimension: int) -> Rounded:
        """Zero vectors."""
        scale, error = np.zeros(rows, dtype=np.float32), np.zeros(rows, dtype=np.float32)
        return cls(np.zeros((rows, dimension), dtype=np.int8), scale, error)

    @classmethod
    def of(cls, vectors: Floats) -> Rounded:
        """The vectors, rounded."""
        scale = np.abs(vectors).max(axis=1) / np.float32(MAX_INT8)
        values = np.rint(vectors / np.maximum(scale, np.float32(1e-30))[:, None]).astype(np.int8)
        error = np.linalg.norm(vectors - values * scale[:, None], axis=1)
        return cls(values, scale.astype(np.float32), error.astype(np.float32))

    def blank(self, row: int) -> None:
        """Make a row a zero vector."""
        self.values[row], self.scale[row], self.error[row] = 0, 0.0, 0.0

    def put(self, rows: slice | NDArray[np.int64], vectors: Floats) -> None:
        """Round the vectors into these rows."""
        made = Rounded.of(vectors)
        self.values[rows], self.scale[rows], self.error[rows] = made.values, made.scale, made.error

    def compare(self, query: Rounded, rows: NDArray[np.intp] | None, count: int) -> Floats:
        """Approximate dot products of the one row of `query` with these rows, or with the first
        `count`. Releases the interpreter lock."""
        values = self.values[:count] if rows is None else self.values.take(rows, axis=0)
        scale = self.scale[:count] if rows is None else self.scale[rows]
        found = np.empty((1, len(values)), dtype=np.float32)
        numkong.cdist(query.values, values, "dot", out=found, out_dtype="float32")
        about: Floats = found[0] * scale * query.scale[0]
        return about

    def errors(self, query: Rounded, count: int) -> Floats:
        """By row, the bound of the error of `compare` for two unit vectors."""
        error = query.error[0]
        errors: Floats = self.error[:count] * (1 + error) + (error + np.float32(ROUNDING))
        return errors
