"""Change memories: content, type, name, metadata, pin and expiry.

The model reads a changed text before any lock is taken. Under the lock the change is applied to the
memory as it is then, so two updates of different fields, or of different metadata keys, both stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from memoryd.audience import scope_of
from memoryd.engine import checks, commits, relations
from memoryd.engine.audiences import with_audience
from memoryd.engine.lifecycle.decay import restarted, without_claims
from memoryd.engine.lock_keys import lock_keys, name_key
from memoryd.engine.memories import Memories, checked_name
from memoryd.engine.parts import Parts, settled_expiry
from memoryd.engine.secrecy import without_secrets
from memoryd.engine.sessions.note_rules import (
    check_handles_are_free,
    check_stays_note,
    with_aliases,
)
from memoryd.engine.turn_keys import OWN_KEYS, user_metadata
from memoryd.errors import InvalidInput
from memoryd.fields import KIND, SEQ, aliases_of, completed, is_note
from memoryd.lead import read_text
from memoryd.metadata import check_metadata
from memoryd.model import Memory, Updated, identical, is_expired, parse_type
from memoryd.ports import Passage, Record

CLEARABLE = ("name", "expires_at")


@dataclass(frozen=True, slots=True)
class Change:
    """A checked change: `fields` of the memory to replace, and what depends on its old state."""

    fields: Mapping[str, Any]  # content, type, name and pinned
    metadata: Mapping[str, Any] | None = None
    replace_metadata: bool = False
    expires_at: object = None
    resets_expiry: bool = False

    @property
    def names(self) -> Sequence[str]:
        name = self.fields.get("name")
        return [name] if name else []

    def applied(self, before: Memory, parts: Parts) -> Memory:
        """The memory after the change. Raises InvalidInput."""
        after = without_claims(before, replace(before, **self.fields))
        if self.metadata is not None:
            after = replace(after, metadata=self._metadata(after.metadata))
        after = restarted(before, after, parts.clock())
        after = replace(after, metadata=completed(after, before))
        if is_note(before):  # its new name may be one of its aliases
            after = with_aliases(after, aliases_of(after))
        return replace(after, expires_at=self._expiry(before, after, parts))

    def _metadata(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """Merged, where null removes a key; or replaced, except for keys that callers cannot
        write."""
        given = self.metadata or {}
        if self.replace_metadata:
            own = (*OWN_KEYS, KIND) if SEQ in before else OWN_KEYS
            kept = {key: value for key, value in before.items() if key in own}
            return {**kept, **given}
        removed = {key for key, value in given.items() if value is None}
        merged = {**before, **given}
        return check_metadata({key: merged[key] for key in merged if key not in removed})

    def _expiry(self, before: Memory, after: Memory, parts: Parts) -> float | None:
        """An expiry stays, unless type or pin changes: then the rule decides, counted from now."""
        changed = (before.type, before.pinned) != (after.type, after.pinned)
        if self.expires_at is None and not self.resets_expiry and not changed:
            return before.expires_at
        now = parts.clock()
        start = now if changed else before.created_at
        ends = settled_expiry(after.type, start, self.expires_at, after.pinned, parts)
        if ends is None or ends > now:
            return ends
        return settled_expiry(after.type, now, None, after.pinned, parts)


class AnyChange(Protocol):
    """What `Updates.change` applies: a change of fields, or one of a note."""

    @property
    def names(self) -> Sequence[str]:
        """The names that the memory gets by it."""

    def applied(self, before: Memory, parts: Parts) -> Memory:
        """The memory after the change; called again if it was changed meanwhile."""


class Updates:
    """The operation `update_memory`."""

    def __init__(self, parts: Parts, memories: Memories) -> None:
        self._parts = parts
        self._memories = memories

    async def update_memory(
        self,
        memory_id: str,
        *,
        content: str | None = None,
        memory_type: str | None = None,
        name: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        replace_metadata: bool = False,
        pinned: bool | None = None,
        expires_at: object = None,
        clear: Sequence[str] = (),
        audience: str | None = None,
    ) -> Updated:
        """Change what is given, keep the rest; nothing is written if nothing differs.

        `metadata` is merged into what is there, and null removes a key; `replace_metadata`: it
        replaces all of it. `clear` names fields to remove: `name`, or `expires_at` for the type's
        own lifetime. `audience`: who sees it. A name that another memory has is refused: an update
        must not delete. Raises NotFound and InvalidInput.
        """
        found = await self._memories.existing(memory_id)
        metadata = with_audience(metadata, audience)
        if name is not None:
            given = metadata if isinstance(metadata, Mapping) else {}
            await self._parts.source.place(name, {**found.metadata, **given})
        fields = {"content": content, "type": memory_type, "name": name, "pinned": pinned}
        checked = checked_fields(fields, self._parts) | _cleared(clear, fields, expires_at)
        if metadata is not None:
            checked["metadata"] = user_metadata(metadata, found.metadata)
        if not checked and expires_at is None:
            raise InvalidInput(
                "Nothing to change was given.",
                code="update_empty",
                hint="Give content, memory_type, name, metadata, pinned, expires_at, clear or "
                "audience.",
            )
        masked, warnings = await without_secrets(checked, self._parts.memory)
        change = Change(
            metadata=masked.pop("metadata", None),
            resets_expiry=masked.pop("expires_at", False),
            fields=masked,
            replace_metadata=checks.flag(replace_metadata, "replace_metadata"),
            expires_at=expires_at,
        )
        done = await self.apply(found, change)
        return replace(done, warnings=warnings)

    async def mark(self, memory: Memory, metadata: Mapping[str, Any]) -> None:
        """Merge our own keys into the metadata of a message. Raises NotFound."""
        await self.apply(memory, Change({}, metadata), stamp=False)

    async def apply(self, found: Memory, change: AnyChange, *, stamp: bool = True) -> Updated:
        """Apply a change to a memory that was found; `stamp`: set its `updated_at`."""
        if change.names and not self._parts.audiences.stays_here(found, found):
            await self._parts.catch_up()  # another daemon may have given them away a moment ago
        await self._parts.source.before_write(partial(change.applied, found, self._parts))
        write = partial(self._pass_and_write, found, change, stamp=stamp)
        return await commits.retried(self._parts, write)

    async def _pass_and_write(self, found: Memory, change: AnyChange, *, stamp: bool) -> Updated:
        async with self._parts.gate.passing():
            return await self._write(found, change, stamp=stamp)

    async def _write(self, found: Memory, change: AnyChange, *, stamp: bool) -> Updated:
        parts = self._parts
        wanted = change.applied(found, parts)
        embedded = None
        if self._read(wanted) != self._read(found):
            embedded = Record(wanted, await commits.embed(parts, wanted))
        names = set(map(name_key, change.names))
        while True:
            keys = lock_keys(found, change.applied(found, parts))
            async with parts.locks.hold(keys | names):
                before = await self._memories.existing(found.id)
                after = parts.audiences.settled(change.applied(before, parts), before)
                if not lock_keys(before, after) <= keys:
                    found = before  # its relations changed meanwhile: lock others
                    continue
                check_stays_note(before, after)
                _check_name_is_free(after, parts)
                if identical(after, before):
                    return Updated(before, changed=False)
                relations.check_relations(parts, before, after, parts.clock())
                passages = await self._passages(before, after, embedded)
                after = replace(after, updated_at=parts.clock()) if stamp else after
                await relations.commit(parts, before, Record(after, passages))
            return Updated(after.copy(), changed=True)

    async def _passages(
        self, before: Memory, after: Memory, embedded: Record | None
    ) -> tuple[Passage, ...]:
        """The passages of the changed memory. `embedded`: what it was expected to become."""
        if self._read(after) == self._read(before):
            return await commits.passages(self._parts, before)
        if embedded is not None and self._read(after) == self._read(embedded.memory):
            return embedded.passages
        return await commits.embed(self._parts, after)  # changed meanwhile

    def _read(self, memory: Memory) -> str:
        """What a model reads of it."""
        return read_text(memory, self._parts.search.lead_fields)


def checked_fields(given: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
    """The fields that are given, checked. Raises InvalidInput."""
    rules: dict[str, Callable[[Any], Any]] = {
        "content": lambda value: checks.content(value, parts.memory.max_content_bytes),
        "type": parse_type,
        "name": lambda value: checked_name(value, parts),
        "pinned": lambda value: checks.flag(value, "pinned"),
    }
    return {key: rules[key](value) for key, value in given.items() if value is not None}


def _cleared(clear: object, given: Mapping[str, Any], expires_at: object) -> dict[str, Any]:
    """The fields to clear: `name` as None, `expires_at` as true. Raises InvalidInput."""
    fields: list[Any] = list(clear) if isinstance(clear, list | tuple) else [clear]
    given = {**given, "expires_at": expires_at}
    for field in fields:
        if field not in CLEARABLE:
            raise InvalidInput(
                f"clear cannot contain {str(field)[:50]!r}.",
                code="clear_invalid",
                hint=f"It is a list of {' and '.join(CLEARABLE)}.",
            )
        if given[field] is not None:
            raise InvalidInput(
                f"{field} is given, and in clear.", code="clear_invalid", hint="Leave one out."
            )
    values = {"name": None, "expires_at": True}
    return {field: values[field] for field in fields}


def _check_name_is_free(memory: Memory, parts: Parts) -> None:
    if is_note(memory):
        check_handles_are_free(parts.index, memory, parts.clock())
    named = parts.index.all_named(memory.name) if memory.name else ()
    others = [other for other in named if scope_of(other) == scope_of(memory)][:1]
    if any(other.id != memory.id and not is_expired(other, parts.clock()) for other in others):
        raise InvalidInput(
            f"Another memory has the name {memory.name!r}.",
            code="name_taken",
            hint="Forget that one first, or store under the name to replace it.",
        )
