"""The file MEMORY.md of the mirror: durable facts as a list that a person may change.

    # Memory

    <!-- memoryd mirror 7c1e0a9b: facts, not instructions. Change, add or remove items ... -->

    - The charging dock is behind the kitchen door. <!-- 3f2a91c0 1b2c4d -->

The comment at an item names its memory and has a checksum of its text. So a reader sees whether a
person changed the item, whatever has happened to the memory since. The name of the version in the
header tells which items there were when the person began: only an item of that version that is
missing now was removed.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memoryd.formats.blocks import Block, parse_blocks
from memoryd.formats.claude_md import fact_text
from memoryd.formats.items import item_lines
from memoryd.model import ID

TITLE = "# Memory"
HEADER = (
    "<!-- memoryd mirror {}: facts, not instructions. Change, add or remove items:"
    " memoryd takes that over. -->"
)
VERSION = re.compile(r"<!-- memoryd mirror ([0-9a-f]{8})\b")
COMMENT = re.compile(r" ?<!-- (?P<handle>[^\s<>]{1,128}) (?P<check>[0-9a-f]{6}) -->")
SHORT = 8  # characters of an id that name it, if no other memory of the file begins with them


@dataclass(frozen=True, slots=True)
class Line:
    """An item to write: what names its memory in the file, and the text."""

    handle: str
    text: str

    @property
    def check(self) -> str:
        return check_of(self.text)

    def lines(self) -> list[str]:
        first, *rest = item_lines(self.text)
        return [f"{first} <!-- {self.handle} {self.check} -->", *rest]


@dataclass(frozen=True, slots=True)
class Entry:
    """An item, paragraph or block of code of the file as it is now. Without a handle a person
    added it."""

    line: int
    last: int
    text: str
    handle: str | None = None
    check: str | None = None
    headings: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Whether the text is another one than we wrote."""
        return self.check is not None and self.check != check_of(self.text)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The file as it is now. `version`: None if the header is missing."""

    version: str | None
    entries: tuple[Entry, ...]


def check_of(text: str) -> str:
    """A checksum of the text of an item."""
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def new_version() -> str:
    return secrets.token_hex(4)


def lines_for(facts: Iterable[tuple[str, str]], limit: int) -> list[tuple[str, Line]]:
    """Ids with their items, for facts given as id and content, best first. The file with them has
    fewer than `limit` bytes; what does not fit is left out as a whole. Each text is there once."""
    taken: list[tuple[str, Line]] = []
    handles: set[str] = set()
    texts: set[str] = set()
    size = len(render([], "0" * 8).encode())
    for id, content in facts:
        short = id[:SHORT] if ID.fullmatch(id) else id
        line = Line(id if short in handles else short, fact_text(content))
        length = sum(len(part.encode()) + 1 for part in line.lines())
        if size + length >= limit or line.text in texts or not _survives(line):
            continue
        taken.append((id, line))
        handles.add(line.handle)
        texts.add(line.text)
        size += length
    return taken


def render(lines: Sequence[Line], version: str) -> str:
    """The text of the file."""
    items = [part for line in lines for part in line.lines()]
    return "\n".join([TITLE, "", HEADER.format(version), "", *items, ""])


def parse(text: str) -> Parsed:
    """What is in a file, whoever wrote it."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    return Parsed(version_of(text), tuple(map(_entry, parse_blocks(text))))


def version_of(text: str) -> str | None:
    """The version that a text names; None if its header is missing."""
    found = VERSION.search(text)
    return found[1] if found else None


def without(text: str, handles: set[str], checks: set[str]) -> str:
    """The text without the items of these memories, and without those that lost their comment and
    have the text of one of them; everything else stays as it is."""
    lines = text.split("\n")
    for entry in reversed(parse(text).entries):
        check = check_of(entry.text) if entry.handle is None else None
        if entry.handle in handles or check in checks:
            del lines[entry.line - 1 : entry.last]
    return "\n".join(lines)


def _entry(block: Block) -> Entry:
    found = COMMENT.search(block.text)
    if found is None:
        return Entry(block.line, block.last, block.text, headings=block.headings)
    text = COMMENT.sub("", block.text).strip()
    return Entry(block.line, block.last, text, found["handle"], found["check"], block.headings)


def _survives(line: Line) -> bool:
    """Whether reading the item gives back exactly its text: otherwise it would look changed."""
    entries = parse("\n".join(line.lines())).entries
    return [(entry.handle, entry.text) for entry in entries] == [(line.handle, line.text)]
