"""Filter columns: exact values by slot, and postings of metadata."""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.filters import Filter, OneOf
from memoryd.engine.index.metadata_index import MetadataIndex
from memoryd.engine.index.slot_lookup import SlotLookup
from memoryd.engine.index.terms import term
from memoryd.engine.turn_keys import order_of
from memoryd.fields import PROJECT, is_hidden, is_session_record, related_ids
from memoryd.model import Memory, MemoryType

if TYPE_CHECKING:
    from memoryd.index_files import Arrays

Mask = NDArray[np.bool_]
TYPE_CODE = {type: code for code, type in enumerate(MemoryType, start=1)}
FIRST_SIZE = 1024
NO_TEXT = -1  # the code of what is no text
BRIEF = 275  # characters up to which a message is brief (1.0); twice as long: 0.25
QUESTION_MARKS = frozenset("?\uff1f\u061f")  # Latin, full width, Arabic
COLUMNS: dict[str, type[Any]] = {
    "key": np.uint64,  # a hash of its id
    "type": np.uint8,  # 0: the slot is free
    "created": np.float64,
    "expires": np.float64,
    "session": np.int64,  # a hash of its session, 0 for none
    "order": np.int64,  # among messages of the same time
    "project": np.int64,
    "fact": np.int64,  # a hash of a fact, 0 for all else
    "revision": np.int64,  # the number of its last write
    "first": np.int32,  # its first row
    "rows": np.int32,  # how many rows it has, which follow each other
    "spread": np.float32,
    "brief": np.float32,
    "asks": np.float32,
    "superseded": np.float64,  # until when; 0: it is not
    "hidden": np.bool_,  # unless a filter asks for it
    "record": np.bool_,  # holds what is known of a session
    "pinned": np.bool_,
    "named": np.bool_,
    "related": np.bool_,  # names other memories
}


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
        self._columns: dict[str, NDArray[Any]] = {
            name: np.zeros(FIRST_SIZE, dtype=kind) for name, kind in COLUMNS.items()
        }
        self.metadata = MetadataIndex()
        self._facts = SlotLookup()

    def __getitem__(self, name: str) -> NDArray[Any]:
        """A column, not copied."""
        return self._columns[name]

    def set(self, slot: int, memory: Memory, rows: Sequence[int], revision: int) -> None:
        """Fill a free slot."""
        while slot >= len(self["type"]):
            self._grow()
        ends = None if memory.pinned else memory.expires_at  # as in `is_expired`
        brief = min(1.0, (BRIEF / max(1, len(memory.content))) ** 2)
        is_question = any(mark in memory.content for mark in QUESTION_MARKS)
        is_fact = memory.type is MemoryType.FACT
        values: dict[str, float] = {
            "key": id_key(memory.id),
            "type": TYPE_CODE[memory.type],
            "created": memory.created_at,
            "expires": math.inf if ends is None else ends,
            "session": text_code(memory.session_id),
            "order": order_of(memory),
            "project": text_code(memory.metadata.get(PROJECT)),
            "fact": fact_code(memory.content, memory.session_id) if is_fact else 0,
            "revision": revision,
            "first": rows[0],
            "rows": len(rows),
            "spread": math.log(len(rows)),
            "brief": brief,
            "asks": brief if is_question else 0.0,
            "superseded": 0.0,
            "hidden": is_hidden(memory),
            "record": is_session_record(memory),
            "pinned": memory.pinned,
            "named": memory.name is not None,
            "related": bool(related_ids(memory)),
        }
        for name, value in values.items():
            self._columns[name][slot] = value
        if is_fact:
            self._facts.add(int(values["fact"]), slot)
        self.metadata.put(slot, memory.metadata)

    def copies(self, count: int) -> Arrays:
        """Copies of the first `count` slots, for a snapshot."""
        return {name: column[:count].copy() for name, column in self._columns.items()}

    def restore(self, arrays: Arrays) -> None:
        """Fill the columns from the arrays of a snapshot."""
        for name, kind in COLUMNS.items():
            self._columns[name] = np.concatenate([arrays[name], np.zeros(FIRST_SIZE, dtype=kind)])
        self.metadata.use(arrays)
        self._facts.forget_all()

    def matching_facts(self, content: str, session_id: str | None) -> list[int]:
        """The slots of facts with this content in this session."""
        return self._facts.slots(fact_code(content, session_id), self["fact"])

    def rows_of(self, slot: int) -> list[int]:
        """The rows of a slot."""
        first = int(self["first"][slot])
        return list(range(first, first + int(self["rows"][slot])))

    def superseded(self, slot: int, until: float) -> None:
        """Set until when the memory in a slot is superseded; 0: it is not."""
        self["superseded"][slot] = until

    def clear(self, slot: int, memory: Memory | None) -> None:
        """Free the slot that `memory` had; None: a sealed part has its metadata."""
        self["type"][slot] = self["fact"][slot] = self["key"][slot] = 0
        if memory is not None:
            self.metadata.remove(slot, memory.metadata)

    def copied(self, count: int) -> CopiedColumns:
        """Copies of the first `count` slots."""
        return CopiedColumns(
            self["first"][:count].copy(),
            self["spread"][:count].copy(),
            self["session"][:count].copy(),
            self["brief"][:count].copy(),
            self["asks"][:count].copy(),
        )

    def allowed(self, filter: Filter, now: float) -> Mask:
        """Which slots a search may return: in use, not expired, and matching the filter, except
        for the `others` of its conditions on metadata."""
        allowed: Mask = (self["type"] != 0) & (self["expires"] > now)
        if filter.type is not None:
            allowed &= self["type"] == TYPE_CODE[filter.type]
        if filter.session_id is not None:
            allowed &= self["session"] == text_code(filter.session_id)
        if filter.since is not None:
            allowed &= self["created"] >= filter.since
        if filter.until is not None:
            allowed &= self["created"] < filter.until
        if filter.hides_superseded:
            allowed &= self["superseded"] <= now
        if filter.hides_records:
            allowed &= ~self["hidden"]
        if filter.pinned is not None:
            allowed &= self["pinned"] == filter.pinned
        if filter.projects is not None:
            codes = [text_code(project) for project in filter.projects]
            allowed &= np.logical_or.reduce([self["project"] == code for code in codes])
        for wanted in filter.where.equal:
            allowed &= self.having(wanted)
        return allowed

    def created_within(self, spans: Sequence[tuple[float, float]]) -> Mask:
        """Which slots were created in one of these spans: start <= created < end."""
        within = np.zeros(len(self["type"]), dtype=np.bool_)
        for start, end in spans:
            within |= (self["created"] >= start) & (self["created"] < end)
        return within

    def having(self, wanted: OneOf) -> Mask:
        """Which slots have one of these values in their metadata."""
        found = np.zeros(len(self["type"]), dtype=np.bool_)
        for value in wanted.values:
            found[self.metadata.having(wanted.key, value)] = True
        found &= self["type"] != 0
        return found

    def expired(self, now: float) -> NDArray[np.intp]:
        """Slots of memories that have expired and wait for the sweep."""
        return np.flatnonzero((self["type"] != 0) & (self["expires"] <= now))

    def census(self, now: float) -> tuple[dict[MemoryType, int], float | None]:
        """How many memories of each type are alive, and when the next of them expires."""
        alive = self.allowed(Filter(hides_records=True), now)
        counts = {
            t: int(np.count_nonzero(alive & (self["type"] == c))) for t, c in TYPE_CODE.items()
        }
        ends = self["expires"][alive & np.isfinite(self["expires"])]
        return counts, float(ends.min()) if len(ends) else None

    def for_census(self, count: int) -> CensusColumns:
        """Copies of the first `count` slots."""
        return CensusColumns(
            self["type"][:count].copy(),
            self["created"][:count].copy(),
            self["expires"][:count].copy(),
            self["superseded"][:count].copy(),
            self["hidden"][:count].copy(),
            self["pinned"][:count].copy(),
        )

    def records(self) -> list[int]:
        """Slots of the records of sessions."""
        return [int(slot) for slot in np.flatnonzero(self["record"] & (self["type"] != 0))]

    def of_session(self, session_id: str, type: MemoryType) -> list[int]:
        """Slots of this session and type."""
        matches = (self["session"] == text_code(session_id)) & (self["type"] == TYPE_CODE[type])
        return [int(slot) for slot in np.flatnonzero(matches)]

    def _grow(self) -> None:
        for name, column in self._columns.items():
            self._columns[name] = np.concatenate([column, np.zeros_like(column)])


def id_key(id: str) -> int:
    """The key by which the text of a memory is erased in a snapshot."""
    return term(id)


def text_code(value: object) -> int:
    """A 64-bit hash of a session id or project, 0 for none. No table of them, which would only
    grow. What an import brought as a project may be no text: no filter names it."""
    if not isinstance(value, str):
        return 0 if value is None else NO_TEXT
    return _hash(value)


def fact_code(content: str, session_id: str | None) -> int:
    """A 64-bit hash that is equal for identical facts."""
    return _hash(f"{session_id or ''}\0{content.strip()}")


def _hash(text: str) -> int:
    digest = blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) or 1
