"""Vectors rounded to a byte a number, and how far off that can be.

A scan reads a quarter of the memory, and its answer is still certain: what it leaves out is
farther away than the rounding could have hidden. Products of bytes are exact integers, so the
bound is the rounding alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numkong
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
STEPS = 127
SLIP = 1e-6  # what float32 arithmetic adds to the bound


@dataclass(frozen=True, slots=True)
class Rounded:
    """Rows of bytes; each times its scale is the vector, but for an error of at most `off`."""

    values: NDArray[np.int8]
    scale: Floats  # by row
    off: Floats  # by row, the length of the difference

    @classmethod
    def room(cls, rows: int, dimension: int) -> Rounded:
        """Zero vectors."""
        scale, off = np.zeros(rows, dtype=np.float32), np.zeros(rows, dtype=np.float32)
        return cls(np.zeros((rows, dimension), dtype=np.int8), scale, off)

    @classmethod
    def of(cls, vectors: Floats) -> Rounded:
        """The nearest there is to each vector."""
        scale = np.abs(vectors).max(axis=1) / np.float32(STEPS)
        values = np.rint(vectors / np.maximum(scale, np.float32(1e-30))[:, None]).astype(np.int8)
        off = np.linalg.norm(vectors - values * scale[:, None], axis=1)
        return cls(values, scale.astype(np.float32), off.astype(np.float32))

    def blank(self, row: int) -> None:
        """Make a row a zero vector."""
        self.values[row], self.scale[row], self.off[row] = 0, 0.0, 0.0

    def put(self, rows: slice | NDArray[np.int64], vectors: Floats) -> None:
        """Round these into the rows."""
        made = Rounded.of(vectors)
        self.values[rows], self.scale[rows], self.off[rows] = made.values, made.scale, made.off

    def compare(self, query: Rounded, rows: NDArray[np.intp] | None, count: int) -> Floats:
        """About the products with the only row of `query`, of some rows or of the first `count`;
        leaves the interpreter free to do other work."""
        values = self.values[:count] if rows is None else self.values.take(rows, axis=0)
        scale = self.scale[:count] if rows is None else self.scale[rows]
        found = np.empty((1, len(values)), dtype=np.float32)
        numkong.cdist(query.values, values, "dot", out=found, out_dtype="float32")
        about: Floats = found[0] * scale * query.scale[0]
        return about

    def slack(self, query: Rounded, count: int) -> Floats:
        """By row, how far `compare` can be from the true product of two unit vectors."""
        off = query.off[0]
        slack: Floats = self.off[:count] * (1 + off) + (off + np.float32(SLIP))
        return slack
