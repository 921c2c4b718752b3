"""The tables of the index: what a write changes, and how they become a snapshot and come back.

All changes happen on the event loop, between awaits, so a reader sees all of a write or nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memoryd.engine.index.columns import Columns
from memoryd.engine.index.entries import Entries, Entry
from memoryd.engine.index.names import Names
from memoryd.engine.index.passages import RowTerms, row_terms, spans_of, terms_of
from memoryd.engine.index.relations import Relations
from memoryd.engine.index.sealing import Sealing, rounded_of
from memoryd.engine.index.slot_versions import SlotVersions
from memoryd.engine.index.speakers import Speakers
from memoryd.engine.index.turns import Turns
from memoryd.engine.index.vectors import VectorTable
from memoryd.engine.index.words import WordIndex
from memoryd.fields import SUPERSEDES, ids_of
from memoryd.model import Memory, who
from memoryd.ports import Record, Span

if TYPE_CHECKING:
    from memoryd.index_files import Arrays, Snapshot, Texts, VectorFile


class IndexTables:
    """Memories in numbered slots."""

    def __init__(self, dimension: int, *, keep_vectors: bool = True) -> None:
        self._columns = Columns()
        self._entries = Entries(self._place)
        self._vectors = VectorTable(dimension, keep=keep_vectors)
        self._spans = np.zeros((1024, 2), dtype=np.int32)  # by row
        self._words = WordIndex()
        self._turns = Turns(self._columns, self._id_in, self._session_in)
        self._speakers = Speakers()
        self.relations = Relations(self.get)
        self._pending: set[int] = set()  # slots of memories without a vector
        self._ids: dict[str, int] = {}
        self._by_slot: list[str] = []  # ids; "" in a free slot
        self._free: list[int] = []
        self._held: list[int] = []  # free, but used by the last snapshot
        self.names = Names()
        self.slot_versions: SlotVersions[Entry] = SlotVersions()

    def get(self, id: str) -> Memory | None:
        return self.in_slot(self._ids.get(id))

    def put(self, record: Record, terms: RowTerms | None = None) -> None:
        """Insert or replace a memory. `terms`: of its rows, if the caller has computed them."""
        memory, spans = record.memory, spans_of(record)
        terms = row_terms(record) if terms is None else terms
        self.remove(memory.id)
        slot = self._slot()
        self.slot_versions.touch(slot, None)
        rows = self._vectors.add([p.vector for p in record.passages] or [None], slot)
        for row, words in zip(rows, terms, strict=True):
            self._words.put(row, words)
        while rows[-1] >= len(self._spans):
            self._spans = np.concatenate([self._spans, np.zeros_like(self._spans)])
        self._spans[rows[0] : rows[-1] + 1] = spans
        self._entries.put(slot, Entry(memory, rows, spans, record.revision))
        if not record.passages:
            self._pending.add(slot)
        self._columns.set(slot, memory, rows, record.revision)
        self._by_slot[slot] = memory.id
        self._ids[memory.id] = slot
        self._turns.put(slot)
        self._speakers.put(slot, who(memory))
        self._relate(slot, memory)

    def _relate(self, slot: int, memory: Memory) -> None:
        self.names.put(slot, memory)
        self.relations.put(memory)
        self._settle_superseded(memory.id, *ids_of(memory, SUPERSEDES))

    @property
    def tables(self) -> tuple[VectorTable, WordIndex]:
        """The tables of vectors and words."""
        return self._vectors, self._words

    def remove(self, id: str) -> bool:
        """Remove a memory and everything derived from it; false if it was not there. One of the
        last snapshot need not be read for it."""
        slot = self._ids.pop(id, None)
        if slot is None:
            return False
        fresh, rows = self._entries.fresh(slot), self._columns.rows_of(slot)
        is_watched = self.slot_versions.is_watched
        self.slot_versions.touch(slot, self._entries.get(slot) if is_watched else None)
        terms = [[]] * len(rows) if fresh is None else terms_of(fresh.memory, fresh.spans)
        for row, words in zip(rows, terms, strict=True):
            self._words.remove(row, words)
        self._turns.remove(slot)
        self._speakers.remove(slot)
        self._vectors.remove(rows, hold=fresh is None)
        self._pending.discard(slot)
        self._columns.clear(slot, fresh.memory if fresh else None)
        self._entries.remove(slot)
        self._settle_superseded(*self.relations.remove(id))
        self.names.remove(slot)
        self._by_slot[slot] = ""
        (self._held if fresh is None else self._free).append(slot)
        return True

    def _settle_superseded(self, *ids: str) -> None:
        for id in ids:
            if (slot := self._ids.get(id)) is not None:
                self._columns.superseded(slot, self.relations.superseded_until(id))

    def in_slot(self, slot: int | None) -> Memory | None:
        """The memory in a slot; None if it is free."""
        if slot is None or not self._by_slot[slot]:
            return None
        entry = self._entries.get(slot)
        return None if entry is None else entry.memory

    def _slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._by_slot.append("")
        return len(self._by_slot) - 1

    def _place(self, slot: int) -> tuple[list[int], list[Span], int]:
        rows = self._columns.rows_of(slot)
        spans = [(start, end) for start, end in self._spans[rows].tolist()]
        return rows, spans, int(self._columns["revision"][slot])

    def _id_in(self, slot: int) -> str:
        return self._by_slot[slot]

    def _session_in(self, slot: int) -> str | None:
        memory = self.in_slot(slot)
        return None if memory is None else memory.session_id

    # Snapshots

    def seal(self) -> Sealing:
        """Begin a snapshot of what is here now."""
        self._vectors.round_new_rows()
        self._words.seal()
        self._columns.metadata.seal()
        self._entries.seal()
        slots, rows = len(self._by_slot), len(self._vectors)
        pending = np.zeros(slots, dtype=np.bool_)
        pending[list(self._pending)] = True
        held, self._held = self._held, []
        return Sealing(
            arrays={
                **self._columns.copies(slots),
                "speaker": self._speakers.codes(slots),
                "pending": pending,
                "owner": self._vectors.owners(),
                "length": self._words.lengths(rows),
                "span": self._spans[:rows].copy(),
            },
            columns=self._columns,
            vectors=self._vectors,
            words=self._words,
            entries=self._entries,
            held_slots=held,
            held_rows=self._vectors.hold(),
        )

    def adopt(self, sealing: Sealing, made: Snapshot, file: VectorFile | None) -> None:
        """Read from the finished snapshot what it has; use again what it does not have."""
        self._words.use(made.arrays)
        self._words.free([row for first, n in sealing.held_rows for row in range(first, first + n)])
        self._columns.metadata.use(made.arrays)
        self._entries.use(made.texts)
        if file is not None:
            self._vectors.use_file(file, sealing.has_row)
        self._vectors.release(sealing.held_rows)
        self._free += sealing.held_slots

    def give_up(self, sealing: Sealing) -> None:
        """The snapshot was not finished."""
        self._vectors.held_on(sealing.held_rows)
        self._held += sealing.held_slots

    def restore(
        self,
        arrays: Arrays,
        ids: list[str],
        stale: list[int],
        texts: Texts,
        file: VectorFile | None,
    ) -> None:
        """Fill the empty index from a snapshot. `ids`: by slot, "" in a free one. `stale`: slots
        that are free by now."""
        self._by_slot = ids
        self._ids = {id: slot for slot, id in enumerate(ids) if id}
        self._held = stale
        self._free = list({slot for slot, id in enumerate(ids) if not id}.difference(stale))
        self.slot_versions.restore(len(ids))
        self._columns.restore(arrays)
        self._entries.use(texts)
        self._pending = set(np.flatnonzero(arrays["pending"]).tolist())
        self._spans = np.concatenate([arrays["span"], np.zeros((1024, 2), dtype=np.int32)])
        self._vectors.restore(arrays["owner"], rounded_of(arrays), file)
        self._words.restore(arrays, arrays["length"])
        for slot in stale:
            rows = self._columns.rows_of(slot)
            for row in rows:
                self._words.remove(row)
            self._vectors.remove(rows, hold=True)
        self._turns.restore(len(arrays["owner"]), ids)
        self._speakers.restore(arrays["speaker"], self._speaker_in)
        self._columns["superseded"][:] = 0.0
        related = np.flatnonzero((arrays["named"] | arrays["related"]) & (arrays["type"] != 0))
        for slot in related[np.argsort(arrays["created"][related], kind="stable")].tolist():
            if (memory := self.in_slot(slot)) is not None:
                self._relate(slot, memory)

    def _speaker_in(self, slot: int) -> str:
        memory = self.in_slot(slot)
        return "" if memory is None else who(memory)
