"""A small index of the candidates of one search, ranked as if it had the whole collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.filters import Filter
from memoryd.engine.index.growing_array import Numbers
from memoryd.engine.index.index import Index
from memoryd.engine.index.view import View
from memoryd.engine.thin.corpus import Corpus
from memoryd.engine.turn_keys import order_of

NONE = -1


class Frequencies:
    """How often terms occur in the whole collection; see `index.words.Statistics`. Where the server
    has not counted a term, the sample says."""

    def __init__(self, corpus: Corpus, counted: Mapping[int, int]) -> None:
        self._corpus, self._counted = corpus, counted

    @property
    def rows(self) -> int:
        return self._corpus.rows

    def holders(self, term: int, known: int) -> int:
        if term in self._counted:
            return max(known, self._counted[term])
        return min(self.rows, max(known, self._corpus.holders(term)))


class CandidateIndex(Index):
    """The candidates, with exact vectors and the word statistics of the collection."""

    def __init__(self, dimension: int, corpus: Corpus, counted: Mapping[int, int]) -> None:
        super().__init__(dimension)
        self._corpus = corpus
        self.tables[1].statistics = Frequencies(corpus, counted)

    def close(self) -> None:
        """Free all memory at once: an index has cycles, which the interpreter frees much later.
        Nothing may be called afterwards."""
        vars(self).clear()

    def view(
        self,
        query: Sequence[int],
        filter: Filter,
        now: float,
        quiet: float,
        *more: Any,
        **rest: Any,
    ) -> View:
        """See `Index.view`."""
        view = super().view(query, filter, now, quiet, *more, **rest)
        words = self.tables[1]
        weights = {term: words.weight(term, quiet) for term in set(query)}
        return replace(
            self._with_true_neighbours(view),
            population=max(1, self._corpus.matching(filter, now)),
            average_words=self._corpus.average_words(weights, filter, now),
        )

    def _with_true_neighbours(self, view: View) -> View:
        """Two candidates of a session are only neighbours if no message is between them."""
        layout = view.layout
        orders = np.full(len(layout.first), NONE, dtype=np.int64)
        for slot, entry in enumerate(self.entries()):
            if entry is not None:
                orders[slot] = order_of(entry.memory)
        before = _linked(layout.before, orders, -1)
        after = _linked(layout.after, orders, 1)
        rows = [
            np.where(_has(layout.owners, links), old, NONE).astype(np.int32)
            for links, old in zip((before, after), layout.row_neighbours, strict=True)
        ]
        true = replace(layout, before=before, after=after, row_neighbours=(rows[0], rows[1]))
        return replace(view, layout=true, words=replace(view.words, before=rows[0], after=rows[1]))


def _linked(links: Numbers, orders: NDArray[np.int64], step: int) -> Numbers:
    """The links between messages whose numbers follow each other."""
    there = np.flatnonzero(links >= 0)
    found = np.full_like(links, NONE)
    right = there[orders[links[there]] == orders[there] + step]
    found[right] = links[right]
    return found


def _has(owners: NDArray[np.int32], links: Numbers) -> NDArray[np.bool_]:
    """By row, whether its memory has this neighbour."""
    found: NDArray[np.bool_] = np.append(links >= 0, False)[owners]
    return found
