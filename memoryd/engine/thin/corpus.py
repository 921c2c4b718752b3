"""What is known of the whole collection without reading it: a sample of its memories.

The sample says about how often a term occurs and how well an average memory matches a query by its
words, which the ranking compares with the candidates (`rank.trust`). It is small and is replaced
after a while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import anyio
import numpy as np

from memoryd.engine.filters import Filter
from memoryd.engine.index.index import Index
from memoryd.engine.index.words import Floats
from memoryd.queries import Queries

SAMPLE = 512  # memories
MAX_AGE = 300.0  # seconds
CHANGED = 1.25  # replace the sample if the collection has grown or shrunk by this factor


class Corpus:
    """A sample, and the size of the collection that it was taken from."""

    def __init__(self, index: Index, rows: int) -> None:
        self.index, self.rows = index, rows

    def share(self, term: int) -> float:
        """About which share of the memories has a term; 0 if none of the sample has."""
        return self._holders(term) / max(1, len(self.index))

    def holders(self, term: int) -> int:
        """About how many memories have a term. Of a term that the sample does not have, about half
        of what one memory of the sample stands for."""
        if len(self.index) >= self.rows:
            return self._holders(term)
        return round(self.rows * (self._holders(term) + 0.5) / (len(self.index) + 1))

    def matching(self, filter: Filter, now: float) -> int:
        """About how many memories match a filter."""
        allowed = self.index.allowed(filter, now)
        return round(self.rows * float(np.count_nonzero(allowed)) / max(1, len(self.index)))

    def average_words(self, weights: Mapping[int, float], filter: Filter, now: float) -> float:
        """The average word score of the memories that match the filter, for a query of these
        terms. A score is the sum over its terms, so an average is, too."""
        allowed = self.index.allowed(filter, now)
        total = sum(weights.values())
        if not allowed.any() or total <= 0.0:
            return 0.0
        sums = (
            weight * float(self._scores(term)[allowed].mean()) for term, weight in weights.items()
        )
        return sum(sums) / total

    def _scores(self, term: int) -> Floats:
        """By slot, the word scores for a query of one term. Each memory of the sample has one row,
        and the messages next to it are not in the sample."""
        alone = np.full(len(self.index), -1, dtype=np.int32)
        words = self.index.tables[1]
        return words.look_up([term], alone, alone, 1.0, self.index.changes).scores()

    def _holders(self, term: int) -> int:
        return self.index.tables[1].holders(term)


class Corpora:
    """Keeps the sample current."""

    def __init__(self, queries: Queries, dimension: int, monotonic: Callable[[], float]) -> None:
        self._queries, self._dimension, self._monotonic = queries, dimension, monotonic
        self._taken: Corpus | None = None
        self._taken_at = 0.0
        self._lock = anyio.Lock()

    @property
    def rows(self) -> int:
        """How many rows the collection had at the last look; 0 before the first."""
        return self._taken.rows if self._taken else 0

    async def current(self) -> Corpus:
        """The sample; taken now if there is none, or if it is old."""
        async with self._lock:
            if self._taken is None or self._monotonic() - self._taken_at > MAX_AGE:
                await self._take()
            assert self._taken is not None
            return self._taken

    def notice(self, rows: int) -> None:
        """The collection has this many rows now."""
        if self._taken is None:
            return
        before = max(1, self._taken.rows)
        if not before / CHANGED <= rows <= before * CHANGED:
            self._taken = None
        else:
            self._taken.rows = rows

    async def _take(self) -> None:
        records, rows = await self._queries.sample(SAMPLE)
        index = Index(self._dimension, keep_vectors=False)
        for record in records:
            index.put(record)
        self._taken, self._taken_at = Corpus(index, max(rows, len(records))), self._monotonic()
