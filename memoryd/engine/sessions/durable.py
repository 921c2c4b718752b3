"""Durable facts: the ones that every prompt has, as many as fit into `sessions.max_memory_size`.

Pinned facts come first, then the surest: confidence now times the trust in their source, a little
more for kinds that last and for facts that are used. Facts that take a large part of the room come
last. What does not fit stays a fact that a search finds; nothing is deleted.

At 100,000 memories no recall can look at each fact. So what the order needs is kept in arrays by
slot, and only the slots that changed since the last call are read again.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Mapping
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.filters import Filter, Mask
from memoryd.engine.index.growing_array import Numbers
from memoryd.engine.index.index import Index
from memoryd.engine.lifecycle.decay import MAX_HALF_LIVES, clock_start
from memoryd.engine.parts import Parts
from memoryd.engine.project_rules import pushable
from memoryd.fair import in_thread
from memoryd.fields import (
    ARCHIVE,
    DEPRECATED_AT,
    DERIVED_FROM,
    DIGEST_OF,
    HALF_LIVES,
    NEEDS_REVIEW,
    SCOPE,
    USER_VERIFIED,
    WORKING_MEMORY,
    confidence_of,
    half_life_of,
    ids_of,
    is_digest,
    is_hidden,
    kind_of,
    trust_of,
    uses_of,
)
from memoryd.model import CONTEXT_NAME, DAY, Memory, MemoryType

LINE = 3  # bytes of a list item beside its text: "- " and the line end
LARGE = 8  # a fact that takes more than this part of the room comes last
LASTING = 1.1  # factor of kinds that do not decay, such as preferences and decisions
USE_STEP = 0.02  # each doubling of the uses counts as so much more trust
TAUGHT = "user_taught"  # what a person verified is trusted as much as this source
DIGITS, MAX_TIME = 4, 1e14  # of a score; seconds that are divided by it are below these digits
SURE = 0.5  # a fact that needs review is shown only from this confidence on
BRIEF_SCOPES = ("session", "work_unit")  # what holds for one piece of work is not durable
MAX_RANKED = 5_000
MANY = 2_000  # more changed slots than these are read on a thread
NO_VERSION = -2  # of a slot that was not read yet
DIGEST_PREFIX = "digest:"  # of a name
DIGEST_PART = 4  # a digest takes at most this part of the room
MAX_MISSES = 50  # facts in a row that do not fit

# What the order needs of a memory. TRUST is not a number if it is no durable fact; TIE decides
# between equal ones, the same after every start.
TRUST, CONFIDENCE, HALF_LIFE, CLOCK, USES, SIZE, PINNED, DOUBTED, CREATED, TIE = range(10)
NONE = (math.nan, *(0.0,) * TIE)
Rows = NDArray[np.float64]  # by one of these, then by slot
Slots = NDArray[np.intp]


class Durable:
    """The facts worth having always."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._ranks = Ranks(parts.index)
        self._known: tuple[int, float, str | None] | None = None
        self._best: list[Memory] = []

    async def prepare(self) -> None:
        """Read on a thread what has changed since the last call, if it is much."""
        ranks, index = self._current(), self._parts.index
        if index.changes - ranks.changes <= MANY:
            return
        entries, changes = index.entries(), index.changes
        versions = index.slot_versions.first(len(entries))
        changed = ranks.changed(versions)
        held = (entries[slot] for slot in changed.tolist())
        found = (None if entry is None else entry.memory for entry in held)
        ranks.put(changed, await in_thread(read, found, self._trust), versions)
        ranks.changes = changes

    def facts(self, project: str | None, now: float) -> list[Memory]:
        """The durable facts of a project and the shared ones, best first, in at most
        `sessions.max_memory_size` bytes. The order changes with the memories and with the day."""
        index, today = self._parts.index, now - now % DAY
        self._current()
        known = (index.changes, today, project)
        if self._known != known:
            digest = self._digest(project)
            room = self._parts.sessions.max_memory_size - (self.digest_room if digest else 0)
            self._best = [*digest, *_within(self._ordered(project, today, now), room)]
            self._known = known
        return pushable(self._best, project, index, now)

    def candidates(self, project: str | None, now: float) -> list[Memory]:
        """The durable facts of a project and the shared ones, best first, without a limit of their
        size; only the best of very many."""
        ordered = self._ordered(project, now - now % DAY, now)
        return pushable(ordered, project, self._parts.index, now)

    def left_out(self, project: str | None, now: float) -> list[Memory]:
        """The durable facts that do not fit beside a digest of them, best first; none if all fit
        without one."""
        room, ordered = (
            self._parts.sessions.max_memory_size,
            self._ordered(project, now - now % DAY, now),
        )
        if sum(map(_size, ordered)) <= room:
            return []
        shown = {fact.id for fact in _within(ordered, room - self.digest_room)}
        return [fact for fact in ordered if fact.id not in shown]

    @property
    def digest_room(self) -> int:
        """Bytes of a digest."""
        return self._parts.sessions.max_memory_size // DIGEST_PART

    def _digest(self, project: str | None) -> list[Memory]:
        """The digest of a project, if it is current."""
        index = self._parts.index
        found = index.named(digest_name(project))
        is_shown = found is not None and is_digest(found) and is_current(found, index)
        return [found] if found is not None and is_shown else []

    def _ordered(self, project: str | None, today: float, now: float) -> list[Memory]:
        """The durable facts, best first: all that could fit, and some more."""
        index, room = self._parts.index, self._parts.sessions.max_memory_size
        ranks = self._current()
        filter = Filter(
            type=MemoryType.FACT,
            hides_superseded=True,
            hides_records=True,
            projects=(None,) if project is None else (None, project),
        )
        allowed = index.allowed(filter, now)
        versions = index.slot_versions.first(len(allowed))
        changed = ranks.changed(versions)
        ranks.put(changed, read(map(index.in_slot, changed.tolist()), self._trust), versions)
        ranks.changes = index.changes
        ordered = ranks.best(allowed, today, self._parts.lifecycle.deprecated_below, room)
        found = map(index.in_slot, ordered.tolist())
        return [memory for memory in found if memory is not None]

    def _current(self) -> Ranks:
        if not self._ranks.is_of(self._parts.index):  # another one took its place
            self._ranks, self._known = Ranks(self._parts.index), None
        return self._ranks

    @property
    def _trust(self) -> Mapping[str, float]:
        return self._parts.lifecycle.trust


