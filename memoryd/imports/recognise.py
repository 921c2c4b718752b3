"""What a path holds: the table of formats, and the one that fits.

A format is recognised by what is in the file or folder, never by its name alone. SQLite databases
and zip files are opened once for all formats that are kept in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from memoryd.errors import InvalidInput
from memoryd.export_file import GZIP_MAGIC
from memoryd.imports import (
    auto_memory,
    basic_memory,
    chatgpt,
    claude_code,
    claude_export,
    claude_mem,
    mem0,
    memory_service,
    mempalace,
    server_memory,
)
from memoryd.imports.bundle import Bundle, is_zip
from memoryd.imports.json_stream import first_item
from memoryd.imports.rows import Found
from memoryd.imports.sqlite_file import is_database, open_database
from memoryd.imports.text_files import opened

CHROMA = "chroma"  # a directory of ChromaDB, which another process reads
DATABASE = "chroma.sqlite3"
PEEK = 100  # bytes at the beginning of a file
BEGINNING = 1 << 16  # bytes that decide whether a file is a text
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
TEXT_ENDINGS = (".md", ".markdown", ".mdc", ".txt", ".jsonl", ".json", "")
ITEM = re.compile(rb"^ {0,3}[-*+] +\S", re.M)  # of a list in Markdown
OWN = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"memoryd"\s*:')  # the first line of an export


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its name for `--format`, whose it is, and its reader."""

    name: str
    title: str
    read: Callable[[Path], Found]


FORMATS = {
    format.name: format
    for format in (
        Format(server_memory.NAME, "the knowledge graph of server-memory", server_memory.read),
        Format(claude_code.NAME, "the transcripts of Claude Code", claude_code.read),
        Format(auto_memory.NAME, "a memory folder of Claude Code", auto_memory.read),
        Format(claude_export.NAME, "a data export of Claude", claude_export.read),
        Format(chatgpt.NAME, "a data export of ChatGPT", chatgpt.read),
        Format(mem0.NAME, "the memories of mem0", mem0.read),
        Format(memory_service.NAME, "the memories of mcp-memory-service", memory_service.read),
        Format(mempalace.NAME, "a palace of MemPalace", mempalace.read),
        Format(claude_mem.NAME, "the database of claude-mem", claude_mem.read),
        Format(basic_memory.NAME, "the notes of basic-memory", basic_memory.read),
    )
}
# Databases that a folder may hold, by their names.
IN_FOLDER = (claude_mem.FILE, memory_service.FILE, mem0.FILE)
# In this order: a transcript's folder may have a memory folder in it.
OF_FOLDERS = (mempalace, claude_code, auto_memory, basic_memory)
OF_FILES = (server_memory, claude_code, memory_service, mem0, auto_memory, basic_memory)
EXPORTS = (chatgpt, claude_export)


@dataclass(frozen=True, slots=True)
class Recognised:
    """A format, and the path to read, which may be a file inside the folder that was named."""

    format: str
    path: Path
    collection: str | None = None  # of a directory of ChromaDB

    @property
    def title(self) -> str:
        return FORMATS[self.format].title if self.format in FORMATS else "a ChromaDB directory"


def recognised(path: Path, format: str | None = None) -> Recognised | None:
    """What is at this path; None if it is none of the formats. `format`: it must be this one.
    Raises InvalidInput if the path cannot be read, is not of that format, or is of several."""
    if path.is_dir():
        fitting = _folder(path)
        named = [found for found in fitting if found.format == format]
        if format is None and len(fitting) > 1:
            raise _several(path, fitting)
        found = next(iter(named or fitting), None)
    else:
        found = _file(path)
    if format is None or (found is not None and found.format == format):
        return found
    raise InvalidInput(
        f"{path} is not {FORMATS[format].title}" + (f", but {found.title}." if found else "."),
        code="format_wrong",
        hint="Leave out --format, or name another path.",
    )


def _several(path: Path, fitting: list[Recognised]) -> InvalidInput:
    titles = [found.title for found in fitting]
    formats = " or ".join(found.format for found in fitting if found.format in FORMATS)
    return InvalidInput(
        f"{path} holds {', '.join(titles[:-1])} and {titles[-1]}.",
        code="format_several",
        hint=f"Name the file or folder of one of them, or use --format {formats}.",
    )


def _folder(path: Path) -> list[Recognised]:
    """Every format that a folder is of."""
    found = [_chroma(path)] if (path / DATABASE).is_file() else []
    databases = (_database(path / name) for name in IN_FOLDER if (path / name).is_file())
    found += [database for database in databases if database is not None]
    found += _exports(path)
    found += [Recognised(module.NAME, path) for module in OF_FOLDERS if module.fits(path)]
    by_format = {one.format: one for one in reversed(found)}  # the first of each
    if claude_code.NAME in by_format:  # its reader reads the memory folders too
        by_format.pop(auto_memory.NAME, None)
    return [one for one in found if by_format.get(one.format) is one]


def _file(path: Path) -> Recognised | None:
    if _is_own(path):
        return None
    if is_database(path):
        return _chroma(path.parent) if path.name == DATABASE else _database(path)
    if is_zip(path):
        return next(iter(_exports(path)), None)
    for module in OF_FILES:
        if module.fits(path):
            return Recognised(module.NAME, path)
    return next(iter(_exports(path)), None) if path.suffix.lower() == ".json" else None


def _is_own(path: Path) -> bool:
    """Whether it is an export or a backup of memoryd, by its beginning."""
    with opened(path, named=True) as file:
        start = file.read(PEEK)
    return start.startswith(GZIP_MAGIC) or OWN.match(start) is not None


def is_unknown(path: Path) -> bool:
    """Whether a file is surely none that memoryd or a person wrote for an import: neither an export
    nor a text. One that is damaged is not unknown; its reader says what is wrong."""
    if _is_own(path):
        return False
    with opened(path, named=True) as file:
        start = file.read(BEGINNING)
        if b"\0" in start:
            return True
        if not start.removeprefix(BYTE_ORDER_MARK).lstrip().startswith((b"{", b"[")):
            return path.suffix.lower() not in TEXT_ENDINGS and not ITEM.search(start)
        file.seek(0)
        first = first_item(file, path.name, ("memories",))
        file.seek(0)
        whole = first_item(file, path.name)
    if first is None:  # no list, or an empty one
        return isinstance(whole, dict) and "memories" not in whole
    return isinstance(first, dict) and "content" not in first


def _chroma(path: Path) -> Recognised:
    """A directory of ChromaDB: a palace if it has its collection."""
    with open_database(path / DATABASE) as database:
        names = {row.get("name") for row in database.rows("collections", ("name",))}
    if mempalace.COLLECTION in names:
        return Recognised(mempalace.NAME, path, mempalace.COLLECTION)
    return Recognised(CHROMA, path)


def _database(path: Path) -> Recognised | None:
    with open_database(path) as database:
        for module in (claude_mem, memory_service, mem0):
            if module.fits_database(database):
                return Recognised(module.NAME, path)
    return None


def _exports(path: Path) -> list[Recognised]:
    bundle = Bundle(path)
    fitting = [module for module in EXPORTS if bundle.names and module.fits(bundle)]
    return [Recognised(module.NAME, path) for module in fitting]
