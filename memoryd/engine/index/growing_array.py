"""An array of numbers that grows as needed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int32]
NONE = -1


class GrowingArray:
    """An array of numbers by slot or row, NONE until set, that grows as needed."""

    def __init__(self) -> None:
        self.values: Numbers = np.full(1024, NONE, dtype=np.int32)

    def set(self, at: int, value: int) -> None:
        while at >= len(self.values):
            self.values = np.concatenate([self.values, np.full_like(self.values, NONE)])
        self.values[at] = value

    def restore(self, values: Numbers) -> None:
        """Use these values, and none after them."""
        self.values = np.append(values, np.full(1024, NONE, dtype=np.int32))

    def first(self, count: int) -> Numbers:
        """A copy of the first `count`."""
        if count <= len(self.values):
            return self.values[:count].copy()
        found = np.full(count, NONE, dtype=np.int32)
        known = self.values[:count]
        found[: len(known)] = known
        return found
