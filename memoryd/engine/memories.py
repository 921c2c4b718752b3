"""Store, get and forget memories, each operation atomic.

Order of every change: check, embed, commit to the store, then update the index. So an answer means
that the change is committed, and a reader never sees uncommitted data. Commits are in `commits`,
updates in `updates`, searches in `search`, expiry in `upkeep`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from memoryd.engine import checks, commits, relations
from memoryd.engine.audiences import with_audience
from memoryd.engine.lifecycle.decay import CLAIMS, stored_again
from memoryd.engine.lock_keys import id_key, keys_of, lock_keys
from memoryd.engine.parts import Parts, settled_expiry
from memoryd.engine.project_rules import assigned, settled
from memoryd.engine.relations import check_relations
from memoryd.engine.secrecy import secret_fields, without_secrets
from memoryd.engine.sessions.note_rules import check_stays_note
from memoryd.engine.turn_keys import TURN_KEYS, user_metadata
from memoryd.errors import InvalidInput, NotFound, StoreConflict
from memoryd.fields import (
    SUPERSEDED_BY,
    completed,
    is_note,
    project_of,
    related_ids,
)
from memoryd.labels import normal_name
from memoryd.lead import read_text
from memoryd.metadata import check_metadata
from memoryd.model import (
    CONTEXT_NAME,
    Forgotten,
    Memory,
    MemoryType,
    Stored,
    identical,
    is_expired,
    parse_type,
)
from memoryd.offline import storing
from memoryd.ports import Passage, Record

LONGEST_ADDRESS = 4 * checks.MAX_NAME  # characters of an id or name, including spaces around it
REFUSED = "The embedding model does not accept this text."
NO_VECTOR = "Until it has a vector, this memory is found by its words only."


class Memories:
    """Store, get and forget."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def store(
        self,
        content: str,
        memory_type: str = MemoryType.FACT,
        *,
        metadata: Mapping[str, Any] | None = None,
        name: str | None = None,
        session_id: str | None = None,
        expires_at: object = None,
        pinned: bool = False,
        own_project: str | None = None,
        shared: bool = False,
        audience: str | None = None,
    ) -> Stored:
        """Store `content`. A name replaces the memory that has it, and the name or an alias of a
        note means the note; an identical fact is stored once. It is put into the project that the
        metadata names, else into `own_project`, that of the caller, unless it is `shared`.
        `audience`: who sees it, if others share the store. Raises InvalidInput."""
        given = user_metadata(with_audience(metadata, audience))
        self._parts.audiences.check_given(given)
        if name:
            placed = assigned(given, own_project, shared, None)
            await self._parts.source.place(name, placed)
        place = self._alive(name) if name else None
        return await self._remember(
            content,
            memory_type,
            metadata=assigned(given, own_project, shared, place),
            name=name,
            session_id=session_id,
            expires_at=expires_at,
            pinned=pinned,
        )

    async def remember_turn(
        self, content: str, metadata: Mapping[str, Any], session_id: str
    ) -> Stored:
        """Store a message of a session, with the metadata keys of a message."""
        clean = check_metadata(metadata)
        kind = MemoryType.CONVERSATION
        return await self._remember(content, kind, metadata=clean, session_id=session_id)

    async def remember_own(
        self,
        content: str,
        metadata: Mapping[str, Any],
        session_id: str | None = None,
        *,
        name: str | None = None,
        created_at: float | None = None,
    ) -> Stored:
        """Store a fact that memoryd itself writes, with metadata keys that callers cannot write.
        `created_at`: the time that it is of, without it now."""
        return await self._remember(
            content,
            MemoryType.FACT,
            metadata=self._parts.audiences.own(check_metadata(metadata)),
            session_id=session_id,
            name=name,
            created_at=created_at,
        )

    async def _remember(
        self,
        content: str,
        memory_type: str,
        *,
        metadata: dict[str, Any],
        name: str | None = None,
        session_id: str | None = None,
        expires_at: object = None,
        pinned: bool = False,
        created_at: float | None = None,
    ) -> Stored:
        now, type = self._parts.clock(), parse_type(memory_type)
        pinned = checks.flag(pinned, "pinned")
        asked = Memory(
            id=secrets.token_hex(10),
            type=type,
            content=checks.content(content, self._parts.memory.max_content_bytes),
            created_at=now if created_at is None else created_at,
            expires_at=settled_expiry(type, now, expires_at, pinned, self._parts),
            metadata=metadata,
            name=checked_name(name, self._parts),
            session_id=checks.label(session_id, "session_id"),
            pinned=pinned,
        )
        safe, warnings = await without_secrets(secret_fields(asked), self._parts.memory)
        asked = replace(asked, **safe)
        asked = replace(asked, metadata=completed(asked))
        if asked.name and not self._stays_here(asked):
            await self._parts.catch_up()  # another daemon may have stored under it a moment ago
        await self._parts.source.before_write(lambda: asked)
        commit = partial(self._commit_new, asked)
        with storing():
            stored, has_vector = await commits.retried(self._parts, commit)
        if not has_vector:
            warnings += (f"{self._parts.embedding.trouble() or REFUSED} {NO_VECTOR}",)
        return replace(stored, warnings=warnings)

    async def _commit_new(self, asked: Memory) -> tuple[Stored, bool]:
        """Embed and commit a checked memory; what came of it, and whether it has a vector."""
        async with self._parts.gate.passing():
            # Before the locks: a call for the same name or fact must not wait for the model.
            _, expected = self._outcome(asked)
            passages = await commits.embed(self._parts, expected.memory)
            async with self._parts.locks.hold(keys_of(asked)):
                stored = await self._settle(asked, Record(expected.memory, passages))
        return stored, bool(passages)

    async def get(self, id_or_name: str) -> Memory | None:
        """The memory with this id or name; None if it does not exist or has expired."""
        await self._parts.source.handle(id_or_name)
        return self._alive(id_or_name)

    def _alive(self, id_or_name: str) -> Memory | None:
        memory = self._find(id_or_name)
        alive = memory is not None and not is_expired(memory, self._parts.clock())
        return memory.copy() if memory is not None and alive else None

    async def forget(self, id_or_name: str) -> Forgotten:
        """Delete permanently. `success` only if it existed and is deleted from store and index."""
        await self._parts.source.handle(id_or_name)
        memory = self._find(id_or_name)
        if memory is None:
            return Forgotten(False, str(id_or_name))
        alive = not is_expired(memory, self._parts.clock())
        gone = await self.drop_if([memory.id], lambda found: True)
        return Forgotten(alive and memory.id in gone, memory.id)

    async def drop_expired(self, ids: list[str], now: float) -> set[str]:
        """Delete those of `ids` that are still due; the deleted ones. An update may have come in
        between."""
        return await self.drop_if(ids, lambda m: m is None or is_expired(m, now))

    async def drop_if(self, ids: list[str], holds: Callable[[Memory | None], bool]) -> set[str]:
        """Delete those of `ids` for which `holds` is true, in one commit; the deleted ones."""
        async with self._parts.source.operation():
            await self._parts.source.before_drop(ids)
            return await commits.retried(self._parts, partial(self._drop_if, ids, holds))

    async def _drop_if(self, ids: list[str], holds: Callable[[Memory | None], bool]) -> set[str]:
        index = self._parts.index
        async with self._parts.gate.passing():
            while True:
                naming = index.relations.naming(ids)
                async with self._parts.locks.hold(map(id_key, {*ids, *naming})):
                    if not index.relations.naming(ids) <= naming:
                        continue  # one more names them
                    due = [id for id in ids if holds(index.get(id))]
                    return await relations.drop(self._parts, due) if due else set()

    async def embed_pending(self, id: str) -> None:
        """Embed a memory that was stored without a model."""
        async with self._parts.gate.passing(), self._parts.locks.hold([id_key(id)]):
            memory = self._parts.index.get(id)
            if memory is not None and self._parts.index.is_pending(id):
                passages = await commits.embed(self._parts, memory)
                if passages:
                    with suppress(StoreConflict):  # another daemon has changed or embedded it
                        await commits.commit(self._parts, Record(memory, passages))

    async def remember_fact(self, content: str, **options: Any) -> Stored:
        """Store a fact: kept until forgotten."""
        return await self.store(content, MemoryType.FACT, **options)

    async def remember_conversation(self, content: str, **options: Any) -> Stored:
        """Store something that was said: kept for the configured number of days."""
        return await self.store(content, MemoryType.CONVERSATION, **options)

    async def set_context(self, key: str, value: str, **options: Any) -> Stored:
        """Store `value` under `key` until the end of the day, in place of the previous value."""
        return await self.store(value, MemoryType.CONTEXT, name=_context_name(key), **options)

    async def get_context(self, key: str) -> str | None:
        """The value of `key`; None if it was not set today, or was forgotten."""
        memory = await self.get(_context_name(key))
        return None if memory is None else memory.content

    def _find(self, id_or_name: object) -> Memory | None:
        if not isinstance(id_or_name, str):
            return None
        index = self._parts.index
        if len(id_or_name) > LONGEST_ADDRESS:
            return None
        return index.get(id_or_name) or index.named(normal_name(id_or_name))

    async def existing(self, id_or_name: str) -> Memory:
        """The memory with this id or name. Raises NotFound."""
        memory = await self.get(id_or_name)
        if memory is None:
            raise NotFound(f"There is no memory {id_or_name!r}.")
        return memory

    async def _settle(self, asked: Memory, embedded: Record) -> Stored:
        """Commit a new memory: as new, under its name, or merged into an identical fact.
        `embedded`: what it was expected to become, with its vectors."""
        while True:
            place, stored = self._outcome(asked)
            if place is not None and self._is_expired_in_relations(place):
                await self.drop_expired([place.id], asked.created_at)
                continue
            async with self._parts.locks.hold(lock_keys(place, stored.memory)):
                if place is not None and self._parts.index.get(place.id) != place:
                    continue  # changed or forgotten while we waited: try again
                if place is None or not identical(stored.memory, place):
                    now = asked.created_at
                    check_relations(self._parts, place, stored.memory, now)
                    passages = await self._passages(stored.memory, place, embedded)
                    record = Record(stored.memory, passages)
                    await relations.commit(self._parts, place, record)
                return replace(stored, memory=stored.memory.copy())

    def _is_expired_in_relations(self, memory: Memory) -> bool:
        """Whether it has expired and others are related to it, which must not become relations to
        the memory that takes its place."""
        is_related = related_ids(memory) or self._parts.index.relations.naming([memory.id])
        return bool(is_related) and is_expired(memory, self._parts.clock())

    async def _passages(
        self, memory: Memory, place: Memory | None, embedded: Record
    ) -> tuple[Passage, ...]:
        """The passages of a memory: those of its place or of `embedded` if a model reads the same
        of them. Else another call came in between, and it is embedded here."""
        names = self._parts.search.lead_fields
        text = read_text(memory, names)
        if place is not None and text == read_text(place, names):
            if kept := await commits.passages(self._parts, place):
                return kept
        if text == read_text(embedded.memory, names):
            return embedded.passages
        return await commits.embed(self._parts, memory)

    def _stays_here(self, asked: Memory) -> bool:
        return self._parts.audiences.stays_here(asked, self._place(asked))

    def _place(self, asked: Memory) -> Memory | None:
        """The memory whose name it has, and that it would replace."""
        named = self._parts.index.all_named(asked.name) if asked.name else ()
        return self._parts.audiences.place(asked, named)

    def _outcome(self, asked: Memory) -> tuple[Memory | None, Stored]:
        """What storing this leads to now; and the memory that is replaced or merged, if any."""
        place, stored = self._combined(asked)
        memory = self._parts.audiences.settled(settled(stored.memory), place)
        return place, replace(stored, memory=memory)

    def _combined(self, asked: Memory) -> tuple[Memory | None, Stored]:
        named = self._place(asked)
        if (twin := self._twin(asked, named)) is not None:
            return twin, Stored(_merged(twin, asked), duplicate=True)
        if named is None:
            return None, Stored(asked)
        return named, _replacement(named, asked)

    def _twin(self, asked: Memory, named: Memory | None) -> Memory | None:
        """An identical fact of the same project and audience that has not expired, unless the two
        have different names."""
        if asked.type is not MemoryType.FACT:
            return None
        now = self._parts.clock()
        for twin in self._parts.index.facts(asked.content, asked.session_id):
            if self._parts.index.relations.superseded_until(twin.id) > now:
                continue  # searches do not find it, so what is stored now must not be part of it
            if project_of(twin) != project_of(asked):
                continue  # what one project knows is not changed by another
            if not self._parts.audiences.are_alike(asked, named, twin):
                continue
            if is_note(twin):
                continue  # it is changed by its name only
            may_be_named = twin.name is None and named is None
            if (asked.name in (None, twin.name) or may_be_named) and not is_expired(twin, now):
                return twin
        return None