class Ranks:
    """By slot, what the order of durable facts needs to know of a memory."""

    def __init__(self, index: Index) -> None:
        self._index = weakref.ref(index)  # must not keep a replaced index in RAM
        self.changes = 0  # of the index, when all of it was last read
        self._versions = np.zeros(0, dtype=np.int32)
        self._rows: Rows = np.zeros((len(NONE), 0))

    def is_of(self, index: Index) -> bool:
        return self._index() is index

    def changed(self, versions: Numbers) -> Slots:
        """The slots whose version is not the one that was put."""
        if len(versions) > len(self._versions):
            missing = max(len(versions) - len(self._versions), len(self._versions))
            never = np.full(missing, NO_VERSION, dtype=np.int32)
            self._versions = np.concatenate([self._versions, never])
            more = np.tile(np.array([NONE]).T, missing)
            self._rows = np.concatenate([self._rows, more], axis=1)
        return np.flatnonzero(versions != self._versions[: len(versions)])

    def put(self, slots: Slots, rows: Rows, versions: Numbers) -> None:
        """Set what was read of these slots at these versions."""
        self._rows[:, slots] = rows
        self._versions[slots] = versions[slots]

    def best(self, allowed: Mask, today: float, below: float, room: int) -> Slots:
        """The slots of the best durable facts, more than can fit, best first; of equal ones the
        newest."""
        slots = np.flatnonzero(allowed & ~np.isnan(self._rows[TRUST, : len(allowed)]))
        rows = self._rows[:, slots]
        lives = np.maximum(0.0, today - rows[CLOCK]) / rows[HALF_LIFE]
        sure = rows[CONFIDENCE] * 0.5**lives
        decays = np.isfinite(rows[HALF_LIFE])
        good = ~(decays & ((lives > MAX_HALF_LIVES) | (sure < below)))
        good &= (rows[PINNED] > 0) | (rows[DOUBTED] == 0) | (sure >= SURE)
        score = sure * rows[TRUST] + USE_STEP * np.floor(np.log2(1.0 + rows[USES]))
        group = 2 * rows[PINNED] + (rows[SIZE] <= room / LARGE)
        # The score is below 10 and the time far below its last digit, so one number sorts all.
        key = (10 * group + score.round(DIGITS) + rows[CREATED] / MAX_TIME)[good]
        slots, ties = slots[good], rows[TIE][good]
        most = min(MAX_RANKED, room // (LINE + 1) + 1)
        if len(slots) > most:
            first = np.argpartition(-key, most)[:most]
            slots, key, ties = slots[first], key[first], ties[first]
        ordered: Slots = slots[np.lexsort((ties, -key))]
        return ordered


def read(memories: Iterable[Memory | None], trust: Mapping[str, float]) -> Rows:
    """What the order needs to know of these memories."""
    rows = [NONE if memory is None else _row(memory, trust) for memory in memories]
    return np.array(rows, dtype=np.float64).reshape(-1, len(NONE)).T


def _row(memory: Memory, trust: Mapping[str, float]) -> tuple[float, ...]:
    if not may_be_durable(memory):
        return NONE
    factor, half_life = trust_of(memory, trust), half_life_of(memory)
    if memory.metadata.get(USER_VERIFIED) is True:
        factor = max(factor, trust.get(TAUGHT, factor))
    if half_life is None and kind_of(memory) in HALF_LIVES:
        factor *= LASTING
    return (
        factor,
        confidence_of(memory),
        math.inf if half_life is None else half_life * DAY,
        clock_start(memory),
        uses_of(memory),
        _size(memory),
        memory.pinned,
        memory.metadata.get(NEEDS_REVIEW) is True,
        memory.created_at,
        crc32(memory.id.encode()),
    )


def _size(memory: Memory) -> int:
    return len(memory.content.encode()) + LINE


def _within(facts: Iterable[Memory | None], room: int) -> list[Memory]:
    """The facts that fit; a later, shorter one may fit where an earlier one does not."""
    kept: list[Memory] = []
    misses = 0
    for memory in facts:
        if memory is None:
            continue
        if (size := _size(memory)) <= room:
            kept.append(memory)
            room, misses = room - size, 0
        elif (misses := misses + 1) > MAX_MISSES:
            break
    return kept


def digest_name(project: str | None) -> str:
    """The name of the digest of a project, or of the shared facts."""
    return f"{DIGEST_PREFIX}{project or ''}"


def is_current(digest: Memory, index: Index) -> bool:
    """Whether all facts that a digest was made of are there and as they were."""
    made_at = digest.updated_at or digest.created_at
    facts = [index.get(id) for id in ids_of(digest, DERIVED_FROM)]
    return len(facts) == digest.metadata[DIGEST_OF] and all(
        fact is not None
        and (fact.updated_at or fact.created_at) <= made_at
        and not index.relations.superseded_until(fact.id)
        for fact in facts
    )


def may_be_durable(memory: Memory) -> bool:
    """Whether it is a fact that can be worth having always, whatever its confidence."""
    return (
        memory.type is MemoryType.FACT
        and kind_of(memory) not in (ARCHIVE, WORKING_MEMORY)
        and not is_hidden(memory)
        and not (memory.name or "").startswith(CONTEXT_NAME)
        and memory.metadata.get(DEPRECATED_AT) is None
        and (memory.pinned or memory.metadata.get(SCOPE) not in BRIEF_SCOPES)
    )
