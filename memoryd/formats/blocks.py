"""The blocks of a Markdown text that a person wrote: items, paragraphs, code, and dated sections.

Unlike an export, such a text has no details. What it says is cut where a reader would cut it: each
item of a list with what is nested in it, each paragraph, and each block of code as a whole. A block
of code belongs to the text before it if that ends in a colon. A heading is no block; it is known to
the blocks below it. Everything below a heading that begins with a date is one block of that time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from memoryd.formats.items import (
    BREAK,
    FENCE,
    MARKER,
    Item,
    continues,
    ends_block,
    opened_block,
    without_indent,
)

HEADING = re.compile(r" {0,3}(?P<level>#{1,6})(?P<text>[ \t].*)?")
UNDERLINE = re.compile(r" {0,3}(?:=+|-+)")
RULE = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:_[ \t]*){3,}|(?:\*[ \t]*){3,})")
FRONT_MATTER = "---"
DATED = re.compile(
    r"\[?(?P<day>\d{4}-\d\d-\d\d)"
    r"(?:[T ](?P<time>\d\d:\d\d(?::\d\d(?:[.,]\d{1,6})?)?)(?P<offset>Z|[+-]\d\d:?\d\d)?)?\]?"
    r"(?P<rest>(?:[ \t:,-].*)?)"
)
COMMENT = "<!--"
ESCAPED = re.compile(r"^( {0,3})\\(?=#)", re.M)  # a line of a section that is no heading


@dataclass(slots=True)
class Block:
    """A part of a text: its first and last line from 1, and the headings above it, outermost
    first. `at`: the time that it is of, as epoch seconds."""

    line: int
    last: int
    text: str
    headings: tuple[str, ...] = ()
    at: float | None = None


def parse_blocks(text: str) -> list[Block]:
    """The blocks of a text, in order. Comments, rules and front matter are left out."""
    return _Parser(text).blocks()


def moment_in(text: str) -> tuple[float, str] | None:
    """The time that a text begins with, in local time unless it has an offset, and the rest of the
    text; None without one."""
    if not (found := DATED.fullmatch(text.strip())):
        return None
    time = (found["time"] or "00:00").replace(",", ".")
    try:
        at = datetime.fromisoformat(f"{found['day']}T{time}{found['offset'] or ''}").timestamp()
    except (ValueError, OverflowError, OSError):
        return None
    return at, found["rest"].strip(" \t:,-")


@dataclass(slots=True)
class _Section:
    """A dated section that is being read."""

    at: float
    level: int
    headings: tuple[str, ...]
    line: int
    lines: list[str] = field(default_factory=list)


class _Parser:
    """Reads line by line; at most one block is open."""

    def __init__(self, text: str) -> None:
        self._lines = [line.rstrip() for line in text.split("\n")]
        self._found: list[Block] = []
        self._headings: list[tuple[int, str]] = []
        self._item: Item | None = None
        self._paragraph: list[str] = []
        self._code: list[str] = []
        self._code_line = 0
        self._until = ""  # what ends the block of code or the comment that is open
        self._section: _Section | None = None
        self._blank = 0
        self._number = 0

    def blocks(self) -> list[Block]:
        start = _after_front_matter(self._lines)
        for number in range(start, len(self._lines)):
            self._number = number + 1
            self._take(self._lines[number])
        self._number = len(self._lines) + 1
        self._close()
        self._end_section(0)
        return [block for block in self._found if block.text]

    def _take(self, line: str) -> None:
        if self._until:
            self._inside(line)
        elif (heading := HEADING.fullmatch(line)) and not self._in_item(line):
            self._head(len(heading["level"]), _title(heading["text"] or ""))
        elif self._section is not None:
            self._section.lines.append(line)
            self._until = "" if line.lstrip().startswith(COMMENT) else opened_block(line)
        else:
            self._take_text(line)

    def _take_text(self, line: str) -> None:
        if not line:
            self._end_paragraph()
            self._blank += 1
            return
        if self._item is not None and self._in_item(line):
            indented = without_indent(line, self._item.offset)
            self._item.lines += [*[""] * self._blank, indented]
        elif (start := MARKER.fullmatch(line)) and not BREAK.fullmatch(line):
            self._close()
            offset = len(start["lead"]) + 1
            self._item = Item(self._number, [(start["text"] or "").strip()], offset)
        elif self._paragraph and UNDERLINE.fullmatch(line):
            title, self._paragraph = " ".join(self._paragraph).strip(), []
            self._head(1 if "=" in line else 2, title)
        elif not self._paragraph and RULE.fullmatch(line):
            self._close()
        elif until := opened_block(line):
            self._close()
            self._until = until
            self._code = [line] if FENCE.match(line) else []
            self._code_line = self._number
        elif line.lstrip().startswith(COMMENT):
            self._close()
        else:
            self._end_item()
            self._paragraph.append(line)
        self._blank = 0

    def _inside(self, line: str) -> None:
        """A line of the block of code or the comment that is open."""
        if self._section is not None:
            self._section.lines.append(line)
        elif self._code:
            self._code.append(line)
        if ends_block(line, self._until):
            self._until = ""
            self._end_code()

    def _in_item(self, line: str) -> bool:
        return self._item is not None and continues(line, self._item, self._blank)

    def _head(self, level: int, title: str) -> None:
        self._close()
        self._end_section(level)
        if self._section is not None:  # a heading inside of it
            self._section.lines.append(f"{'#' * level} {title}".strip())
            return
        self._headings = [(at, text) for at, text in self._headings if at < level]
        if (dated := moment_in(title)) is not None:
            above = [text for _, text in self._headings]
            headings = tuple(above + ([dated[1]] if dated[1] else []))
            self._section = _Section(dated[0], level, headings, self._number)
        elif title:
            self._headings.append((level, title))

    def _end_section(self, level: int) -> None:
        section = self._section
        if section is None or level > section.level:
            return
        text = ESCAPED.sub(r"\1", "\n".join(_without_comments(section.lines)).strip())
        last = self._number - 1
        self._found.append(Block(section.line, last, text, section.headings, section.at))
        self._section = None

    def _close(self) -> None:
        self._end_item()
        self._end_paragraph()
        self._end_code()

    def _end_item(self) -> None:
        if (item := self._item) is not None:
            self._add(item.line, item.line + len(item.lines) - 1, item.text)
        self._item = None

    def _end_paragraph(self) -> None:
        if self._paragraph:
            lines, self._paragraph = self._paragraph, []
            first = self._number - len(lines)
            self._add(first, self._number - 1, "\n".join(lines).strip())

    def _end_code(self) -> None:
        if not (code := self._code):
            return
        self._code = []
        text = "\n".join(code)
        before = self._found[-1] if self._found else None
        first, last = self._code_line, self._code_line + len(code) - 1
        if before is not None and before.text.endswith(":") and self._is_next_to(before, first):
            before.text, before.last = f"{before.text}\n{text}", last
        else:
            self._add(first, last, text)

    def _is_next_to(self, block: Block, line: int) -> bool:
        between = self._lines[block.last : line - 1]
        return block.headings == self._titles() and not any(between)

    def _add(self, line: int, last: int, text: str) -> None:
        dated = moment_in(text.split("\n", 1)[0]) if text.startswith("[") else None
        self._found.append(Block(line, last, text, self._titles(), dated[0] if dated else None))

    def _titles(self) -> tuple[str, ...]:
        return tuple(text for _, text in self._headings)


def _title(text: str) -> str:
    """The text of a heading, without the signs that may close it."""
    title = text.strip()
    open_title = title.rstrip("#")
    return title if open_title and not open_title[-1].isspace() else open_title.rstrip()


def _after_front_matter(lines: Sequence[str]) -> int:
    """The number of lines of front matter: what is between two rules at the top of a file."""
    if not lines or lines[0] != FRONT_MATTER or FRONT_MATTER not in lines[1:]:
        return 0
    return lines.index(FRONT_MATTER, 1) + 1


def _without_comments(lines: Sequence[str]) -> list[str]:
    """The lines of a section without those that are a comment as a whole."""
    return [
        line
        for line in lines
        if not (line.lstrip().startswith(COMMENT) and line.rstrip().endswith("-->"))
    ]
