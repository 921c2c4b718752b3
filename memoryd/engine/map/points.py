"""The points of the map: by slot of the index, and as the bytes that a page draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.filters import Filter
from memoryd.engine.index.columns import Mask
from memoryd.engine.index.entries import Entry
from memoryd.engine.index.index import Index
from memoryd.engine.index.vectors import FREE, Owners, VectorTable
from memoryd.engine.map.labels import NO_GROUP, Label
from memoryd.engine.map.layout import CHUNK, Floats
from memoryd.fair import paced
from memoryd.fields import kind_of, project_of
from memoryd.model import MemoryType

MAGIC = b"MAP1"
FULL = 65_535  # the largest coordinate
MARGIN = 0.04  # of the width, on each side: room for points that come later
MAX_CODE = 65_535
BURST = 100  # memories, after which other threads get their turn
TYPES = tuple(MemoryType)
SHOWN = Filter(hides_records=True)
Slots = NDArray[np.intp]
Take = Callable[[Slots], Floats]  # the vectors of slots


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the map needs of the index, all of one moment; by slot."""

    index: Index
    changes: int
    entries: Sequence[Entry | None]
    versions: NDArray[np.int32]
    drawn: Mask  # alive, and with a vector
    left_out: int  # alive, without a vector
    owners: Owners
    table: VectorTable

    @classmethod
    def of(cls, index: Index, now: float) -> Snapshot:
        """Call it on the event loop."""
        entries, alive = index.entries(), index.allowed(SHOWN, now)
        pending = np.zeros_like(alive)
        pending[list(index.pending_slots())] = True
        table = index.tables[0]
        table.round_new_rows()
        return cls(
            index,
            index.changes,
            entries,
            index.slot_versions.first(len(entries)),
            alive & ~pending,
            int(np.count_nonzero(alive & pending)),
            table.owners(),
            table,
        )

    def vectors(self) -> Take:
        """Reads rounded vectors: of a memory with several passages their mean."""
        order = np.argsort(self.owners, kind="stable").astype(np.int64)
        begins = np.searchsorted(self.owners[order], np.arange(FREE, len(self.entries) + 1))[1:]

        def take(slots: Slots) -> Floats:
            counts = begins[slots + 1] - begins[slots]
            ends = np.cumsum(counts)
            places = np.arange(ends[-1]) + np.repeat(begins[slots] - (ends - counts), counts)
            sums = np.add.reduceat(self.table.about(order[places]), ends - counts, axis=0)
            means: Floats = (sums / counts[:, None]).astype(np.float32)
            return means

        return take


@dataclass(slots=True)
class Points:
    """By slot: where it is, and what it is coloured by. Codes are positions in the lists."""

    versions: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    places: Floats = field(default_factory=lambda: np.zeros((0, 2), dtype=np.float32))
    created: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, dtype=np.uint32))
    kind: NDArray[np.uint16] = field(default_factory=lambda: np.zeros(0, dtype=np.uint16))
    project: NDArray[np.uint16] = field(default_factory=lambda: np.zeros(0, dtype=np.uint16))
    type: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))
    kinds: dict[str, int] = field(default_factory=lambda: {"": 0})
    projects: dict[str, int] = field(default_factory=lambda: {"": 0})

    def changed(self, now: Snapshot) -> Slots:
        """The slots whose points are missing or old; makes room for them."""
        missing = len(now.versions) - len(self.versions)
        if missing > 0:
            self.versions = np.append(self.versions, np.full(missing, -2, dtype=np.int32))
            self.places = np.append(self.places, np.zeros((missing, 2), dtype=np.float32), axis=0)
            for name in ("created", "kind", "project", "type"):
                column = getattr(self, name)
                setattr(self, name, np.append(column, np.zeros(missing, dtype=column.dtype)))
        count = len(now.versions)
        return np.flatnonzero(now.drawn & (self.versions[:count] != now.versions))

    def describe(self, slots: Slots, now: Snapshot) -> None:
        """Fill the columns of these slots, except for their places."""
        for slot in paced(slots.tolist(), BURST):
            entry = now.entries[slot]
            assert entry is not None
            memory = entry.memory
            self.created[slot] = min(max(0, int(memory.created_at)), 2**32 - 1)
            self.kind[slot] = _code(self.kinds, kind_of(memory))
            self.project[slot] = _code(self.projects, project_of(memory))
            self.type[slot] = TYPES.index(memory.type)
        self.versions[slots] = now.versions[slots]


def _code(known: dict[str, int], value: str | None) -> int:
    """The number of a text, a new one if it is new; 0 if there is none, or too many."""
    text = value or ""
    if text not in known and len(known) <= MAX_CODE:
        known[text] = len(known)
    return known.get(text, 0)


@dataclass(frozen=True, slots=True)
class Box:
    """The square of the plane that the map shows."""

    left: float
    top: float
    width: float

    @classmethod
    def around(cls, places: Floats) -> Box:
        low, high = places.min(axis=0), places.max(axis=0)
        inner = max(float((high - low).max()), 1e-6)
        width = inner * (1 + 2 * MARGIN)
        left, top = ((low + high) / 2 - width / 2).tolist()
        return cls(left, top, width)

    def scaled(self, places: Floats) -> NDArray[np.uint16]:
        """The places as coordinates of the map; what is outside lies on the edge."""
        corner = np.array([self.left, self.top], dtype=np.float32)
        found = np.rint((places - corner) * np.float32(FULL / self.width))
        scaled: NDArray[np.uint16] = np.clip(found, 0, FULL).astype(np.uint16)
        return scaled


@dataclass(frozen=True, slots=True)
class Drawn:
    """One revision of the map."""

    revision: str
    made_at: float
    ids: Sequence[str]  # by point
    left_out: int
    labels: tuple[Label, ...]  # in coordinates of the map
    kinds: tuple[str, ...]
    projects: tuple[str, ...]
    blob: bytes
    changes: int  # of the index, when it was made

    @property
    def count(self) -> int:
        return len(self.ids)


def blob_of(points: Points, slots: Slots, places: NDArray[np.uint16], codes: Slots) -> bytes:
    """The points as bytes, little endian: a head of 8 bytes (MAGIC and the count as uint32), then
    one column after the other, the widest numbers first, so that each is aligned: created_at
    (uint32), x, y, kind, project (uint16), type, label (uint8)."""
    columns = (
        points.created[slots].astype("<u4"),
        places[:, 0].astype("<u2"),
        places[:, 1].astype("<u2"),
        points.kind[slots].astype("<u2"),
        points.project[slots].astype("<u2"),
        points.type[slots].astype("u1"),
        np.minimum(codes, NO_GROUP).astype("u1"),
    )
    head = MAGIC + len(slots).to_bytes(4, "little")
    return head + b"".join(column.tobytes() for column in columns)


def in_chunks(slots: Slots, take: Take, place: Callable[[Floats], Floats]) -> Floats:
    """The places of slots, so that only some vectors are in RAM at a time."""
    found = np.empty((len(slots), 2), dtype=np.float32)
    for start in range(0, len(slots), CHUNK):
        found[start : start + CHUNK] = place(take(slots[start : start + CHUNK]))
    return found
