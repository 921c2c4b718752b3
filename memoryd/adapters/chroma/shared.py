"""A collection on a Chroma server that several daemons write to. Runs in the worker only.

The server's rows are the truth, and a daemon only ever writes what a caller asked for. Chroma has
no compare-and-set, so a write reads the rows that it replaces first and is refused if another
daemon wrote them since. A replaced row is sent with `update`, which ignores an id that does not
exist, so a memory that another daemon forgets at this moment is not stored again.

Every write has a clock: one more than the highest on the server, read just before. So the order
does not depend on the time of any machine. Two writes at the same moment may have the same clock.
What is deleted leaves a note with its id and a clock in a second collection, not in this one, where
searches would find it. A note means only "look at this id": the row, or its absence, decides.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from memoryd.adapters.chroma import rows as rows
from memoryd.adapters.chroma.collection import PAGE, Collection
from memoryd.adapters.chroma.queries import IN_PARALLEL, CollectionQueries, patiently
from memoryd.audience import Viewer, is_private
from memoryd.errors import StoreConflict, StoreError
from memoryd.fields import AUDIENCE, IN_PROJECT, OWNER, PROJECT
from memoryd.metadata import RESERVED
from memoryd.model import DAY, Memory
from memoryd.ports import Changes, Identity, Record

NOTES = ".changes"  # after the name of the collection: the collection of the notes
NOTED_AT = RESERVED + "noted_at"
KEEP_NOTES = DAY  # a daemon that did not read the notes for a minute compares all memories
SLOW = 10.0  # seconds after which a write may have come too late for those who read by clock
NOTE_VECTOR = (1.0, 0.0)  # Chroma requires one


class SharedCollection(Collection):
    """The operations of a collection, safe beside other daemons, and what those have changed."""

    OPERATIONS: ClassVar = Collection.OPERATIONS | {"changes", "clock", "noted", "sweep_notes"}
    is_shared: ClassVar = True

    def __init__(
        self, chroma: Any, notes: Any, identity: Identity, client: Any, viewer: Viewer
    ) -> None:
        super().__init__(chroma, identity, "http", client, 0)
        self._notes = notes
        self._viewer = viewer
        self.visible = _seen_by(viewer)
        self._answer(CollectionQueries(chroma, self.visible, self.may_see, IN_PARALLEL))
        self._clock = 0  # the highest that this worker has read or written

    def write(
        self, added: Sequence[Record], replaced: Sequence[Record], deleted: Sequence[str]
    ) -> set[str]:
        """See `Collection.write`. Raises StoreConflict, before or instead of writing, if another
        daemon changed one of these memories."""
        records = [*added, *replaced]
        if any(is_private(record.memory) for record in records):
            raise StoreError(
                "A private memory is not written to a Chroma server.",
                code="private_not_served",
                hint="Give it another audience.",
            )
        old = self._metadatas([record.memory.id for record in records])
        _check_unchanged(records, old)
        began = time.monotonic()
        if records:
            self._store(records, old)
        existed = self._delete(deleted) if deleted else set()
        late = time.monotonic() - began > SLOW
        # Those who do not see a memory any more do not find it among the changes either.
        moved = [r.memory.id for r in records if late or _is_seen_by_others(old, r.memory)]
        noted = [*deleted, *moved]
        if noted:
            self._note(noted)
        return existed

    def changes(self, since: int, page: int = 0) -> Changes:
        """What has a clock higher than `since`: a page of it, because an answer with all rows of a
        large collection takes longer than a request may."""
        where: dict[str, Any] = {rows.CLOCK: {"$gt": since}}
        part: Any = {"offset": page * PAGE, "limit": PAGE, "include": ["metadatas"]}
        noted = self._notes.get(where=where, **part)
        found = self._chroma.get(where=self._shown(where), **part)
        clocks = [int(meta[rows.CLOCK]) for meta in (*noted["metadatas"], *found["metadatas"])]
        self._clock = max([self._clock, *clocks])
        revisions = {
            id: int(meta.get(rows.REVISION, 0))
            for id, meta in zip(found["ids"], found["metadatas"], strict=True)
        }
        more = PAGE in (len(noted["ids"]), len(found["ids"]))
        return Changes(revisions, frozenset(noted["ids"]), max([since, *clocks]), more)

    def clock(self) -> int:
        """The highest clock, also of memories that the user does not see."""
        self._clock = max(map(self._highest_clock, (self._chroma, self._notes)))
        return self._clock

    def row_count(self) -> int:
        """How many rows there are, without those of memories that the user does not see."""
        if self.visible is None:
            return super().row_count()
        return len(self._chroma.get(where=self.visible, include=[])["ids"])

    def fetch(self, ids: Sequence[str]) -> list[rows.Row]:
        """See `Collection.fetch`. Who may see a row is looked up first: a filter would take time
        for each memory on the server."""
        if self.visible is not None:
            found = self._metadatas(ids)
            ids = [id for id in ids if id in found and self.may_see(found[id])]
        return [row for row in super().fetch(ids) if self.may_see(row.meta)]

    def may_see(self, meta: Mapping[str, Any]) -> bool:
        return self._viewer.may_see(meta)

    def noted(self, ids: Sequence[str]) -> set[str]:
        """Those of `ids` that have a note."""
        return set(self._notes.get(ids=list(ids), include=[])["ids"]) if ids else set()

    def sweep_notes(self) -> None:
        """Delete old notes."""
        self._notes.delete(where={NOTED_AT: {"$lt": time.time() - KEEP_NOTES}})

    def _store(self, records: Sequence[Record], old: dict[str, dict[str, Any]]) -> None:
        new = rows.to_rows(records, self.identity.dimension)
        clock = self._next_clock()
        for id, meta in zip(new.ids, new.metadatas, strict=True):
            if rows.OF not in meta:
                meta[rows.CLOCK] = clock
            if rows.MOVED in old.get(id, {}):  # until it is deleted: see `private_and_shared`
                meta.setdefault(rows.MOVED, old[id][rows.MOVED])
        self._commit(lambda: self._send(new, set(old)), records)
        replaced = [record.memory.id for record in records if record.memory.id in old]
        left = self._metadatas(replaced)
        if gone := [id for id in replaced if id not in left]:
            self._drop_passages(gone, new)
            raise StoreConflict("Another daemon forgot this memory at the same moment.")

    def _send(self, new: rows.Rows, replaced: set[str]) -> None:
        """New rows first: a reader then finds all passages that a replaced row names. `replaced`:
        the memories that there were when this write was checked. One that has been forgotten since
        is not new."""
        old = self._metadatas(new.ids)
        surplus: list[str] = []
        fresh, known = rows.Rows(), rows.Rows()
        columns = zip(new.ids, new.documents, new.metadatas, new.vectors, strict=True)
        for id, document, meta, vector in columns:
            if id not in old and id not in replaced:
                fresh.add(id, document, meta, vector)
                continue
            if rows.OF not in meta:
                surplus += rows.row_ids(id, rows.row_count(old.get(id)))[rows.row_count(meta) :]
            known.add(id, document, meta | rows.stale_keys(old.get(id), meta), vector)
        self._send_batches(self._chroma.add, fresh)
        self._send_batches(self._chroma.update, known)
        if surplus:
            self.drop(surplus)

    def _drop_passages(self, ids: Iterable[str], new: rows.Rows) -> None:
        """Remove what was added for memories that no longer exist."""
        gone = set(ids)
        pairs = zip(new.ids, new.metadatas, strict=True)
        if passages := [id for id, meta in pairs if meta.get(rows.OF) in gone]:
            self.drop(passages)

    def _note(self, ids: Sequence[str]) -> None:
        """Tell the other daemons to look at these memories."""
        meta = {rows.CLOCK: self._next_clock(), NOTED_AT: time.time()}
        for start in range(0, len(ids), PAGE):
            part = list(dict.fromkeys(ids[start : start + PAGE]))
            vectors = np.asarray([NOTE_VECTOR] * len(part), dtype=np.float32)
            self._notes.upsert(ids=part, metadatas=[meta] * len(part), embeddings=vectors)

    def _get(self, **arguments: Any) -> dict[str, Any]:
        found: dict[str, Any] = patiently(self._chroma.get, **arguments)
        return found

    def _next_clock(self) -> int:
        self._clock = self.clock() + 1
        return self._clock

    def _highest_clock(self, chroma: Any) -> int:
        """The highest clock in a collection, or the highest that is known if there is none above
        it. Reads few rows, however many were written since."""
        low = self._clock
        while True:
            where = {rows.CLOCK: {"$gt": low}}
            found = chroma.get(where=where, limit=PAGE, include=["metadatas"])["metadatas"]
            low = max([low, *(int(meta[rows.CLOCK]) for meta in found)])
            if len(found) < PAGE:
                return low
            step = PAGE
            while chroma.get(where={rows.CLOCK: {"$gt": low + step}}, limit=1, include=[])["ids"]:
                low, step = low + step, 2 * step

    def _metadatas(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The metadata of those rows that exist, by id."""
        known: dict[str, dict[str, Any]] = {}
        for start in range(0, len(ids), PAGE):
            found = self._chroma.get(ids=list(ids[start : start + PAGE]), include=["metadatas"])
            pairs = zip(found["ids"], found["metadatas"], strict=True)
            known |= {id: dict(meta or {}) for id, meta in pairs}
        return known


