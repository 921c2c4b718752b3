"""Finds slots by their value in a column, without a look at every slot.

The values that were there at the last sort are in a sorted array, those that came later in a small
dictionary. Neither is corrected when a slot gets another value: whatever is found is compared with
the column. A dictionary of all values was rejected: it takes a hundred bytes a memory, this twelve.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MIN_RECENT = 1024  # values that came later, before they are sorted in
RECENT_SHARE = 8  # or one in so many, if that is more


class SlotLookup:
    """Slots by the value in one column, where 0 stands for none."""

    def __init__(self) -> None:
        self._values = np.zeros(0, dtype=np.int64)  # sorted
        self._slots = np.zeros(0, dtype=np.int32)  # of each of these values
        self._recent: dict[int, list[int]] = {}
        self._recent_count = 0
        self._is_sorted = True

    def add(self, value: int, slot: int) -> None:
        """Record that a slot has got this value."""
        self._recent.setdefault(value, []).append(slot)
        self._recent_count += 1
        if self._recent_count > max(MIN_RECENT, len(self._values) // RECENT_SHARE):
            self._is_sorted = False

    def forget_all(self) -> None:
        """The whole column was replaced."""
        self._is_sorted = False

    def slots(self, value: int, column: NDArray[np.int64]) -> list[int]:
        """The slots whose value in the column is this one, in order."""
        if not self._is_sorted:
            self._sort(column)
        begin = int(self._values.searchsorted(value))
        if begin == len(self._values) or self._values[begin] != value:  # most are only asked for
            found = set(self._recent.get(value, ()))
        else:
            end = int(self._values.searchsorted(value, side="right"))
            found = {*self._slots[begin:end].tolist(), *self._recent.get(value, ())}
        return sorted(slot for slot in found if column[slot] == value)

    def _sort(self, column: NDArray[np.int64]) -> None:
        used = np.flatnonzero(column)
        order = np.argsort(column[used])
        self._values, self._slots = column[used][order], used[order].astype(np.int32)
        self._recent, self._recent_count, self._is_sorted = {}, 0, True
