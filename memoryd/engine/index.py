"""The index in RAM: every memory, its filter columns and its vectors. Derived, never the truth.

All changes happen on the event loop, between awaits, so a reader sees a write whole or not at
all. A search takes its snapshot on the loop and does the arithmetic on a thread; if a slot of
its result was freed or reused meanwhile, it starts again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

import anyio.to_thread
import numpy as np

from memoryd.engine.columns import Columns
from memoryd.engine.lexical import by_words
from memoryd.engine.vectors import Best, Floats, VectorTable
from memoryd.model import Filter, Hit, Memory, MemoryType
from memoryd.ports import Passage, Record, Span

TRIES = 4  # searches that writes overtook, before the answer is taken as it is


@dataclass(slots=True)
class _Entry:
    memory: Memory
    rows: list[int]  # rows in the vector table, one a passage
    spans: list[Span]


class Index:
    """Slots of memories; look-ups by id, name and fact; exact search."""

    def __init__(self, dimension: int) -> None:
        self._entries: list[_Entry | None] = []
        self._free: list[int] = []
        self._columns = Columns()
        self._vectors = VectorTable(dimension)
        self._pending: set[int] = set()  # slots of memories without a vector
        self._ids: dict[str, int] = {}
        self._names: dict[str, int] = {}
        self._facts: dict[bytes, set[int]] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Memory]:
        return (entry.memory for entry in self._entries if entry is not None)

    @property
    def pending(self) -> int:
        """How many memories have no vector."""
        return len(self._pending)

    def pending_ids(self) -> list[str]:
        return [memory.id for slot in self._pending if (memory := self._memory(slot))]

    def get(self, id: str) -> Memory | None:
        return self._memory(self._ids.get(id))

    def named(self, name: str) -> Memory | None:
        return self._memory(self._names.get(name))

    def facts(self, content: str, session_id: str | None) -> list[Memory]:
        """The facts with exactly this content in this session; names may tell them apart."""
        slots = sorted(self._facts.get(fact_key(content, session_id), ()))
        return [memory for slot in slots if (memory := self._memory(slot))]

    def record(self, id: str) -> Record | None:
        """The memory with its vectors, as the store has it."""
        slot = self._ids.get(id)
        entry = None if slot is None else self._entries[slot]
        if entry is None:
            return None
        vectors = [self._vectors.get(row) for row in entry.rows]
        passages = zip(entry.spans, vectors, strict=True)
        return Record(entry.memory, tuple(Passage(span, vector) for span, vector in passages))

    def census(self, now: float) -> tuple[dict[MemoryType, int], float | None]:
        """How many memories of each type are alive, and when the next of them expires."""
        return self._columns.census(now)

    def of_session(self, session_id: str, type: MemoryType) -> list[Memory]:
        """The memories of a session, in no particular order."""
        slots = self._columns.of_session(session_id, type)
        return [memory for slot in slots if (memory := self._memory(slot))]

    def put(self, record: Record) -> None:
        """Insert or replace a memory."""
        memory = record.memory
        self.remove(memory.id)
        slot = self._slot()
        rows = self._vectors.add([p.vector for p in record.passages], slot)
        self._entries[slot] = _Entry(memory, rows, [p.span for p in record.passages])
        if not rows:
            self._pending.add(slot)
        self._columns.set(slot, memory)
        self._ids[memory.id] = slot
        if memory.name is not None:
            self._names[memory.name] = slot
        if memory.type is MemoryType.FACT:
            self._facts.setdefault(fact_key(memory.content, memory.session_id), set()).add(slot)

    def remove(self, id: str) -> bool:
        """Drop a memory and everything derived from it; false if it was not there."""
        slot = self._ids.pop(id, None)
        entry = self._entries[slot] if slot is not None else None
        if slot is None or entry is None:
            return False
        memory = entry.memory
        self._vectors.remove(entry.rows)
        self._pending.discard(slot)
        self._columns.clear(slot, memory)
        if memory.name is not None and self._names.get(memory.name) == slot:
            del self._names[memory.name]
        key = fact_key(memory.content, memory.session_id)
        if twins := self._facts.get(key):
            twins.discard(slot)
            if not twins:
                del self._facts[key]
        self._entries[slot] = None
        self._free.append(slot)
        return True

    async def search(
        self, query: Floats, filter: Filter, now: float, limit: int, min_score: float
    ) -> list[Hit]:
        """The best memories by cosine, exactly; one hit a memory, with its best passage."""
        for _ in range(TRIES):
            allowed = self._columns.allowed(filter, now)
            owners, entries = self._vectors.owners(), self._entries.copy()
            scan = self._vectors.best
            best = await anyio.to_thread.run_sync(scan, query, owners, allowed, limit, min_score)
            if all(self._entries[found.slot] is entries[found.slot] for found in best):
                break
        # Overtaken every time: what was changed is shown as it was, what was forgotten is not.
        seen = [(found, entries[found.slot]) for found in best]
        return [_hit(e, found) for found, e in seen if e is not None and e.memory.id in self._ids]

    async def search_words(
        self, query: str, filter: Filter, now: float, limit: int, min_score: float, *, all: bool
    ) -> list[Hit]:
        """The best memories by words: of all, or of those that have no vector."""
        allowed = self._columns.allowed(filter, now)
        slots = (
            np.flatnonzero(allowed).tolist() if all else [s for s in self._pending if allowed[s]]
        )
        memories = {slot: memory for slot in slots if (memory := self._memory(slot))}
        texts = [(slot, memory.content) for slot, memory in memories.items()]
        best = await anyio.to_thread.run_sync(by_words, query, texts, limit, min_score)
        found = [(memories[slot], score) for slot, score in best]
        return [Hit(memory.copy(), score) for memory, score in found if memory.id in self._ids]

    def _memory(self, slot: int | None) -> Memory | None:
        entry = None if slot is None else self._entries[slot]
        return None if entry is None else entry.memory

    def _slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._entries.append(None)
        return len(self._entries) - 1


def _hit(entry: _Entry, found: Best) -> Hit:
    start, end = entry.spans[entry.rows.index(found.row)]
    part = entry.memory.content[start:end] if len(entry.rows) > 1 else None
    return Hit(entry.memory.copy(), found.score, part)


def fact_key(content: str, session_id: str | None) -> bytes:
    """Equal for facts that are one memory."""
    return blake2b(f"{session_id or ''}\0{content.strip()}".encode(), digest_size=16).digest()
