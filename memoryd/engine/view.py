"""What one search sees: a snapshot of the index, and the two signals computed from it.

Taken on the event loop between two changes, so it is whole; read on a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.lexical import Lookup
from memoryd.engine.turns import Codes, Numbers
from memoryd.engine.vectors import FREE, Floats, Mask, VectorTable


@dataclass(frozen=True, slots=True)
class Signals:
    """How near each memory is, by meaning and by words."""

    meaning: Floats  # by slot, of its best row
    words: Floats
    row_meaning: Floats  # by row
    row_words: Floats

    def best_row(self, rows: Sequence[int]) -> int:
        """The one that both speak for most."""
        return max(rows, key=lambda row: float(self.row_meaning[row] + self.row_words[row]))


@dataclass(frozen=True, slots=True)
class View:
    """By slot unless said otherwise."""

    allowed: Mask  # alive, and all of the filter
    stamps: Numbers  # when it was last changed
    owners: NDArray[np.int32]  # by row
    first: NDArray[np.int32]  # its first row
    spread: Floats  # log of how many rows it has
    before: Numbers  # the message before it in its session, or -1
    after: Numbers
    speakers: Codes
    meant: Sequence[int]  # speakers whom the query means
    words: Lookup
    vectors: VectorTable

    def signals(self, query: Floats | None, near: Floats | None = None) -> Signals:
        """Both signals; `near` has the cosines by slot where vectors are not in RAM."""
        words = self.words.scores()
        if query is None or near is not None:
            cosines = np.zeros(len(words), dtype=np.float32)
        else:
            wanted = self.owners != FREE
            wanted[wanted] = self.allowed[self.owners[wanted]]
            cosines = self.vectors.cosines(query, wanted)
        parts = self._rows_of_many()
        meaning = self._by_slot(cosines, parts) if near is None else near
        return Signals(meaning, self._by_slot(words, parts), cosines, words)

    def _rows_of_many(self) -> NDArray[np.intp]:
        """The rows of memories that have several; few have."""
        if not self.spread.any():
            return np.zeros(0, dtype=np.intp)
        return np.flatnonzero((self.owners != FREE) & (self.spread[self.owners] > 0))

    def _by_slot(self, scores: Floats, parts: NDArray[np.intp]) -> Floats:
        """The best of each slot's rows; `parts` are those of slots with more than one."""
        if not len(scores):
            return np.zeros(len(self.first), dtype=np.float32)
        best: Floats = scores[self.first]
        if parts.size:
            np.maximum.at(best, self.owners[parts], scores[parts])
        return best

    def spoken(self, slots: NDArray[np.intp]) -> Mask:
        """Of these slots, whether one of those whom the query means said it."""
        found: Mask = np.isin(self.speakers[slots], np.array(self.meant, dtype=np.uint64))
        return found
