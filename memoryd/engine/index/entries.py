"""The memories of the index, by slot: those of the last snapshot are read from its file, those that
were written since are in RAM.

A search reads the texts of its results only, so that texts need no RAM. A few that were read last
are kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from memoryd.errors import StoreError
from memoryd.model import Memory, MemoryType
from memoryd.ports import Span

if TYPE_CHECKING:
    from memoryd.index_files import Texts

MAX_KEPT = 1_024  # entries of the snapshot that are kept in RAM
FIELDS = tuple(field.name for field in fields(Memory) if field.name != "id")


@dataclass(slots=True)
class Entry:
    """A memory with its rows: one per passage, or one for all of it without vectors."""

    memory: Memory
    rows: list[int]
    spans: list[Span]
    revision: int


Place = Callable[[int], tuple[list[int], list[Span], int]]  # rows, spans and revision of a slot


class Entries:
    """By slot, what it holds. Only the event loop changes it; any thread may read."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._fresh: dict[int, Entry] = {}
        self._sealed: tuple[dict[int, Entry] | Texts, ...] = ()
        self._kept: dict[int, Entry] = {}

    def put(self, slot: int, entry: Entry) -> None:
        self._fresh[slot] = entry

    def fresh(self, slot: int) -> Entry | None:
        """The entry of a slot that was written since the last snapshot began; None: a sealed part
        has it."""
        return self._fresh.get(slot)

    def remove(self, slot: int) -> None:
        self._fresh.pop(slot, None)
        self._kept.pop(slot, None)

    def get(self, slot: int) -> Entry | None:
        """What a used slot holds; None if its text was erased. Raises StoreError if it cannot be
        read."""
        found = self._fresh.get(slot) or self._kept.get(slot)
        if found is not None:
            return found
        for part in reversed(self._sealed):
            if not isinstance(part, dict):
                return self._read(slot, part)
            if slot in part:
                return part[slot]
        return None

    def _read(self, slot: int, texts: Texts) -> Entry | None:
        if slot >= len(texts):
            return None
        kept = self._kept  # of this snapshot: `use` makes another one
        memory = memory_of(_text(texts, slot))
        if memory is None:
            return None
        rows, spans, revision = self._place(slot)
        entry = Entry(memory, rows, spans, revision)
        if len(kept) >= MAX_KEPT:
            kept.clear()
        kept[slot] = entry
        return entry

    def unsaved(self) -> set[int]:
        """The slots that were written since the last snapshot, some of which may be free."""
        sealed = (part for part in self._sealed if isinstance(part, dict))
        return {slot for part in (*sealed, self._fresh) for slot in part}

    def seal(self) -> None:
        """Begin a snapshot: what is written from now on is not in it."""
        if self._fresh:
            self._sealed = (*self._sealed, self._fresh)
            self._fresh, self._kept = {}, {}

    def use(self, texts: Texts) -> None:
        """Read from these texts, by slot, what all sealed parts had."""
        self._sealed, self._kept = (texts,), {}

    def copy(self) -> Entries:
        """What it holds now, for a thread."""
        made = Entries(self._place)
        made._fresh, made._sealed = self._fresh.copy(), self._sealed
        return made

    def packed(self, start: int, wanted: Sequence[bool]) -> list[bytes]:
        """The texts of the slots from `start` on for a snapshot, empty for those that are not
        wanted. Runs on a thread. Raises OSError."""
        end = start + len(wanted)
        base = next((part for part in self._sealed if not isinstance(part, dict)), None)
        old = base.read_range(start, min(end, len(base))) if base and start < len(base) else []
        newer = [part for part in reversed(self._sealed) if isinstance(part, dict)]
        found = [*old, *[b""] * (len(wanted) - len(old))]
        for at, is_wanted in enumerate(wanted):
            entry = next((part[start + at] for part in newer if start + at in part), None)
            if not is_wanted:
                found[at] = b""
            elif entry is not None:
                found[at] = text_of(entry.memory)
        return found


class EntriesView(Sequence[Entry | None]):
    """The entries of one moment, for a thread; None in a free slot, or if it was forgotten since
    then."""

    def __init__(self, entries: Entries, is_used: NDArray[np.bool_]) -> None:
        self._entries, self._is_used = entries, is_used

    def __len__(self) -> int:
        return len(self._is_used)

    @overload
    def __getitem__(self, slot: int) -> Entry | None: ...
    @overload
    def __getitem__(self, slot: slice) -> list[Entry | None]: ...
    def __getitem__(self, slot: int | slice) -> Entry | list[Entry | None] | None:
        if isinstance(slot, slice):
            return [self[one] for one in range(*slot.indices(len(self)))]
        return self._entries.get(slot) if self._is_used[slot] else None


def text_of(memory: Memory) -> bytes:
    """A memory as a text: its id, and everything else on the second line."""
    rest = json.dumps({name: getattr(memory, name) for name in FIELDS})
    return f"{memory.id}\n{rest}".encode()


def memory_of(text: bytes) -> Memory | None:
    """The memory of a text; None if it was erased."""
    if not text:
        return None
    id, _, rest = text.partition(b"\n")
    found = json.loads(rest)
    found["type"] = MemoryType(found["type"])
    return Memory(id.decode(), **found)


def _text(texts: Texts, slot: int) -> bytes:
    try:
        return texts.read(slot)
    except OSError as exc:
        raise StoreError(
            "The index cannot read a memory from its file: the disk may be damaged.",
            code="index_unreadable",
            hint="Restart the daemon: it then reads all memories from the store.",
        ) from exc
