"""The index in RAM: every memory with its filter columns, vectors and words. It is derived from
the store and can be rebuilt.

All changes happen on the event loop, between awaits, so a reader sees all of a write or nothing.
A search takes a `View` on the event loop and does the arithmetic on a thread; if a slot of its
result was freed or reused meanwhile, it starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from memoryd.audience import address_rank
from memoryd.engine.filters import Filter, OneOf
from memoryd.engine.index.columns import CensusColumns, Mask
from memoryd.engine.index.entries import Entries, EntriesView, Entry
from memoryd.engine.index.metadata_index import Values
from memoryd.engine.index.selection import Selection
from memoryd.engine.index.tables import IndexTables
from memoryd.engine.index.view import Layout, View
from memoryd.fair import paced
from memoryd.fields import seq_of
from memoryd.metadata import value_key
from memoryd.model import Memory, MemoryType
from memoryd.ports import Passage, Record

READ_AT_ONCE = 10  # memories that a sweep reads in a row: about half a millisecond
READ_PAUSE = 0.002  # seconds after them. A search gives the interpreter lock up at every read of a
# file; beside a sweep that pauses less it waits for it each time, and takes 20 times as long.


class Index(IndexTables):
    """Memories in numbered slots; look-up by id, name and fact; views for searches."""

    def __init__(
        self, dimension: int, *, keep_vectors: bool = True, exact_limit: int = 250_000
    ) -> None:
        super().__init__(dimension, keep_vectors=keep_vectors)
        self._exact_limit = exact_limit  # rows up to which a search is exact
        self._layout: Layout | None = None

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Memory]:
        """Reads every memory: use `ids` where that is enough."""
        found = (self.in_slot(slot) for slot in list(self._ids.values()))
        return (memory for memory in found if memory is not None)

    def __contains__(self, id: object) -> bool:
        return id in self._ids

    def ids(self) -> list[str]:
        """The ids of all memories."""
        return list(self._ids)

    def ids_in(self, slots: Iterable[int]) -> list[str]:
        """The ids of the memories in these slots."""
        return [id for slot in slots if (id := self._by_slot[slot])]

    def ids_having(self, key: str, value: str) -> list[str]:
        """The ids of the memories with this value in their metadata."""
        having = self._columns.having(OneOf(key, frozenset({value_key(value)})))
        return self.ids_in(np.flatnonzero(having[: len(self._by_slot)]).tolist())

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
    def has_vectors(self) -> bool:
        """Whether it has the vectors; with a Chroma server only that has them."""
        return self._vectors.keep

    @property
    def is_exact(self) -> bool:
        """Whether a search compares every vector that could be among the best exactly."""
        return self._vectors.keep and len(self._vectors) <= self._exact_limit

    @property
    def search_way(self) -> str:
        """How a search finds what means the same: by exact vectors, by rounded ones with the best
        compared exactly, or by asking the Chroma server."""
        if not self.has_vectors:
            return "server"
        return "exact" if self.is_exact else "rounded"

    def revision(self, id: str) -> int | None:
        """The number of the last write of a memory; None if there is none."""
        slot = self._ids.get(id)
        return None if slot is None else int(self._columns["revision"][slot])

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
        found = self._memories(self._columns.matching_facts(content, session_id))
        return [fact for fact in found if fact.content.strip() == content.strip()]

    def record(self, id: str) -> Record | None:
        """The memory with its vectors, as stored; None if unknown, or if the vectors cannot be
        read here."""
        slot = self._ids.get(id)
        entry = None if slot is None else self._entries.get(slot)
        if slot is None or entry is None or not self._vectors.keep:
            return None
        if slot in self._pending:
            return Record(entry.memory, revision=entry.revision)
        try:
            vectors = list(self._vectors.rows(np.array(entry.rows, dtype=np.int64)))
        except OSError:
            return None
        self._vectors.round_new_rows()
        if not all(map(self._vectors.agrees, entry.rows, vectors)):
            return None
        passages = tuple(Passage(s, v) for s, v in zip(entry.spans, vectors, strict=True))
        return Record(entry.memory, passages, entry.revision)

    def unsaved_ids(self) -> list[str]:
        """The ids of the memories that were written since the last snapshot."""
        return self.ids_in(self._entries.unsaved())

    def revisions(self) -> NDArray[np.int64]:
        """The numbers of the last writes of all memories, in no particular order."""
        found: NDArray[np.int64] = self._columns["revision"][self._columns["type"] != 0]
        return found

    def census(self, now: float) -> tuple[dict[MemoryType, int], float | None]:
        """How many memories of each type are alive, and when the next of them expires."""
        return self._columns.census(now)

    def for_census(self, keys: Iterable[str]) -> tuple[CensusColumns, dict[str, Values]]:
        """What counting all memories on a thread needs: columns by slot, and the values of these
        metadata keys."""
        values = {key: self._values(key) for key in keys}
        return self._columns.for_census(len(self._by_slot)), values

    def created(self) -> NDArray[np.float64]:
        """When each memory was created, in no particular order."""
        created: NDArray[np.float64] = self._columns["created"][self._columns["type"] != 0]
        return created

    def handles(self, now: float) -> tuple[list[tuple[float, str]], list[str]]:
        """The time of creation and the id of each memory that is alive, and the names of those that
        have one."""
        slots = np.flatnonzero(self.allowed(Filter(), now))
        created = self._columns["created"][slots].tolist()
        ids = zip(created, self.ids_in(slots.tolist()), strict=True)
        return list(ids), self.names.names_of(set(slots.tolist()))

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

    def last_alive(self, now: float) -> Iterator[tuple[str, float]]:
        """Every session with a message that has not expired, and the time of the last such one."""
        return self._turns.last_alive(now)

    def sessions(self) -> set[str]:
        """Every session with a message."""
        return self._turns.sessions()

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
            self._layout,
            allowed,
            meant,
            words,
            self._vectors,
            numbered,
            in_time,
            asks_time_only,
            self.is_exact,
        )

    def allowed(self, filter: Filter, now: float) -> Mask:
        """By slot, which memories are alive and match the filter, except for its `others`."""
        allowed = self._columns.allowed(filter, now)[: len(self._by_slot)]
        allowed[[self._ids[id] for id in filter.without if id in self._ids]] = False
        return allowed

    def selection(self, filter: Filter, now: float) -> Selection:
        """The memories that are alive and match the filter; `Selection.mask` says which."""
        size = len(self._by_slot)
        posted = {one: self._columns.having(one)[:size] for one in filter.where.posted()}
        values = {key: self._values(key) for key in filter.where.tested()}
        allowed = self.allowed(filter, now)
        times = (self._columns[name][:size].copy() for name in ("created", "expires"))
        return Selection(self.entries(), allowed, filter.where.others, posted, values, *times)

    def _values(self, key: str) -> Values:
        return self._columns.metadata.values(key, self._read_in_slot(self._entries.copy()))

    @staticmethod
    def _read_in_slot(entries: Entries) -> Callable[[int], Memory | None]:
        def read(slot: int) -> Memory | None:
            entry = entries.get(slot)
            return None if entry is None else entry.memory

        return read

    def _make_layout(self) -> Layout:
        self._vectors.round_new_rows()
        slots = len(self._by_slot)
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

    def entries(self) -> EntriesView:
        """The entries of this moment, by slot."""
        is_used = self._columns["type"][: len(self._by_slot)] != 0
        return EntriesView(self._entries.copy(), is_used)

    def memories(self) -> Iterator[Memory]:
        """The memories of this moment, for a thread. With pauses, because reading many from the
        snapshot keeps the interpreter busy."""
        found = (entry.memory for entry in self.entries() if entry is not None)
        return paced(found, READ_AT_ONCE, READ_PAUSE)

    def as_seen(self, slot: int, view: View) -> tuple[Entry | None, bool]:
        """The entry that the view saw in a slot, and whether it is unchanged. None: the memory was
        removed, or the old entry is no longer kept."""
        version = int(view.layout.slot_versions[slot])
        if self.slot_versions.is_current(slot, version):
            return (self._entries.get(slot) if self._by_slot[slot] else None), True
        replaced = self.slot_versions.replaced(slot, version)
        return (replaced if replaced and replaced.memory.id in self._ids else None), False

    def vector_bytes(self, id: str) -> int:
        """Bytes of the vectors of a memory."""
        slot = self._ids.get(id)
        count = 0 if slot is None else int(self._columns["rows"][slot])
        return 4 * self._vectors.dimension * count

    def slot(self, id: str) -> int | None:
        """The slot of a memory; None if there is none."""
        return self._ids.get(id)

    def _memories(self, slots: Iterable[int]) -> list[Memory]:
        return [memory for slot in slots if (memory := self.in_slot(slot))]
