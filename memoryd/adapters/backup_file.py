"""Backups: gzipped exports with vectors, numbered, in one folder.

`memoryd.export_file` has the format. A backup is written under another name and renamed at the end:
a file with the right name is whole.

A number in the name, higher than all before it, shows which backup is newer. Times cannot: a clock
may have been wrong, and goes back an hour every autumn.
"""

from __future__ import annotations

import gzip
import math
import os
import re
import shlex
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

import anyio.to_thread

from memoryd import files
from memoryd.adapters.chroma.swap import LIVE, command
from memoryd.errors import InvalidInput, MemorydError, StoreError
from memoryd.export_file import (
    PASSAGES,
    Header,
    Reader,
    Writer,
    fields_with_vectors,
    open_reader,
    vector_from,
)
from memoryd.model import Memory, MemoryType
from memoryd.ports import Backup, Identity, Passage, Record

PREFIX, SUFFIX = "memoryd-", ".jsonl.gz"
NUMBER = re.compile(rf"{PREFIX}(\d+)-")
LEVEL = 1  # of gzip: vectors hardly compress at any level


class BackupWriter:
    """Writes one backup."""

    def __init__(
        self,
        folder: Path,
        identity: Identity,
        version: str,
        at: float | None = None,
        count: int | None = None,
    ) -> None:
        """`count`: of memories, if it is known before they are written."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._created = time.time() if at is None else at
        self._target = _next_path(folder, self._created)
        self._part = self._target.with_name(f"{self._target.name}.part")
        self._raw = os.fdopen(files.open_anew(self._part), "r+b")
        self._file = gzip.GzipFile("", "wb", LEVEL, self._raw, mtime=0)
        header = Header(
            identity.model,
            identity.dimension,
            embeddings=True,
            count=count,
            created_at=self._created,
            store_version=version,
        )
        self._writer = Writer(cast(IO[bytes], self._file), header)

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            self._writer.memory(fields_with_vectors(record))

    def finish(self) -> Backup:
        """Write the last line, verify the file, rename it to its final name."""
        self._writer.end()
        self._file.close()
        self._raw.flush()
        os.fsync(self._raw.fileno())
        self._raw.close()
        verify(self._part)
        os.replace(self._part, self._target)
        return _backup(self._target, self._writer.count, self._created)

    def abandon(self) -> None:
        with suppress(OSError):
            self._raw.close()
        self._part.unlink(missing_ok=True)


async def write_backup(
    pages: AsyncIterator[list[Record]], folder: Path, identity: Identity, at: float | None
) -> Backup:
    """A verified backup of these memories; StoreError if it cannot be written."""
    writer: BackupWriter | None = None
    try:
        writer = await anyio.to_thread.run_sync(BackupWriter, folder, identity, "", at)
        async for page in pages:
            await anyio.to_thread.run_sync(writer.add, page)
        return await anyio.to_thread.run_sync(writer.finish)
    except BaseException as exc:
        if writer is not None:
            writer.abandon()
        if not isinstance(exc, OSError):
            raise
        raise StoreError(
            f"The backup cannot be written to {folder}: {exc.strerror or exc}.",
            code="backup_not_written",
            hint="Name a folder on another disk.",
        ) from exc


@contextmanager
def open_backup(path: Path) -> Iterator[tuple[Reader, Header]]:
    """A backup and its first line. Raises FileDamaged, or `not_a_backup` for an export: a restore
    trusts every field and vector of its file, while an import checks them."""
    with open_reader(path) as reader:
        header = reader.header()
        if not header.is_backup:
            raise InvalidInput(
                f"{path} is an export, not a backup.",
                code="not_a_backup",
                hint=f"Run: memoryd import {shlex.quote(str(path))}",
            )
        yield reader, header


def verify(path: Path) -> int:
    """How many memories a backup holds. Raises FileDamaged or `not_a_backup`."""
    with open_backup(path) as (reader, _):
        return reader.verify()


def read_records(reader: Reader, size: int) -> Iterator[list[Record]]:
    """The memories of a backup, page by page. Raises FileDamaged."""
    page: list[Record] = []
    for number, fields, _ in reader.memories():
        try:
            page.append(record_from(fields))
        except (KeyError, ValueError, TypeError) as exc:
            raise reader.damaged(number, "it is not a memory") from exc
        if len(page) == size:
            yield page
            page = []
    yield page


def all_in(folder: Path) -> list[Path]:
    """The backups in a folder, oldest first."""
    return sorted(folder.glob(f"{PREFIX}*{SUFFIX}"), key=lambda path: (_number(path), path.name))


def listed_in(folder: Path) -> list[Backup]:
    """The backups in a folder, newest first; one whose first line cannot be read is so marked."""
    found: list[Backup] = []
    for path in reversed(all_in(folder)):
        with suppress(OSError):  # deleted meanwhile
            try:
                with open_backup(path) as (_, header):
                    found.append(_backup(path, header.count, header.created_at or 0.0))
            except MemorydError:
                about = path.stat()
                found.append(Backup(str(path), None, about.st_size, about.st_mtime, False))
    return found


def newest_in(folder: Path, until: float = math.inf) -> tuple[Backup, str] | None:
    """The newest backup that can be read, and the version of the store that it holds. `until`:
    ignore those dated later."""
    for path in reversed(all_in(folder)):
        with suppress(MemorydError, OSError), open_backup(path) as (_, header):
            if (at := header.created_at or 0.0) <= until:
                return _backup(path, None, at), header.store_version or ""
    return None


def restore_hint(data_dir: Path, folder: Path) -> str:
    """The hint for a store that cannot be used: the command that restores the newest backup in
    `folder`, or how to go on without one."""
    newest = newest_in(folder)
    if newest is None:
        return (
            f"There is no backup in {folder}. Put the store back from a copy of your own, or move "
            f"{data_dir / LIVE}* away to start with an empty one."
        )
    return f"Run: {command(data_dir, 'restore', newest[0].path, '--replace')}"


def rotate(folder: Path, keep: int, made: Path) -> None:
    """Keep `keep` backups, and delete the rest and unfinished ones. The one just `made` stays, then
    the newest of each day, then the newest of the rest: so many backups in one day do not replace
    those of the days before."""
    newest_first = [path for path in reversed(all_in(folder)) if path != made]
    days = {_day(made)}
    of_a_day: list[Path] = [made]
    rest: list[Path] = []
    for path in newest_first:
        day = _day(path)
        (rest if day is None or day in days else of_a_day).append(path)
        days.add(day)
    for path in [*(of_a_day + rest)[keep:], *folder.glob(f"{PREFIX}*{SUFFIX}.part")]:
        path.unlink(missing_ok=True)


def _day(path: Path) -> tuple[int, int] | None:
    """Year and day of the year when this backup was made; None if it cannot be read."""
    try:
        with open_backup(path) as (_, header):
            made = time.localtime(header.created_at)
    except (MemorydError, OSError, OverflowError, ValueError):
        return None
    return made.tm_year, made.tm_yday


def _number(path: Path) -> int:
    found = NUMBER.match(path.name)
    return int(found[1]) if found else 0


def _next_path(folder: Path, at: float) -> Path:
    """A path with a higher number than all others; the time in it is for people."""
    number = max(map(_number, all_in(folder)), default=0) + 1
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(at))
    return folder / f"{PREFIX}{number:06}-{stamp}-{int(at % 1 * 1000):03}{SUFFIX}"


def _backup(path: Path, memories: int | None, at: float) -> Backup:
    return Backup(str(path), memories, path.stat().st_size, at)


def record_from(fields: dict[str, Any]) -> Record:
    """The memory that `fields_with_vectors` wrote. Raises KeyError, ValueError or TypeError."""
    passages = tuple(
        Passage((part["span"][0], part["span"][1]), vector_from(part["vector"]))
        for part in fields.pop(PASSAGES, ())
    )
    return Record(Memory(**(fields | {"type": MemoryType(fields["type"])})), passages)
