"""Read Chroma's database without Chroma: check it, and get its rows.

Chroma cannot read its own tables when its index files are broken, but they are plain SQLite:
`embeddings` and `embedding_metadata` hold the rows that were applied, `embeddings_queue` the
operations that were committed since, in order, with the vectors that the index did not have yet.
Only while Chroma is closed: two SQLite libraries in one process drop each other's locks.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoryd.adapters.chroma import rows as rows
from memoryd.adapters.chroma.disk_errors import disk_error
from memoryd.adapters.chroma.rows import OF, REVISION, TYPE
from memoryd.adapters.chroma.swap import CLEAN, MADE, MARK
from memoryd.errors import StoreError

DATABASE = "chroma.sqlite3"
DOCUMENT = "chroma:document"
ADD, UPDATE, DELETE = 0, 1, 3  # operations in Chroma's queue; any other number is an upsert
MAGIC = b"SQLite format 3\0"
REVISIONS_QUERY = (
    "SELECT e.embedding_id, m.int_value FROM embedding_metadata m "
    "JOIN embeddings e ON e.id = m.id "
    "WHERE m.key = ? AND m.int_value IS NOT NULL AND e.segment_id = ?"
)
COUNT_QUERY = (
    "SELECT COUNT(*) FROM embedding_metadata m JOIN embeddings e ON e.id = m.id "
    "WHERE m.key = ? AND m.string_value IS NOT NULL AND e.segment_id = ?"
)
TOTAL_QUERY = "SELECT COUNT(*) FROM embeddings WHERE segment_id = ?"
# If all rows are in one segment: twenty times as fast.
ALL_QUERY = "SELECT COUNT(*) FROM embedding_metadata WHERE key = ? AND string_value IS NOT NULL"
# Rows that are neither a memory nor a passage of one.
UNREADABLE_QUERY = (
    "SELECT embedding_id FROM embeddings e WHERE segment_id = ? AND NOT EXISTS "
    "(SELECT 1 FROM embedding_metadata WHERE id = e.id AND key IN (?, ?))"
)
# The operations of the queue that are not in the tables yet.
QUEUED_QUERY = (
    "SELECT operation, id, metadata FROM embeddings_queue WHERE topic LIKE ? AND seq_id > "
    "(SELECT COALESCE(MAX(seq_id), 0) FROM max_seq_id WHERE segment_id = ?) ORDER BY seq_id"
)
COLLECTION_QUERY = (
    "SELECT c.id, s.id FROM collections c JOIN segments s ON s.collection = c.id "
    "WHERE c.name = ? AND s.scope = 'METADATA'"
)


class Unreadable(StoreError):
    """The database itself is damaged, so its rows cannot be read."""

    code = "store_corrupt"


@dataclass(slots=True)
class RawRow:
    """A row as the tables and the queue have it; `vector` None: only the index has it."""

    document: str | None = None
    meta: dict[str, Any] = field(default_factory=dict)
    vector: NDArray[np.float32] | None = None


def enable_wal(path: Path) -> int:
    """Turn the write-ahead log on (2 fsyncs a commit instead of 8); how many rows were ever written
    to this store. Raises Unreadable, or StoreError if a write-ahead log is not possible."""
    with database(path) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        count = _rows_written(connection)
    if mode != "wal":
        raise StoreError(
            f"The store's database {path} cannot use a write-ahead log (journal mode {mode}).",
            hint="Use a local disk for memory.path.",
        )
    return count


def rows_written(path: Path) -> int:
    """How many rows were ever written to a store that is closed. Raises Unreadable."""
    with database(path) as connection:
        return _rows_written(connection)


def _rows_written(connection: sqlite3.Connection) -> int:
    known = connection.execute(
        "SELECT COUNT(*) FROM sqlite_master WHERE name IN ('max_seq_id', 'embeddings_queue')"
    ).fetchone()[0]
    written = "SELECT MAX(seq_id) AS n FROM max_seq_id UNION SELECT MAX(seq_id) FROM "
    newest = f"SELECT MAX(n) FROM ({written} embeddings_queue)"
    count = connection.execute(newest).fetchone()[0] if known == 2 else 0
    return int(count or 0)


def check_files(folder: Path) -> None:
    """Raise Unreadable if a database that was used is missing, empty, truncated or overwritten."""
    path = folder / DATABASE
    if not folder.is_dir():
        raise Unreadable(f"The store {folder} is not a directory.")
    size = path.stat().st_size if path.exists() else None
    if not size:
        if _was_used(folder):
            state = "missing" if size is None else "empty"
            raise Unreadable(f"The store's database {path} is {state}.")
        return
    with open(path, "rb") as file:
        header = file.read(105)
    if header[:16] != MAGIC:
        raise Unreadable(f"The store's database {path} is not a database: its header is damaged.")
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        return  # the missing pages may be in the log
    page = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    if size < pages * (65536 if page == 1 else page):
        raise Unreadable(f"The store's database {path} is cut off.")
    if _has_no_tables(header) and _was_used(folder):
        raise Unreadable(
            f"The store's database {path} has lost its tables and its write-ahead log."
        )


def _has_no_tables(header: bytes) -> bool:
    """Whether the list of tables, which is on the first page, is empty: a database looks like that
    if its first transactions were in a write-ahead log that is gone."""
    leaf_page, cells = header[100:101] == b"\x0d", int.from_bytes(header[103:105], "big")
    return leaf_page and cells == 0


def _was_used(folder: Path) -> bool:
    """Whether a store was in this folder: it left an index, a write-ahead log or our marks."""
    names = (MARK, CLEAN, f"{DATABASE}-wal", f"../{MADE}")
    return any((folder / name).exists() for name in names) or any(
        entry.is_dir() for entry in folder.iterdir()
    )


def passes_quick_check(folder: Path) -> bool:
    """Whether SQLite's quick check of the whole database finds no fault."""
    try:
        with database(folder / DATABASE) as connection:
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
    except StoreError:
        return False


