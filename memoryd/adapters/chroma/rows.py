"""Conversion between memories and rows of the collection. No ChromaDB here: only its rules.

A memory is one row with its text; each further passage of a long text is a row
`<id>#<n>` that points to it and has a vector but no text, so that text is kept once and
forgotten once. All rows of a memory go into one call, hence one transaction.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoryd.fields import AUDIENCE, IN_PROJECT, OWNER, PROJECT
from memoryd.metadata import RESERVED
from memoryd.model import MICRO, Memory, MemoryType
from memoryd.ports import Passage, Record, Span

TYPE = RESERVED + "type"
CREATED = RESERVED + "created_at"
EXPIRES = RESERVED + "expires_at"
UPDATED = RESERVED + "updated_at"
NAME = RESERVED + "name"
SESSION = RESERVED + "session_id"
PINNED = RESERVED + "pinned"
JSON = RESERVED + "json"  # user metadata that Chroma cannot hold itself
ROWS = RESERVED + "rows"  # how many rows the memory has; absent: one
SPAN = RESERVED + "span"  # characters of the content that this row's vector stands for
OF = RESERVED + "of"  # on a further passage: the memory it belongs to
REVISION = RESERVED + "revision"  # a new number with every write of the memory
CLOCK = RESERVED + "clock"  # on a Chroma server: orders the writes of all daemons
MOVED = RESERVED + "moved_from"  # the revision of the version in another store that it replaced
PENDING = RESERVED + "pending"  # stored without a model: the vector is a placeholder

# Keys of the collection's own metadata.
SCHEMA_KEY, MODEL_KEY, DIMENSION_KEY = (
    RESERVED + word for word in ("schema", "model", "dimension")
)

MAX_INT = 2**63
UNIT = 1e-3  # tolerance for the length of a vector: a broken index returns garbage


@dataclass(slots=True)
class Rows:
    """Rows as the columns of one Chroma call."""

    ids: list[str] = field(default_factory=list)
    documents: list[str | None] = field(default_factory=list)
    metadatas: list[dict[str, Any]] = field(default_factory=list)
    vectors: list[NDArray[np.float32]] = field(default_factory=list)

    def add(self, id: str, document: str | None, meta: dict[str, Any], vector: Any) -> None:
        self.ids.append(id)
        self.documents.append(document)
        self.metadatas.append(meta)
        self.vectors.append(vector)


def row_ids(id: str, count: int) -> list[str]:
    """The ids of a memory's rows."""
    return [id, *(f"{id}#{n}" for n in range(1, count))]


def to_rows(records: Iterable[Record], dimension: int) -> Rows:
    """All rows of the records, the memory's own row first."""
    rows = Rows()
    for record in records:
        memory, passages = record.memory, record.passages
        ids = row_ids(memory.id, len(passages))
        first = passages[0].vector if passages else placeholder(dimension)
        rows.add(memory.id, memory.content, _metadata(record), first)
        for id, passage in zip(ids[1:], passages[1:], strict=True):
            meta = {OF: memory.id, SPAN: _span_text(passage.span), **_seen_by(memory)}
            rows.add(id, None, meta, passage.vector)
    return rows


def _seen_by(memory: Memory) -> dict[str, str]:
    """Who sees it, for its further rows too: a query on a server is filtered by that. Only what the
    row of the memory has in the same form."""
    if memory.metadata.get(AUDIENCE) != IN_PROJECT:
        return {}
    found = {key: memory.metadata.get(key) for key in (AUDIENCE, OWNER, PROJECT)}
    return {key: v for key, v in found.items() if isinstance(v, str) and _is_native(v)}


def placeholder(dimension: int) -> NDArray[np.float32]:
    """A unit vector for a memory that has no vector yet: Chroma requires one."""
    vector = np.zeros(dimension, dtype=np.float32)
    vector[0] = 1.0
    return vector


def _metadata(record: Record) -> dict[str, Any]:
    memory = record.memory
    native, rest = _split_user(memory.metadata)
    meta: dict[str, Any] = {TYPE: str(memory.type), CREATED: float(memory.created_at), **native}
    optional = {
        EXPIRES: None if memory.expires_at is None else float(memory.expires_at),
        UPDATED: None if memory.updated_at is None else float(memory.updated_at),
        NAME: memory.name,
        SESSION: memory.session_id,
        PINNED: memory.pinned or None,
        JSON: json.dumps(rest) if rest else None,
        REVISION: record.revision or None,
        MOVED: record.moved_from or None,
        PENDING: not record.passages or None,
    }
    if len(record.passages) > 1:
        optional |= {ROWS: len(record.passages), SPAN: _span_text(record.passages[0].span)}
    return meta | {key: value for key, value in optional.items() if value is not None}


