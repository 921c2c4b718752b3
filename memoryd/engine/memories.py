"""Store, get, update and forget memories, each operation atomic.

Order of every change: check, embed, commit to the store, then update the index. So an answer means
that the change is committed, and a reader never sees uncommitted data. Commits are in `commits`,
searches in `search`, expiry in `upkeep`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from memoryd.engine import checks, commits
from memoryd.engine.parts import Parts
from memoryd.engine.secrecy import secret_fields, without_secrets
from memoryd.engine.turn_keys import user_metadata
from memoryd.errors import InvalidInput, NotFound
from memoryd.labels import normal_name
from memoryd.metadata import check_metadata
from memoryd.model import (
    CONTEXT_NAME,
    Forgotten,
    Memory,
    MemoryType,
    Stored,
    expiry,
    is_expired,
    parse_type,
    who,
)
from memoryd.ports import Record

LONGEST_ADDRESS = 4 * checks.MAX_NAME  # characters of an id or name, including spaces around it
KEEP: Any = object()  # default of an update: leave the field as it is
REFUSED = "The embedding model does not accept this text."
NO_VECTOR = "Until it has a vector, this memory is found by its words only."


class Memories:
    """Store, get, update and forget."""

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
    ) -> Stored:
        """Store `content`. A name replaces the memory that has it; an identical fact is stored
        once. Raises InvalidInput."""
        return await self._remember(
            content,
            memory_type,
            metadata=user_metadata(metadata),
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
    ) -> Stored:
        now, type = self._parts.clock(), parse_type(memory_type)
        pinned = checks.flag(pinned, "pinned")
        asked = Memory(
            id=secrets.token_hex(10),
            type=type,
            content=checks.content(content, self._parts.memory.max_content_bytes),
            created_at=now,
            expires_at=settled_expiry(type, now, expires_at, pinned, self._parts),
            metadata=metadata,
            name=checks.label(name, "name"),
            session_id=checks.label(session_id, "session_id"),
            pinned=pinned,
        )
        safe, warnings = await without_secrets(secret_fields(asked), self._parts.memory)
        asked = replace(asked, **safe)
        async with self._parts.gate.passing():
            # Before the locks: a call for the same name or fact must not wait for the model.
            passages = await commits.embed(self._parts, asked)
            async with self._parts.locks.hold(keys_of(asked)):
                stored = await self._settle(Record(asked, passages))
        if not passages:
            warnings += (f"{self._parts.embedding.trouble() or REFUSED} {NO_VECTOR}",)
        return replace(stored, warnings=warnings)

    async def get(self, id_or_name: str) -> Memory | None:
        """The memory with this id or name; None if it does not exist or has expired."""
        memory = self._find(id_or_name)
        alive = memory is not None and not is_expired(memory, self._parts.clock())
        return memory.copy() if memory is not None and alive else None

    async def update(
        self,
        id_or_name: str,
        *,
        content: str = KEEP,
        memory_type: str = KEEP,
        metadata: Mapping[str, Any] | None = KEEP,
        name: str | None = KEEP,
        session_id: str | None = KEEP,
        expires_at: object = KEEP,
        pinned: bool = KEEP,
    ) -> Memory:
        """Change the given fields and keep the others; the changed memory.

        `metadata` replaces all of it. `expires_at=None` returns to the type's lifetime. A name
        that another memory has is refused: an update must not delete. Raises NotFound and
        InvalidInput.
        """
        found = await self._existing(id_or_name)
        if metadata is not KEEP:
            metadata = user_metadata(metadata, found.metadata)
        fields: dict[str, Any] = {"content": content, "type": memory_type, "metadata": metadata}
        fields |= {"name": name, "session_id": session_id, "pinned": pinned}
        return await self._change(found, fields, expires_at)

    async def mark_turn(self, id: str, metadata: Mapping[str, Any]) -> None:
        """Replace the metadata of a message, its session keys included. Raises NotFound."""
        await self._change(await self._existing(id), {"metadata": metadata}, KEEP)

    async def _change(self, found: Memory, fields: dict[str, Any], expires_at: object) -> Memory:
        changes, _ = await without_secrets(clean(fields, self._parts), self._parts.memory)
        async with self._parts.gate.passing():
            return await self._write_change(found, changes, expires_at)

    async def _write_change(
        self, found: Memory, changes: Mapping[str, Any], expires_at: object
    ) -> Memory:
        fresh, wanted = None, replace(found, **changes)
        if (wanted.content, who(wanted)) != (found.content, who(found)):
            fresh = await commits.embed(self._parts, wanted)
        keys = [id_key(found.id)] + ([name_key(changes["name"])] if changes.get("name") else [])
        async with self._parts.locks.hold(keys):
            before = await self._existing(found.id)
            after = revised(before, changes, expires_at, self._parts)
            if fresh is None or (after.content, who(after)) != (wanted.content, who(wanted)):
                fresh = await commits.passages(self._parts, before)
            await commits.commit(self._parts, Record(after, fresh))
        return after.copy()

    async def forget(self, id_or_name: str) -> Forgotten:
        """Delete permanently. `success` only if it existed and is deleted from store and index."""
        memory = self._find(id_or_name)
        if memory is None:
            return Forgotten(False, str(id_or_name))
        alive = not is_expired(memory, self._parts.clock())
        async with self._parts.gate.passing(), self._parts.locks.hold([id_key(memory.id)]):
            gone = await commits.drop(self._parts, [memory.id])
        return Forgotten(alive and memory.id in gone, memory.id)

    async def drop_expired(self, ids: list[str], now: float) -> set[str]:
        """Delete those of `ids` that are still due; the deleted ones. An update may have come in
        between."""
        return await self.drop_if(ids, lambda m: m is None or is_expired(m, now))

    async def drop_if(self, ids: list[str], holds: Callable[[Memory | None], bool]) -> set[str]:
        """Delete those of `ids` for which `holds` is true, in one commit; the deleted ones."""
        async with self._parts.gate.passing(), self._parts.locks.hold(map(id_key, ids)):
            due = [id for id in ids if holds(self._parts.index.get(id))]
            return await commits.drop(self._parts, due) if due else set()

    async def embed_pending(self, id: str) -> None:
        """Embed a memory that was stored without a model."""
        async with self._parts.gate.passing(), self._parts.locks.hold([id_key(id)]):
            memory = self._parts.index.get(id)
            if memory is not None and self._parts.index.is_pending(id):
                passages = await commits.embed(self._parts, memory)
                if passages:
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

    async def _existing(self, id_or_name: str) -> Memory:
        memory = await self.get(id_or_name)
        if memory is None:
            raise NotFound(f"There is no memory {id_or_name!r}.")
        return memory

    async def _settle(self, record: Record) -> Stored:
        """Commit a new memory: as new, under its name, or merged into an identical fact."""
        asked, index = record.memory, self._parts.index
        while True:
            named = index.named(asked.name) if asked.name else None
            twin = self._twin(asked, named)
            place = twin or named
            if place is None:
                await commits.commit(self._parts, record)
                return Stored(asked.copy())
            async with self._parts.locks.hold([id_key(place.id)]):
                if index.get(place.id) is not place:
                    continue  # changed or forgotten while we waited: try again
                if twin is not None:
                    return await self._merge(twin, asked)
                # The same id, so one write replaces it: a kill leaves the old or the new memory.
                memory = replace(asked, id=place.id)
                await commits.commit(self._parts, Record(memory, record.passages))
                other = place.content != asked.content and not is_expired(place, asked.created_at)
                return Stored(memory.copy(), replaced=other)

    def _twin(self, asked: Memory, named: Memory | None) -> Memory | None:
        """An identical fact that has not expired, unless the two have different names."""
        if asked.type is not MemoryType.FACT:
            return None
        now = self._parts.clock()
        for twin in self._parts.index.facts(asked.content, asked.session_id):
            may_be_named = twin.name is None and named is None
            if (asked.name in (None, twin.name) or may_be_named) and not is_expired(twin, now):
                return twin
        return None

    async def _merge(self, twin: Memory, asked: Memory) -> Stored:
        """Merge two identical facts into one memory; what the second one adds is kept."""
        ends = (twin.expires_at, asked.expires_at)
        merged = replace(
            twin,
            name=twin.name or asked.name,
            metadata={**twin.metadata, **asked.metadata},
            pinned=twin.pinned or asked.pinned,
            expires_at=None if None in ends else max(end for end in ends if end is not None),
        )
        if merged != twin:
            await commits.commit(
                self._parts, Record(merged, await commits.passages(self._parts, twin))
            )
        return Stored(merged.copy(), duplicate=True)


# Locks are taken in the order of their keys: fact, then name, then id, everywhere.
def id_key(id: str) -> str:
    return f"3:{id}"


def name_key(name: str) -> str:
    return f"2:{name}"


def keys_of(memory: Memory) -> list[str]:
    """The keys to lock to store this memory: its name, and its text if it is a fact."""
    keys = [name_key(memory.name)] if memory.name else []
    if memory.type is MemoryType.FACT:
        keys.append(f"1:{memory.session_id or ''}\0{memory.content.strip()}")
    return keys


def _context_name(key: object) -> str:
    if (clean_key := checks.label(key, "key")) is None:
        raise InvalidInput("A context needs a key.", code="key_invalid")
    return CONTEXT_NAME + clean_key


# Rules of an update, without side effects.
def clean(given: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
    """The fields to change, checked; `revised` adds `expires_at`. Raises InvalidInput."""
    rules: dict[str, Callable[[Any], Any]] = {
        "content": lambda value: checks.content(value, parts.memory.max_content_bytes),
        "type": parse_type,
        "metadata": check_metadata,
        "pinned": lambda value: checks.flag(value, "pinned"),
        "name": lambda value: checks.label(value, "name"),
        "session_id": lambda value: checks.label(value, "session_id"),
    }
    return {key: rules[key](value) for key, value in given.items() if value is not KEEP}


def revised(before: Memory, changes: Mapping[str, Any], expires_at: object, parts: Parts) -> Memory:
    """The memory after the update. Raises InvalidInput if another memory has its new name."""
    after = replace(before, **changes)
    _check_name_is_free(after, parts)
    return replace(after, expires_at=_new_expiry(before, after, expires_at, parts))


def settled_expiry(
    type: MemoryType, created_at: float, override: object, pinned: bool, parts: Parts
) -> float | None:
    """When a memory expires; None: never. Raises InvalidInput for a time in the past."""
    at = checks.moment(override, "expires_at", parts.lifetimes.zone)
    if at is not None and at <= parts.clock() and not pinned:
        raise InvalidInput(
            "expires_at is not in the future: the memory would expire immediately.",
            code="expires_at_invalid",
            hint="Give a later time, or leave it out.",
        )
    return expiry(type, created_at, parts.lifetimes, override=at, pinned=pinned)


def _new_expiry(before: Memory, after: Memory, given: object, parts: Parts) -> float | None:
    """An expiry stays through an update, unless type or pin changes: then the rule decides."""
    changed = (before.type, before.pinned) != (after.type, after.pinned)
    if given is KEEP and not changed:
        return before.expires_at
    override = None if given is KEEP else given
    # A new lifetime counts from now: counted from the creation it might be over already.
    start = parts.clock() if changed else before.created_at
    return settled_expiry(after.type, start, override, after.pinned, parts)


def _check_name_is_free(memory: Memory, parts: Parts) -> None:
    other = parts.index.named(memory.name) if memory.name else None
    if other and other.id != memory.id and not is_expired(other, parts.clock()):
        raise InvalidInput(
            f"Another memory has the name {memory.name!r}.",
            code="name_taken",
            hint="Forget that one first, or store under the name to replace it.",
        )
