"""A look at the store's files from outside, for `memoryd doctor`. Chroma is not opened, and
nothing is looked at while somebody else has the store open: SQLite copies in two processes are
fine, but a writer in the middle of its work would look like damage."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from memoryd import files
from memoryd.adapters.backup_file import restore_hint
from memoryd.adapters.chroma.collection import SCHEMA
from memoryd.adapters.chroma.disk_errors import check_access
from memoryd.adapters.chroma.hnsw_files import is_torn_index
from memoryd.adapters.chroma.open import newer
from memoryd.adapters.chroma.rows import SCHEMA_KEY
from memoryd.adapters.chroma.sqlite_read import DATABASE, Unreadable, check_files
from memoryd.adapters.chroma.swap import LIVE
from memoryd.errors import StoreError
from memoryd.places import try_lock

PICKLE_END = b"."
MEND = "Start the daemon: it rebuilds the index from the database, and sets the broken one aside."
# Memories whose vectors are in the index alone, and the directory that it must have.
INDEXED = (
    "SELECT s.id FROM segments s WHERE s.scope = 'VECTOR' AND EXISTS (SELECT 1 FROM embeddings e "
    "WHERE e.embedding_id NOT IN (SELECT id FROM embeddings_queue))"
)
Fault = tuple[str, str, str]  # code, sentence, hint


def look(data_dir: Path, backups: Path) -> list[Fault]:
    """What is wrong with the store in this directory; nothing if there is none, or if another
    process has it open. `backups`: where they are, for the way to restore."""
    store = data_dir / LIVE
    if not store.exists():
        return []
    try:
        handle = files.open_file(data_dir / "lock", os.O_RDWR | os.O_CREAT)
    except files.NotAFile:  # told with the other faults of the directory
        return []
    try:
        if not try_lock(handle):
            return []
        return list(_faults(store, restore_hint(data_dir, backups)))
    except StoreError as exc:
        return [(exc.code, exc.message, exc.hint)]
    finally:
        os.close(handle)


def _faults(store: Path, hint: str) -> Iterator[Fault]:
    check_access(store)
    try:
        check_files(store)
    except Unreadable as exc:
        yield exc.code, exc.message, hint
        return
    if (store / DATABASE).exists():
        yield from _database_faults(store / DATABASE, hint)
        yield from _index_faults(store)


def _database_faults(path: Path, hint: str) -> Iterator[Fault]:
    try:
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            schemas = _schemas(connection)
        finally:
            connection.close()
    except sqlite3.Error as exc:
        name = getattr(exc, "sqlite_errorname", None) or type(exc).__name__
        yield "store_corrupt", f"The store's database {path} is damaged ({name}).", hint
        return
    if found != "ok":
        yield "store_corrupt", f"The store's database {path} is damaged.", hint
    for schema in schemas:
        if schema > SCHEMA:
            told = newer(str(path), schema)
            yield told.code, told.message, told.hint


def _schemas(connection: sqlite3.Connection) -> list[int]:
    tables = "SELECT 1 FROM sqlite_master WHERE name = 'collection_metadata'"
    if connection.execute(tables).fetchone() is None:
        return []
    query = "SELECT int_value FROM collection_metadata WHERE key = ? AND int_value IS NOT NULL"
    return [int(schema) for (schema,) in connection.execute(query, (SCHEMA_KEY,))]


def _index_faults(store: Path) -> Iterator[Fault]:
    """A kill inside Chroma's flush leaves files cut short; each index has a directory."""
    folders = sorted(path for path in store.iterdir() if path.is_dir())
    for folder in folders:
        notes = folder / "index_metadata.pickle"
        cut = notes.exists() and not notes.read_bytes().endswith(PICKLE_END)
        if cut or is_torn_index(folder):
            message = f"The store's index in {folder} is damaged: a file was cut short or lost."
            yield "index_corrupt", message, MEND
    for name in _indexes(store / "chroma.sqlite3") - {folder.name for folder in folders}:
        yield "index_corrupt", f"The index of the store, {store / name}, is missing.", MEND


def _indexes(database: Path) -> set[str]:
    """Directories of indexes that the database needs; none if it cannot tell."""
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return {str(name) for (name,) in connection.execute(INDEXED)}
    except sqlite3.Error:
        return set()
