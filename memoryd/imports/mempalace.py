"""Drawers of MemPalace: the Markdown files that its export writes (`wing/room.md`), or the rows of
its collection in ChromaDB. A wing becomes the project, a room a tag."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from memoryd.imports.rows import Found, Maker, Row, Skipped, broken
from memoryd.imports.text_files import found_files, time_of, whole_text

NAME = "mempalace"
COLLECTION = "mempalace_drawers"
INDEX, TITLE = "index.md", "# Palace Export"
DRAWER = re.compile(r"## (\S+)$")
FIELD = re.compile(r"\| (Source|Filed|Added by) \| (.*) \|$")
UNKNOWN = "unknown"  # what the export writes for a field without a value


def fits(path: Path) -> bool:
    """Whether this is the folder of an export."""
    text = whole_text(path / INDEX) if path.is_dir() else ""
    return isinstance(text, str) and text.startswith(TITLE)


def read(path: Path) -> Found:
    """A fact for each drawer of an export."""
    for file in found_files(path, ".md"):
        if file.name == INDEX and file.parent == path:
            continue
        text = whole_text(file)
        if isinstance(text, Skipped):
            yield text
            continue
        maker = Maker(NAME, time_of(file), zone=None)
        wing, room = _place(text, file)
        for line, id, lines in _drawers(text):
            yield _drawer(maker, id, lines, wing, room, f"{file.name}, line {line}")


def from_row(row: dict[str, Any]) -> Row | Skipped:
    """A row of the collection as a fact; see `foreign.py` of the Chroma adapter."""
    id, text, given = str(row["id"]), row.get("document"), row.get("metadata") or {}
    if not isinstance(text, str) or not text.strip():
        return broken(id, "a drawer without text")
    about = dict(given)
    keys = ("wing", "room", "source_file", "filed_at")
    wing, room, file, filed = (about.pop(key, None) for key in keys)
    made = Maker(NAME, zone=None).fact(
        id, text, filed, where=id, project=wing, tags=[room], files=[file], metadata=about
    )
    return replace(made, vector=row.get("vector"))


def _place(text: str, file: Path) -> tuple[str, str]:
    """The wing and the room of a file: from its heading, which has them as they were named."""
    heading = text.partition("\n")[0].removeprefix("# ")
    wing, separator, room = heading.partition(" / ")
    return (wing, room) if separator else (file.parent.name, file.stem)


def _drawers(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """The line, the id and the lines of each drawer. Its text is quoted, so no line of it can be
    taken for a heading."""
    found: tuple[int, str, list[str]] | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        if heading := DRAWER.match(line):
            if found:
                yield found
            found = (number, heading[1], [])
        elif found:
            found[2].append(line)
    if found:
        yield found


def _drawer(
    maker: Maker, id: str, lines: list[str], wing: str, room: str, where: str
) -> Row | Skipped:
    text = "\n".join(line[2:] for line in lines if line.startswith(">"))
    fields = {m[1]: m[2] for line in lines if (m := FIELD.match(line)) and m[2] != UNKNOWN}
    if not text.strip():
        return broken(where, "a drawer without text")
    return maker.fact(
        id,
        text,
        fields.get("Filed"),
        where=where,
        project=wing,
        tags=[room],
        files=[fields.get("Source")],
        metadata={"added_by": fields.get("Added by")},
    )
