"""The memory folder of Claude Code, `~/.claude/projects/<folder>/memory/`: a fact in each file, and
`MEMORY.md`, a list of links to them. Items of that list without a link are facts too.

The name of the folder does not say which directory the project is in: every character that is no
letter or digit is a `-` in it. The transcripts beside the folder do.
"""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Any

from memoryd.formats import memory_md
from memoryd.formats.items import parse_items
from memoryd.imports.front_matter import parted
from memoryd.imports.rows import Found, Maker, Skipped, derived_id
from memoryd.imports.text_files import first_objects, time_of, whole_text
from memoryd.project_folder import folder_project

NAME = "claude-memory"
FOLDER, INDEX = "memory", "MEMORY.md"
LINK = re.compile(r"\s*\[[^\]]*\]\([^)]+\.md\)")
COMMENT = "<!-- memoryd {"  # details that an export of memoryd puts below an item
USER, FEEDBACK = "user", "feedback"
PROJECTS = "projects"  # the folder in which Claude Code keeps those of the projects


def fits(path: Path) -> bool:
    """Whether this is such a folder, or one of its files."""
    if path.is_file():
        return path.suffix == ".md" and _is_memory(path, named=True)
    if path.name == FOLDER and (path / INDEX).is_file():
        text = whole_text(path / INDEX)
        return isinstance(text, str) and memory_md.VERSION.search(text) is None  # not our mirror
    return any(map(_is_memory, islice(sorted(path.glob("*.md")), 20)))


def read(path: Path) -> Found:
    """The facts of a folder, or of one file."""
    folder = path.parent if path.is_file() else path
    project = _project(folder)
    place = folder.parent.name if folder.name == FOLDER else folder.name
    for file in [path] if path.is_file() else sorted(folder.glob("*.md")):
        text = whole_text(file, named=path.is_file())
        if isinstance(text, Skipped):
            yield text
        elif file.name == INDEX:
            yield from _index(text, place, project, file)
        elif folder.name != FOLDER and not parted(text)[0]:
            yield Skipped("files without a head", file.name)
        else:
            yield from _fact(text, place, project, file)


def _fact(text: str, place: str, project: str | None, file: Path) -> Found:
    head, body = parted(text)
    nested = head.get("metadata")
    about = nested if isinstance(nested, dict) else head
    type = about.get("type")
    said, description = body.strip(), head.get("description")
    if isinstance(description, str) and description and description not in said:
        said = f"{description}\n\n{said}".strip()
    if not said:
        yield Skipped("files without text", str(file))
        return
    yield Maker(NAME, time_of(file)).fact(
        derived_id(NAME, place, file.name),
        said,
        about.get("modified"),  # Claude Code writes it into the head; older versions did not
        where=file.name,
        kind="preference" if type == FEEDBACK else None,
        tags=[type],
        project=None if type == USER else project,  # what is about the user holds everywhere
        metadata={
            "title": head.get("name") or file.stem,
            "original_session": about.get("originSessionId"),
        },
    )


def _index(text: str, place: str, project: str | None, file: Path) -> Found:
    maker = Maker(NAME, time_of(file))
    for item in parse_items(text, COMMENT).found:
        if LINK.match(item.text):
            yield Skipped("links of the index")
        else:
            yield maker.fact(
                derived_id(NAME, place, INDEX, item.text),
                item.text,
                where=f"{file.name}, line {item.line}",
                project=project,
            )


def _is_memory(path: Path, *, named: bool = False) -> bool:
    text = whole_text(path, named=named)
    head: dict[str, Any] = {} if isinstance(text, Skipped) else parted(text)[0]
    return "name" in head and "description" in head and "permalink" not in head


def _project(folder: Path) -> str | None:
    """The project of a memory folder, from a transcript beside it; else the name of its folder, if
    it is where Claude Code keeps it."""
    for file in islice(sorted(folder.parent.glob("*.jsonl")), 20):
        for line in first_objects(file):
            if isinstance(line.get("cwd"), str):
                return folder_project(Path(line["cwd"]))
    return folder.parent.name if folder.parent.parent.name == PROJECTS else None
