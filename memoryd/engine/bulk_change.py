"""Change or forget memories that are named one by one: tags, type, kind, pin and project.

Each memory is changed for itself, under its own lock, and has an outcome of its own: one that is
gone or that refuses the change does not stop the others. A preview applies the same change to the
memory as it is now, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memoryd.engine import checks
from memoryd.engine.memories import Memories
from memoryd.engine.parts import Parts
from memoryd.engine.secrecy import without_secrets
from memoryd.engine.sessions.note_rules import check_stays_note
from memoryd.engine.turn_keys import user_metadata
from memoryd.engine.updates import AnyChange, Change, Updates, checked_fields
from memoryd.errors import InvalidInput, NotFound
from memoryd.fields import KIND, PROJECT, TAGS, check_fields, tags_of
from memoryd.model import Memory, identical
from memoryd.tasks import task_group

MAX_IDS = 1000  # of one call
GROUP = 32  # changed at the same time, so that they share batches and commits
CHANGED, UNCHANGED, MISSING, REFUSED = "changed", "unchanged", "missing", "refused"
FORGOTTEN, MATCHED = "forgotten", "matched"
CLEARABLE = (KIND, PROJECT)


@dataclass(frozen=True, slots=True)
class BulkOutcome:
    """What became of one memory; `memory` as it was found, None if there is none."""

    id: str
    outcome: str
    memory: Memory | None = None
    error: InvalidInput | None = None


@dataclass(frozen=True, slots=True)
class TagChange:
    """Adds tags and removes others; see `updates.AnyChange`."""

    add: Sequence[str]
    remove: Sequence[str]
    names: Sequence[str] = ()

    def applied(self, before: Memory, parts: Parts) -> Memory:
        kept = [tag for tag in tags_of(before) if tag not in self.remove]
        tags = list(dict.fromkeys([*kept, *self.add]))
        check_fields({TAGS: tags})  # there may be too many now
        metadata = {key: value for key, value in before.metadata.items() if key != TAGS}
        return replace(before, metadata=metadata | ({TAGS: tags} if tags else {}))


class BulkChange:
    """The operations on memories that are named by their ids."""

    def __init__(self, parts: Parts, memories: Memories, updates: Updates) -> None:
        self._parts = parts
        self._memories = memories
        self._updates = updates

    async def tag(
        self, ids: object, *, add: object = (), remove: object = (), dry_run: bool = False
    ) -> list[BulkOutcome]:
        """Add and remove tags. Raises InvalidInput."""
        adding, removing = _tags(add, "add"), _tags(remove, "remove")
        if not adding and not removing:
            raise _refused("No tag was given.", "tags_missing", "Give add or remove.")
        masked, _ = await without_secrets({"metadata": {TAGS: adding}}, self._parts.memory)
        return await self._each(ids, TagChange(masked["metadata"][TAGS], removing), dry_run)

    async def set(
        self,
        ids: object,
        *,
        memory_type: str | None = None,
        kind: str | None = None,
        project: str | None = None,
        pinned: bool | None = None,
        clear: Sequence[str] = (),
        dry_run: bool = False,
    ) -> list[BulkOutcome]:
        """Set type, kind, project or pin; `clear` removes the kind or the project. Raises
        InvalidInput."""
        fields = checked_fields({"type": memory_type, "pinned": pinned}, self._parts)
        given: dict[str, Any] = {KIND: kind, PROJECT: project}
        metadata = {key: value for key, value in given.items() if value is not None}
        metadata = user_metadata(metadata) | _cleared(clear, metadata)
        if not fields and not metadata:
            hint = "Give memory_type, kind, project, pinned or clear."
            raise _refused("Nothing to change was given.", "update_empty", hint)
        masked, _ = await without_secrets({"metadata": metadata}, self._parts.memory)
        return await self._each(ids, Change(fields, masked["metadata"] or None), dry_run)

    async def forget(self, ids: object, *, dry_run: bool = False) -> list[BulkOutcome]:
        """Forget memories; a preview only tells which are there. Raises InvalidInput."""
        found = await self._found(ids)
        if checks.flag(dry_run, "dry_run"):
            return [_told(id, memory, MATCHED) for id, memory in found.items()]
        gone: set[str] = set()
        alive = [memory.id for memory in found.values() if memory]
        size = self._parts.memory.cleanup_batch
        for start in range(0, len(alive), size):
            batch = alive[start : start + size]
            gone |= await self._memories.drop_if(batch, lambda memory: memory is not None)
        return [
            _told(id, memory if memory and memory.id in gone else None, FORGOTTEN)
            for id, memory in found.items()
        ]

    async def read(self, ids: object) -> list[BulkOutcome]:
        """The memories that are there. Raises InvalidInput."""
        return [_told(id, memory, MATCHED) for id, memory in (await self._found(ids)).items()]

    async def _each(self, ids: object, change: AnyChange, dry_run: bool) -> list[BulkOutcome]:
        found = list((await self._found(ids)).items())
        preview = checks.flag(dry_run, "dry_run")
        outcomes: dict[str, BulkOutcome] = {}

        async def one(id: str, memory: Memory | None) -> None:
            outcomes[id] = await self._outcome(id, memory, change, preview)

        for start in range(0, len(found), GROUP):
            async with task_group() as tasks:
                for id, memory in found[start : start + GROUP]:
                    tasks.start_soon(one, id, memory)
        return [outcomes[id] for id, _ in found]

    async def _outcome(
        self, id: str, memory: Memory | None, change: AnyChange, preview: bool
    ) -> BulkOutcome:
        if memory is None:
            return BulkOutcome(id, MISSING)
        try:
            if preview:
                after = change.applied(memory, self._parts)
                check_stays_note(memory, after)
                changed = not identical(after, memory)
            else:
                changed = (await self._updates.apply(memory, change)).changed
        except NotFound:
            return BulkOutcome(id, MISSING)
        except InvalidInput as exc:
            return BulkOutcome(id, REFUSED, memory, exc)
        return BulkOutcome(id, CHANGED if changed else UNCHANGED, memory)

    async def _found(self, ids: object) -> Mapping[str, Memory | None]:
        """Each id or name once, with its memory; a memory that two of them name counts once."""
        found: dict[str, Memory | None] = {}
        seen: set[str] = set()
        for id in dict.fromkeys(_ids(ids)):
            memory = await self._memories.get(id)
            if memory is None or memory.id not in seen:
                found[id] = memory
            seen |= {memory.id} if memory else set()
        return found


def _ids(value: object) -> list[str]:
    ids = list(value) if isinstance(value, list | tuple) else []
    if not 0 < len(ids) <= MAX_IDS or not all(isinstance(id, str) and id.strip() for id in ids):
        raise _refused(
            f"memory_ids must be a list of 1 to {MAX_IDS} ids or names.", "memory_ids_invalid"
        )
    return ids


def _told(id: str, memory: Memory | None, outcome: str) -> BulkOutcome:
    return BulkOutcome(id, outcome if memory else MISSING, memory)


def _tags(value: object, what: str) -> list[str]:
    if not isinstance(value, list | tuple):
        raise _refused(f"{what} must be a list of tags.", "tags_invalid")
    tags = list(value)
    check_fields({TAGS: tags} if tags else {})
    return list(dict.fromkeys(tag.strip() for tag in tags))


def _cleared(clear: object, given: Mapping[str, Any]) -> dict[str, None]:
    """The keys to remove, as a change of metadata has them. Raises InvalidInput."""
    keys: list[Any] = list(clear) if isinstance(clear, list | tuple) else [clear]
    for key in keys:
        if key not in CLEARABLE or key in given:
            raise _refused(
                f"clear cannot contain {str(key)[:50]!r}.",
                "clear_invalid",
                f"It is a list of {' and '.join(CLEARABLE)}, which are not given too.",
            )
    return dict.fromkeys(keys)


def _refused(message: str, code: str, hint: str = "") -> InvalidInput:
    return InvalidInput(message, code=code, hint=hint)
