"""A look at the store's files from outside, for `memoryd doctor`. Chroma is not opened, and
nothing is looked at while somebody else has the store open: SQLite copies in two processes are
fine, but a writer in the middle of its work would look like damage."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from memoryd.adapters.chroma_collection import SCHEMA
from memoryd.adapters.chroma_rows import SCHEMA_KEY
from memoryd.places import try_lock

PICKLE_END = b"."
INDEX_FILES = ("header.bin", "data_level0.bin", "length.bin")
Fault = tuple[str, str, str]  # code, sentence, hint


def look(data_dir: Path) -> list[Fault]:
    """What is wrong with the store in this directory; nothing if there is none, or if another
    process has it open."""
    database = data_dir / "store" / "chroma.sqlite3"
    if not database.exists():
        return []
    handle = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not try_lock(handle):
            return []
        return list(_database_faults(database)) + list(_index_faults(database.parent))
    finally:
        os.close(handle)


def _database_faults(path: Path) -> Iterator[Fault]:
    hint = "Restore a backup, or import an export into a new --data-dir."
    try:
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            schemas = _schemas(connection)
        finally:
            connection.close()
    except sqlite3.Error as exc:
        yield "store_corrupt", f"The store's database {path} cannot be read: {exc}.", hint
        return
    if found != "ok":
        yield "store_corrupt", f"The store's database {path} is damaged: {found[:200]}.", hint
    for schema in schemas:
        if schema > SCHEMA:
            message = f"The store has schema {schema}; this memoryd reads schema {SCHEMA}."
            yield (
                "store_newer",
                message,
                "Use the version of memoryd that wrote it, or a newer one.",
            )


def _schemas(connection: sqlite3.Connection) -> list[int]:
    tables = "SELECT 1 FROM sqlite_master WHERE name = 'collection_metadata'"
    if connection.execute(tables).fetchone() is None:
        return []
    query = "SELECT int_value FROM collection_metadata WHERE key = ? AND int_value IS NOT NULL"
    return [int(schema) for (schema,) in connection.execute(query, (SCHEMA_KEY,))]


def _index_faults(store: Path) -> Iterator[Fault]:
    """A kill inside Chroma's flush leaves files cut short; each index has a directory."""
    for folder in sorted(path for path in store.iterdir() if path.is_dir()):
        cut = [folder / n for n in INDEX_FILES if _size(folder / n) == 0]
        notes = folder / "index_metadata.pickle"
        if notes.exists() and not notes.read_bytes().endswith(PICKLE_END):
            cut.append(notes)
        if cut:
            message = f"The index of the store is damaged: {cut[0]} was cut short."
            hint = "Memories are intact in the database: restore a backup, or look at the log."
            yield "index_corrupt", message, hint


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
