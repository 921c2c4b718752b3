"""The notes of a client: `client.notes.add("plan", "Build, then ship.")`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from memoryd.client.calls import Run, Tool
from memoryd.client.types import EditedNote, Note, NoteList


class Notes:
    """Entries with a unique name, and aliases that mean the same entry. Names match regardless of
    case and accents. Raises NotFound with the nearest names, and InvalidInput."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    async def add(
        self,
        name: str,
        content: str,
        *,
        aliases: Sequence[str] = (),
        kind: str = "note",
        metadata: dict[str, Any] | None = None,
    ) -> EditedNote:
        """Add a note, or an archive. A name or alias that a memory has is an error."""
        given = {"aliases": list(aliases), "kind": kind, "metadata": metadata}
        return await self._edit("add", name=name, content=content, **given)

    async def read(self, name: str) -> Note:
        """The note with this name or alias, with its content."""
        answer = cast(NoteList, await self._tool("read_notes", {"name": _given(name)}))
        return answer["notes"][0]

    async def write(self, name: str, content: str) -> EditedNote:
        """Replace the content of a note."""
        return await self._edit("write", name=name, content=content)

    async def rename(self, name: str, new_name: str, *, keep_alias: bool = False) -> EditedNote:
        """Give a note another name; `keep_alias`: the old one stays as an alias."""
        return await self._edit("rename", name=name, new_name=new_name, keep_alias=keep_alias)

    async def alias(self, name: str, alias: str) -> EditedNote:
        """Give a note one more name."""
        return await self._edit("alias", name=name, alias=alias)

    async def unalias(self, alias: str) -> EditedNote:
        """Take an alias away from its note."""
        return await self._edit("unalias", alias=alias)

    async def remove(self, name: str) -> EditedNote:
        """Delete a note with its aliases."""
        return await self._edit("remove", name=name)

    async def list(
        self, *, kind: str | None = None, limit: int | None = None, after: int | None = None
    ) -> NoteList:
        """The notes in the order in which they were added, without their contents. `after`: the
        `seq` of the last note of the page before."""
        given = {"kind": kind, "limit": limit, "after": after}
        return cast(NoteList, await self._tool("read_notes", given))

    async def _edit(self, action: str, **given: Any) -> EditedNote:
        return cast(EditedNote, await self._tool("edit_notes", {"action": action, **given}))


def _given(name: str) -> str:
    """The name; one that is empty is no name, and must not list all notes."""
    return name if name else " "


class SyncNotes:
    """The same without async."""

    def __init__(self, notes: Notes, run: Run) -> None:
        self._notes = notes
        self._run = run

    def add(
        self,
        name: str,
        content: str,
        *,
        aliases: Sequence[str] = (),
        kind: str = "note",
        metadata: dict[str, Any] | None = None,
    ) -> EditedNote:
        return self._run(
            self._notes.add, name, content, aliases=aliases, kind=kind, metadata=metadata
        )

    def read(self, name: str) -> Note:
        return self._run(self._notes.read, name)

    def write(self, name: str, content: str) -> EditedNote:
        return self._run(self._notes.write, name, content)

    def rename(self, name: str, new_name: str, *, keep_alias: bool = False) -> EditedNote:
        return self._run(self._notes.rename, name, new_name, keep_alias=keep_alias)

    def alias(self, name: str, alias: str) -> EditedNote:
        return self._run(self._notes.alias, name, alias)

    def unalias(self, alias: str) -> EditedNote:
        return self._run(self._notes.unalias, alias)

    def remove(self, name: str) -> EditedNote:
        return self._run(self._notes.remove, name)

    def list(
        self, *, kind: str | None = None, limit: int | None = None, after: int | None = None
    ) -> NoteList:
        return self._run(self._notes.list, kind=kind, limit=limit, after=after)
