"""Filter columns: exact values by slot, and postings of metadata."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.filters import Filter, OneOf
from memoryd.fields import PROJECT, is_hidden, is_session_record
from memoryd.metadata import value_key
from memoryd.model import Memory, MemoryType

Mask = NDArray[np.bool_]
Pair = tuple[str, Hashable]  # a metadata key and a `value_key`
TYPE_CODE = {type: code for code, type in enumerate(MemoryType, start=1)}
FIRST_SIZE = 1024
NO_TEXT = -1  # the code of what is no text
BRIEF = 275  # characters up to which a message is brief (1.0); twice as long: 0.25
QUESTION_MARKS = frozenset("?\uff1f\u061f")  # Latin, full width, Arabic
COLUMNS = (
    *("_type", "_created", "_expires", "_session", "_project"),
    *("_first", "_spread", "_brief", "_asks", "_superseded", "_hidden", "_record", "_pinned"),
)


class CopiedColumns(NamedTuple):
    """Copies by slot, for a search."""

    first: NDArray[np.int32]  # its first row
    spread: NDArray[np.float32]  # log of how many rows it has
    sessions: NDArray[np.int64]  # a number for its session, 0 for none
    brief: NDArray[np.float32]  # 1 for a short text, less for a longer one
    asks: NDArray[np.float32]  # the same for questions, 0 for all else


class CensusColumns(NamedTuple):
    """Copies by slot, to count memories on a thread."""

    types: NDArray[np.uint8]  # 0: the slot is free
    created: NDArray[np.float64]
    expires: NDArray[np.float64]
    superseded: NDArray[np.float64]  # until when; 0: it is not
    hidden: Mask
    pinned: Mask


class Columns:
    """One value per slot and column; a slot whose type is 0 is free."""

    def __init__(self) -> None:
        self._type = np.zeros(FIRST_SIZE, dtype=np.uint8)
        self._created = np.zeros(FIRST_SIZE)
        self._expires = np.zeros(FIRST_SIZE)
        self._session = np.zeros(FIRST_SIZE, dtype=np.int64)
        self._project = np.zeros(FIRST_SIZE, dtype=np.int64)
        self._first = np.zeros(FIRST_SIZE, dtype=np.int32)
        self._spread = np.zeros(FIRST_SIZE, dtype=np.float32)
        self._brief = np.zeros(FIRST_SIZE, dtype=np.float32)
        self._asks = np.zeros(FIRST_SIZE, dtype=np.float32)
        self._superseded = np.zeros(FIRST_SIZE)  # until when; 0: it is not
        self._hidden = np.zeros(FIRST_SIZE, dtype=np.bool_)  # unless a filter asks for it
        self._record = np.zeros(FIRST_SIZE, dtype=np.bool_)  # holds what is known of a session
        self._pinned = np.zeros(FIRST_SIZE, dtype=np.bool_)
        self._metadata: dict[str, dict[Hashable, set[int]]] = {}  # by key, then by value

    def set(self, slot: int, memory: Memory, rows: Sequence[int]) -> None:
        while slot >= len(self._type):
            self._grow()
        self._type[slot] = TYPE_CODE[memory.type]
        self._created[slot] = memory.created_at
        ends = None if memory.pinned else memory.expires_at  # as in `is_expired`
        self._expires[slot] = math.inf if ends is None else ends
        self._session[slot] = _text_code(memory.session_id)
        self._project[slot] = _text_code(memory.metadata.get(PROJECT))
        self._first[slot], self._spread[slot] = rows[0], math.log(len(rows))
        self._brief[slot] = brief = min(1.0, (BRIEF / max(1, len(memory.content))) ** 2)
        self._asks[slot] = brief if any(mark in memory.content for mark in QUESTION_MARKS) else 0.0
        self._hidden[slot] = is_hidden(memory)
        self._record[slot] = is_session_record(memory)
        self._pinned[slot] = memory.pinned
        for key, value in _pairs(memory.metadata):
            self._metadata.setdefault(key, {}).setdefault(value, set()).add(slot)

    def superseded(self, slot: int, until: float) -> None:
        """Set until when the memory in a slot is superseded; 0: it is not."""
        self._superseded[slot] = until

    def clear(self, slot: int, memory: Memory) -> None:
        """Free the slot that `memory` had."""
        self._type[slot] = 0
        for key, value in _pairs(memory.metadata):
            posted = self._metadata[key]
            posted[value].discard(slot)
            if not posted[value]:
                del posted[value]
            if not posted:
                del self._metadata[key]

    def copied(self, count: int) -> CopiedColumns:
        """Copies of the first `count` slots."""
        return CopiedColumns(
            self._first[:count].copy(),
            self._spread[:count].copy(),
            self._session[:count].copy(),
            self._brief[:count].copy(),
            self._asks[:count].copy(),
        )

    def allowed(self, filter: Filter, now: float) -> Mask:
        """Which slots a search may return: in use, not expired, and matching the filter, except
        for the `others` of its conditions on metadata."""
        allowed: Mask = (self._type != 0) & (self._expires > now)
        if filter.type is not None:
            allowed &= self._type == TYPE_CODE[filter.type]
        if filter.session_id is not None:
            allowed &= self._session == _text_code(filter.session_id)
        if filter.since is not None:
            allowed &= self._created >= filter.since
        if filter.until is not None:
            allowed &= self._created < filter.until
        if filter.hides_superseded:
            allowed &= self._superseded <= now
        if filter.hides_records:
            allowed &= ~self._hidden
        if filter.pinned is not None:
            allowed &= self._pinned == filter.pinned
        if filter.projects is not None:
            codes = [_text_code(project) for project in filter.projects]
            allowed &= np.logical_or.reduce([self._project == code for code in codes])
        for wanted in filter.where.equal:
            allowed &= self.having(wanted)
        return allowed

    def created_within(self, spans: Sequence[tuple[float, float]]) -> Mask:
        """Which slots were created in one of these spans: start <= created < end."""
        within = np.zeros(len(self._type), dtype=np.bool_)
        for start, end in spans:
            within |= (self._created >= start) & (self._created < end)
        return within

    def having(self, wanted: OneOf) -> Mask:
        """Which slots have one of these values in their metadata."""
        found = np.zeros(len(self._type), dtype=np.bool_)
        for value in wanted.values:
            found[list(self._metadata.get(wanted.key, {}).get(value, ()))] = True
        return found

    def expired(self, now: float) -> NDArray[np.intp]:
        """Slots of memories that have expired and wait for the sweep."""
        return np.flatnonzero((self._type != 0) & (self._expires <= now))

    def census(self, now: float) -> tuple[dict[MemoryType, int], float | None]:
        """How many memories of each type are alive, and when the next of them expires."""
        alive = self.allowed(Filter(hides_records=True), now)
        counts = {t: int(np.count_nonzero(alive & (self._type == c))) for t, c in TYPE_CODE.items()}
        ends = self._expires[alive & np.isfinite(self._expires)]
        return counts, float(ends.min()) if len(ends) else None

    def tally(self, key: str) -> dict[Hashable, int]:
        """How many slots have each value of a metadata key, each by its `value_key`; a list counts
        as itself and for each of its items. Expired and hidden memories count too."""
        return {value: len(slots) for value, slots in self._metadata.get(key, {}).items()}

    def for_census(self, count: int) -> CensusColumns:
        """Copies of the first `count` slots."""
        return CensusColumns(
            self._type[:count].copy(),
            self._created[:count].copy(),
            self._expires[:count].copy(),
            self._superseded[:count].copy(),
            self._hidden[:count].copy(),
            self._pinned[:count].copy(),
        )

    def records(self) -> list[int]:
        """Slots of the records of sessions."""
        return [int(slot) for slot in np.flatnonzero(self._record & (self._type != 0))]

    def of_session(self, session_id: str, type: MemoryType) -> list[int]:
        """Slots of this session and type."""
        matches = (self._session == _text_code(session_id)) & (self._type == TYPE_CODE[type])
        return [int(slot) for slot in np.flatnonzero(matches)]

    def _grow(self) -> None:
        for name in COLUMNS:
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros_like(column)]))


def _text_code(value: object) -> int:
    """A 64-bit hash of a session id or project, 0 for none. No table of them, which would only
    grow. What an import brought as a project may be no text: no filter names it."""
    if not isinstance(value, str):
        return 0 if value is None else NO_TEXT
    digest = blake2b(value.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) or 1


def _pairs(metadata: Mapping[str, Any]) -> Iterable[Pair]:
    """Each key with its value, and with each item if that is a list; none of them twice."""
    found: dict[Pair, None] = {}
    for key, value in metadata.items():
        items = value if type(value) is list else ()
        found |= {(key, value_key(one)): None for one in (value, *items)}
    return found
