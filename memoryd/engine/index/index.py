"""The index in RAM: every memory with its filter columns, vectors and words. It is derived from
the store and can be rebuilt.

All changes happen on the event loop, between awaits, so a reader sees all of a write or nothing.
A search takes a `View` on the event loop and does the arithmetic on a thread; if a slot of its
result was freed or reused meanwhile, it starts again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from memoryd.audience import address_rank
from memoryd.engine.filters import MISSING, Condition, Field, Filter, OneOf, combined
from memoryd.engine.index.columns import CensusColumns, Columns, Mask
from memoryd.engine.index.names import Names
from memoryd.engine.index.passages import RowTerms, row_terms, spans_of, terms_of
from memoryd.engine.index.relations import Relations
from memoryd.engine.index.slot_versions import SlotVersions
from memoryd.engine.index.turns import Speakers, Turns
from memoryd.engine.index.vectors import VectorTable
from memoryd.engine.index.view import Layout, View
from memoryd.engine.index.words import WordIndex
from memoryd.fields import SUPERSEDES, ids_of, seq_of
from memoryd.model import Memory, MemoryType, who
from memoryd.ports import Passage, Record, Span

Tally = dict[Hashable, int]  # by `value_key`, how many slots have the value


@dataclass(slots=True)
class Entry:
    """A memory with its rows: one per passage, or one for all of it without vectors."""

    memory: Memory
    rows: list[int]
    spans: list[Span]
    revision: int


class Index:
    """Memories in numbered slots; look-up by id, name and fact; views for searches."""

    def __init__(self, dimension: int, *, exact_limit: int = 250_000) -> None:
        self._entries: list[Entry | None] = []
        self._free: list[int] = []
        self._columns = Columns()
        self._exact_limit = exact_limit  # rows whose vectors are kept in RAM
        self._vectors = VectorTable(dimension, keep=exact_limit > 0)
        self._words = WordIndex()
        self._turns = Turns()
        self._speakers = Speakers()
        self.relations = Relations(self.get)
        self._pending: set[int] = set()  # slots of memories without a vector
        self._ids: dict[str, int] = {}
        self.names = Names()
        self._facts: dict[bytes, set[int]] = {}
        self.slot_versions: SlotVersions[Entry] = SlotVersions()
        self._layout: Layout | None = None

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Memory]:
        return (entry.memory for entry in self._entries if entry is not None)

    @property
    def changes(self) -> int:
        """How many times a memory was added or removed."""
        return self.slot_versions.changes

    @property
    def pending(self) -> int:
        """How many memories have no vector."""
        return len(self._pending)

    def pending_ids(self) -> list[str]:
        return [memory.id for slot in self._pending if (memory := self.in_slot(slot))]

    def pending_slots(self) -> set[int]:
        """A copy."""
        return self._pending.copy()

    def is_pending(self, id: str) -> bool:
        """Whether the memory is there and has no vector."""
        return self._ids.get(id) in self._pending

    @property
    def exact(self) -> bool:
        """Whether every vector is in RAM."""
        return self._vectors.keep

    def get(self, id: str) -> Memory | None:
        return self.in_slot(self._ids.get(id))

    def revision(self, id: str) -> int | None:
        """The number of the last write of a memory; None if there is none."""
        slot = self._ids.get(id)
        entry = None if slot is None else self._entries[slot]
        return None if entry is None else entry.revision

    def named(self, name: str) -> Memory | None:
        """The note with this name or alias, else the newest memory with exactly this name."""
        return next(iter(self.all_named(name)), None)

    def all_named(self, name: str) -> list[Memory]:
        """The same, and others: one that has expired, one whose replacement was interrupted, or
        one with another audience. Of those, the smallest audience comes first."""
        return sorted(self._memories(self.names.of(name)), key=address_rank)

    def named_alike(self, name: str) -> list[Memory]:
        """All memories whose name, or whose alias, differs from this name at most in case and
        accents."""
        return self._memories(self.names.alike(name))

    def notes(self) -> list[Memory]:
        """All notes, in the order in which they were added."""
        return sorted(self._memories(self.names.notes()), key=lambda note: (seq_of(note), note.id))

    def facts(self, content: str, session_id: str | None) -> list[Memory]:
        """The facts with exactly this content in this session; they may differ in name."""
        return self._memories(sorted(self._facts.get(fact_key(content, session_id), ())))

    def record(self, id: str) -> Record | None:
        """The memory with its vectors, as stored; None if unknown, or if vectors are not in RAM."""
        slot = self._ids.get(id)
        entry = None if slot is None else self._entries[slot]
        if slot is None or entry is None or not self._vectors.keep:
            return None
        if slot in self._pending:
            return Record(entry.memory, revision=entry.revision)
        vectors = [self._vectors.get(row) for row in entry.rows]
        passages = tuple(Passage(s, v) for s, v in zip(entry.spans, vectors, strict=True))
        return Record(entry.memory, passages, entry.revision)

    def census(self, now: float) -> tuple[dict[MemoryType, int], float | None]:
        """How many memories of each type are alive, and when the next of them expires."""
        return self._columns.census(now)

    def for_census(self, keys: Iterable[str]) -> tuple[CensusColumns, dict[str, Tally]]:
        """What counting all memories on a thread needs: columns by slot, and for each of these
        metadata keys how many slots have each value."""
        tallies = {key: self._columns.tally(key) for key in keys}
        return self._columns.for_census(len(self._entries)), tallies

    def of_session(self, session_id: str, type: MemoryType) -> list[Memory]:
        """The memories of a session, in no particular order."""
        return self._memories(self._columns.of_session(session_id, type))

    def around(self, id: str, before: int, after: int) -> list[Memory]:
        """A memory with those before and after it in its session, in order."""
        slot = self._ids.get(id)
        return [] if slot is None else self._memories(self._turns.around(slot, before, after))

    def session_records(self) -> list[Memory]:
        """The records of all sessions that have one."""
        return self._memories(self._columns.records())

    def first_said(self, session_id: str) -> float | None:
        """The time of the first message of a session; None if it has none."""
        return self._turns.first_said(session_id)

    def last_said(self) -> Iterator[tuple[str, float]]:
        """Every session with a message, and the time of the last one."""
        return self._turns.last_said()

    def sessions(self) -> set[str]:
        """Every session with a message."""
        return self._turns.sessions()

    def put(self, record: Record, terms: RowTerms | None = None) -> None:
        """Insert or replace a memory. `terms`: of its rows, if the caller has computed them."""
        memory = record.memory
        terms = row_terms(record) if terms is None else terms
        self.remove(memory.id)
        slot = self._slot()
        if len(self._vectors) >= self._exact_limit:
            self._vectors.drop_vectors()  # from here on candidates come from the store
        rows = self._vectors.add([p.vector for p in record.passages] or [None], slot)
        for row, words in zip(rows, terms, strict=True):
            self._words.put(row, words)
        entry = Entry(memory, rows, spans_of(record), record.revision)
        self._enter(slot, entry, pending=not record.passages)

    def restore(self, entries: Sequence[Entry], pending: Sequence[bool]) -> Iterator[int]:
        """Add memories whose rows are restored already; yields after each, for pauses."""
        for slot, (entry, waits) in enumerate(zip(entries, pending, strict=True)):
            self._entries.append(None)
            self._enter(slot, entry, pending=waits)
            yield slot

    @property
    def tables(self) -> tuple[VectorTable, WordIndex]:
        """The tables of vectors and words, for commits and snapshots."""
        return self._vectors, self._words

    def _enter(self, slot: int, entry: Entry, *, pending: bool) -> None:
        memory, rows = entry.memory, entry.rows
        self.slot_versions.touch(slot, self._entries[slot])
        self._entries[slot] = entry
        if pending:
            self._pending.add(slot)
        self._columns.set(slot, memory, rows)
        self._turns.put(slot, memory, rows)
        self._speakers.put(slot, who(memory))
        self._ids[memory.id] = slot
        self.names.put(slot, memory)
        self.relations.put(memory)
        self._settle_superseded(memory.id, *ids_of(memory, SUPERSEDES))
        if memory.type is MemoryType.FACT:
            self._facts.setdefault(fact_key(memory.content, memory.session_id), set()).add(slot)

    def remove(self, id: str) -> bool:
        """Remove a memory and everything derived from it; false if it was not there."""
        slot = self._ids.pop(id, None)
        entry = self._entries[slot] if slot is not None else None
        if slot is None or entry is None:
            return False
        memory = entry.memory
        self.slot_versions.touch(slot, entry)
        for row, words in zip(entry.rows, terms_of(memory, entry.spans), strict=True):
            self._words.remove(row, words)
        self._turns.remove(slot, memory)
        self._speakers.remove(slot, who(memory))
        self._vectors.remove(entry.rows)
        self._pending.discard(slot)
        self._columns.clear(slot, memory)
        self.relations.remove(memory)
        self._settle_superseded(*ids_of(memory, SUPERSEDES))
        self.names.remove(slot, memory)
        key = fact_key(memory.content, memory.session_id)
        self._facts.get(key, set()).discard(slot)
        if not self._facts.get(key, True):
            del self._facts[key]
        self._entries[slot] = None
        self._free.append(slot)
        return True

    def _settle_superseded(self, *ids: str) -> None:
        for id in ids:
            if (slot := self._ids.get(id)) is not None:
                self._columns.superseded(slot, self.relations.superseded_until(id))

    def view(
        self,
        query: Sequence[int],
        filter: Filter,
        now: float,
        quiet: float,
        numbers: Iterable[int] = (),
        times: Sequence[tuple[float, float]] = (),
        asks_time_only: bool = False,
    ) -> View:
        """A view of the index for a search with these terms. `numbers`: terms with digits.
        `times`: the spans of time that the query names. Its `allowed` does not know the `others`
        of the filter; see `selection`."""
        if self._layout is None or self._layout.version != self.changes:
            self._layout = self._make_layout()
        expired = self._layout.rows_of(self._columns.expired(now))
        words = self._words.look_up(
            query, *self._layout.row_neighbours, quiet, self.changes, expired
        )
        allowed = self.allowed(filter, now)
        meant = self._speakers.meant(query)
        in_time = self._columns.created_within(times)[: len(allowed)] & allowed if times else None
        numbered = self._words.has_rare(numbers)
        return View(
            self._layout, allowed, meant, words, self._vectors, numbered, in_time, asks_time_only
        )

    def allowed(self, filter: Filter, now: float) -> Mask:
        """By slot, which memories are alive and match the filter, except for its `others`."""
        allowed = self._columns.allowed(filter, now)[: len(self._entries)]
        allowed[[self._ids[id] for id in filter.without if id in self._ids]] = False
        return allowed

    def selection(self, filter: Filter, now: float) -> Selection:
        """The memories that are alive and match the filter; `Selection.mask` says which."""
        size = len(self._entries)
        posted = {one: self._columns.having(one)[:size] for one in filter.where.posted()}
        return Selection(self.entries(), self.allowed(filter, now), filter.where.others, posted)

    def _make_layout(self) -> Layout:
        self._vectors.round_new_rows()
        slots = len(self._entries)
        before, after = self._turns.of_slots(slots)
        return Layout(
            version=self.changes,
            slot_versions=self.slot_versions.first(slots),
            owners=self._vectors.owners(),
            **self._columns.copied(slots)._asdict(),
            before=before,
            after=after,
            row_neighbours=self._turns.of_rows(len(self._vectors)),
            speakers=self._speakers.codes(slots),
        )

    def entries(self) -> list[Entry | None]:
        """A copy of the entries, by slot."""
        return self._entries.copy()

    def as_seen(self, slot: int, view: View) -> tuple[Entry | None, bool]:
        """The entry that the view saw in a slot, and whether it is unchanged. None: the memory was
        removed, or the old entry is no longer kept."""
        version = int(view.layout.slot_versions[slot])
        if self.slot_versions.is_current(slot, version):
            return self._entries[slot], True
        replaced = self.slot_versions.replaced(slot, version)
        return (replaced if replaced and replaced.memory.id in self._ids else None), False

    def vector_bytes(self, id: str) -> int:
        """Bytes of the vectors of a memory."""
        slot = self._ids.get(id)
        entry = None if slot is None else self._entries[slot]
        return 0 if entry is None else 4 * self._vectors.dimension * len(entry.rows)

    def slot(self, id: str) -> int | None:
        """The slot of a memory; None if there is none."""
        return self._ids.get(id)

    def _memories(self, slots: Iterable[int]) -> list[Memory]:
        return [memory for slot in slots if (memory := self.in_slot(slot))]

    def in_slot(self, slot: int | None) -> Memory | None:
        """The memory in a slot; None if it is free."""
        entry = None if slot is None else self._entries[slot]
        return None if entry is None else entry.memory

    def _slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._entries.append(None)
        return len(self._entries) - 1


def fact_key(content: str, session_id: str | None) -> bytes:
    """A key that is equal for identical facts."""
    return blake2b(f"{session_id or ''}\0{content.strip()}".encode(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Selection:
    """What a filter needs of the index, all of one moment; by slot."""

    entries: Sequence[Entry | None]
    allowed: Mask
    others: Sequence[Condition]
    posted: Mapping[OneOf, Mask]

    def mask(self) -> Mask:
        """What matches. It may look at every memory, so run it on a thread."""
        found = self.allowed.copy()
        for condition in self.others:
            found &= combined(condition, self._leaf)
        return found

    def _leaf(self, leaf: OneOf | Field) -> Mask:
        if isinstance(leaf, OneOf):
            return self.posted[leaf]
        key, holds, found = leaf.key, leaf.holds, np.zeros_like(self.allowed)
        matching = [
            slot
            for slot in np.flatnonzero(self.allowed).tolist()
            if (entry := self.entries[slot])
            and (value := entry.memory.metadata.get(key, MISSING)) is not MISSING
            and holds(value)
        ]
        found[matching] = True
        return found