def collection_facts(folder: Path, collection: str) -> dict[str, Any]:
    """The metadata of the collection; empty if it does not exist yet."""
    if not (folder / DATABASE).exists():
        return {}
    with database(folder / DATABASE) as connection:
        known = "SELECT COUNT(*) FROM sqlite_master WHERE name IN ('collections', 'segments')"
        if connection.execute(known).fetchone()[0] != 2:
            return {}
        try:
            return _collection(connection, collection)[0]
        except Unreadable:
            return {}


def count_rows(folder: Path, collection: str) -> int:
    """How many rows the collection has; raises Unreadable."""
    if folder.exists():
        check_files(folder)
    return len(salvage(folder, collection)[1]) if collection_facts(folder, collection) else 0


def salvage(folder: Path, collection: str) -> tuple[dict[str, Any], list[rows.Row]]:
    """The metadata of the collection and all its rows; those whose vector is lost are marked as
    pending. Raises Unreadable unless every row is complete."""
    facts, found = raw_rows(folder, collection)
    path = folder / DATABASE
    dimension = int(facts.get(rows.DIMENSION_KEY, 0))
    for id, row in found.items():
        if rows.OF not in row.meta and (rows.TYPE not in row.meta or row.document is None):
            raise Unreadable(f"The store's database {path} has lost parts of the memory {id}.")
    return facts, list(_rows(found, dimension))


def raw_rows(folder: Path, collection: str) -> tuple[dict[str, Any], dict[str, RawRow]]:
    """The metadata of the collection and, by id, all its rows. Raises Unreadable."""
    path = folder / DATABASE
    if not path.exists():  # connecting would create an empty one
        raise Unreadable(f"The store's database {path} is missing.")
    with database(path) as connection:
        facts, collection_id, segment = _collection(connection, collection)
        found = _applied(connection, segment)
        _apply_queue(connection, collection_id, segment, found)
    return facts, found


@contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(path)) as connection:
            yield connection
    except sqlite3.OperationalError as exc:
        if str(exc).startswith(("no such", "Could not decode")):
            raise Unreadable(f"The store's database {path} has lost parts ({_name(exc)}).") from exc
        raise disk_error(exc) or StoreError(
            f"The store's database {path} cannot be used ({_name(exc)}).", code="store_unwritable"
        ) from exc
    except (sqlite3.DatabaseError, UnicodeDecodeError) as exc:
        raise Unreadable(f"The store's database {path} is damaged ({_name(exc)}).") from exc


def _name(exc: Exception) -> str:
    """SQLite's name for the error. Not its message, which can quote a memory."""
    return getattr(exc, "sqlite_errorname", None) or type(exc).__name__


def _collection(connection: sqlite3.Connection, name: str) -> tuple[dict[str, Any], str, str]:
    """The collection's metadata, its id, and the id of its metadata segment."""
    found = connection.execute(
        "SELECT c.id, s.id FROM collections c JOIN segments s ON s.collection = c.id "
        "WHERE c.name = ? AND s.scope = 'METADATA'",
        (name,),
    ).fetchone()
    if found is None:
        raise Unreadable(f"The store's database {_path(connection)} has no collection {name!r}.")
    facts = connection.execute(
        "SELECT key, str_value, int_value, float_value, bool_value FROM collection_metadata "
        "WHERE collection_id = ?",
        found[:1],
    )
    return {key: _value(*values) for key, *values in facts}, found[0], found[1]


def _applied(connection: sqlite3.Connection, segment: str) -> dict[str, RawRow]:
    """The rows that Chroma has applied. Tables are scanned without their indexes, which may be
    broken."""
    ids: dict[int, str] = {}
    foreign: set[int] = set()  # rows of other collections
    every = "SELECT id, embedding_id, segment_id FROM embeddings NOT INDEXED ORDER BY id"
    for row, id, owner in connection.execute(every):
        if owner == segment:
            ids[row] = id
        else:
            foreign.add(row)
    found = {id: RawRow() for id in ids.values()}
    columns = "id, key, string_value, int_value, float_value, bool_value"
    for row, key, *values in connection.execute(
        f"SELECT {columns} FROM embedding_metadata NOT INDEXED"
    ):
        if row in foreign:
            continue
        if row not in ids:
            raise _lost_rows(connection)
        if key == DOCUMENT:
            found[ids[row]].document = values[0]
        else:
            found[ids[row]].meta[key] = _value(*values)
    for row, key, *values in connection.execute(
        f"SELECT {columns} FROM embedding_metadata_array NOT INDEXED ORDER BY rowid"
    ):
        if row in foreign:
            continue
        if row not in ids:
            raise _lost_rows(connection)
        found[ids[row]].meta.setdefault(key, []).append(_value(*values))
    return found


def _lost_rows(connection: sqlite3.Connection) -> Unreadable:
    path = _path(connection)
    return Unreadable(f"The store's database {path} has lost rows: only their metadata is left.")


def _path(connection: sqlite3.Connection) -> str:
    """The path of the file that a connection has open."""
    return str(connection.execute("PRAGMA database_list").fetchone()[2])


def _value(text: Any, whole: Any, real: Any, truth: Any) -> Any:
    if truth is not None:
        return bool(truth)
    return next((value for value in (text, whole, real) if value is not None), None)


def _apply_queue(
    connection: sqlite3.Connection, collection_id: str, segment: str, found: dict[str, RawRow]
) -> None:
    """Replay the queue: vectors from all operations, the rest from those after the last one that
    was applied."""
    applied = connection.execute(
        "SELECT seq_id FROM max_seq_id WHERE segment_id = ?", (segment,)
    ).fetchone()
    since = applied[0] if applied else -1
    queue = connection.execute(
        "SELECT seq_id, operation, id, vector, metadata FROM embeddings_queue NOT INDEXED "
        "WHERE topic LIKE ? ORDER BY seq_id",
        (f"%/{collection_id}",),
    )
    for number, operation, id, vector, meta in queue:
        if number > since:
            _replay(found, operation, id, json.loads(meta) if meta else {})
        if operation != DELETE and vector is not None and id in found:
            found[id].vector = np.frombuffer(vector, dtype="<f4")


