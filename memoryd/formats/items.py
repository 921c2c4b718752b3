"""Items of Markdown lists: how a text becomes one, and how the items of a file are read.

A text is the first line of its item, and its further lines are indented below it. So no line of a
text begins at the left margin, and none can be taken for another item, a heading or a marker. What
opens an HTML comment is made harmless in the text: every comment in a file that was exported is
ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from memoryd.sanitize import visible

INDENT = "  "
NO_TEXT = "(no visible text)"
OPENS_COMMENT, HARMLESS = "<!--", "&lt;!--"
MARKER = re.compile(r"(?P<lead> {0,3}(?:[-*+]|\d{1,9}[.)]))(?: +(?P<text>.*)|$)")
BREAK = re.compile(r" {0,3}\*[ *]*")  # a line across the page
# What ends an item although no empty line is before it.
BLOCK = re.compile(r" {0,3}(?:#{1,6}(?: |$)|```|~~~|<|>)")
FENCE = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})")


@dataclass(slots=True)
class Item:
    """An item of a list: the number of its first line, and its lines without their indentation."""

    line: int
    lines: list[str]
    offset: int = 2  # columns from which its further lines begin
    comment: str | None = None  # the line with our details, which is its last
    comment_line: int = 0

    @property
    def text(self) -> str:
        return "\n".join(self.lines).strip()


@dataclass(slots=True)
class Items:
    """The items of a text, and how many lines of it are neither in an item nor a heading."""

    found: list[Item] = field(default_factory=list)
    skipped: int = 0


def shown(text: str, clean: Callable[[str], str] = visible) -> str:
    """A text as its item shows it: without hidden characters, spaces at the ends, and comments.
    Reading the item returns exactly this."""
    lines = [line.rstrip() for line in clean(text).split("\n")]
    plain = "\n".join(lines).strip().replace(OPENS_COMMENT, HARMLESS)
    return plain or NO_TEXT


def item_lines(text: str) -> list[str]:
    """The lines of the item for a text that `shown` returned."""
    first, *rest = text.split("\n")
    return [f"- {first}", *(INDENT + line if line else "" for line in rest)]


def parse_items(text: str, comment_start: str) -> Items:
    """Every item of the lists at the top level of a Markdown text. A nested list is part of its
    item; code blocks and comments outside of items are skipped. A line in an item that begins with
    `comment_start` ends it."""
    items, item, blank, until = Items(), None, 0, ""
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.rstrip()
        if until:  # inside a block of code or a comment
            until = "" if ends_block(line, until) else until
            items.skipped += 1
        elif not line:
            blank += 1
        elif item is not None and continues(line, item, blank):
            if line.lstrip().startswith(comment_start):
                item.comment, item.comment_line, item = line.strip(), number, None
            else:
                item.lines += [*[""] * blank, without_indent(line, item.offset)]
        elif (start := MARKER.fullmatch(line)) and not BREAK.fullmatch(line):
            offset = len(start["lead"]) + 1
            item = Item(number, [(start["text"] or "").strip()], offset)
            items.found.append(item)
        else:
            item, until = None, opened_block(line)
            items.skipped += not line.lstrip().startswith(("#", "<!--"))
        blank = blank if not line else 0
    items.found = [item for item in items.found if item.text]
    return items


def continues(line: str, item: Item, blank: int) -> bool:
    """Whether a line is part of the item before it; `blank`: empty lines in between."""
    indent = len(line) - len(line.lstrip(" "))
    if indent >= item.offset:
        return True
    return not blank and not MARKER.fullmatch(line) and not BLOCK.match(line)


def without_indent(line: str, offset: int) -> str:
    """A line of an item as its text has it."""
    indent = len(line) - len(line.lstrip(" "))
    return line[min(indent, offset) :]


def opened_block(line: str) -> str:
    """What ends the block of code or the comment that begins here; "" if none does."""
    if fence := FENCE.match(line):
        return fence["fence"]
    start = line.lstrip()
    return "-->" if start.startswith("<!--") and "-->" not in start else ""


def ends_block(line: str, until: str) -> bool:
    """Whether a line is what `opened_block` returned."""
    if until == "-->":
        return until in line
    return line.strip().startswith(until) and not line.strip().strip(until[0])
