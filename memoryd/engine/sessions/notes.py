"""Notes: entries with a unique name, aliases, a number and a content that can be replaced.

A note is one memory, a fact: its name and its aliases are in one row, so one write changes them,
and a kill leaves the old or the new ones. Whoever gives a name to a memory holds the lock of that
name, so no name has two owners. An operation finds its note by name, and looks again under the
lock: a note that lost the name meanwhile is not changed.
"""

from __future__ import annotations

import difflib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from memoryd.engine import checks, commits, relations
from memoryd.engine.lock_keys import lock_keys, name_key
from memoryd.engine.memories import LONGEST_ADDRESS, NO_VECTOR, REFUSED, Memories
from memoryd.engine.parts import Parts
from memoryd.engine.secrecy import secret_fields, without_secrets
from memoryd.engine.sessions.note_rules import (
    check_handles_are_free,
    checked_handle,
    has_alias,
    has_handle,
    with_aliases,
)
from memoryd.engine.turn_keys import user_metadata
from memoryd.engine.updates import Updates
from memoryd.errors import InvalidInput, NotFound
from memoryd.fair import in_thread
from memoryd.fields import (
    KIND,
    MAX_ITEMS,
    NOTE,
    NOTE_KINDS,
    SEQ,
    aliases_of,
    completed,
    handles_of,
    is_note,
    kind_of,
    seq_of,
)
from memoryd.labels import folded_name
from memoryd.metadata import check_metadata
from memoryd.model import Forgotten, Memory, MemoryType, Updated
from memoryd.ports import Record

SUGGESTIONS, LIKENESS = 3, 0.6  # names that a miss suggests, and how alike they must be, 0..1


