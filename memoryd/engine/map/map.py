"""The operation `map`: made when it is first asked for, kept, and renewed after writes.

No call waits for it. A call gets the newest revision there is, or how far the first one is; if
memories were written since, a newer revision is made meanwhile. A memory that is new or changed
gets its place by the layout that there is, so the others stay where they are. Only when the number
of memories has changed much, everything is laid out anew.

The work is done on one thread. It takes no turn of `fair`: a search must not wait for it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

import anyio
import anyio.lowlevel
import anyio.to_thread
import numpy as np
import structlog

from memoryd.engine.index.index import Index
from memoryd.engine.map.labels import (
    NO_GROUP,
    Label,
    centres_of,
    nearest_centre,
    sample,
    words_of_groups,
)
from memoryd.engine.map.layout import SAMPLE, Floats, Layout, lay_out
from memoryd.engine.map.points import (
    BURST,
    SHOWN,
    Box,
    Drawn,
    Points,
    Slots,
    Snapshot,
    Take,
    blob_of,
    in_chunks,
)
from memoryd.engine.parts import Parts
from memoryd.errors import InvalidInput, MemorydError
from memoryd.fair import paced
from memoryd.model import Memory, is_expired

log = structlog.get_logger()
KEPT = 3  # revisions whose points can still be asked for
GROWN, SHRUNK = 1.5, 0.5  # factors of the number of memories, from which a new layout is made
MAX_INDEXES = 5_000  # points of one call
PAUSE = 0.0005  # seconds between two steps of the layout: another thread gets its turn
PROJECTION, LAYOUT, PLACES, LABELS = 0.05, 0.7, 0.85, 1.0  # what share of the work is done after


@dataclass(frozen=True, slots=True)
class Computing:
    """The first map is being made."""

    progress: float


@dataclass(frozen=True, slots=True)
class Plan:
    """A layout with what was fixed when it was made."""

    index: Index
    layout: Layout
    box: Box
    centres: Floats
    count: int  # of memories when it was made


class Map:
    """Makes and keeps the map."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._wanted = anyio.Event()
        self._finished = anyio.Event()
        self._busy = False
        self._progress = 0.0
        self._trouble: MemorydError | None = None
        self._renew = False
        self._plan: Plan | None = None
        self._points = Points()
        self._revisions: dict[str, Drawn] = {}
        self._name = secrets.token_hex(3)  # no revision of another run is mistaken for one of this
        self._number = 0

    async def run(self) -> None:
        """Make a map whenever one is wanted, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted, self._finished = anyio.Event(), anyio.Event()
            self._busy, self._progress = True, 0.0
            try:
                await self._make()
                self._trouble = None
            except Exception as exc:  # a failure of the map must not end the daemon
                log.error("map_failed", error=type(exc).__name__)
                self._trouble = MemorydError("The map could not be made.", code="map_failed")
            finally:
                self._busy = False
                self._finished.set()

    def ask(self, *, renew: bool = False) -> Drawn | Computing:
        """The newest map, or how far the first one is. With `renew` all is laid out anew. Raises
        MemorydError once if it could not be made."""
        if (trouble := self._trouble) is not None:
            self._trouble = None
            raise trouble
        newest = self.newest
        if renew:
            self._renew = True
            self._wanted.set()
        elif not self._busy and (newest is None or self._is_old(newest)):
            self._wanted.set()
        return Computing(self._progress) if newest is None else newest

    @property
    def updating(self) -> bool:
        """Whether a newer map is being made or about to be."""
        return self._busy or self._wanted.is_set()

    async def finished(self) -> None:
        """Wait until what is being made, or about to be, is made."""
        while self.updating:
            await (self._finished.wait() if self._busy else anyio.lowlevel.checkpoint())

    @property
    def newest(self) -> Drawn | None:
        return next(reversed(self._revisions.values()), None)

    def blob(self, revision: str | None = None) -> bytes:
        """The points of a revision, of the newest without one; see `points.blob_of`. Raises
        InvalidInput `map_changed`."""
        return self._revision(revision).blob

    def memories(self, revision: object, indexes: object) -> list[Memory | None]:
        """The memories of points, in order; None where one is gone. Raises InvalidInput."""
        drawn = self._revision(revision)
        if not _are_indexes(indexes, drawn.count):
            raise InvalidInput(
                f"indexes must be a list of at most {MAX_INDEXES} numbers of points.",
                code="indexes_invalid",
                hint=f"This revision has {drawn.count} points, from 0 on.",
            )
        now, index = self._parts.clock(), self._parts.index
        found = [index.get(drawn.ids[number]) for number in indexes]
        return [memory if memory and not is_expired(memory, now) else None for memory in found]

    def _revision(self, revision: object) -> Drawn:
        drawn = self.newest if revision is None else self._revisions.get(str(revision))
        if drawn is None:
            raise InvalidInput(
                "This revision of the map is gone.", code="map_changed", hint="Call map again."
            )
        return drawn

    def _is_old(self, drawn: Drawn) -> bool:
        index, plan = self._parts.index, self._plan  # no plan: there was no memory to lay out
        if (plan is not None and plan.index is not index) or index.changes != drawn.changes:
            return True
        alive = np.count_nonzero(index.allowed(SHOWN, self._parts.clock()))
        return bool(alive != drawn.count + drawn.left_out)  # some have expired

    async def _make(self) -> None:
        renew, self._renew = self._renew, False
        async with self._parts.gate.passing():
            now = Snapshot.of(self._parts.index, self._parts.clock())
            copied = None if now.index.has_vectors else await self._copied(now)
        drawn = await anyio.to_thread.run_sync(self._drawn, now, copied, renew)
        self._revisions[drawn.revision] = drawn
        while len(self._revisions) > KEPT:
            del self._revisions[next(iter(self._revisions))]
        log.info("map", points=drawn.count, left_out=drawn.left_out, labels=len(drawn.labels))

    async def _copied(self, now: Snapshot) -> Take:
        """Reads a copy of the vectors, where only the store has them."""
        copied = np.zeros((len(now.entries), now.table.dimension), dtype=np.float16)
        async for page in self._parts.store.scan():
            for record in page:
                slot = now.index.slot(record.memory.id)
                if record.passages and slot is not None and slot < len(copied):
                    copied[slot] = np.mean([passage.vector for passage in record.passages], axis=0)
        return lambda slots: copied[slots].astype(np.float32)

    def _drawn(self, now: Snapshot, copied: Take | None, renew: bool) -> Drawn:
        """The next revision. `copied`: vectors that are not in RAM. Runs on a thread."""
        take = copied or now.vectors()
        slots = np.flatnonzero(now.drawn)
        if not len(slots):
            return self._revised(now, slots, np.zeros((0, 2), dtype=np.float32), ())
        plan = self._plan
        if renew or plan is None or self._is_outgrown(plan, now, len(slots)):
            plan = self._laid_out(now, take, slots)
        changed = self._points.changed(now)
        self._points.places[changed] = in_chunks(changed, take, plan.layout.place)
        self._points.describe(changed, now)
        self._progress = PLACES
        places = self._points.places[slots]
        return self._revised(now, slots, places, self._labels(now, slots, places, plan))

    @staticmethod
    def _is_outgrown(plan: Plan, now: Snapshot, count: int) -> bool:
        is_other = plan.index is not now.index
        return is_other or not SHRUNK * plan.count <= count <= GROWN * plan.count

    def _laid_out(self, now: Snapshot, take: Take, slots: Slots) -> Plan:
        """A new layout, for which no point has its place yet."""
        chosen = _sample(slots, take)
        self._progress = PROJECTION
        layout = lay_out(take(chosen), self._report)
        self._progress = LAYOUT
        places = in_chunks(chosen, take, layout.place)
        box = Box.around(places)
        self._points = Points()
        self._plan = plan = Plan(now.index, layout, box, centres_of(places), len(slots))
        return plan

    def _report(self, share: float) -> None:
        self._progress = PROJECTION + share * (LAYOUT - PROJECTION)
        time.sleep(PAUSE)

    def _labels(self, now: Snapshot, slots: Slots, places: Floats, plan: Plan) -> tuple[Label, ...]:
        """A label for each group, "" where its texts have no telling word."""
        groups = nearest_centre(places, plan.centres)
        texts = [
            [entry.memory.content for point in points if (entry := now.entries[slots[point]])]
            for points in sample(groups, len(plan.centres))
        ]
        words = words_of_groups(texts)
        found = []
        for number, text in enumerate(words):
            inside = places[groups == number]
            middle = np.median(inside, axis=0) if len(inside) else plan.centres[number]
            x, y = plan.box.scaled(middle[None, :])[0].tolist()
            found.append(Label(x, y, text, len(inside)))
        return tuple(found)

    def _revised(
        self, now: Snapshot, slots: Slots, places: Floats, labels: Sequence[Label]
    ) -> Drawn:
        """A revision; groups without a label or without a point are left out."""
        shown = [number for number, label in enumerate(labels) if label.text and label.count]
        codes = np.full(len(labels) + 1, NO_GROUP)
        codes[shown] = np.arange(len(shown))
        if self._plan is not None and len(slots):
            of_point = codes[nearest_centre(places, self._plan.centres)]
            scaled = self._plan.box.scaled(places)
        else:
            of_point, scaled = np.zeros(0, dtype=np.intp), np.zeros((0, 2), dtype=np.uint16)
        entries = (now.entries[slot] for slot in paced(slots.tolist(), 10 * BURST))
        self._number += 1
        return Drawn(
            revision=f"{self._name}-{self._number}",
            made_at=self._parts.clock(),
            ids=[entry.memory.id for entry in entries if entry is not None],
            left_out=now.left_out,
            labels=tuple(labels[number] for number in shown),
            kinds=tuple(self._points.kinds),
            projects=tuple(self._points.projects),
            blob=blob_of(self._points, slots, scaled, of_point),
            changes=now.changes,
        )


def _sample(slots: Slots, take: Take) -> Slots:
    """At most SAMPLE of the slots, in an order that depends on nothing but their vectors: the same
    memories give the same map after a restart, which may give them other slots."""
    first = np.concatenate([take(part)[:, :2] for part in _parts_of(slots)])
    bits = np.ascontiguousarray(first, dtype=np.float32).view(np.uint32).astype(np.uint64)
    keys = (bits[:, 0] * np.uint64(0x9E3779B97F4A7C15)) ^ (
        bits[:, 1] * np.uint64(0xC2B2AE3D27D4EB4F)
    )
    return slots[np.argsort(keys, kind="stable")[:SAMPLE]]


def _parts_of(slots: Slots) -> list[Slots]:
    return np.array_split(slots, -(-len(slots) // SAMPLE))


def _are_indexes(value: object, count: int) -> TypeGuard[list[int]]:
    return (
        isinstance(value, list)
        and len(value) <= MAX_INDEXES
        and all(type(number) is int and 0 <= number < count for number in value)
    )
