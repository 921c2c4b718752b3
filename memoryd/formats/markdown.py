"""Memories as Markdown that a person can read, and that imports again without loss.

    # Memories
    <!-- memoryd export 1: the comments hold the details; `memoryd import` reads this file again -->

    ## acme/web

    ### Gotcha

    - Close the pool before a fork.
      <!-- memoryd {"id": "3f...", "type": "fact", "created_at": 1767225600.25, ...} -->

An item shows a text without what cannot be seen. Where that is not the text to the letter, the
details have it too. If a person has changed the item, its text is what they wrote. An item without
details is one that a person added: a fact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import IO, Any

from memoryd.export_file import NEEDED
from memoryd.fields import KIND, PROJECT
from memoryd.formats.items import INDENT, Item, item_lines, parse_items, shown

VERSION = 1
TITLE = "# Memories"
SHARED = "Shared"
HEADER = (
    f"<!-- memoryd export {VERSION}: the comments hold the details; "
    "`memoryd import` reads this file again -->"
)
HEADER_START = re.compile(r"<!-- memoryd export (\d{1,9})\b")
DETAILS_START, DETAILS_END = "<!-- memoryd {", "} -->"
MAX_HEADING = 100
TYPE_HEADINGS = {"fact": "Facts", "conversation": "Conversations", "context": "Context"}

Fields = dict[str, Any]


def write(memories: Iterable[Fields], file: IO[bytes]) -> int:
    """Write memories, by project, then by kind or type, then by time; how many."""
    count = 0
    file.write(f"{TITLE}\n\n{HEADER}\n".encode())
    ordered = sorted(memories, key=_order)
    for project, of_project in groupby(ordered, key=_project):
        file.write(f"\n## {_heading(project) or SHARED}\n".encode())
        for section, of_section in groupby(of_project, key=_section):
            file.write(f"\n### {_heading(section)}\n\n".encode())
            for memory in of_section:
                file.write(_block(memory).encode())
                count += 1
    return count


def read(text: str) -> tuple[list[tuple[int, Fields]], int]:
    """The memories of a file with their line numbers, and how many lines were neither an item nor a
    heading. A fact that a person added has only a `content`. Raises ValueError with a line number
    and a sentence."""
    if (header := HEADER_START.search(text)) and int(header[1]) > VERSION:
        raise ValueError(1, f"a newer memoryd wrote it (format {header[1]}, known: {VERSION})")
    items = parse_items(text, DETAILS_START)
    return [(item.line, _memory(item)) for item in items.found], items.skipped


def _order(memory: Fields) -> tuple[Any, ...]:
    project, section = _project(memory), _section(memory)
    return project, section, memory["created_at"], memory["id"]


def _project(memory: Fields) -> str:
    """Its project; "" for shared memories, which come first."""
    return _text(memory["metadata"], PROJECT)


def _section(memory: Fields) -> str:
    kind = _text(memory["metadata"], KIND)
    if kind:
        return kind.replace("_", " ").capitalize()
    return TYPE_HEADINGS.get(memory["type"]) or str(memory["type"])


def _text(metadata: Mapping[str, Any], key: str) -> str:
    value = metadata.get(key)
    return value if isinstance(value, str) else ""


def _heading(text: str) -> str:
    """One short line that opens no comment."""
    return " ".join(shown(text).split())[:MAX_HEADING] if text else ""


def _block(memory: Fields) -> str:
    """The item of a memory with its details."""
    text = shown(memory["content"])
    details = {key: value for key, value in memory.items() if value is not None and value != {}}
    if memory["content"] == text:
        del details["content"]
    comment = f"<!-- memoryd {_json(details)} -->"
    return "\n".join([*item_lines(text), INDENT + comment, ""])


def _json(value: object) -> str:
    """JSON that cannot end a comment: `--` can only be inside of a text."""
    return json.dumps(value, ensure_ascii=False).replace("--", r"-\u002d")


def _memory(item: Item) -> Fields:
    if item.comment is None:
        return {"content": item.text}
    details = _details(item)
    known = details.get("content")
    is_unchanged = isinstance(known, str) and shown(known) == item.text
    content = known if is_unchanged else item.text
    return {"expires_at": None, "metadata": {}} | details | {"content": content}


def _details(item: Item) -> Fields:
    comment = item.comment or ""
    start = DETAILS_START.removesuffix("{")
    try:
        if not comment.endswith(DETAILS_END):
            raise ValueError
        details = json.loads(comment[len(start) : -len(" -->")])
    except (ValueError, RecursionError):
        raise ValueError(item.comment_line, "the details of a memory are damaged") from None
    for key, kind in NEEDED.items():
        if key not in ("content", "metadata") and not isinstance(details.get(key), kind):
            raise ValueError(item.comment_line, f"`{key}` is missing or of the wrong type")
    return dict(details)
