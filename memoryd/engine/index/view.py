"""What one search sees: a snapshot of the index, and the two signals computed from it.

Taken on the event loop between two changes, so it is whole; read on a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.index.growing_array import Numbers
from memoryd.engine.index.rounded import Floats
from memoryd.engine.index.speakers import ROLES, Codes
from memoryd.engine.index.vectors import BLOCK, FREE, Mask, VectorTable, by_row
from memoryd.engine.index.words import Lookup

MIN_ROWS = 2 * BLOCK  # rows from which a first pass over rounded vectors is faster
FEW_ROWS = 2_000  # fewer than these that match a filter are compared exactly at once
EXACT_FROM = 8  # compare all rows in RAM exactly if more than one in this many needs it
ROUNDED_POOL = 2_048  # rows that are compared exactly above the limit for exact searches
MAX_ERROR = 0.05  # no rounded cosine is farther off
DAMAGED = 1e-3  # how far an exact cosine may be outside of its bounds


@dataclass(frozen=True, slots=True)
class Signals:
    """How well each memory matches, by meaning and by words. Its arrays are not changed any more:
    `View.exact` returns exact values for some slots beside them."""

    meaning: Floats  # by slot, the cosine of its best row
    words: Floats
    row_meaning: Floats  # by row
    row_words: Floats
    query: Floats | None = None
    approximate: Mask | None = None  # by row, where meaning is not exact; None: exact everywhere
    min_meaning: float = 0.0  # at least `count` slots reach this meaning

    def __post_init__(self) -> None:
        arrays = (self.meaning, self.words, self.row_meaning, self.row_words, self.approximate)
        for array in arrays:
            if array is not None:
                array.setflags(write=False)


@dataclass(frozen=True, slots=True)
class ExactSignals:
    """Exact signals of some slots."""

    slots: NDArray[np.intp]  # sorted
    slot_meaning: Floats  # of each of these slots
    rows: NDArray[np.intp]  # of these slots
    row_places: NDArray[np.intp]  # for each row, the place of its slot in `slots`
    row_scores: Floats  # the sum of both signals

    def meaning(self, slots: NDArray[np.intp] | Numbers) -> Floats:
        """The meaning of some of the slots."""
        return self.slot_meaning[np.searchsorted(self.slots, slots)]

    def best_rows(self, slots: NDArray[np.intp]) -> NDArray[np.intp]:
        """Of some of the slots, the row with the highest sum of both signals."""
        order = np.lexsort((self.row_scores, self.row_places))  # the best row of a slot is its last
        last = np.searchsorted(self.row_places[order], np.arange(len(self.slots)), side="right") - 1
        best: NDArray[np.intp] = self.rows[order][last]
        return best[np.searchsorted(self.slots, slots)]


@dataclass(frozen=True)
class Layout:
    """Copies of the index's arrays, shared by all searches until the next write. By slot unless
    stated otherwise."""

    version: int  # of the index
    slot_versions: Numbers  # number of its last change
    owners: NDArray[np.int32]  # by row
    first: NDArray[np.int32]  # its first row
    spread: Floats  # log of how many rows it has
    before: Numbers  # the message before it in its session, or -1
    after: Numbers
    row_neighbours: tuple[Numbers, Numbers]  # the same by row
    speakers: Codes
    sessions: NDArray[np.int64]  # 0 for none
    brief: Floats  # 1 for a short text, less for a longer one
    asks: Floats  # the same for questions, 0 for all else

    def rows_of(self, slots: NDArray[np.intp]) -> NDArray[np.intp]:
        """All rows of these slots; the first row of a slot may occur twice."""
        rows = self.first[slots].astype(np.intp)
        if (parts := self.rows_of_multi).size:
            theirs = np.zeros(len(self.first), dtype=np.bool_)
            theirs[slots] = True
            rows = np.concatenate([rows, parts[theirs[self.owners[parts]]]])
        return rows

    @cached_property
    def rows_of_multi(self) -> NDArray[np.intp]:
        """The rows of memories that have several rows; few memories have."""
        if not self.spread.any():
            return np.zeros(0, dtype=np.intp)
        return np.flatnonzero((self.owners != FREE) & (self.spread[self.owners] > 0))

    @cached_property
    def is_one_to_one(self) -> bool:
        """Whether every memory has one row, with the same number as its slot."""
        if self.rows_of_multi.size or len(self.owners) != len(self.first):
            return False
        taken = np.flatnonzero(self.owners != FREE)
        return bool((self.owners[taken] == taken).all())


@dataclass(frozen=True, slots=True)
class View:
    """The data of one search, by slot."""

    layout: Layout
    allowed: Mask  # not expired, and matches the filter
    meant: Sequence[int]  # codes of the speakers that the query refers to
    words: Lookup
    vectors: VectorTable
    names_number: bool = False  # the query has a number or code that few memories have
    in_time: Mask | None = None  # allowed, and of a time that the query names; None: names none
    asks_time_only: bool = False  # the query has no other word to search for
    is_exact: bool = True  # compare every row that could be among the best exactly
    # Where the index has only a part of a collection: how many memories of it match the filter, and
    # the average word score of those.
    population: int | None = None
    average_words: float | None = None

    def signals(
        self, query: Floats | None, slot_cosines: Floats | None = None, count: int | None = None
    ) -> Signals:
        """Both signals. `slot_cosines` are used in place of the vectors in RAM. With a `count`,
        meaning is exact for the best `count` slots only; `exact` computes it for others."""
        words = self.words.scores()
        approximate, least = None, 0.0
        if query is None or slot_cosines is not None:
            cosines = np.zeros(len(words), dtype=np.float32)
        else:
            wanted = self._by_row(self.allowed)
            few = len(wanted) < MIN_ROWS or np.count_nonzero(wanted) < FEW_ROWS
            if count is None or (few and self.vectors.is_in_ram):
                cosines = self.vectors.cosines(query, wanted)
            else:
                cosines, approximate, least = self._best_cosines(query, wanted, count)
        meaning = self._by_slot(cosines) if slot_cosines is None else slot_cosines
        said = self._by_slot(words)
        return Signals(meaning, said, cosines, words, query, approximate, least)

    def _best_cosines(
        self, query: Floats, wanted: Mask, count: int
    ) -> tuple[Floats, Mask | None, float]:
        """By row, cosines that are exact for the best `count` slots; where they are approximate;
        and a cosine that at least `count` slots reach."""
        about, errors = self.vectors.approximate_cosines(query, wanted)
        surely = self._by_slot(about - errors)
        if not self.allowed.all():
            surely = surely[np.flatnonzero(self.allowed)]
        least = 0.0
        if count < len(surely):
            least = float(np.partition(surely, len(surely) - count)[len(surely) - count])
        is_maybe = wanted & (about + errors >= least) & (about > 0.0 if least <= 0.0 else True)
        maybe = np.flatnonzero(is_maybe)
        if self.vectors.is_in_ram and len(maybe) * EXACT_FROM > len(wanted):
            return self.vectors.cosines(query, wanted), None, 0.0
        if not self.is_exact and len(maybe) > (most := max(ROUNDED_POOL, 4 * count)):
            best = np.argpartition(about[maybe], len(maybe) - most)[len(maybe) - most :]
            maybe = np.sort(maybe[best])
        approximate = wanted
        approximate[maybe] = False
        about[maybe] = self._checked(query, maybe, about[maybe], errors[maybe])
        return about, approximate, max(0.0, least)

    def _checked(
        self, query: Floats, rows: NDArray[np.intp], about: Floats, errors: Floats
    ) -> Floats:
        """Exact cosines of these rows; approximate ones where the file cannot be read or gives
        what cannot be."""
        try:
            exact = self.vectors.cosines_of(query, rows)
        except OSError:
            return about
        return np.where(np.abs(exact - about) <= errors + DAMAGED, exact, about)

    def exact(self, signals: Signals, slots: NDArray[np.intp]) -> ExactSignals:
        """The signals of these sorted slots, with exact cosines in place of approximate ones."""
        rows = np.unique(self.layout.rows_of(slots))
        places = np.searchsorted(slots, self.layout.owners[rows])
        meaning, by_row = signals.meaning[slots], signals.row_meaning[rows]
        if signals.approximate is not None and signals.query is not None:
            again = signals.approximate[rows]
            by_row[again] = self._exact_again(signals.query, rows[again], by_row[again])
            meaning = np.zeros(len(slots), dtype=np.float32)
            np.maximum.at(meaning, places, by_row)
        return ExactSignals(slots, meaning, rows, places, by_row + signals.row_words[rows])

    def _exact_again(self, query: Floats, rows: NDArray[np.intp], about: Floats) -> Floats:
        errors = np.full(len(rows), MAX_ERROR, dtype=np.float32)
        return self._checked(query, rows, about, errors)

    def best_coverage(self, slots: NDArray[np.intp]) -> float:
        """The largest share of the query's weight that one passage of these slots covers."""
        return float(self.words.coverage(self.layout.rows_of(slots)).max(initial=0.0))

    @property
    def names_speaker(self) -> bool:
        """Whether the query names a speaker; "I" and "you" are not names."""
        return any(code not in ROLES for code in self.meant)

    def _by_slot(self, scores: Floats) -> Floats:
        """The best of each slot's rows."""
        layout = self.layout
        if not len(scores):
            return np.zeros(len(layout.first), dtype=np.float32)
        if layout.is_one_to_one:
            return scores.copy()
        best: Floats = scores[layout.first]
        if (parts := layout.rows_of_multi).size:
            np.maximum.at(best, layout.owners[parts], scores[parts])
        return best

    def _by_row(self, mask: Mask) -> Mask:
        return mask.copy() if self.layout.is_one_to_one else by_row(mask, self.layout.owners)

    def said_by_meant(self, slots: NDArray[np.intp]) -> Mask:
        """For each of these slots, whether a speaker that the query refers to said it."""
        found: Mask = np.isin(self.layout.speakers[slots], np.array(self.meant, dtype=np.uint64))
        return found