def _replacement(place: Memory, asked: Memory) -> Stored:
    """Store under a name again: created_at and metadata that is not given stay. The same id, so one
    write replaces it: a kill leaves the old or the new memory."""
    memory = replace(asked, id=place.id)
    if is_expired(place, asked.created_at):
        return Stored(memory)
    # Not what makes it a message of a session: only `add_turn` sets that. And a new text is not
    # superseded by what superseded the old one, nor verified.
    lost = TURN_KEYS if place.content == asked.content else (*TURN_KEYS, SUPERSEDED_BY, *CLAIMS)
    kept = {key: value for key, value in place.metadata.items() if key not in lost}
    memory = replace(
        memory,
        created_at=place.created_at,
        updated_at=asked.created_at,
        metadata=check_metadata(kept | dict(asked.metadata)),
    )
    memory = replace(memory, metadata=completed(memory, place))
    if is_note(place):  # `asked` may have an alias of it
        memory = replace(memory, name=place.name)
        check_stays_note(place, memory)
    memory = stored_again(memory, asked.created_at)
    return Stored(memory, replaced=place.content != asked.content)


def _merged(twin: Memory, asked: Memory) -> Memory:
    """Two identical facts as one memory; what the second one adds is kept."""
    ends = (twin.expires_at, asked.expires_at)
    merged = replace(
        twin,
        name=twin.name or asked.name,
        metadata={**twin.metadata, **asked.metadata},
        pinned=twin.pinned or asked.pinned,
        expires_at=None if None in ends else max(end for end in ends if end is not None),
    )
    if not identical(merged, twin):
        merged = replace(merged, updated_at=asked.created_at)
    return stored_again(merged, asked.created_at)


def checked_name(value: object, parts: Parts) -> str | None:
    """A name for a memory; None if not given. Raises InvalidInput if it is the id of a memory,
    which another program may have chosen."""
    name = checks.label(value, "name")
    if name is not None and parts.index.get(name) is not None:
        raise InvalidInput(
            f"A memory has the id {name!r}, so it cannot be a name.",
            code="name_invalid",
            hint="Choose another name.",
        )
    return name


def _context_name(key: object) -> str:
    if (clean_key := checks.label(key, "key")) is None:
        raise InvalidInput("A context needs a key.", code="key_invalid")
    return CONTEXT_NAME + clean_key
