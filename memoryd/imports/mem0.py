"""Memories of mem0: its `history.db`, the JSON that its programs return (`results`, `memories` or a
list), or the Markdown file that the export of its plugin writes.

The history has every event of every memory, in order, so the last one says what a memory is now. It
has no users and no metadata; these are only in the vector store, whose format is a Python pickle,
and reading one can run code. The JSON has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from memoryd.imports.front_matter import FENCE, parsed
from memoryd.imports.json_stream import first_item, items
from memoryd.imports.rows import Found, Maker, Row, Skipped, broken, moment, split_list, texts
from memoryd.imports.sqlite_file import Database, is_database, open_database
from memoryd.imports.text_files import opened, time_of, whole_text

NAME = "mem0"
KEYS = ("results", "memories", "records")
HEAD = {"id", "created_at"}  # what the head of each block of the Markdown file has
RECOGNISED_BY = "categories"  # what the head of some block has, and no other format
ENDINGS = (".md", ".markdown")
FILE, TABLE = "history.db", "history"
COLUMNS = (
    *("memory_id", "new_memory", "event", "created_at", "updated_at", "is_deleted"),
    *("actor_id", "role"),
)
DELETED = "memories that were deleted there"


def fits(path: Path) -> bool:
    """Whether this is such a file, by its first memory."""
    if not path.is_file() or is_database(path):
        return False
    if path.suffix.lower() in ENDINGS:
        text = whole_text(path, named=True)
        return not isinstance(text, Skipped) and any(
            RECOGNISED_BY in head for _, head, _ in _blocks(text)
        )
    with opened(path, named=True) as file:
        first = first_item(file, path.name, KEYS)
    return isinstance(first, dict) and isinstance(first.get("memory"), str) and "id" in first


def fits_database(database: Database) -> bool:
    return {"memory_id", "old_memory", "new_memory", "event"} <= database.columns(TABLE)


def read(path: Path) -> Found:
    """A fact for each memory."""
    maker = Maker(NAME, time_of(path))
    if is_database(path):
        yield from _history(maker, path)
        return
    if path.suffix.lower() in ENDINGS:
        text = whole_text(path, named=True)
        if isinstance(text, Skipped):
            yield text
            return
        for line, head, body in _blocks(text):
            yield _from_block(maker, head, body, f"{path.name}, line {line}")
        return
    with opened(path, named=True) as file:
        for place, item in enumerate(items(file, path.name, KEYS), start=1):
            where = f"{path.name}, item {place}"
            if isinstance(item, Skipped):
                yield item
            else:
                yield _from_json(maker, item, where)


def _history(maker: Maker, path: Path) -> Found:
    """The memories as their last events left them."""
    last: dict[str, tuple[int, dict[str, Any]]] = {}
    with open_database(path) as database:
        for place, event in enumerate(database.rows(TABLE, COLUMNS), start=1):
            id = event.get("memory_id")
            if not isinstance(id, str) or not id:
                yield broken(f"{path.name}, row {place}", "an event without a memory")
                continue
            first = last.get(id, (0, {}))[1].get("created_at")
            last[id] = place, event | {"created_at": first or event.get("created_at")}
    for id, (place, event) in last.items():
        text, where = event.get("new_memory"), f"{path.name}, row {place}"
        if event.get("event") == "DELETE" or event.get("is_deleted"):
            yield Skipped(DELETED)
        elif not isinstance(text, str) or not text.strip():
            yield broken(where, "a memory without text")
        else:
            created = event["created_at"] or event.get("updated_at")
            yield maker.fact(
                id,
                text,
                created,
                updated_at=event.get("updated_at") if moment(created) else None,
                where=where,
                metadata={key: event.get(key) for key in ("actor_id", "role")},
            )


def _blocks(text: str) -> Iterator[tuple[int, dict[str, Any], str]]:
    """The line, the head and the text of each block. A line of dashes in a text is no head: a head
    has certain keys."""
    lines = text.split("\n")
    starts: list[tuple[int, int, dict[str, Any]]] = []
    fences = [number for number, line in enumerate(lines) if line.rstrip() == FENCE]
    for start, end in pairwise(fences):
        if end - start <= 12 and _is_head(lines[start + 1 : end]):
            starts.append((start, end, parsed(lines[start + 1 : end])))
    ends = [start for start, _, _ in starts[1:]] + [len(lines)]
    for (start, end, head), until in zip(starts, ends, strict=False):
        yield start + 1, head, "\n".join(lines[end + 1 : until]).strip()


def _is_head(lines: list[str]) -> bool:
    return {line.partition(":")[0].strip() for line in lines} >= HEAD


def _from_block(maker: Maker, head: dict[str, Any], body: str, where: str) -> Row | Skipped:
    id = head.get("id")
    if not isinstance(id, str) or not id or not body:
        return broken(where, "a memory without an id or text")
    return maker.fact(
        id,
        body,
        head.get("created_at"),
        where=where,
        kind=head.get("type"),
        tags=split_list(head.get("categories")),
        files=split_list(head.get("files")),
        metadata={"branch": head.get("branch"), "confidence": _number(head.get("confidence"))},
    )


def _from_json(maker: Maker, item: object, where: str) -> Row | Skipped:
    if not isinstance(item, dict) or not isinstance(item.get("memory"), str):
        return broken(where, "not a memory")
    if not item["memory"].strip() or not isinstance(item.get("id"), str | int):
        return broken(where, "a memory without an id or text")
    given = item.get("metadata")
    about = dict(given) if isinstance(given, dict) else {}
    kind, files = about.pop("type", None), about.pop("files", None)
    who = {key: item.get(key) for key in ("user_id", "agent_id", "run_id", "actor_id", "role")}
    return maker.fact(
        str(item["id"]),
        item["memory"],
        item.get("created_at"),
        updated_at=item.get("updated_at") if moment(item.get("created_at")) else None,
        where=where,
        kind=kind,
        tags=texts(item.get("categories")),
        files=split_list(files) if isinstance(files, str) else texts(files),
        project=item.get("app_id"),
        metadata=about | who,
    )


def _number(value: object) -> float | None:
    try:
        number = float(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number <= 1 else None
