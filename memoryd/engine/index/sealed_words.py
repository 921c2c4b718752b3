"""Postings that do not change any more: those of a snapshot, and those that go into the next one.

A snapshot's postings are three arrays: the terms in order, where the postings of each end, and the
postings of all terms one after the other. So a start reads them and builds nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from memoryd.index_files import Arrays

COUNT_BITS, COUNT_MASK = 8, 255
PACKED = 50_000  # about how many postings make a piece of a snapshot
TERM, TERM_END, POSTING = "term", "term_end", "posting"
SEALED_WORDS = (TERM, TERM_END, POSTING)

Postings = NDArray[np.uint32]
NO_POSTINGS: Postings = np.zeros(0, dtype=np.uint32)


class SealedWords:
    """The postings of a snapshot."""

    def __init__(self, arrays: Arrays) -> None:
        self._terms: NDArray[np.uint64] = arrays[TERM]
        self._ends: NDArray[np.int64] = arrays[TERM_END]
        self._postings: Postings = arrays[POSTING]

    def postings(self, term: int) -> Postings:
        """The postings of a term, not copied."""
        at = int(np.searchsorted(self._terms, np.uint64(term)))
        if at == len(self._terms) or int(self._terms[at]) != term:
            return NO_POSTINGS
        return self._postings[self._ends[at - 1] if at else 0 : self._ends[at]]

    def terms(self) -> list[int]:
        """All terms, sorted."""
        found: list[int] = self._terms.tolist()
        return found


class FrozenWords:
    """The postings of rows that were written since the last snapshot."""

    def __init__(self, postings: Mapping[int, array[int]]) -> None:
        self._postings = postings

    def postings(self, term: int) -> Postings:
        """The postings of a term."""
        found = self._postings.get(term)
        return NO_POSTINGS if found is None else np.array(found, dtype=np.uint32)

    def terms(self) -> list[int]:
        """All terms, sorted."""
        return sorted(self._postings)


def merged(
    parts: Sequence[SealedWords | FrozenWords], is_in: NDArray[np.bool_]
) -> Iterator[tuple[str, NDArray[Any]]]:
    """All postings of the rows that are `is_in`, as the arrays of one part, in pieces."""
    terms: list[int] = []
    ends: list[int] = []
    group: list[Postings] = []
    room, end = PACKED, 0
    for term in _all_terms(parts):
        found = [kept for part in parts if len(kept := _kept(part.postings(term), is_in))]
        if not found:
            continue
        group.append(found[0] if len(found) == 1 else np.sort(np.concatenate(found)))
        end += len(group[-1])
        terms.append(term)
        ends.append(end)
        room -= len(group[-1]) + 1
        if room <= 0:
            yield POSTING, np.concatenate(group)
            group, room = [], PACKED
    yield POSTING, np.concatenate([*group, NO_POSTINGS])
    yield TERM, np.array(terms, dtype=np.uint64)
    yield TERM_END, np.array(ends, dtype=np.int64)


def _all_terms(parts: Iterable[SealedWords | FrozenWords]) -> list[int]:
    return sorted({term for part in parts for term in part.terms()})


def _kept(postings: Postings, is_in: NDArray[np.bool_]) -> Postings:
    kept: Postings = postings[is_in[postings >> COUNT_BITS]]
    return kept
