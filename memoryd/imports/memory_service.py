"""Memories of mcp-memory-service: its SQLite database (`sqlite_vec.db`), or the JSON file that its
export writes. The id of a memory is the hash of its text, in both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from memoryd.imports.json_stream import first_item, items
from memoryd.imports.rows import Found, Maker, Row, Skipped, broken, split_list, texts
from memoryd.imports.sqlite_file import Database, is_database, open_database
from memoryd.imports.text_files import opened, time_of

NAME = "mcp-memory-service"
FILE = "sqlite_vec.db"
TABLE, KEYS = "memories", ("memories",)
COLUMNS = (
    *("content_hash", "content", "tags", "memory_type", "metadata"),
    *("created_at", "updated_at", "deleted_at", "store"),
)


def fits(path: Path) -> bool:
    """Whether this is such an export, by its first memory."""
    if not path.is_file() or is_database(path):
        return False
    with opened(path, named=True) as file:
        first = first_item(file, path.name, KEYS)
    return isinstance(first, dict) and {"content", "content_hash"} <= first.keys()


def fits_database(database: Database) -> bool:
    return {"content", "content_hash"} <= database.columns(TABLE)


def read(path: Path) -> Found:
    """A fact for each memory that was not deleted."""
    maker = Maker(NAME, time_of(path))
    if is_database(path):
        with open_database(path) as database:
            for place, row in enumerate(database.rows(TABLE, COLUMNS), start=1):
                yield _fact(maker, row, f"{path.name}, row {place}")
        return
    with opened(path, named=True) as file:
        for place, item in enumerate(items(file, path.name, KEYS), start=1):
            where = f"{path.name}, item {place}"
            if isinstance(item, Skipped):
                yield item
            elif isinstance(item, dict):
                yield _fact(maker, item, where)
            else:
                yield broken(where, "not a memory")


def _fact(maker: Maker, item: dict[str, Any], where: str) -> Row | Skipped:
    id, text, tags = item.get("content_hash"), item.get("content"), item.get("tags")
    if item.get("deleted_at") is not None:
        return Skipped("memories that were deleted there")
    if not isinstance(id, str) or not id or not isinstance(text, str) or not text.strip():
        return broken(where, "a memory without a hash or text")
    store = item.get("store")
    about = _metadata(item.get("metadata"))
    about.pop("tags", None)  # the same as the column
    return maker.fact(
        id,
        text,
        item.get("created_at"),
        updated_at=item.get("updated_at"),
        where=where,
        kind=item.get("memory_type"),
        tags=split_list(tags) if isinstance(tags, str) else texts(tags),
        metadata=about | {"store": None if store == "default" else store},
    )


def _metadata(value: object) -> dict[str, Any]:
    """Metadata, which the database has as a text of JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {"original_metadata": value}
    return dict(value) if isinstance(value, dict) else {}
