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
from memoryd.engine.vectors import BLOCK, FREE, Floats, Mask, VectorTable

MANY = 2 * BLOCK  # rows from which on a first look at rounded vectors pays
MAYBE = 8  # more than one row in so many to look at again: all are compared exactly at once


@dataclass(frozen=True, slots=True)
class Signals:
    """How near each memory is, by meaning and by words."""

    meaning: Floats  # by slot, of its best row
    words: Floats
    row_meaning: Floats  # by row
    row_words: Floats
    query: Floats | None = None
    rough: Mask | None = None  # by row, where meaning is not exact; None: it is everywhere

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

    def signals(
        self, query: Floats | None, near: Floats | None = None, count: int | None = None
    ) -> Signals:
        """Both signals; `near` has the cosines by slot where vectors are not in RAM. With a
        `count` meaning is exact only for the best so many, and for what is made `sharp` later."""
        words = self.words.scores()
        rough: Mask | None = None
        if query is None or near is not None:
            cosines = np.zeros(len(words), dtype=np.float32)
        else:
            wanted = np.append(self.allowed, False).take(self.owners, mode="wrap")  # FREE: last
            if count is None or len(wanted) < MANY:
                cosines = self.vectors.cosines(query, wanted)
            else:
                cosines, rough = self._best_cosines(query, wanted, count)
        parts = self._rows_of_many()
        meaning = self._by_slot(cosines, parts) if near is None else near
        return Signals(meaning, self._by_slot(words, parts), cosines, words, query, rough)

    def _best_cosines(self, query: Floats, wanted: Mask, count: int) -> tuple[Floats, Mask | None]:
        """By row, cosines that are exact for the best `count` slots; and where they are not."""
        about, slack = self.vectors.glance(query, wanted)
        surely = self._by_slot(about - slack, self._rows_of_many())[np.flatnonzero(self.allowed)]
        least = -1.0
        if count < len(surely):
            # So many slots are at least this near.
            least = float(np.partition(surely, len(surely) - count)[len(surely) - count])
        maybe = np.flatnonzero(about + slack >= least)
        if len(maybe) * MAYBE > len(wanted):
            return self.vectors.cosines(query, wanted), None
        maybe = maybe[wanted[maybe]]
        about[maybe] = self.vectors.cosines_of(query, maybe)
        rough = wanted
        rough[maybe] = False
        return about, rough

    def sharpen(self, signals: Signals, slots: NDArray[np.intp]) -> None:
        """Make the meaning of these slots exact."""
        if signals.rough is None or signals.query is None:
            return
        rows = self.first[slots].astype(np.intp)
        if (many := self.spread[slots] > 0).any():
            theirs = np.zeros(len(self.first), dtype=np.bool_)
            theirs[slots[many]] = True
            parts = self._rows_of_many()
            rows = np.concatenate([rows, parts[theirs[self.owners[parts]]]])
        again = np.unique(rows[signals.rough[rows]])
        signals.row_meaning[again] = self.vectors.cosines_of(signals.query, again)
        signals.rough[again] = False
        signals.meaning[slots] = 0.0
        np.maximum.at(signals.meaning, self.owners[rows], signals.row_meaning[rows])

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
