"""The word index: which rows hold which term, and BM25 over them.

Postings are sorted integers, row and count packed into 32 bits; a write is visible at once.
Libraries were measured first
(`scripts/bench/lexical.py`): they need 20 to 110 ms to show a write, or 60 to answer; and none can
score a message together with the messages around it, which finds far more (see `rank`).

Changes happen on the event loop. A search copies what it needs there (`look_up`), and does the
arithmetic on a thread (`Lookup.scores`).
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.index.sealed_words import (
    COUNT_BITS,
    COUNT_MASK,
    NO_POSTINGS,
    FrozenWords,
    SealedWords,
    merged,
)
from memoryd.engine.index.terms import QUIET

if TYPE_CHECKING:
    from memoryd.index_files import Arrays

Floats = NDArray[np.float32]
Rows = NDArray[np.int32]

SATURATION = 0.9  # k1: how soon a repeated word stops counting
LENGTH = 0.6  # b: how much the length of a text divides its counts
BEFORE, AFTER = 0.5, 0.3  # weight of a word in the message before, and in the one after
COMMON = 8  # a term in more than one of this many rows does not count for neighbours
NO_ROWS: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
MAX_TERMS = 128  # terms used of a query: the rarest
RARE = 100  # a term in at most one of this many rows is rare
COVERAGE_STEPS = 128  # resolution of `chance_coverage`
BY_CHANCE = 0.25  # expected number of rows from which a coverage counts as chance


class Statistics(Protocol):
    """How often terms occur in a collection of which an index has only a part."""

    @property
    def rows(self) -> int:
        """How many rows the collection has."""

    def holders(self, term: int, known: int) -> int:
        """About how many rows have a term; `known` of them are in the index."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """Copies of the parts of the index that one query needs."""

    postings: list[NDArray[np.uint32]]  # by term: rows and counts
    weights: list[float]  # by term
    holders: list[int]  # by term: how many rows have it
    rows: int  # with terms
    total: float  # the weight of the whole query
    lengths: Floats
    before: Rows  # by row: the row of the message before it, or -1
    after: Rows
    norms: Norms
    version: int  # of the index
    expired: NDArray[np.intp]  # rows that do not count, also not for their neighbours

    def scores(self) -> Floats:
        """By row: BM25 divided by the query's weight; about 1 where every word occurs."""
        size = len(self.lengths)
        scores, counts = np.zeros(size, np.float32), np.zeros(size, np.float32)
        if not self.postings or self.total <= 0:
            return scores
        norms = self.norms.of(self)
        common = max(64, size // COMMON)
        for every, weight in zip(self.postings, self.weights, strict=True):
            packed = (
                every[~np.isin(every >> COUNT_BITS, self.expired)] if self.expired.size else every
            )
            rows = (packed >> COUNT_BITS).view(np.int32)
            found = (packed & COUNT_MASK).astype(np.float32)
            worth = np.float32((SATURATION + 1.0) * weight / self.total)
            if len(rows) > common:
                scores[rows] += worth * found / (found + norms[rows])
                continue
            counts[rows] = found
            for part in (rows, *self._add_to_neighbours(counts, rows, found)):
                count = counts[part]
                scores[part] += worth * count / (count + norms[part])
                counts[part] = 0.0  # a row in two parts counts once
        return scores

    def _add_to_neighbours(self, counts: Floats, rows: Rows, own_counts: Floats) -> list[Rows]:
        """Add shares of the rows' counts to those of their neighbours; returns the neighbours."""
        reached: list[Rows] = []
        for neighbours, share in ((self.after[rows], BEFORE), (self.before[rows], AFTER)):
            there = neighbours >= 0
            beside = neighbours[there]  # no row twice: each has one neighbour per side
            counts[beside] += share * own_counts[there]
            reached.append(beside)
        return reached

    def coverage(self, rows: NDArray[np.intp]) -> Floats:
        """For each of these rows: the share of the query's weight that its own words cover.
        Repeated words count once."""
        covered = np.zeros(len(rows), np.float32)
        first = (rows << COUNT_BITS).astype(np.uint32)
        for packed, weight in zip(self.postings, self.weights, strict=True):
            # Postings are sorted by row, so a binary search finds a few rows.
            found = packed[np.minimum(np.searchsorted(packed, first), len(packed) - 1)]
            covered[found >> COUNT_BITS == rows] += np.float32(weight / self.total)
        return covered

    def chance_coverage(self) -> float:
        """The coverage that some row probably reaches if each term were spread over rows at
        random, as often as it occurs, independently of the others. One word that a single row
        has is therefore chance; two such words in one row are more than chance."""
        rows = self.rows
        shares = np.zeros(COVERAGE_STEPS + 1)  # of rows, by coverage
        shares[0] = 1.0
        for count, weight in zip(self.holders, self.weights, strict=True):
            step, holds = round(weight / self.total * COVERAGE_STEPS), count / max(1, rows)
            if step:
                with_term = np.concatenate([np.zeros(step), shares[:-step]])
                shares = (1.0 - holds) * shares + holds * with_term
        expected = rows * shares[::-1].cumsum()[::-1]  # rows with at least this coverage
        return float(np.flatnonzero(expected >= BY_CHANCE).max(initial=0)) / COVERAGE_STEPS

    def divisors(self) -> Floats:
        """By row: the length norm of BM25. Neighbours add to the length as they do to counts."""
        length = self.lengths.copy()
        for neighbours, share in ((self.before, BEFORE), (self.after, AFTER)):
            there = np.flatnonzero(neighbours >= 0)
            length[there] += share * self.lengths[neighbours[there]]
        mean = float(length.sum()) / max(1, int(np.count_nonzero(length)))
        norms: Floats = SATURATION * (1.0 - LENGTH + LENGTH * length / max(mean, 1e-9))
        return norms.astype(np.float32)


class Norms:
    """Cache of BM25's length norms, which change only with a write."""

    def __init__(self) -> None:
        self._kept: tuple[int, Floats] | None = None

    def of(self, lookup: Lookup) -> Floats:
        """The norms by row. Runs on any thread: the cached pair is replaced in one assignment."""
        kept, version = self._kept, lookup.version
        if kept is not None and kept[0] == version:
            return kept[1]
        made = lookup.divisors()
        self._kept = (version, made)
        return made


class WordIndex:
    """Terms of rows. A row is a passage of a memory, numbered as in the vector table.

    Rows written since the last snapshot began are in dictionaries, changed in place. All earlier
    rows are in sealed parts, which do not change: a removed row of theirs is only marked as gone.
    """

    def __init__(self) -> None:
        self._postings: dict[int, array[int]] = {}
        self._sealed: tuple[SealedWords | FrozenWords, ...] = ()
        self._is_sealed = np.zeros(1024, dtype=np.bool_)  # by row
        self._has_gone = False  # whether a row of a sealed part is gone
        self._lengths = np.zeros(1024, dtype=np.float32)
        self._live = 0
        self._norms = Norms()
        self.statistics: Statistics | None = None  # None: all rows are here

    def __len__(self) -> int:
        """How many rows are in the index."""
        return self._live

    @property
    def vocabulary(self) -> int:
        """How many different terms there are."""
        known = set(self._postings).union(*(part.terms() for part in self._sealed))
        return sum(self.holders(term) > 0 for term in known)

    def put(self, row: int, terms: Sequence[int]) -> None:
        """Add a new row with these terms."""
        while row >= len(self._lengths):
            self._lengths = np.concatenate([self._lengths, np.zeros_like(self._lengths)])
            self._is_sealed = np.concatenate([self._is_sealed, np.zeros_like(self._is_sealed)])
        for term, count in Counter(terms).items():
            packed = (row << COUNT_BITS) | min(count, COUNT_MASK)
            postings = self._postings.get(term)
            if postings is None:
                self._postings[term] = array("I", (packed,))
            elif packed > postings[-1]:
                postings.append(packed)
            else:
                postings.insert(bisect_left(postings, packed), packed)
        self._lengths[row] = max(1, len(terms))
        self._live += 1

    def remove(self, row: int, terms: Iterable[int] = ()) -> None:
        """Remove a row that was added with these terms; one in a sealed part needs none."""
        if self._is_sealed[row]:
            self._has_gone = True
        else:
            for term in set(terms):
                postings = self._postings[term]
                del postings[bisect_left(postings, row << COUNT_BITS)]
                if not postings:
                    del self._postings[term]
        self._lengths[row] = 0.0
        self._live -= 1

    # Snapshots

    def seal(self) -> None:
        """From now on rows are added to new dictionaries; the present ones do not change."""
        if self._postings:
            self._sealed = (*self._sealed, FrozenWords(self._postings))
            self._postings = {}
        self._is_sealed = self._lengths > 0

    def pack(self, is_in: NDArray[np.bool_]) -> Iterator[tuple[str, NDArray[Any]]]:
        """The sealed parts as one, as arrays in pieces, with the rows that are in the snapshot.
        Runs on a thread while the event loop changes the index."""
        yield from merged(self._sealed, is_in)

    def use(self, arrays: Arrays) -> None:
        """Use the arrays of `pack` in place of the parts they were made of, which are all sealed
        parts."""
        self._sealed = (SealedWords(arrays),)

    def free(self, rows: Sequence[int]) -> None:
        """Rows that no sealed part has any more."""
        self._is_sealed[list(rows)] = False

    def restore(self, arrays: Arrays, lengths: Floats) -> None:
        """Fill an empty index from the arrays of `pack`."""
        self._lengths = np.concatenate([lengths, np.zeros(1024, dtype=np.float32)])
        self._is_sealed = self._lengths > 0
        self._live = int(np.count_nonzero(lengths))
        self._has_gone = self._live < len(lengths)
        self.use(arrays)

    # Reading

    def _holding(self, term: int) -> NDArray[np.uint32]:
        """A copy of the postings of a term, sorted."""
        found = [part for sealed in self._sealed if len(part := sealed.postings(term))]
        if found and self._has_gone:
            found = [part[self._lengths[part >> COUNT_BITS] > 0] for part in found]
        if (fresh := self._postings.get(term)) is not None:
            found.append(np.array(fresh, dtype=np.uint32))
        if len(found) == 1:
            return found[0]
        return np.sort(np.concatenate(found)) if found else NO_POSTINGS

    def holders(self, term: int) -> int:
        """How many rows have a term."""
        return self._count(term, len(self._holding(term)))

    def has_rare(self, terms: Iterable[int]) -> bool:
        """Whether one of these terms occurs, and in few rows."""
        few = max(1, self._rows // RARE)
        held = (term for term in terms if self._holding(term).size)
        return any(self.holders(term) <= few for term in held)

    def lengths(self, count: int) -> Floats:
        """A copy of the lengths of the first `count` rows."""
        if count <= len(self._lengths):
            return self._lengths[:count].copy()
        found = np.zeros(count, dtype=np.float32)
        known = min(count, len(self._lengths))
        found[:known] = self._lengths[:known]
        return found

    def look_up(
        self,
        query: Sequence[int],
        before: Rows,
        after: Rows,
        quiet: float,
        version: int,
        expired: NDArray[np.intp] = NO_ROWS,
    ) -> Lookup:
        """Copies of the data for the query's terms. `quiet` is the weight of words such as 'the',
        `version` changes with every write, `expired` rows do not count."""
        size = len(before)
        found = {term: self._holding(term) for term in set(query)}
        counts = {term: self._count(term, len(held)) for term, held in found.items()}
        weighed = sorted(
            ((self._weight(term, count, quiet), term) for term, count in counts.items()),
            reverse=True,
        )[:MAX_TERMS]
        used = [(term, weight) for weight, term in weighed if len(found[term])]
        total = sum(weight for weight, _ in weighed)
        kept = (self.lengths(size), before, after, self._norms, version, expired)
        postings, holders = [found[term] for term, _ in used], [counts[term] for term, _ in used]
        return Lookup(postings, [weight for _, weight in used], holders, self._rows, total, *kept)

    def weight(self, term: int, quiet: float) -> float:
        """The weight of a term of a query."""
        return self._weight(term, self.holders(term), quiet)

    def _weight(self, term: int, holders: int, quiet: float) -> float:
        """Rare terms weigh more (inverse document frequency)."""
        rarity = math.log(1.0 + (self._rows - holders + 0.5) / (holders + 0.5))
        return rarity * (quiet if term in QUIET else 1.0)

    def _count(self, term: int, known: int) -> int:
        return known if self.statistics is None else self.statistics.holders(term, known)

    @property
    def _rows(self) -> int:
        return self._live if self.statistics is None else self.statistics.rows
