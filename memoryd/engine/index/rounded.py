"""Vectors rounded to bytes, for a fast first pass over all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numkong
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
MAX_INT8 = 127
ROUNDING = 1e-6  # error of float32 arithmetic, added to the bound


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

    def part(self, start: int, end: int) -> Rounded:
        """Some rows, not copied."""
        return Rounded(self.values[start:end], self.scale[start:end], self.error[start:end])

    def padded(self, rows: int) -> Rounded:
        """A copy with zero vectors after the last."""
        made = Rounded.zeros(rows, self.values.shape[1])
        count = len(self.values)
        made.values[:count], made.scale[:count], made.error[:count] = (
            self.values,
            self.scale,
            self.error,
        )
        return made

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

    def about(self, rows: NDArray[np.int64]) -> Floats:
        """These rows as vectors again."""
        found: Floats = self.values[rows] * self.scale[rows][:, None]
        return found

    def errors(self, query: Rounded, count: int) -> Floats:
        """By row, the bound of the error of `compare` for two unit vectors."""
        error = query.error[0]
        errors: Floats = self.error[:count] * (1 + error) + (error + np.float32(ROUNDING))
        return errors