def _seen_by(viewer: Viewer) -> dict[str, Any] | None:
    """A filter for the rows that a user sees; None for all. A row without an audience passes."""
    if viewer.sees_all_projects:
        return None
    cases: list[dict[str, Any]] = [{AUDIENCE: {"$ne": IN_PROJECT}}, {OWNER: viewer.owner}]
    if viewer.projects:
        cases.append({PROJECT: {"$in": list(viewer.projects)}})
    return {"$or": cases}


def _is_seen_by_others(old: dict[str, dict[str, Any]], memory: Memory) -> bool:
    """Whether other people see a memory than before."""
    before = old.get(memory.id)
    return before is not None and _viewers(before) != _viewers(memory.metadata)


def _viewers(meta: Mapping[str, Any]) -> tuple[object, ...]:
    return (meta.get(OWNER), meta.get(PROJECT)) if meta.get(AUDIENCE) == IN_PROJECT else ()


def _check_unchanged(records: Iterable[Record], old: dict[str, dict[str, Any]]) -> None:
    for record in records:
        present = int(old.get(record.memory.id, {}).get(rows.REVISION, 0))
        # Its own revision: a call that was sent again after the worker died had been done.
        if record.replaces is not None and present not in (record.replaces, record.revision):
            raise StoreConflict("Another daemon changed or forgot this memory at the same time.")
