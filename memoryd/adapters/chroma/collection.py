"""The ChromaDB collection, with corrections for what Chroma gets wrong. Runs in the worker only.

`add` ignores an id that exists, so it is used for new ids only; `upsert` merges metadata, so stale
keys are removed; `delete` reports ids that did not exist, so they are looked up first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from memoryd.adapters.chroma import rows as rows
from memoryd.adapters.chroma.other_collections import OtherCollection
from memoryd.adapters.chroma.queries import CollectionQueries
from memoryd.errors import StoreError
from memoryd.model import MemoryType
from memoryd.ports import Identity, Record

SCHEMA = 1
PAGE = 1000  # ids in one call: Chroma binds each as an SQL variable
# Pages of all ids: for each, Chroma goes through all rows before its offset, so there are few. No
# page is larger than this, because calls wait for it: 20,000 ids take 0.1 to 0.2 s.
ID_PAGES, MOST_IDS = 50, 20_000
ROW = ["documents", "metadatas", "embeddings"]
LOCKED = "database is locked"
BATCH = 5000  # rows in one write: below Chroma's 5,461
ANY_MEMORY = {rows.TYPE: {"$in": [str(type) for type in MemoryType]}}  # not its further rows


class Collection:
    """Operations on the one collection; every public call is atomic or fails whole."""

    OPERATIONS: ClassVar = (
        frozenset(
            {"write", "read", "drop", "expired", "ids_from", "fetch", "count", "facts"}
            | {"nearest", "listing"}
        )
        | CollectionQueries.OPERATIONS
    )

    is_shared: ClassVar = False  # other daemons may write to it, too
    visible: Mapping[str, Any] | None = None  # filter for the rows that may be shown; None: all

    def __init__(
        self,
        chroma: Any,
        identity: Identity,
        mode: str,
        client: Any,
        written: int,
        revisions: dict[str, int] | None = None,
        others: tuple[OtherCollection, ...] = (),
    ) -> None:
        """`written`: how many rows were ever written, replacements and deletions included.
        `others`: the other collections of the store when it was opened."""
        self._chroma = chroma
        self.identity = identity
        self._mode = mode
        self.client = client
        self.others = others
        self.written = written
        self._written_by_others = sum(other.rows for other in others)
        self.dropped = 0  # rows, since it was opened
        self.needs_check = False  # not every row has been read since a kill
        self._revisions = revisions
        self._answer(CollectionQueries(chroma))

    def _answer(self, queries: CollectionQueries) -> None:
        """Offer these queries."""
        self.find, self.newest = queries.find, queries.newest
        self.candidates, self.sample = queries.candidates, queries.sample

    def facts(self) -> dict[str, object]:
        """Facts about the store, for `status`."""
        count = self.row_count()
        return {
            "mode": self._mode,
            "schema": SCHEMA,
            "model": self.identity.model,
            "dimension": self.identity.dimension,
            "rows": count,
            "dead_rows": self.dead_rows(count),
            "other_collections": {other.name: other.rows for other in self.others},
            "pid": os.getpid(),
        }

    @property
    def made_for(self) -> Identity:
        """The model in its metadata, whose vectors it holds; also while it is open without one."""
        return identity_of(self._chroma.metadata)

    @property
    def version(self) -> str:
        """Changes with every write, also over restarts; empty for a Chroma server."""
        return f"{self._chroma.id}:{self.written}" if self._mode == "embedded" else ""

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the collection itself."""
        return dict(self._chroma.metadata)

    def other(self, name: str) -> Collection:
        """Another collection of the same store."""
        found = self.client.get_collection(name, embedding_function=None)
        return Collection(found, identity_of(found.metadata), self._mode, self.client, 0)

    def dead_rows(self, count: int) -> int:
        """About how many deleted or replaced rows the files still hold: each was written twice."""
        return max(0, self.written - count) // 2

    @property
    def all_written(self) -> int:
        """How many rows were ever written to the whole store, if no other program has written since
        it was opened."""
        return self.written + self._written_by_others

    def row_count(self) -> int:
        """How many rows there are."""
        return int(self._chroma.count())

    def ids(self) -> list[str]:
        """The ids of all rows, in the order they were written."""
        return list(self._chroma.get(include=[])["ids"])

    def ids_from(self, offset: int) -> tuple[list[str], bool]:
        """A page of them, and whether there are more. A deletion moves all rows that were written
        later one place forward."""
        limit = min(MOST_IDS, max(PAGE, int(self._chroma.count()) // ID_PAGES))
        page = list(self._chroma.get(offset=offset, limit=limit, include=[])["ids"])
        return page, len(page) == limit

    def id_pages(self) -> Iterator[list[str]]:
        """The ids of all rows, page by page, while others write: all that are there throughout.
        What is written meanwhile need not be in it: in a large store reading a page takes longer
        than writing the next row, so waiting for an empty page could take for ever."""
        offset, dropped, has_more = 0, self.dropped, True
        while has_more:
            page, has_more = self.ids_from(offset)
            yield page
            # Rows that were deleted meanwhile moved those after them forward.
            offset += len(page) - (self.dropped - dropped)
            offset, dropped = max(0, offset), self.dropped

    def read_vectors(self, ids: Sequence[str]) -> None:
        """Read these rows from the index; raises whatever Chroma raises if it has lost one."""
        self._chroma.get(ids=list(ids), include=["embeddings"])

    def existing(self, ids: Sequence[str]) -> set[str]:
        """Those of `ids` that are rows."""
        found: set[str] = set()
        for start in range(0, len(ids), PAGE):
            part = list(ids[start : start + PAGE])
            found.update(self._chroma.get(ids=part, include=[])["ids"])
        return found

    def set_sync_threshold(self, rows: int) -> None:
        """How many rows are written between two flushes of the index, from the next opening on."""
        self._chroma.modify(configuration={"hnsw": {"sync_threshold": rows}})

    def put(self, new: Sequence[rows.Row]) -> None:
        """Insert or replace rows without a conversion."""
        columns = rows.Rows()
        for row in new:
            columns.add(row.id, row.document, dict(row.meta), row.vector)
        self._send_batches(self._chroma.upsert, columns)

    def load_index(self) -> None:
        """Make Chroma load its index. Reads no text."""
        self._chroma.get(limit=1, include=["embeddings"])

    def probe(self) -> None:
        """Make Chroma open all its files with one query; raises whatever Chroma raises."""
        for row in _rows(self._get(limit=1, include=ROW)):
            self._chroma.query(query_embeddings=[row.vector], n_results=1, include=[])

    def close(self) -> None:
        """Close the files. Nothing else may be called afterwards."""
        self.client.close()

    def write(
        self, added: Sequence[Record], replaced: Sequence[Record], deleted: Sequence[str]
    ) -> set[str]:
        """Add, replace and delete memories; the ids of `deleted` that existed."""
        if added:
            # `add` ignores ids that exist, so a call that is sent again changes nothing.
            new = rows.to_rows(added, self.identity.dimension)
            self._commit(lambda: self._send_batches(self._chroma.add, new), added)
        if replaced:
            other = rows.to_rows(replaced, self.identity.dimension)
            self._commit(lambda: self._replace(other), replaced)
        return self._delete(deleted) if deleted else set()

    def _commit(self, send: Callable[[], None], records: Sequence[Record]) -> None:
        """Call `send`, and raise only if nothing was committed: Chroma also reports an error if the
        rows are committed and only its index could not be flushed."""
        try:
            send()
        except Exception as exc:
            if not self._is_committed(records):
                if LOCKED not in str(exc):
                    raise
                send()  # an earlier transaction that failed still held the lock

    def _is_committed(self, records: Sequence[Record]) -> bool:
        found = {r.memory.id: r for r in self.get([record.memory.id for record in records])}
        return all(
            record.memory.id in found
            and rows.same_memory(found[record.memory.id].memory, record.memory)
            and len(found[record.memory.id].passages) == len(record.passages)
            for record in records
        )

    def _replace(self, new: rows.Rows) -> None:
        """Upsert without merging: removes keys and rows that only the previous version had."""
        surplus: list[str] = []
        for start in range(0, len(new.ids), PAGE):
            ids = new.ids[start : start + PAGE]
            found = self._chroma.get(ids=ids, include=["metadatas"])
            old = dict(zip(found["ids"], found["metadatas"], strict=True))
            for id, meta in zip(ids, new.metadatas[start : start + PAGE], strict=True):
                surplus += _surplus_rows(id, old.get(id), meta)
                meta |= rows.stale_keys(old.get(id), meta)
        self._send_batches(self._chroma.upsert, new)
        if surplus:
            self.drop(surplus)

    def _send_batches(self, call: Callable[..., Any], new: rows.Rows) -> None:
        """All rows in one transaction, up to BATCH of them."""
        self.written += len(new.ids)
        for start in range(0, len(new.ids), BATCH):
            part = slice(start, start + BATCH)
            call(
                ids=new.ids[part],
                documents=new.documents[part],
                metadatas=[meta or None for meta in new.metadatas[part]],  # {} is refused
                embeddings=np.asarray(new.vectors[part], dtype=np.float32),
            )

    def get(self, ids: Sequence[str]) -> list[Record]:
        """The memories among `ids`, with all their passages."""
        return self.read(ids).records

    def read(self, ids: Sequence[str]) -> rows.Found:
        """The same, and the rows among `ids` that cannot be read."""
        mains = self.fetch(ids)
        further = [id for row in mains for id in rows.row_ids(row.id, rows.row_count(row.meta))[1:]]
        return rows.to_records([*mains, *self.fetch(further)])

    def _delete(self, ids: Sequence[str]) -> set[str]:
        """Remove memories with their passages, and check it; the ids that existed."""
        existed: set[str] = set()
        deleted: list[str] = []
        for start in range(0, len(ids), PAGE):
            found = self._chroma.get(ids=list(ids[start : start + PAGE]), include=["metadatas"])
            for id, meta in zip(found["ids"], found["metadatas"], strict=True):
                existed.add(id)
                deleted += rows.row_ids(id, rows.row_count(meta))
        failure: Exception | None = None
        try:
            self.drop(deleted)
        except Exception as exc:  # as in `_commit`
            failure = exc
        for start in range(0, len(deleted), PAGE):
            if self._chroma.get(ids=deleted[start : start + PAGE], include=[])["ids"]:
                raise failure or StoreError("The store still has rows that were deleted.")
        return existed

    def drop(self, row_ids: Sequence[str]) -> None:
        """Remove rows that are known to exist."""
        self.written += len(row_ids)
        self.dropped += len(row_ids)
        for start in range(0, len(row_ids), BATCH):
            self._chroma.delete(ids=list(row_ids[start : start + BATCH]))

    def expired(self, now: float, limit: int) -> list[str]:
        """Ids of memories that have expired at `now`; a filtered query, not a scan."""
        where = self._shown({rows.EXPIRES: {"$lte": now}})
        return list(self._chroma.get(where=where, limit=limit, include=[])["ids"])

    def _shown(self, where: Mapping[str, Any]) -> dict[str, Any]:
        """A filter that also leaves out what may not be shown."""
        return {"$and": [where, self.visible]} if self.visible else dict(where)

    def nearest(self, vector: Any, count: int, among: list[str] | None) -> list[tuple[str, float]]:
        """About the nearest memories, each once, with their cosines; best first."""
        return nearest(self._chroma, vector, count, among, self.may_see)

    def may_see(self, meta: Mapping[str, Any]) -> bool:
        """Whether a row with this metadata may be shown. For what is read without a filter, which
        would take time for each memory of the store."""
        return True

    def take_revisions(self) -> dict[str, int] | None:
        """By id, the revisions read when the store was opened. Once, then None: it may be large."""
        found, self._revisions = self._revisions, None
        return found

    def count(self) -> int:
        """How many memories there are."""
        return len(self.memory_ids())

    def memory_ids(self) -> list[str]:
        """The ids of all memories."""
        return list(self._chroma.get(where=self._shown(ANY_MEMORY), include=[])["ids"])

    def listing(self, offset: int) -> dict[str, int] | None:
        """The revisions of the next memories by id; None after the last."""
        found = self._chroma.get(
            where=self._shown(ANY_MEMORY), offset=offset, limit=PAGE, include=["metadatas"]
        )
        pairs = zip(found["ids"], found["metadatas"], strict=True)
        return {id: int(meta.get(rows.REVISION, 0)) for id, meta in pairs} or None

    def _get(self, **arguments: Any) -> dict[str, Any]:
        """Chroma's `get` with vectors."""
        found: dict[str, Any] = self._chroma.get(**arguments)
        return found

    def fetch(self, ids: Sequence[str]) -> list[rows.Row]:
        """The rows among `ids` that exist."""
        found: list[rows.Row] = []
        for start in range(0, len(ids), PAGE):
            part = list(ids[start : start + PAGE])
            found += _rows(self._get(ids=part, include=ROW))
        return found


def identity_of(facts: Mapping[str, Any]) -> Identity:
    """The model and dimension that the metadata of a collection names."""
    return Identity(str(facts[rows.MODEL_KEY]), int(facts[rows.DIMENSION_KEY]))


def _surplus_rows(id: str, old: dict[str, Any] | None, new: dict[str, Any]) -> list[str]:
    """Ids of rows that only the previous, longer version of a memory had."""
    before, after = rows.row_count(old), rows.row_count(new)
    return rows.row_ids(id, before)[after:]


def _rows(result: dict[str, Any]) -> list[rows.Row]:
    vectors = np.asarray(result["embeddings"], dtype=np.float32)
    columns = zip(result["ids"], result["documents"], result["metadatas"], vectors, strict=True)
    return [rows.Row(id, text, meta or {}, vector.copy()) for id, text, meta, vector in columns]


def nearest(
    chroma: Any,
    vector: Any,
    count: int,
    among: Sequence[str] | None,
    may_see: Callable[[Mapping[str, Any]], bool],
) -> list[tuple[str, float]]:
    """The ids of about the nearest memories, each with the cosine of its best row."""
    ids = None if among is None else _all_rows(chroma, among)
    if ids == []:
        return []
    found = chroma.query(
        query_embeddings=[vector], n_results=count, ids=ids, include=["metadatas", "distances"]
    )
    best: dict[str, float] = {}
    answers = zip(found["ids"][0], found["metadatas"][0], found["distances"][0], strict=True)
    for id, meta, distance in answers:
        if not (meta or {}).get(rows.PENDING) and may_see(meta or {}):
            best.setdefault(str((meta or {}).get(rows.OF, id)), 1.0 - float(distance))
    return list(best.items())


def _all_rows(chroma: Any, ids: Sequence[str]) -> list[str]:
    """The row ids of those memories that exist."""
    found: list[str] = []
    for start in range(0, len(ids), PAGE):
        part = chroma.get(ids=list(ids[start : start + PAGE]), include=["metadatas"])
        for id, meta in zip(part["ids"], part["metadatas"], strict=True):
            found += rows.row_ids(id, rows.row_count(meta))
    return found