def _replay(raw_rows: dict[str, RawRow], operation: int, id: str, meta: dict[str, Any]) -> None:
    """Apply one operation of the queue as Chroma does: adding an id that exists changes nothing."""
    if operation == DELETE:
        raw_rows.pop(id, None)
        return
    if (operation == ADD and id in raw_rows) or (operation == UPDATE and id not in raw_rows):
        return
    row = raw_rows.setdefault(id, RawRow())
    if DOCUMENT in meta:
        row.document = meta.pop(DOCUMENT)
    row.meta |= meta
    row.meta = {key: value for key, value in row.meta.items() if value is not None}


def _rows(raw_rows: dict[str, RawRow], dimension: int) -> Iterator[rows.Row]:
    """Rows for `rows.to_records`. A memory that lost one vector waits for all of them."""
    lost = {row.meta.get(rows.OF, id) for id, row in raw_rows.items() if row.vector is None}
    for id, row in raw_rows.items():
        if row.meta.get(rows.OF, id) not in lost and row.vector is not None:
            yield rows.Row(id, row.document, row.meta, row.vector)
        elif rows.OF not in row.meta:
            meta = row.meta | {rows.PENDING: True}
            meta.pop(rows.REVISION, None)  # it has changed: no snapshot has this version
            yield rows.Row(id, row.document, meta, rows.placeholder(dimension))


def read_revisions(path: Path, collection: str) -> dict[str, int] | None:
    """By id, the revision of every memory of this collection, 0 for a row that is not a memory;
    None unless every memory has a revision."""
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(path)) as connection:
            ours = connection.execute(COLLECTION_QUERY, (collection,)).fetchone()
            if ours is None:
                return None
            topic, segment = f"%/{ours[0]}", ours[1]
            known: dict[str, int] = dict(connection.execute(REVISIONS_QUERY, (REVISION, segment)))
            memories, unreadable = _counted(connection, segment)
            if memories > len(known):
                return None
            known |= dict.fromkeys(unreadable, 0)
            for operation, id, meta in connection.execute(QUEUED_QUERY, (topic, segment)):
                _replay_revision(known, operation, id, meta)
    except (sqlite3.Error, ValueError):
        return None  # opening the store finds and reports the fault
    return known


def _replay_revision(known: dict[str, int], operation: int, id: str, meta: str | None) -> None:
    """Apply one operation of the queue, as `_replay` does for whole rows."""
    if operation == DELETE:
        known.pop(id, None)
        return
    is_ignored = operation == (ADD if id in known else UPDATE)
    if not is_ignored and "#" not in id:  # a further passage has no revision
        known[id] = int(json.loads(meta or "{}").get(REVISION) or 0)


def _counted(connection: sqlite3.Connection, segment: str) -> tuple[int, list[str]]:
    """How many memories there are, and the ids of rows that are not part of one. Counted first,
    which is five times as fast."""
    (total,) = connection.execute(TOTAL_QUERY, (segment,)).fetchone()
    (every,) = connection.execute("SELECT COUNT(*) FROM embeddings").fetchone()

    def count(key: str) -> int:
        query, values = (ALL_QUERY, (key,)) if every == total else (COUNT_QUERY, (key, segment))
        return int(connection.execute(query, values).fetchone()[0])

    memories, passages = count(TYPE), count(OF)
    if total == memories + passages:
        return memories, []
    unreadable = connection.execute(UNREADABLE_QUERY, (segment, TYPE, OF))
    return memories, [str(id) for (id,) in unreadable]
