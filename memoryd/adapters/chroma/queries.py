"""Find memories in a collection without an index in the daemon. Runs in the worker only.

Chroma 1.5 refuses its own hybrid search (`Search`, `Knn`, sparse vectors) on every server but the
distributed one, so words are found by regular expressions on the documents (`$regex`). They cost
about as much as `$contains`, which tells upper from lower case, and several of them run in
parallel. `get` has no order, so the newest memories are found by windows of time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from heapq import nlargest
from itertools import combinations
from math import inf, log
from typing import Any, ClassVar

import numpy as np

from memoryd.adapters.chroma import rows as rows
from memoryd.fields import RELATIONS, SUPERSEDED_BY
from memoryd.model import MICRO
from memoryd.ports import Record
from memoryd.queries import Candidates, CandidatesWanted, Conditions, Place, order_in_list

IN_PARALLEL = 4  # requests to a server at the same time
PAIRS = 3  # of common words, whose memories with both are fetched
MOST = 2000  # rows of a window of time
FIRST_WINDOW, GROWTH = 3600.0, 8.0  # seconds, and how much wider each next window is
NARROWEST, WIDEST = 1e-3, 1e10  # seconds
ROUNDING = 2e-6  # seconds by which the time of a memory may differ from that of its row
SAMPLES = 8  # places of a sample
FIELDS = ["documents", "metadatas", "embeddings"]
NO_VECTOR = np.zeros(0, dtype=np.float32)
NOT_YET = "Nothing found on disk"  # the first row of a collection is being written
TRIES, PAUSE = 40, 0.05  # times that such a call is made, and seconds between them
Where = dict[str, Any]  # a condition in Chroma's language
ORDER = "order"  # the metadata key of a message's number


class CollectionQueries:
    """The operations behind `memoryd.queries.Queries`, on one collection."""

    OPERATIONS: ClassVar = frozenset({"find", "newest", "candidates", "sample"})

    def __init__(
        self,
        chroma: Any,
        visible: Where | None = None,
        may_see: Callable[[Mapping[str, Any]], bool] = lambda meta: True,
        in_parallel: int = 1,
    ) -> None:
        """`visible`: what the user may see, for queries; `may_see`: the same, by the metadata of a
        memory's first row."""
        self._chroma, self._visible, self._may_see = chroma, visible, may_see
        self._threads = ThreadPoolExecutor(in_parallel)

    def find(self, asked: Sequence[Conditions], limit: int) -> list[str]:
        pages = self._threads.map(lambda one: self._get(one, limit, [])["ids"], asked)
        return list(dict.fromkeys(id for page in pages for id in page))

    def newest(
        self, conditions: Conditions, now: float, after: Place | None, limit: int
    ) -> list[Place]:
        least = -inf if conditions.since is None else conditions.since
        end = now + WIDEST if conditions.until is None else conditions.until
        if after is not None:
            end = min(end, after[0] + ROUNDING)  # others may have the same time
        start = max(least, min(now, end - 2 * ROUNDING))
        width, found = FIRST_WINDOW, list[Place]()
        while True:
            is_wide = NARROWEST < end - start < inf
            most = MOST + 1 if is_wide else None  # all of one moment, however many
            page = self._created(replace(conditions, since=start, until=end), most)
            if len(page) > MOST and is_wide:
                width = (end - start) / GROWTH
                start = end - width
                continue
            found += [place for place in page if after is None or _is_after(place, after)]
            if len(found) >= limit or start <= least:
                return sorted(found, key=order_in_list)[:limit]
            end, width = start, width * GROWTH
            start = max(least, end - width if width < WIDEST else -inf)

    def _created(self, conditions: Conditions, limit: int | None) -> list[Place]:
        """When the memories that meet the conditions were created."""
        found = self._get(conditions, limit, ["metadatas"])
        pairs = zip(found["ids"], found["metadatas"], strict=True)
        return [
            (round(float(meta[rows.CREATED]), MICRO), id)
            for id, meta in pairs
            if rows.CREATED in meta
        ]

    def candidates(self, wanted: CandidatesWanted) -> Candidates:
        asked = wanted.conditions
        near = [self._threads.submit(self._nearest, wanted, asked)]
        if wanted.vector is not None and not asked.is_empty:
            # Only the first row of a memory has its metadata, so a filter hides the others.
            near.append(self._threads.submit(self._nearest, wanted, Conditions()))
        having = [self._threads.submit(self._having, wanted, (word,)) for word in wanted.words]
        total = self._threads.submit(self._chroma.count)
        by_word = [one.result() for one in having]
        common = [
            word
            for word, found in zip(wanted.words, by_word, strict=True)
            if len(found) >= wanted.each
        ]
        pairs = list(combinations(common, 2))[:PAIRS]
        both = [self._threads.submit(self._having, wanted, pair) for pair in pairs]
        rows_near = [row for one in near for row in one.result()]
        best = _best([*by_word, *(one.result() for one in both)], wanted.by_words)
        records = self._whole(rows_near, best)
        return Candidates(records, tuple(map(len, by_word)), int(total.result()))

    def sample(self, count: int) -> tuple[list[Record], int]:
        total = int(self._chroma.count())
        each = -(-count // SAMPLES)
        places = [random.randrange(total - each) for _ in range(SAMPLES)] if total > count else [0]
        size = each if total > count else count
        found: dict[str, rows.Row] = {}
        for place in places:
            page = self._chroma.get(offset=place, limit=size, include=["documents", "metadatas"])
            first = (row for row in _rows(page) if rows.OF not in row.meta)
            found |= {row.id: row for row in first if self._may_see(row.meta)}
        # Marked as pending: without their vectors and further rows.
        bare = [replace(row, meta={**row.meta, rows.PENDING: True}) for row in found.values()]
        return rows.to_records(bare).records, total

    def _nearest(self, wanted: CandidatesWanted, conditions: Conditions) -> list[rows.Row]:
        if wanted.vector is None:
            return []
        where, document = _where(conditions), _document(conditions)
        found = patiently(
            self._chroma.query,
            query_embeddings=[wanted.vector],
            n_results=wanted.nearest,
            where=where,
            where_document=document,
            include=FIELDS,
        )
        return _rows({key: found[key][0] for key in ("ids", *FIELDS)})

    def _having(self, wanted: CandidatesWanted, words: Sequence[str]) -> list[str]:
        """The ids of memories whose text matches all of these regular expressions."""
        document = _all_of([{"$regex": word} for word in words])
        where = self._seen(_where(wanted.conditions))
        found = self._chroma.get(
            where=where, where_document=document, limit=wanted.each, include=[]
        )
        return list(found["ids"])

    def _whole(self, near: Iterable[rows.Row], ids: Iterable[str]) -> list[Record]:
        """The memories that these rows are of, and those with these ids."""
        known = {row.id: row for row in near}
        owners = {*ids, *(str(row.meta.get(rows.OF, row.id)) for row in known.values())}
        known |= {row.id: row for row in self._fetch(owners - known.keys())}
        # A search by meaning also finds what the user may not see.
        owners = {id for id in owners & known.keys() if self._may_see(known[id].meta)}
        known = {id: row for id, row in known.items() if row.meta.get(rows.OF, id) in owners}
        parts = {
            id for owner in owners for id in rows.row_ids(owner, rows.row_count(known[owner].meta))
        }
        known |= {row.id: row for row in self._fetch(parts - known.keys())}
        return rows.to_records(known.values()).records

    def _fetch(self, ids: Iterable[str]) -> list[rows.Row]:
        wanted = list(ids)
        return _rows(patiently(self._chroma.get, ids=wanted, include=FIELDS)) if wanted else []

    def _get(self, conditions: Conditions, limit: int | None, include: list[str]) -> dict[str, Any]:
        found: dict[str, Any] = self._chroma.get(
            where=self._seen(_where(conditions)),
            where_document=_document(conditions),
            limit=limit,
            include=include,
        )
        return found

    def _seen(self, where: Where | None) -> Where | None:
        """The condition, for what the user may see."""
        parts = [part for part in (where, self._visible) if part is not None]
        return _all_of(parts) if parts else None


def patiently(call: Callable[..., Any], **arguments: Any) -> Any:
    """The answer to a call that reads vectors. While the first row of a collection is being
    written, a server answers with an error."""
    for _ in range(TRIES - 1):
        try:
            return call(**arguments)
        except Exception as exc:
            if NOT_YET not in str(exc):
                raise
        time.sleep(PAUSE)
    return call(**arguments)


def _best(groups: Sequence[Sequence[str]], most: int) -> list[str]:
    """The ids that are in the most groups, where a small group counts more."""
    worth: dict[str, float] = {}
    for group in groups:
        for id in group:
            worth[id] = worth.get(id, 0.0) + 1.0 / log(2 + len(group))
    return nlargest(most, worth, key=lambda id: worth[id])


def _is_after(place: Place, other: Place) -> bool:
    """Whether a place comes later in the list: older, or of the same time with a higher id."""
    return order_in_list(place) > order_in_list(other)


def _where(conditions: Conditions) -> dict[str, Any] | None:
    """The conditions on metadata in Chroma's language."""
    equal = {
        rows.TYPE: None if conditions.type is None else str(conditions.type),
        rows.SESSION: conditions.session_id,
        rows.NAME: conditions.name,
        rows.PINNED: True if conditions.pinned else None,
        rows.PENDING: True if conditions.pending else None,
    }
    parts: list[dict[str, Any]] = [{k: {"$eq": v}} for k, v in equal.items() if v is not None]
    if conditions.pinned is False:
        parts.append({rows.PINNED: {"$ne": True}})
    if conditions.since is not None and conditions.since > -inf:
        parts.append({rows.CREATED: {"$gte": conditions.since}})
    if conditions.until is not None and conditions.until < inf:
        parts.append({rows.CREATED: {"$lt": conditions.until}})
    if conditions.orders:
        parts.append({ORDER: {"$in": list(conditions.orders)}})
    if conditions.moved:
        parts.append({rows.MOVED: {"$gt": 0}})
    parts += [_any_of(_holding(*one)) for one in conditions.having]
    if conditions.naming:
        keys = (*RELATIONS, SUPERSEDED_BY)
        tests = [{key: {"$contains": id}} for id in conditions.naming for key in keys]
        parts.append(_any_of(tests))
    return _all_of(parts) if parts else None


def _holding(key: str, values: Sequence[str | bool]) -> list[dict[str, Any]]:
    """A value, or a list with it: Chroma tests the two by different operators."""
    return [{key: {test: value}} for value in values for test in ("$eq", "$contains")]


def _document(conditions: Conditions) -> dict[str, Any] | None:
    tests = [{"$contains": text} for text in conditions.contains]
    return _all_of(tests) if tests else None


def _all_of(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return parts[0] if len(parts) == 1 else {"$and": parts}


def _any_of(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return parts[0] if len(parts) == 1 else {"$or": parts}


def _rows(found: dict[str, Any]) -> list[rows.Row]:
    """The rows of an answer; a vector that was not asked for is empty."""
    ids = found["ids"]
    vectors = found.get("embeddings")
    columns = zip(
        ids,
        found["documents"],
        found["metadatas"],
        [NO_VECTOR] * len(ids) if vectors is None else vectors,
        strict=True,
    )
    return [
        rows.Row(id, text, meta or {}, np.asarray(vector, dtype=np.float32))
        for id, text, meta, vector in columns
    ]
