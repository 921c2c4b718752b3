"""Takes what a person changed in MEMORY.md back into facts.

An item that is new becomes a fact, a changed one changes its memory, and the memory of a removed
one is forgotten. Removed means: it was in the version of the file that the person began with, and
its memory still says the same. If more than half of a version is missing, that is an accident more
often than a wish: nothing is forgotten then, and the memories are held until a person confirms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from memoryd.engine.memories import Memories
from memoryd.engine.mirror.record import MirrorRecord
from memoryd.engine.parts import Parts
from memoryd.engine.updates import Updates
from memoryd.errors import InvalidInput, NotFound
from memoryd.fields import SOURCE, TAGS
from memoryd.formats.claude_md import fact_text
from memoryd.formats.items import HARMLESS, OPENS_COMMENT
from memoryd.formats.memory_md import Entry, Parsed, check_of
from memoryd.formats.text_file import tags_of
from memoryd.model import ID, Memory, MemoryType, is_expired

TAUGHT = "user_taught"
How = Literal["added", "known", "changed", "removed", "held", "refused"]


@dataclass(frozen=True, slots=True)
class Edit:
    """A change that a person made in the file; `id`: None if it was refused before it had one."""

    how: How
    id: str | None
    line: int | None = None
    why: str | None = None  # why it was refused


class Edits:
    """Compares a file with its version, and applies the differences."""

    def __init__(self, parts: Parts, memories: Memories, updates: Updates) -> None:
        self._parts = parts
        self._memories = memories
        self._updates = updates

    async def take(self, parsed: Parsed, record: MirrorRecord, *, removals: bool) -> list[Edit]:
        """Apply all changes; what was done. Applying them twice changes nothing more. `removals`
        false: nothing is forgotten, because the file may be incomplete."""
        done: list[Edit] = []
        parsed = self._with_lost_comments(parsed, record)
        for entry, handle in _written(parsed):
            done += await self._entry(entry, handle, record)
        if removals:
            done += await self._removed(parsed, record)
        return done

    def hold(self, record: MirrorRecord, ids: list[str]) -> list[Edit]:
        """Remember that the items of these memories are missing, and forget none of them."""
        new = [id for id in ids if id not in record.held and self.alive(id)]
        record.held += new
        return [Edit("held", id) for id in new]

    async def _entry(self, entry: Entry, handle: str | None, record: MirrorRecord) -> list[Edit]:
        if not entry.text:
            return []
        memory = self._meant(handle, record) if handle else None
        try:
            if memory is None:
                return await self._add(entry)
            if fact_text(memory.content) == entry.text:
                return []
            done = await self._updates.update_memory(
                memory.id, content=_content(entry), metadata={SOURCE: TAUGHT}
            )
            return [Edit("changed", memory.id, entry.line)] if done.changed else []
        except NotFound:  # forgotten meanwhile
            return await self._add(entry)
        except InvalidInput as exc:
            id = memory.id if memory else None
            return [Edit("refused", id, entry.line, exc.message)]

    async def _add(self, entry: Entry) -> list[Edit]:
        metadata: dict[str, object] = {SOURCE: TAUGHT}
        if tags := tags_of(entry.headings):
            metadata[TAGS] = tags
        own = self._parts.audiences.own(metadata)  # who edits a file here has not asked to share it
        stored = await self._memories.store(
            _content(entry), MemoryType.FACT, metadata=own, shared=True
        )
        return [Edit("known" if stored.duplicate else "added", stored.memory.id, entry.line)]

    async def _removed(self, parsed: Parsed, record: MirrorRecord) -> list[Edit]:
        version = record.versions.get(parsed.version or "", {})
        present = {entry.handle for entry in parsed.entries}
        missing = {handle: mark for handle, mark in version.items() if handle not in present}
        ids = [
            mark.id
            for mark in missing.values()
            if (memory := self.alive(mark.id)) and check_of(fact_text(memory.content)) == mark.check
        ]
        if len(missing) > max(1, len(version) // 2):
            return self.hold(record, ids)
        return [Edit("removed", id) for id in ids if await self._memories.forget(id)]

    def _with_lost_comments(self, parsed: Parsed, record: MirrorRecord) -> Parsed:
        """An item of this version that has lost its comment and nothing else gets it back."""
        version = record.versions.get(parsed.version or "", {})
        present = {entry.handle for entry in parsed.entries}
        lost = {mark.check: handle for handle, mark in version.items() if handle not in present}
        entries: list[Entry] = []
        for entry in parsed.entries:
            check = check_of(entry.text)
            handle = lost.get(check) if entry.handle is None else None
            if handle is not None and self.alive(version[handle].id):
                del lost[check]
                entry = replace(entry, handle=handle, check=check)
            entries.append(entry)
        return replace(parsed, entries=tuple(entries))

    def _meant(self, handle: str, record: MirrorRecord) -> Memory | None:
        """The memory that a handle names, unless it is gone or several could be meant."""
        known = record.id_of(handle)
        index = self._parts.index
        if known is None and index.get(handle) is None:
            ids = [m.id for m in index if ID.fullmatch(m.id) and m.id.startswith(handle)]
            known = ids[0] if len(ids) == 1 else None
        return self.alive(known or handle)

    def alive(self, id: str) -> Memory | None:
        memory = self._parts.index.get(id)
        return memory if memory and not is_expired(memory, self._parts.clock()) else None


def _written(parsed: Parsed) -> Iterator[tuple[Entry, str | None]]:
    """The entries that a person wrote, each with the handle of the memory that it changes. An
    item that was copied and then changed adds a fact: its memory has its own item still."""
    kept = {entry.handle for entry in parsed.entries if not entry.is_changed}
    for entry in parsed.entries:
        if entry.handle is None:
            yield entry, None
        elif entry.is_changed:
            yield entry, None if entry.handle in kept else entry.handle
            kept.add(entry.handle)


def _content(entry: Entry) -> str:
    """The text of a memory for an entry: what opens a comment is as it was before it was shown."""
    return entry.text.replace(HARMLESS, OPENS_COMMENT)


def counts(edits: list[Edit]) -> dict[str, int]:
    """How many edits there were of each kind."""
    return dict(Counter(edit.how for edit in edits))
