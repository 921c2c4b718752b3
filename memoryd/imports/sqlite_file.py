"""A SQLite database of another program, read from a private copy.

Opening a database can leave files beside it and change it: SQLite creates `-wal` and `-shm`, and
writes back what is in them. So the database and its `-wal` are copied and only the copy is opened,
read-only. If the program writes meanwhile, the copy is made again.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from memoryd.errors import InvalidInput
from memoryd.imports.text_files import opened

MAGIC = b"SQLite format 3\0"
COPIES = 5  # attempts to copy a database that is being written to


def is_database(path: Path) -> bool:
    """Whether a file is a SQLite database."""
    with opened(path, named=True) as file:
        return file.read(len(MAGIC)) == MAGIC


class Database:
    """The tables of a database."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        found = self._all("SELECT name FROM sqlite_master WHERE type = 'table'")
        self.tables = {name for (name,) in found if isinstance(name, str)}

    def columns(self, table: str) -> set[str]:
        """The names of the columns of a table; empty if there is no such table."""
        if table not in self.tables:
            return set()
        return {row[1] for row in self._all(f"PRAGMA table_info({_quoted(table)})")}

    def rows(self, table: str, wanted: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        """The rows of a table in the order in which they were added, with those of the wanted
        columns that it has."""
        known = self.columns(table)
        names = [name for name in wanted if name in known]
        chosen = ", ".join(map(_quoted, names))
        try:
            cursor = self._connection.execute(
                f"SELECT {chosen} FROM {_quoted(table)} ORDER BY rowid"
            )
            for row in cursor:
                yield dict(zip(names, row, strict=True))
        except (sqlite3.Error, sqlite3.Warning) as exc:
            raise _unreadable(self._path, exc) from exc

    def _all(self, query: str) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(query).fetchall()
        except (sqlite3.Error, sqlite3.Warning) as exc:
            raise _unreadable(self._path, exc) from exc


@contextmanager
def open_database(path: Path) -> Iterator[Database]:
    """The database at this path. Raises InvalidInput."""
    with tempfile.TemporaryDirectory(prefix="memoryd-import-") as folder:
        copy = Path(folder, "copy.db")
        _copy(path, copy)
        try:
            connection = sqlite3.connect(copy.as_uri() + "?mode=rw", uri=True)
        except sqlite3.Error as exc:
            raise _unreadable(path, exc) from exc
        with closing(connection):
            # Damaged text is shown with replacement characters instead of ending the import.
            connection.text_factory = lambda data: data.decode(errors="replace")
            connection.execute("PRAGMA query_only = 1")
            connection.execute("PRAGMA trusted_schema = 0")  # no functions in its schema are run
            yield Database(connection, path)


def _copy(path: Path, copy: Path) -> None:
    """Copy a database and what waits in its `-wal`. Raises InvalidInput."""
    wal = path.with_name(f"{path.name}-wal")
    for _ in range(COPIES):
        before = _state(path), _state(wal)
        with opened(path, named=True) as source, copy.open("wb") as target:
            shutil.copyfileobj(source, target)
        target_wal = copy.with_name(f"{copy.name}-wal")
        target_wal.unlink(missing_ok=True)
        if before[1] is not None:
            try:
                with opened(wal) as source, target_wal.open("wb") as target:
                    shutil.copyfileobj(source, target)
            except InvalidInput as exc:
                if isinstance(exc.__cause__, FileNotFoundError):
                    continue  # the program has just ended, and removed it
                raise
        if (_state(path), _state(wal)) == before:
            return
    raise InvalidInput(
        f"{path} is being written to.",
        code="file_busy",
        hint="End the program that uses it, then try again.",
    )


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _unreadable(path: Path, exc: Exception) -> InvalidInput:
    return InvalidInput(
        f"The database {path} cannot be read ({type(exc).__name__}).",
        code="file_damaged",
        hint="Try another copy of it. Nothing was changed.",
    )