def _split_user(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """User metadata that Chroma returns unchanged, and the rest, which is kept as JSON."""
    native = {k: v for k, v in metadata.items() if _key_is_native(k) and _is_native(v)}
    return native, {k: v for k, v in metadata.items() if k not in native}


def _key_is_native(key: str) -> bool:
    return bool(key) and "\0" not in key and not key.startswith(("chroma:", "#", "$"))


def _is_native(value: object) -> bool:
    if isinstance(value, list):
        kinds = {type(item) for item in value}
        return len(kinds) == 1 and all(_is_native_scalar(item) for item in value)
    return _is_native_scalar(value)


def _is_native_scalar(value: object) -> bool:
    if isinstance(value, str):
        return "\0" not in value
    # Not floats: a Chroma server does not return every one of them to the last digit.
    return isinstance(value, int) and -MAX_INT <= value < MAX_INT  # bool is an int


def stale_keys(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> dict[str, None]:
    """Keys to remove from a replaced row: Chroma merges metadata, and removes a key set to None."""
    return {key: None for key in (old or {}) if key not in new}


def _span_text(span: Span) -> str:
    return f"{span[0]}:{span[1]}"


def _span(meta: Mapping[str, Any], length: int) -> Span:
    start, _, end = str(meta.get(SPAN, f"0:{length}")).partition(":")
    return int(start), int(end)


@dataclass(slots=True)
class Row:
    """One row as Chroma returned it."""

    id: str
    document: str | None
    meta: Mapping[str, Any]
    vector: NDArray[np.float32]

    @property
    def is_part(self) -> bool:
        """One row of a memory that has several."""
        return OF in self.meta or ROWS in self.meta


def plain_rows(records: Iterable[Record], dimension: int) -> list[Row]:
    """The same as `to_rows`, as a list of rows."""
    made = to_rows(records, dimension)
    columns = zip(made.ids, made.documents, made.metadatas, made.vectors, strict=True)
    return [Row(*row) for row in columns]


class Found(NamedTuple):
    """What some rows make up."""

    records: list[Record]
    # Ids of rows that belong to no memory. A row outlives its memory when a kill comes between the
    # two calls of an update that leaves fewer passages.
    orphans: list[str]
    # By id, why a row is not a memory. Another program wrote it, or it was damaged: it is reported,
    # and kept with its passages.
    unreadable: dict[str, str]


def to_records(rows: Iterable[Row]) -> Found:
    """The memories that the rows make up, and what else is among the rows."""
    mains: list[Row] = []
    further: dict[str, dict[str, Row]] = {}
    for row in rows:
        owner = row.meta.get(OF)
        if owner is None:
            mains.append(row)
        else:
            further.setdefault(str(owner), {})[row.id] = row
    records: list[Record] = []
    unreadable: dict[str, str] = {}
    for row in mains:
        try:
            records.append(_record(row, further.get(row.id, {})))
        except (KeyError, TypeError, ValueError):
            unreadable[row.id] = _fault(row.meta)
            further.pop(row.id, None)
    return Found(records, list(_orphans(mains, further)), unreadable)


def _fault(meta: Mapping[str, Any]) -> str:
    """Why a row with this metadata is not a memory; without its values, which may be private."""
    missing = [key for key in (TYPE, CREATED) if key not in meta]
    return f"it has no {missing[0]}" if missing else "its metadata is damaged"


def _record(row: Row, further: Mapping[str, Row]) -> Record:
    meta, content = row.meta, row.document or ""
    memory = Memory(
        id=row.id,
        type=MemoryType(str(meta[TYPE])),
        content=content,
        created_at=round(float(meta[CREATED]), MICRO),
        expires_at=_time(meta.get(EXPIRES)),
        metadata=_user(meta),
        name=_label(meta, NAME),
        session_id=_label(meta, SESSION),
        pinned=bool(meta.get(PINNED, False)),
        updated_at=_time(meta.get(UPDATED)),
    )
    revision, clock = int(meta.get(REVISION, 0)), int(meta.get(CLOCK, 0))
    moved = int(meta.get(MOVED, 0))
    if meta.get(PENDING):
        return Record(memory, revision=revision, clock=clock, moved_from=moved)
    ids = row_ids(row.id, row_count(meta))[1:]
    found = [row, *(further[id] for id in ids if id in further)]
    spans = [_span(part.meta, len(content)) for part in found]
    vectors = [part.vector for part in found]
    if not all(abs(float(np.linalg.norm(vector)) - 1.0) < UNIT for vector in vectors):
        return Record(memory)  # keeps the text; the engine makes its vectors again
    passages = tuple(Passage(s, v) for s, v in zip(spans, vectors, strict=True))
    return Record(memory, passages, revision, clock=clock, moved_from=moved)


def row_count(meta: Mapping[str, Any] | None) -> int:
    """How many rows the memory with this metadata has."""
    count = (meta or {}).get(ROWS, 1)
    return count if isinstance(count, int) else 1


def _label(meta: Mapping[str, Any], key: str) -> str | None:
    value = meta.get(key)
    if not isinstance(value, str | None):
        raise TypeError(key)
    return value


def _time(value: Any) -> float | None:
    return None if value is None else round(float(value), MICRO)


def _user(meta: Mapping[str, Any]) -> Mapping[str, Any]:
    own = {key: meta[key] for key in sorted(meta) if not key.startswith(RESERVED)}
    if JSON in meta:
        own |= json.loads(meta[JSON])
    return own


def _orphans(mains: list[Row], further: Mapping[str, Mapping[str, Row]]) -> Iterator[str]:
    expected = {row.id: set(row_ids(row.id, row_count(row.meta))) for row in mains}
    for owner, parts in further.items():
        yield from (id for id in parts if id not in expected.get(owner, set()))


def same_memory(mine: Memory, other: Memory) -> bool:
    """Equal except for the last digit of times, which Chroma can change."""
    names = ("created_at", "expires_at", "updated_at")
    times = [(getattr(mine, name) or 0.0, getattr(other, name) or 0.0) for name in names]
    kept = replace(mine, **{name: getattr(other, name) for name in names})
    return kept == other and all(math.isclose(*pair, rel_tol=0.0, abs_tol=1e-5) for pair in times)
