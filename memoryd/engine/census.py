"""Counts of all memories: by type, kind, project, source and day. For people who look at them.

The columns are copied on the event loop, which takes microseconds, and counted on a thread. How
many memories have a value is counted in its posting list.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.index.columns import TYPE_CODE, CensusColumns, Mask
from memoryd.engine.index.metadata_index import Values as KeyValues
from memoryd.engine.parts import Parts
from memoryd.fair import in_thread
from memoryd.fields import (
    DEPRECATED_AT,
    KIND,
    NEEDS_REVIEW,
    PROJECT,
    SOURCE,
    STALE_FILES,
    TAGS,
)
from memoryd.model import MemoryType

DAYS = 30
NAMED = (KIND, PROJECT, SOURCE, TAGS)  # keys whose values are counted
MARKED = (NEEDS_REVIEW, STALE_FILES, DEPRECATED_AT)  # keys of which only their presence is
FRESH_SECONDS = 30.0  # without a write the counts change only as memories expire

Values = tuple[tuple[str | None, int], ...]  # a value and how many have it; None: have none


@dataclass(frozen=True, slots=True)
class Day:
    """A local day, and how many memories of each type belong to it."""

    date: str
    types: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Census:
    """The memories that are alive, counted. Values are ordered, the most frequent first."""

    total: int
    types: Mapping[str, int]
    values: Mapping[str, Values]  # of kind, project, source and tags
    remembered: tuple[Day, ...]  # the last days, today last
    expiring: tuple[Day, ...]  # today first
    pinned: int
    superseded: int
    needs_review: int
    stale: int  # about files that have changed
    deprecated: int
    expired: int  # not deleted yet
    notes: int
    sessions: int
    pending: int  # have no vector
    age: float  # seconds since the oldest was stored
    revision: int


@dataclass(frozen=True, slots=True)
class _Work:
    """What counting needs, all of one moment."""

    columns: CensusColumns
    values: Mapping[str, KeyValues]  # by key
    now: float
    zone: tzinfo | None


class Censuses:
    """The operation `census`. The last one is kept until something is written."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._kept: tuple[object, float, Census] | None = None

    @property
    def revision(self) -> int:
        """Changes with every write."""
        return self._parts.index.changes

    async def census(self) -> Census:
        index, now = self._parts.index, self._parts.clock()
        key = (id(index), index.changes, index.pending)
        if self._kept and self._kept[0] == key and 0 <= now - self._kept[1] < FRESH_SECONDS:
            return self._kept[2]
        columns, values = index.for_census((*NAMED, *MARKED))
        sessions = index.sessions()
        sessions |= {record.session_id for record in index.session_records() if record.session_id}
        counts = (len(index.names.notes()), len(sessions), index.pending, index.changes)
        work = _Work(columns, values, now, self._parts.lifetimes.zone)
        made = await in_thread(_counted, work, *counts)
        self._kept = (key, now, made)
        return made


def _counted(work: _Work, notes: int, sessions: int, pending: int, revision: int) -> Census:
    """The census. Runs on a thread."""
    columns, now = work.columns, work.now
    used: Mask = columns.types != 0
    expired = used & (columns.expires <= now)
    alive = used & ~expired & ~columns.hidden
    total = int(np.count_nonzero(alive))
    tallies = {key: values.tally(alive) for key, values in work.values.items()}
    marked = {key: sum(tallies[key].values()) for key in MARKED}
    past, coming = day_starts(now, work.zone, 1 - DAYS), day_starts(now, work.zone, 0)
    return Census(
        total=total,
        types=_by_type(columns.types[alive]),
        values={key: _values(tallies[key], total, key) for key in NAMED},
        remembered=_days(past, columns.created, columns.types, alive, work.zone),
        expiring=_days(coming, columns.expires, columns.types, alive, work.zone),
        pinned=int(np.count_nonzero(alive & columns.pinned)),
        superseded=int(np.count_nonzero(alive & (columns.superseded > now))),
        needs_review=marked[NEEDS_REVIEW],
        stale=marked[STALE_FILES],
        deprecated=marked[DEPRECATED_AT],
        expired=int(np.count_nonzero(expired)),
        notes=notes,
        sessions=sessions,
        pending=pending,
        age=now - float(columns.created[alive].min(initial=now)),
        revision=revision,
    )


def _values(tally: Mapping[Hashable, int], total: int, key: str) -> Values:
    """The texts among the values of a key; and how many memories have none, except for tags, of
    which a memory may have several."""
    counts = {value: count for value, count in tally.items() if isinstance(value, str)}
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    none = 0 if key == TAGS else total - sum(counts.values())
    found: list[tuple[str | None, int]] = [*ordered, *([(None, none)] if none > 0 else [])]
    return tuple(sorted(found, key=lambda pair: -pair[1]))


def _by_type(types: NDArray[np.uint8]) -> dict[str, int]:
    counts = np.bincount(types, minlength=len(MemoryType) + 1)
    return {str(type): int(counts[code]) for type, code in TYPE_CODE.items()}


def day_starts(now: float, zone: tzinfo | None, first: int) -> list[float]:
    """When each of `DAYS` local days begins, and the day after them; `first` 0: today is the first
    of them. Days differ in length where clocks are changed."""
    today = datetime.fromtimestamp(now, zone).date()
    days = (today + timedelta(days=first + number) for number in range(DAYS + 1))
    return [datetime.combine(day, time.min, zone).timestamp() for day in days]


def _days(
    starts: list[float],
    moments: NDArray[np.float64],
    types: NDArray[np.uint8],
    alive: Mask,
    zone: tzinfo | None,
) -> tuple[Day, ...]:
    """How many memories of each type have their moment in each of these days."""
    within = alive & (moments >= starts[0]) & (moments < starts[-1])
    days = np.searchsorted(starts, moments[within], side="right") - 1
    codes = len(MemoryType) + 1
    flat = np.bincount(days * codes + types[within], minlength=DAYS * codes)
    counts = flat.reshape(DAYS, codes)
    return tuple(
        Day(
            datetime.fromtimestamp(start, zone).date().isoformat(),
            {str(type): int(counts[day, code]) for type, code in TYPE_CODE.items()},
        )
        for day, start in enumerate(starts[:-1])
    )
