"""A backup: one compressed file of JSON lines, independent of Chroma and its versions.

The first line says what it is and whose vectors it holds, then one memory a line with its
passages, then a line with the count and the digest of everything before it. Written under
another name and renamed at the end: a file with the right name is whole.

A number in the name, higher than all before it, shows which backup is newer. Times cannot: a clock
may have been wrong, and goes back an hour every autumn.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
import os
import re
import time
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio.to_thread
import numpy as np

from memoryd import files
from memoryd.adapters.chroma.swap import command
from memoryd.errors import StoreError
from memoryd.model import Memory, MemoryType
from memoryd.ports import Backup, Identity, Passage, Record

FORMAT = 1
PREFIX, SUFFIX = "memoryd-", ".jsonl.gz"
NUMBER = re.compile(rf"{PREFIX}(\d+)-")
LEVEL = 1  # of gzip: vectors hardly compress at any level
DAMAGE = (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError)


class BackupDamaged(StoreError):
    """The file is not a complete backup."""

    code = "backup_damaged"
    hint = "Use another backup file. Nothing was changed."


class BackupWriter:
    """Writes one backup."""

    def __init__(
        self, folder: Path, identity: Identity, version: str, at: float | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._created = time.time() if at is None else at
        self._target = _next_path(folder, self._created)
        self._part = self._target.with_name(f"{self._target.name}.part")
        self._raw = os.fdopen(files.open_anew(self._part), "r+b")
        self._file = gzip.GzipFile("", "wb", LEVEL, self._raw, mtime=0)
        self._digest = sha256()
        self._count = 0
        head = {"memoryd": "backup", "format": FORMAT, "version": version}
        head |= {"model": identity.model, "dimension": identity.dimension}
        self._write_line(head | {"created_at": self._created})

    def add(self, records: Iterable[Record]) -> None:
        for record in records:
            self._write_line(_to_line(record))
            self._count += 1

    def finish(self) -> Backup:
        """Write the last line, verify the file, rename it to its final name."""
        end = {"memories": self._count, "sha256": self._digest.hexdigest()}
        self._file.write(json.dumps(end).encode() + b"\n")
        self._file.close()
        self._raw.flush()
        os.fsync(self._raw.fileno())
        self._raw.close()
        verify(self._part)
        os.replace(self._part, self._target)
        return _backup(self._target, self._count, self._created)

    def abandon(self) -> None:
        with suppress(OSError):
            self._raw.close()
        self._part.unlink(missing_ok=True)

    def _write_line(self, value: object) -> None:
        data = json.dumps(value).encode() + b"\n"
        self._digest.update(data)
        self._file.write(data)


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


def verify(path: Path) -> int:
    """How many memories the file holds; BackupDamaged unless count and digest are right."""
    digest, lines, last = sha256(), 0, b""
    try:
        with _decompressed(path) as file:
            for line in file:
                digest.update(last)
                last, lines = line, lines + 1
        end = json.loads(last)
        if end["sha256"] != digest.hexdigest() or end["memories"] != lines - 2:
            raise ValueError("the digest differs")
        return int(end["memories"])
    except DAMAGE as exc:
        raise _damaged_error(path, exc) from exc


def head(path: Path) -> dict[str, Any]:
    """The first line; BackupDamaged unless it is that of a backup in a known format."""
    try:
        with _decompressed(path) as file:
            found = json.loads(file.readline())
        if found["memoryd"] != "backup":
            raise ValueError("not a backup")
    except DAMAGE as exc:
        raise _damaged_error(path, exc) from exc
    if found["format"] != FORMAT:
        raise BackupDamaged(
            f"The backup {path} has format {found['format']}; this memoryd reads {FORMAT}.",
            hint="Use the version of memoryd that wrote it.",
        )
    return dict(found)


def read(path: Path, page: int) -> Iterator[list[Record]]:
    """The memories of a file that was verified, page by page."""
    records: list[Record] = []
    try:
        with _decompressed(path) as file:
            file.readline()
            for line in file:
                found = json.loads(line)
                if "sha256" in found and "id" not in found:
                    break
                records.append(_from_line(found))
                if len(records) == page:
                    yield records
                    records = []
    except DAMAGE as exc:
        raise _damaged_error(path, exc) from exc
    yield records


def all_in(folder: Path) -> list[Path]:
    """The backups in a folder, oldest first."""
    return sorted(folder.glob(f"{PREFIX}*{SUFFIX}"), key=lambda path: (_number(path), path.name))


def newest_in(folder: Path, until: float = math.inf) -> tuple[Backup, str] | None:
    """The newest backup that can be read, and the version of the store that it holds. `until`:
    ignore those dated later."""
    for path in reversed(all_in(folder)):
        with suppress(StoreError, *DAMAGE):
            found = head(path)
            if (at := float(found["created_at"])) <= until:
                return _backup(path, None, at), str(found["version"])
    return None


def restore_hint(data_dir: Path, folder: Path) -> str:
    """The hint for a store that cannot be used: the command that restores the newest backup in
    `folder`, or how to go on without one."""
    newest = newest_in(folder)
    if newest is None:
        return (
            f"There is no backup in {folder}. Put the store back from a copy of your own, or move "
            f"{data_dir / 'store'} away to start with an empty one."
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


@contextmanager
def _decompressed(path: Path) -> Iterator[gzip.GzipFile]:
    """The decompressed content. The user may name a link, but only to a regular file: reading a
    pipe would block."""
    with (
        os.fdopen(files.open_file(path, os.O_RDONLY, named=True), "rb") as raw,
        gzip.GzipFile(fileobj=raw, mode="rb") as file,
    ):
        yield file


def _day(path: Path) -> tuple[int, int] | None:
    """Year and day of the year when this backup was made; None if it cannot be read."""
    try:
        made = time.localtime(float(head(path)["created_at"]))
    except (StoreError, OverflowError, *DAMAGE):
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


def _damaged_error(path: Path, exc: Exception) -> BackupDamaged:
    reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else type(exc).__name__
    return BackupDamaged(f"{path} is not a backup, or is damaged ({reason}).")


def _to_line(record: Record) -> dict[str, Any]:
    memory = record.memory
    passages = [
        [*p.span, base64.b64encode(np.asarray(p.vector, "<f4").tobytes()).decode()]
        for p in record.passages
    ]
    return {
        "id": memory.id,
        "type": str(memory.type),
        "content": memory.content,
        "created_at": memory.created_at,
        "expires_at": memory.expires_at,
        "metadata": dict(memory.metadata),
        "name": memory.name,
        "session_id": memory.session_id,
        "pinned": memory.pinned,
        "updated_at": memory.updated_at,
        "passages": passages,
    }


def _from_line(found: dict[str, Any]) -> Record:
    passages = tuple(
        Passage((start, end), np.frombuffer(base64.b64decode(text), "<f4").astype(np.float32))
        for start, end, text in found.pop("passages")
    )
    return Record(Memory(**(found | {"type": MemoryType(found["type"])})), passages)
