"""Inspect the store's files without Chroma, for `memoryd doctor`.

Nothing is inspected while another process has the store open: a write in progress would look like
damage.
"""

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
from memoryd.adapters.chroma.open import newer_schema_error
from memoryd.adapters.chroma.rows import SCHEMA_KEY
from memoryd.adapters.chroma.sqlite_read import DATABASE, Unreadable, check_files
from memoryd.adapters.chroma.swap import LIVE, missing_store
from memoryd.errors import StoreError
from memoryd.places import try_lock

PICKLE_END = b"."
REBUILD_HINT = (
    "Start the daemon: it rebuilds the index from the database, and sets the broken one aside."
)
# The indexes that hold vectors which the database does not: their directories must exist.
INDEXED = (
    "SELECT s.id FROM segments s WHERE s.scope = 'VECTOR' AND EXISTS (SELECT 1 FROM embeddings e "
    "WHERE e.embedding_id NOT IN (SELECT id FROM embeddings_queue))"
)
Fault = tuple[str, str, str]  # code, sentence, hint


def inspect(data_dir: Path, backups: Path) -> list[Fault]:
    """The faults of the store in this directory; none if there is no store, or if another process
    has it open. `backups`: the folder that the hint how to restore looks in."""
    store = data_dir / LIVE
    if message := missing_store(data_dir):
        return [("store_corrupt", message, restore_hint(data_dir, backups))]
    if not store.exists():
        return []
    try:
        handle = files.open_file(data_dir / "lock", os.O_RDWR | os.O_CREAT)
    except files.NotAFile:  # reported with the other faults of the directory
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
            error = newer_schema_error(str(path), schema)
            yield error.code, error.message, error.hint


def _schemas(connection: sqlite3.Connection) -> list[int]:
    tables = "SELECT 1 FROM sqlite_master WHERE name = 'collection_metadata'"
    if connection.execute(tables).fetchone() is None:
        return []
    query = "SELECT int_value FROM collection_metadata WHERE key = ? AND int_value IS NOT NULL"
    return [int(schema) for (schema,) in connection.execute(query, (SCHEMA_KEY,))]


def _index_faults(store: Path) -> Iterator[Fault]:
    """Faults of the index files: a kill during Chroma's flush truncates them."""
    folders = sorted(path for path in store.iterdir() if path.is_dir())
    for folder in folders:
        metadata = folder / "index_metadata.pickle"
        is_cut = metadata.exists() and not metadata.read_bytes().endswith(PICKLE_END)
        if is_cut or is_torn_index(folder):
            message = f"The store's index in {folder} is damaged: a file is truncated or missing."
            yield "index_corrupt", message, REBUILD_HINT
    for name in _indexes(store / "chroma.sqlite3") - {folder.name for folder in folders}:
        yield "index_corrupt", f"The store's index {store / name} is missing.", REBUILD_HINT


def _indexes(database: Path) -> set[str]:
    """Directory names of the indexes that the database needs; none if it cannot be read."""
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return {str(name) for (name,) in connection.execute(INDEXED)}
    except sqlite3.Error:
        return set()
