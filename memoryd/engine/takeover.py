"""Takes over memories of another program: its rows are imported as memories.

Id, text, metadata and time of creation stay. What memoryd cannot hold as it is gets another key,
`original_...`, and is never dropped silently: `Taken.notes` says what was changed, and a row that
cannot be a memory is refused. Ids are derived from the row alone, so taking a row over twice adds
nothing, and an interrupted take-over continues.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import anyio.lowlevel
import numpy as np
from numpy.typing import NDArray

from memoryd.engine import checks
from memoryd.engine.bulk_import import BURST, ImportMemories
from memoryd.engine.index.index import Index
from memoryd.engine.parts import Parts
from memoryd.engine.transfer import Arrival, memory_from
from memoryd.engine.turn_keys import imported_metadata
from memoryd.errors import InvalidInput, MemorydError
from memoryd.export_file import vector_from
from memoryd.fair import in_thread
from memoryd.model import (
    CONTEXT_NAME,
    FOREIGN_ID,
    Memory,
    MemoryType,
    default_expiry,
    parse_type,
    who,
)
from memoryd.ports import Encoder, Passage, Record

TYPE, CREATED, EXPIRES, TIMESTAMP = "type", "created_at", "expires_at", "timestamp"
ORIGINAL = "original_"  # prefix of a metadata key that keeps what memoryd cannot use
REFUSED = "refused"
# Notes: what was changed, for the report.
NO_TIME, NEW_ID, NEW_TYPE, RENAMED = "no_time", "new_id", "new_type", "renamed_metadata"
SAMPLE = 4  # vectors of a batch that are compared with the model's own
SAME_MODEL = 0.99  # cosine from which two vectors of one text are from the same model
EPOCH_MILLISECONDS = 1e11  # larger numbers are milliseconds: in seconds it is the year 5138


@dataclass(frozen=True, slots=True)
class ForeignRow:
    """A row of another program."""

    id: str
    document: object
    metadata: Mapping[str, Any]
    vector: NDArray[np.float32] | None = None
    session_id: object = None
    updated_at: object = None
    file_time: object = None  # of the file that it was in; used if it has no time of creation
    lasts: bool = False  # it does not expire, whatever its type


def foreign_row(fields: object) -> ForeignRow:
    """A row from plain values, its vector as `export_file` writes one. Raises InvalidInput."""
    given = fields if isinstance(fields, Mapping) else {}
    id, metadata, vector = given.get("id"), given.get("metadata"), given.get("vector")
    if not isinstance(id, str) or not isinstance(metadata, Mapping):
        raise InvalidInput("A row needs an id and metadata.", code="rows_invalid")
    try:
        found = vector_from(vector) if isinstance(vector, str) else None
    except ValueError as exc:
        message = "A vector is not base64 of 32-bit floats."
        raise InvalidInput(message, code="rows_invalid") from exc
    return ForeignRow(
        id,
        given.get("document"),
        metadata,
        found,
        session_id=given.get("session_id"),
        updated_at=given.get("updated_at"),
        file_time=given.get("file_time"),
        lasts=given.get("lasts") is True,
    )


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a row: an outcome of an import, or `refused` with the error."""

    id: str  # of the row
    outcome: str
    notes: tuple[str, ...] = ()
    masked: bool = False  # something that looked like a secret was masked
    reused_vector: bool = False
    error: InvalidInput | None = None
    twin: str | None = None  # another memory that says the same or has its name


@dataclass(slots=True)
class _Arriving:
    """A memory on its way into the store, and what is known of it."""

    row: ForeignRow
    memory: Memory
    notes: list[str] = field(default_factory=list)
    passages: tuple[Passage, ...] = ()