@dataclass(frozen=True, slots=True)
class NoteList:
    """Notes in the order of their numbers. `total`: how many there are of the kind."""

    notes: tuple[Memory, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a note; see `updates.AnyChange`. `holds`: whether it is still the note that was
    asked for."""

    edited: Callable[[Memory], Memory]
    holds: Callable[[Memory], bool]
    names: Sequence[str] = ()

    def applied(self, before: Memory, parts: Parts) -> Memory:
        if not self.holds(before):
            raise NotFound("The note was renamed meanwhile.")
        after = self.edited(before)
        return replace(after, metadata=completed(after, before))


class Notes:
    """The operations on notes."""

    def __init__(self, parts: Parts, memories: Memories, updates: Updates) -> None:
        self._parts = parts
        self._memories = memories
        self._updates = updates
        self._last_seq = 0

    async def add_note(
        self,
        name: str,
        content: str,
        *,
        aliases: Sequence[str] = (),
        kind: str = NOTE,
        metadata: Mapping[str, Any] | None = None,
        own: Mapping[str, Any] | None = None,
    ) -> Updated:
        """Add a note under a new name. `own`: metadata keys that callers cannot write. Raises
        InvalidInput if a memory has the name or one of the aliases."""
        asked = self._asked(name, content, aliases, kind, metadata)
        asked = replace(asked, metadata={**asked.metadata, **check_metadata(own)})
        if own is not None:
            asked = replace(asked, metadata=self._parts.audiences.own(asked.metadata))
        asked = self._parts.audiences.settled(asked, None)
        safe, warnings = await without_secrets(secret_fields(asked), self._parts.memory)
        asked = replace(asked, **safe)
        if not self._parts.audiences.stays_here(asked):
            await self._parts.catch_up()  # another daemon may have added it a moment ago
        note, has_vector = await commits.retried(self._parts, partial(self._commit_new, asked))
        if not has_vector:
            warnings += (f"{self._parts.embedding.trouble() or REFUSED} {NO_VECTOR}",)
        return Updated(note.copy(), changed=True, warnings=warnings)

    async def _commit_new(self, asked: Memory) -> tuple[Memory, bool]:
        """Embed and commit a checked note; the note, and whether it has a vector."""
        async with self._parts.gate.passing():
            passages = await commits.embed(self._parts, asked)
            names = set(map(name_key, handles_of(asked)))
            async with self._parts.locks.hold(names | lock_keys(None, asked)):
                now = self._parts.clock()
                check_handles_are_free(self._parts.index, asked, now)
                relations.check_relations(self._parts, None, asked, now)
                note = replace(asked, metadata={**asked.metadata, SEQ: self._next_seq()})
                await relations.commit(self._parts, None, Record(note, passages))
        return note, bool(passages)

    async def read_note(self, name: str) -> Memory:
        """The note with this name or alias. Raises NotFound, which suggests others."""
        return (await self._note(name)).copy()

    async def write_note(self, name: str, content: str) -> Updated:
        """Replace the content of a note. Raises NotFound and InvalidInput."""
        text = checks.content(content, self._parts.memory.max_content_bytes)
        safe, warnings = await without_secrets({"content": text}, self._parts.memory)
        done = await self._edit(name, lambda note: replace(note, content=safe["content"]))
        return replace(done, warnings=warnings)

    async def rename_note(self, name: str, new_name: str, *, keep_alias: bool = False) -> Updated:
        """Give a note another name; with `keep_alias` the old one becomes an alias. Raises NotFound
        and InvalidInput."""
        new = await self._free_handle(new_name, "new_name")
        keeps = checks.flag(keep_alias, "keep_alias")

        def renamed(note: Memory) -> Memory:
            old = [note.name] if keeps and note.name else []
            return _limited(with_aliases(replace(note, name=new), [*aliases_of(note), *old]))

        return await self._edit(name, renamed, new)

    async def alias_note(self, name: str, alias: str) -> Updated:
        """Give a note one more name; nothing changes if it has it already. Raises NotFound and
        InvalidInput."""
        new = await self._free_handle(alias, "alias")

        def aliased(note: Memory) -> Memory:
            return _limited(with_aliases(note, [*aliases_of(note), new]))

        return await self._edit(name, aliased, new)

    async def unalias_note(self, alias: str) -> Updated:
        """Take an alias away from its note. Raises NotFound, and InvalidInput for a name, which a
        note cannot be without."""
        note = await self._note(alias)
        if not has_alias(note, alias):
            raise InvalidInput(
                f"{note.name!r} is the name of a note, not an alias.",
                code="alias_invalid",
                hint="Rename the note, or remove it.",
            )
        gone = folded_name(alias)

        def without(note: Memory) -> Memory:
            kept = [known for known in aliases_of(note) if folded_name(known) != gone]
            return with_aliases(note, kept)

        return await self._change(alias, note, Edit(without, lambda note: has_alias(note, alias)))

    async def remove_note(self, name: str) -> Forgotten:
        """Delete a note with its aliases. Raises NotFound."""
        note = await self._note(name)
        gone = await self._memories.drop_if(
            [note.id], lambda found: found is not None and has_handle(found, name)
        )
        if not gone:
            raise await self._missing(name)
        return Forgotten(True, note.id)

    async def list_notes(
        self, *, kind: str | None = None, limit: int | None = None, after: int = 0
    ) -> NoteList:
        """The notes in the order in which they were added, those with a `seq` above `after`; of one
        kind if given. Raises InvalidInput."""
        wanted = None if kind is None else _checked_kind(kind)
        most = checks.MAX_LIMIT if limit is None else checks.limit(limit)
        start = checks.count(after, "after") if after else 0
        found = [note for note in self._parts.index.notes() if wanted in (None, kind_of(note))]
        page = [note.copy() for note in found if seq_of(note) > start]
        return NoteList(tuple(page[:most]), len(found))

    def _asked(
        self, name: object, content: object, aliases: object, kind: object, metadata: object
    ) -> Memory:
        """The note to add, checked; its number is not known yet."""
        if not isinstance(aliases, list | tuple):
            raise InvalidInput("aliases must be a list of names.", code="aliases_invalid")
        index = self._parts.index
        given = user_metadata(metadata)
        own = {KIND: _checked_kind(given.get(KIND, kind)), SEQ: index.names.last_seq + 1}
        note = Memory(
            id=secrets.token_hex(10),
            type=MemoryType.FACT,
            content=checks.content(content, self._parts.memory.max_content_bytes),
            created_at=self._parts.clock(),
            metadata={**given, **own},
            name=checked_handle(name, index),
        )
        handles = [checked_handle(alias, index, "name for each alias") for alias in aliases]
        note = _limited(with_aliases(note, handles))
        return replace(note, metadata=completed(note))

    def _next_seq(self) -> int:
        """Not used again while the engine runs, even if the note is removed."""
        self._last_seq = max(self._last_seq, self._parts.index.names.last_seq) + 1
        return self._last_seq

    async def _free_handle(self, value: object, what: str) -> str:
        """A new name or alias, without secrets. Whether it is free is checked under its lock."""
        handle = checked_handle(value, self._parts.index, what)
        safe, _ = await without_secrets({"name": handle}, self._parts.memory)
        return str(safe["name"])

    async def _edit(self, name: str, edited: Callable[[Memory], Memory], *names: str) -> Updated:
        note = await self._note(name)
        return await self._change(
            name, note, Edit(edited, lambda note: has_handle(note, name), names)
        )

    async def _change(self, name: str, note: Memory, edit: Edit) -> Updated:
        try:
            return await self._updates.apply(note, edit)
        except NotFound:  # removed or renamed meanwhile
            raise await self._missing(name) from None

    async def _note(self, name: object) -> Memory:
        """The note with this name or alias. Raises NotFound."""
        if isinstance(name, str) and len(name) <= LONGEST_ADDRESS:
            note = self._parts.index.named(name)
            if note is not None and is_note(note):
                return note
        raise await self._missing(name)

    async def _missing(self, name: object) -> NotFound:
        wanted = str(name)[: checks.MAX_NAME]
        names = [handle for note in self._parts.index.notes() for handle in handles_of(note)]
        close = await in_thread(_closest, wanted, names)
        hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else "List the notes."
        return NotFound(f"There is no note {wanted!r}.", hint=hint)


def _closest(wanted: str, names: Sequence[str]) -> list[str]:
    """The names that are most alike, best first."""
    by_folded = {folded_name(name): name for name in names}
    close = difflib.get_close_matches(
        folded_name(wanted), list(by_folded), n=SUGGESTIONS, cutoff=LIKENESS
    )
    return [by_folded[folded] for folded in close]


def _checked_kind(kind: object) -> str:
    if kind not in NOTE_KINDS:
        raise InvalidInput(
            f"A note is of kind {' or '.join(NOTE_KINDS)}, not {str(kind)[:50]!r}.",
            code="kind_invalid",
            hint="Leave it out for a note.",
        )
    return str(kind)


def _limited(note: Memory) -> Memory:
    if len(aliases_of(note)) > MAX_ITEMS:
        raise InvalidInput(
            f"A note has at most {MAX_ITEMS} aliases.",
            code="aliases_too_many",
            hint="Remove some of them.",
        )
    return note
