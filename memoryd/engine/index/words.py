"""The word index: which rows hold which term, and BM25 over them.

Postings are sorted integers, row and count packed into 32 bits, changed in place: a write is
visible at once and nothing of a forgotten row is left. Libraries were measured first
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

from memoryd.engine.index.terms import QUIET

if TYPE_CHECKING:
    from memoryd.ports import Arrays

Floats = NDArray[np.float32]
Rows = NDArray[np.int32]

SATURATION = 0.9  # k1: how soon a repeated word stops counting
LENGTH = 0.6  # b: how much the length of a text divides its counts
BEFORE, AFTER = 0.5, 0.3  # weight of a word in the message before, and in the one after
COMMON = 8  # a term in more than one of this many rows does not count for neighbours
COUNT_BITS, COUNT_MASK = 8, 255
NO_ROWS: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
MAX_TERMS = 128  # terms used of a query: the rarest
PACKED = 250_000  # about how many postings make a piece of a snapshot
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
    """Terms of rows. A row is a passage of a memory, numbered as in the vector table."""

    def __init__(self) -> None:
        self._postings: dict[int, array[int]] = {}
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
        return len(self._postings)

    def put(self, row: int, terms: Sequence[int]) -> None:
        """Add a new row with these terms."""
        while row >= len(self._lengths):
            self._lengths = np.concatenate([self._lengths, np.zeros_like(self._lengths)])
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

    def remove(self, row: int, terms: Iterable[int]) -> None:
        """Remove a row that was added with these terms."""
        for term in set(terms):
            postings = self._postings[term]
            del postings[bisect_left(postings, row << COUNT_BITS)]
            if not postings:
                del self._postings[term]
        self._lengths[row] = 0.0
        self._live -= 1

    def pack(self, rows: Rows) -> Iterator[tuple[str, NDArray[Any]]]:
        """The index as arrays, in pieces. `rows` maps each row to its number in the snapshot, or
        to -1 to leave it out. Runs on a thread while the event loop changes the index."""
        items = list(self._postings.items()) or [(0, array("I"))]  # copied in one step
        sizes: list[NDArray[np.int64]] = []
        group: list[bytes] = []
        room = PACKED
        for number, (_, postings) in enumerate(items, start=1):
            group.append(postings.tobytes())
            room -= len(postings) + 1
            if room <= 0 or number == len(items):
                posting, size = _renumbered(group, rows)
                yield "posting", posting
                sizes.append(size)
                group, room = [], PACKED
        yield "term", np.array([term for term, _ in items], dtype=np.uint64)
        yield "term_size", np.concatenate(sizes)

    def restore(self, arrays: Arrays, rows: Rows, lengths: Floats) -> None:
        """Fill an empty index from the arrays of `pack`. `rows` maps the numbers of the snapshot to
        rows, or to -1."""
        values = arrays["posting"]
        new = rows[values >> COUNT_BITS].astype(np.int64)
        owner = np.repeat(np.arange(len(arrays["term"])), arrays["term_size"])[new >= 0]
        values = (new[new >= 0].astype(np.uint32) << COUNT_BITS) | (values[new >= 0] & COUNT_MASK)
        order = np.lexsort((values, owner))
        data = values[order].astype(np.uint32)
        ends = np.cumsum(np.bincount(owner, minlength=len(arrays["term"])))
        begin = 0
        for term, end in zip(arrays["term"].tolist(), ends.tolist(), strict=True):
            if end > begin:
                self._postings[term] = array("I", data[begin:end].tobytes())
            begin = end
        self._lengths = np.concatenate([lengths, np.zeros(1024, dtype=np.float32)])
        self._live = int(np.count_nonzero(lengths))

    def has_rare(self, terms: Iterable[int]) -> bool:
        """Whether one of these terms occurs, and in few rows."""
        few = max(1, self._rows // RARE)
        return any(term in self._postings and self.holders(term) <= few for term in terms)

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
        postings: list[NDArray[np.uint32]] = []
        weights: list[float] = []
        holders: list[int] = []
        weighed = sorted(((self.weight(t, quiet), t) for t in set(query)), reverse=True)
        for weight, term in weighed[:MAX_TERMS]:
            if term in self._postings:
                postings.append(np.array(self._postings[term], dtype=np.uint32))
                weights.append(weight)
                holders.append(self.holders(term))
        total = sum(weight for weight, _ in weighed[:MAX_TERMS])
        lengths = self.lengths(size)
        kept = (lengths, before, after, self._norms, version, expired)
        return Lookup(postings, weights, holders, self._rows, total, *kept)

    def weight(self, term: int, quiet: float) -> float:
        """Rare terms weigh more (inverse document frequency)."""
        holders = self.holders(term)
        rarity = math.log(1.0 + (self._rows - holders + 0.5) / (holders + 0.5))
        return rarity * (quiet if term in QUIET else 1.0)

    def holders(self, term: int) -> int:
        """How many rows have a term."""
        known = len(self._postings.get(term, ()))
        return known if self.statistics is None else self.statistics.holders(term, known)

    @property
    def _rows(self) -> int:
        return self._live if self.statistics is None else self.statistics.rows


def _renumbered(
    postings: Sequence[bytes], rows: Rows
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """The postings with their rows renumbered, and how many each term has left."""
    sizes = np.array([len(part) // 4 for part in postings], dtype=np.int64)
    every = np.frombuffer(b"".join(postings), dtype=np.uint32)
    old = (every >> COUNT_BITS).view(np.int32)
    new = np.full(len(every), -1, dtype=np.int32)
    known = old < len(rows)
    new[known] = rows[old[known]]
    kept = new >= 0
    owner = np.repeat(np.arange(len(postings), dtype=np.int32), sizes)[kept]
    values = (new[kept].astype(np.uint32) << COUNT_BITS) | (every[kept] & COUNT_MASK)
    order = np.lexsort((values, owner))
    found = np.bincount(owner, minlength=len(postings)).astype(np.int64)
    return values[order].astype(np.uint32, copy=False), found