class Takeover:
    """Imports rows of another program."""

    def __init__(self, parts: Parts, import_memories: ImportMemories) -> None:
        self._parts = parts
        self._import_memories = import_memories

    async def import_rows(
        self,
        rows: Sequence[ForeignRow],
        *,
        embed: bool,
        separate: bool = True,
        overwrite: bool = False,
        unasked: bool = False,
    ) -> list[Taken]:
        """Import a batch; one result per row, in order. A refused row does not stop the others.

        `embed`: also make the vectors that are missing; without it they are pending. `separate`:
        facts that say the same stay separate memories. `overwrite`: replace what differs here.
        `unasked`: see `BulkImports.import_memories`."""
        async with self._parts.source.operation():
            await self._parts.source.handles((row.id for row in rows), only_here=unasked)
            return await self._import(rows, embed, separate, overwrite, unasked)

    async def _import(
        self,
        rows: Sequence[ForeignRow],
        embed: bool,
        separate: bool,
        overwrite: bool,
        unasked: bool,
    ) -> list[Taken]:
        arriving: dict[int, _Arriving] = {}
        taken: dict[int, Taken] = {}
        for place, row in enumerate(rows):
            try:
                arriving[place] = self._arriving(row)
            except InvalidInput as exc:
                taken[place] = Taken(row.id, REFUSED, error=exc)
            if (place + 1) % BURST == 0:
                await anyio.lowlevel.checkpoint()
        await self._reuse_vectors(list(arriving.values()))
        outcomes = await self._import_memories(
            [Record(one.memory, one.passages) for one in arriving.values()],
            overwrite=overwrite,
            foreign=separate,
            embed=embed,
            unasked=unasked,
        )
        for (place, one), outcome in zip(arriving.items(), outcomes, strict=True):
            taken[place] = _taken(one, outcome)
        return [taken[place] for place in range(len(rows))]

    def _arriving(self, row: ForeignRow) -> _Arriving:
        """The memory of a row. Raises InvalidInput if the row cannot be one."""
        notes: list[str] = []
        metadata = dict(row.metadata)
        id = self._id(row.id, metadata, notes)
        type = _type(metadata, notes)
        created = self._created(row, metadata, id, notes)
        expires = self._time(metadata, EXPIRES)
        if expires is None and not row.lasts:
            expires = default_expiry(type, created, self._parts.lifetimes)
        fields = {
            "id": id,
            "type": str(type),
            "content": row.document,
            "created_at": created,
            "expires_at": expires,
            "metadata": _accepted(metadata, notes),
            "session_id": row.session_id,
            "updated_at": row.updated_at,
        }
        memory = memory_from(fields, self._parts.memory.max_content_bytes)
        return _Arriving(row, memory, notes)

    def _created(
        self, row: ForeignRow, metadata: dict[str, Any], id: str, notes: list[str]
    ) -> float:
        """The time of creation. A row without one keeps that of its first import; it is the time of
        its file, else the present one."""
        created = self._time(metadata, CREATED)
        if created is None:
            created = self._time({TIMESTAMP: metadata.get(TIMESTAMP)}, TIMESTAMP)
        if created is not None:
            return created
        if (known := self._parts.index.get(id)) is not None:
            return known.created_at
        if (of_file := self._time({CREATED: row.file_time}, CREATED)) is not None:
            return of_file
        notes.append(NO_TIME)
        return self._parts.clock()

    def _id(self, id: str, metadata: dict[str, Any], notes: list[str]) -> str:
        """The id of the row; one derived from it if it cannot be an id here."""
        if _can_be_id(id, self._parts.index):
            return id
        notes.append(NEW_ID)
        metadata[_free(f"{ORIGINAL}id", metadata)] = id
        return blake2b(id.encode(errors="replace"), digest_size=10).hexdigest()

    def _time(self, metadata: dict[str, Any], key: str) -> float | None:
        """Take a time out of the metadata; None if there is none. What is not a time is kept."""
        value = metadata.pop(key, None)
        number = _number(value)
        if number is not None:
            value = number / 1000 if abs(number) > EPOCH_MILLISECONDS else number
        try:
            return checks.moment(value, key, self._parts.lifetimes.zone)
        except InvalidInput:
            metadata[_free(f"{ORIGINAL}{key}", metadata)] = value
            return None

    async def _reuse_vectors(self, arriving: list[_Arriving]) -> None:
        """Use the vectors of the rows if they are from our model. Which model made them is written
        nowhere, so some are compared with our own vectors of the same texts."""
        encoder = self._parts.embedding.encoder
        if encoder is None or all(one.row.vector is None for one in arriving):
            return
        candidates = await in_thread(_with_vectors, arriving, encoder)
        step = max(1, len(candidates) // SAMPLE)
        try:
            for one, passage in candidates[::step][:SAMPLE]:
                (own,) = await self._parts.embedding.document(one.memory.content)
                if float(own.vector @ passage.vector) < SAME_MODEL:
                    return
        except MemorydError:
            return  # the model fails: vectors are made when it works again
        for one, passage in candidates:
            one.passages = (passage,)


def _taken(one: _Arriving, done: Arrival | InvalidInput) -> Taken:
    if isinstance(done, InvalidInput):
        return Taken(one.row.id, REFUSED, error=done)
    reused = done.changed and bool(one.passages) and not done.masked
    notes = tuple(one.notes) if done.changed else ()
    twin = None if done.rival == one.memory.id else done.rival
    return Taken(one.row.id, str(done.outcome), notes, done.masked, reused, twin=twin)


def _with_vectors(arriving: list[_Arriving], encoder: Encoder) -> list[tuple[_Arriving, Passage]]:
    """Those with a vector that could be ours: one passage, no speaker, and our dimension. Other
    programs embed only the beginning of a long text."""
    found = []
    for one in arriving:
        vector, memory = one.row.vector, one.memory
        if vector is None or len(vector) != encoder.dimension or who(memory):
            continue
        norm = float(np.linalg.norm(vector))
        spans = encoder.split(memory.content)
        if len(spans) == 1 and np.isfinite(norm) and norm > 0:
            found.append((one, Passage(spans[0], (vector / norm).astype(np.float32))))
    return found


def _can_be_id(id: str, index: Index) -> bool:
    """Whether a memory may have this id: it must not be the name of another one."""
    is_valid = FOREIGN_ID.fullmatch(id) is not None and not id.startswith(CONTEXT_NAME)
    return is_valid and index.named(id) is None


def _type(metadata: dict[str, Any], notes: list[str]) -> MemoryType:
    """Take the type out of the metadata, older names included; a fact if it is unknown. A name that
    is not one of the three types is kept."""
    given = metadata.pop(TYPE, None)
    if given is None:
        return MemoryType.FACT
    try:
        type = parse_type(given)
    except InvalidInput:
        type = MemoryType.FACT
    if given != str(type):
        notes.append(NEW_TYPE)
        metadata[_free(f"{ORIGINAL}{TYPE}", metadata)] = given
    return type


def _number(value: object) -> float | None:
    """Epoch seconds or milliseconds, also as text; None if it is something else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and (len(value) < 9 or not value[:9].isdecimal()):
        return None  # a date such as 20250501 has fewer digits than a time in seconds
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _accepted(metadata: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """The metadata with other keys for what memoryd refuses or reserves."""
    kept: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in metadata.items():
        renamed = _free(f"{ORIGINAL}{key}", metadata)
        name = next((name for name in (key, renamed) if _is_accepted(name, value)), None)
        if name is None:
            rest[key] = value
        else:
            kept[name] = value
        if name != key and RENAMED not in notes:
            notes.append(RENAMED)
    if rest:
        kept[_free(f"{ORIGINAL}metadata", kept)] = json.dumps(rest)
    return kept


def _is_accepted(key: str, value: object) -> bool:
    try:
        imported_metadata({key: value})
    except InvalidInput:
        return False
    return True


def _free(key: str, taken: Mapping[str, Any]) -> str:
    """The key, with an underscore at its end for each that is taken."""
    while key in taken:
        key += "_"
    return key
