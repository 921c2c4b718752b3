"""Export and import of memories, unchanged: with their ids, times and names.

Unlike `store`, an import neither creates values nor merges. A memory that exists with the same
fields is `known`. An existing memory that conflicts (the same id, the same name, or the same fact
under another id) is kept unless `overwrite` is set. So importing twice changes nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import anyio

from memoryd.audience import scope_of
from memoryd.engine import checks, commits, relations
from memoryd.engine.filters import Filter
from memoryd.engine.lock_keys import id_key, keys_of
from memoryd.engine.parts import Parts
from memoryd.engine.relations import with_superseding
from memoryd.engine.secrecy import secret_fields, without_secrets
from memoryd.engine.sessions.note_rules import check_imported
from memoryd.engine.turn_keys import imported_metadata
from memoryd.errors import InvalidInput
from memoryd.fair import in_thread
from memoryd.fields import LAST_USED_AT, USES, handles_of, is_note, project_of
from memoryd.formats import claude_md
from memoryd.model import (
    FOREIGN_ID,
    MICRO,
    Memory,
    MemoryType,
    identical,
    is_expired,
    parse_type,
)
from memoryd.ports import Encoder, Passage, Record

FIELDS = frozenset(
    "id type content created_at expires_at metadata name session_id pinned updated_at".split()
)
NEEDED = ("id", "type", "content", "created_at", "expires_at")
PAGE = 200  # memories per page
PAGE_BYTES = 256_000  # approximate; a page has at least one memory
MAX_TESTED = 2_000  # memories for one page, so that a rare match does not stall other calls
EVERYTHING = Filter()


class Outcome(StrEnum):
    """The result of importing one memory."""

    ADDED = "added"
    REPLACED = "replaced"  # a conflicting memory was overwritten
    KNOWN = "known"  # it existed already
    KEPT = "kept"  # a conflicting memory exists, and was kept
    EXPIRED = "expired"  # it has expired, and was not imported


@dataclass(frozen=True, slots=True)
class Arrival:
    """The outcome, and the id of the conflicting or identical memory."""

    outcome: Outcome
    rival: str | None = None
    masked: bool = False  # something that looked like a secret was masked

    @property
    def changed(self) -> bool:
        """Whether something was written."""
        return self.outcome in (Outcome.ADDED, Outcome.REPLACED)


class Imports:
    """Imports memories."""

    def __init__(self, parts: Parts, session_changed: Callable[[str], None]) -> None:
        """`session_changed` is called with the id of a session that got or lost a message."""
        self._parts = parts
        self._session_changed = session_changed

    async def import_memory(
        self,
        memory: Memory,
        passages: tuple[Passage, ...] = (),
        *,
        overwrite: bool = False,
        foreign: bool = False,
        embed: bool = True,
    ) -> Arrival:
        """Import a memory as it is. `passages` must be of the model in use; without them it is
        embedded here, or if `embed` is false it waits for its vectors. Raises InvalidInput.

        `foreign`: another program stored it. It keeps its id even if a fact says the same.
        """
        arrival = await self._import_memory(memory, passages, overwrite, foreign, embed)
        if memory.session_id is not None and arrival.changed:
            self._session_changed(memory.session_id)
        return arrival

    def foreseen(
        self, memory: Memory, overwrite: bool, foreign: bool, now: float
    ) -> tuple[Arrival, bool]:
        """The outcome for a memory that has not expired, as things are now; and whether importing
        it would only add it, and concern no other memory."""
        memory = self._parts.audiences.settled(memory, self._parts.index.get(memory.id))
        known = with_superseding(self._parts.index, memory)
        rivals = self._rivals(memory, foreign, now)
        found = _judged(known, rivals, overwrite)
        is_alone = found.outcome is Outcome.ADDED and (known is memory or known == memory)
        return found, is_alone and self._involved(memory, rivals) == {memory.id}

    async def known_facts(self) -> set[str]:
        """What all facts are known by, for `claude_md.is_known`."""
        return await in_thread(_known_facts, list(self._parts.index))

    async def _import_memory(
        self,
        memory: Memory,
        passages: tuple[Passage, ...],
        overwrite: bool,
        foreign: bool,
        embed: bool,
    ) -> Arrival:
        encoder = self._parts.embedding.encoder
        if is_expired(memory, self._parts.clock()):
            return Arrival(Outcome.EXPIRED)
        fields, _ = await without_secrets(secret_fields(memory), self._parts.memory)
        safe = replace(memory, **fields)
        masked = safe != memory
        if masked:  # its vectors were made with the secret
            memory, passages = safe, ()
        await self._parts.source.before_import([memory])
        memory = self._parts.audiences.settled(memory, self._parts.index.get(memory.id))
        # Before embedding, so that a memory which exists already costs nothing.
        known = with_superseding(self._parts.index, memory)
        if not (found := _judged(known, self._rivals(known, foreign), overwrite)).changed:
            return found

        async def write() -> Arrival:
            async with self._parts.gate.passing():
                # They are of the model that there was before the gate.
                usable = passages if self._parts.embedding.encoder is encoder else ()
                if not usable and embed:
                    usable = await commits.embed(self._parts, memory)
                return await self._write(Record(memory, usable), overwrite, foreign)

        done = await commits.retried(self._parts, write)
        return replace(done, masked=masked)

    async def _write(self, record: Record, overwrite: bool, foreign: bool) -> Arrival:
        memory = record.memory
        async with self._parts.locks.hold(keys_of(memory)):
            while True:
                rivals, ids = self._rivals(memory, foreign), self.involved(memory, foreign)
                async with self._parts.locks.hold(map(id_key, ids)):
                    if self._rivals(memory, foreign) != rivals:
                        continue  # another call was faster: try again
                    if not self.involved(memory, foreign) <= ids:
                        continue
                    record = replace(record, memory=with_superseding(self._parts.index, memory))
                    return await self._settle_in(record, rivals, overwrite)

    def involved(self, memory: Memory, foreign: bool) -> set[str]:
        """The ids of the memories that importing this one may change."""
        return self._involved(memory, self._rivals(memory, foreign))

    def _involved(self, memory: Memory, rivals: list[Memory]) -> set[str]:
        index = self._parts.index
        ids = {memory.id, *(rival.id for rival in rivals)}
        return (
            ids | relations.changed_ids(index.get(memory.id), memory) | index.relations.naming(ids)
        )

    async def _settle_in(self, record: Record, rivals: list[Memory], overwrite: bool) -> Arrival:
        found = _judged(record.memory, rivals, overwrite)
        if found.changed:
            with anyio.CancelScope(shield=True):
                # The new one first: if the store fails in between, both are there, none is lost.
                others = [rival.id for rival in rivals if rival.id != record.memory.id]
                before = self._parts.index.get(record.memory.id)
                await relations.commit(self._parts, before, record, dropped=others)
                if others:
                    await commits.drop(self._parts, others)
        return found

    def _rivals(self, memory: Memory, foreign: bool, now: float | None = None) -> list[Memory]:
        """The unexpired memories with its id; and of the same audience those with its name, or with
        an alias of a note, and identical facts of the same name and project unless it is
        `foreign`."""
        index, now = self._parts.index, self._parts.clock() if now is None else now
        found = [index.get(memory.id)]
        for handle in handles_of(memory):
            alike = index.named_alike(handle) if is_note(memory) else index.all_named(handle)
            found += [other for other in alike if scope_of(other) == scope_of(memory)]
        if memory.type is MemoryType.FACT and not foreign:
            twins = index.facts(memory.content, memory.session_id)
            found += [twin for twin in twins if _place_of(twin) == _place_of(memory)]
        alive = {m.id: m for m in found if m is not None and not is_expired(m, now)}
        return list(alive.values())


def _judged(memory: Memory, rivals: list[Memory], overwrite: bool) -> Arrival:
    """The outcome for this memory, given those that it conflicts with."""
    if not rivals:
        return Arrival(Outcome.ADDED)
    differing = [rival for rival in rivals if not same(rival, memory)]
    if not differing:
        return Arrival(Outcome.KNOWN, rivals[0].id)
    return Arrival(Outcome.REPLACED if overwrite else Outcome.KEPT, differing[0].id)


def _place_of(memory: Memory) -> tuple[object, ...]:
    return memory.name, project_of(memory), scope_of(memory)


def _known_facts(memories: Iterable[Memory]) -> set[str]:
    """Runs on a thread."""
    known: set[str] = set()
    for memory in memories:
        if memory.type is MemoryType.FACT:
            known |= claude_md.known_by(memory.id, memory.content)
    return known


def memory_from(fields: object, max_bytes: int) -> Memory:
    """The memory from exported fields. Raises InvalidInput if it is not valid."""
    if not isinstance(fields, Mapping):
        raise _refused("A memory must be a mapping of names to values.")
    if unknown := sorted(str(key)[:50] for key in fields if key not in FIELDS):
        raise _refused(f"A memory has no field {unknown[0]!r}.")
    if missing := [key for key in NEEDED if key not in fields]:
        raise _refused(f"The field {missing[0]!r} is missing.")
    id, created = fields["id"], _instant(fields["created_at"], "created_at")
    if not isinstance(id, str) or not FOREIGN_ID.fullmatch(id):
        raise _refused("The id must be 1 to 128 letters, digits or any of . _ : @ + = -.")
    if created is None:
        raise _refused("created_at is missing.")
    expires, pinned = _instant(fields["expires_at"], "expires_at"), fields.get("pinned", False)
    pinned = checks.flag(pinned, "pinned")
    memory = Memory(
        id=id,
        type=parse_type(fields["type"]),
        content=checks.content(fields["content"], max_bytes),
        created_at=created,
        expires_at=None if pinned else expires,  # a pin beats any end, as in `model.expiry`
        metadata=imported_metadata(fields.get("metadata")),
        name=checks.label(fields.get("name"), "name"),
        session_id=checks.label(fields.get("session_id"), "session_id"),
        pinned=pinned,
        updated_at=_instant(fields.get("updated_at"), "updated_at"),
    )
    check_imported(memory)
    return memory


def _instant(value: object, what: str) -> float | None:
    """Epoch seconds. A formatted date is refused: it would lose precision."""
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        if checks.EARLIEST <= value <= checks.LATEST:  # false for NaN and infinity
            return round(float(value), MICRO)
        raise _refused(f"{what} is not between the years 1 and 9999.")
    raise _refused(f"{what} is not a number of epoch seconds.")


def same(one: Memory, other: Memory) -> bool:
    """Equal in every field but the uses; under another id, except id and the times of creation and
    change."""
    one, other = (replace(m, metadata=_without_uses(m.metadata)) for m in (one, other))
    if one.id != other.id:
        one = replace(one, id=other.id, created_at=other.created_at, updated_at=other.updated_at)
    return identical(one, other)


def _without_uses(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if key not in (USES, LAST_USED_AT)}


def _refused(message: str) -> InvalidInput:
    return InvalidInput(message, code="import_invalid")


@dataclass(frozen=True, slots=True)
class Exported:
    """A page of an export. `after`: argument for the next page; None after the last."""

    records: tuple[Record, ...]
    after: str | None
    total: int | None  # memories that match; None on later pages of an export with a filter
    model: str | None
    dimension: int | None


class Exporter:
    """Exports page by page; keeps the sorted ids, so that no page has to sort them again."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._ids: list[str] = []
        self._encoder: Encoder | None = None  # on the first page

    async def page(self, after: str | None = None, filter: Filter = EVERYTHING) -> Exported:
        """The memories after the id `after` that match; the first page without it. A page with
        `after` may be empty: only so many memories are tested for one."""
        begins = checks.label(after, "after")
        encoder = self._parts.embedding.encoder
        if begins is None or not self._ids:
            self._encoder = encoder
            self._ids = sorted(self._parts.index.ids())
        start = bisect_right(self._ids, begins) if begins else 0
        ids, last = self._take(start, filter)
        if last is None:
            self._ids = []
        found = {id: self._parts.index.record(id) for id in ids}
        records = [record for record in found.values() if record is not None]
        if missing := [id for id, record in found.items() if record is None]:
            records += await self._parts.store.get(missing)  # only the store has their vectors
            records.sort(key=lambda record: record.memory.id)
        if encoder is not self._encoder:  # vectors of one export are all of one model
            records = [Record(record.memory) for record in records]
        return Exported(
            tuple(records),
            last,
            await self._total(filter, is_first=begins is None),
            encoder.model if encoder else None,
            encoder.dimension if encoder else None,
        )

    async def _total(self, filter: Filter, *, is_first: bool) -> int | None:
        now, index = self._parts.clock(), self._parts.index
        if filter == EVERYTHING:
            return sum(index.census(now)[0].values())
        if not is_first:  # counting takes time for each memory
            return None
        return int((await in_thread(index.selection(filter, now).mask)).sum())

    def _take(self, start: int, filter: Filter) -> tuple[list[str], str | None]:
        """The ids that fit into a page, and the last id; None if there are no more."""
        now, index, size = self._parts.clock(), self._parts.index, 0
        taken: list[str] = []
        for place in range(start, len(self._ids)):
            memory = index.get(self._ids[place])
            if memory is not None and not is_expired(memory, now) and filter.matches(memory):
                taken.append(memory.id)
                size += len(memory.content) + index.vector_bytes(memory.id)
            if len(taken) >= PAGE or size >= PAGE_BYTES or place - start >= MAX_TESTED:
                more = place + 1 < len(self._ids)
                return taken, self._ids[place] if more else None
        return taken, None
