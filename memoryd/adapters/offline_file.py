"""The queue of writes for a Chroma server that cannot be reached: JSON lines in a file.

    {"write": 7, "records": [...], "bases": [...], "deleted": [...], "is_store": true}
    {"sending": 7, "to": 9}

A line is written with an fsync before its write is acknowledged. Half a line at the end is what a
kill left. A line that cannot be read is kept with the rejected writes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from memoryd import files
from memoryd.adapters.backup_file import record_from
from memoryd.export_file import fields_of, fields_with_vectors
from memoryd.model import Memory
from memoryd.offline import QueuedWrite, queue_full
from memoryd.ports import Record

QUEUE, REJECTED = "offline.queue", "offline.rejected"
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND


class LocalQueueFile:
    """See `memoryd.offline.QueueFile`."""

    def __init__(self, data_dir: Path) -> None:
        self._path, self._rejected = data_dir / QUEUE, data_dir / REJECTED

    def load(self) -> list[QueuedWrite]:
        writes: list[QueuedWrite] = []
        sending, last, is_damaged = 0, 0, False
        for line, is_whole in self._lines():
            try:
                fields = json.loads(line)
                if "sending" in fields:
                    sending, last = int(fields["sending"]), int(fields["to"])
                else:
                    writes.append(_write_from(fields))
            except (ValueError, KeyError, TypeError):
                is_damaged = True
                if is_whole:
                    self._keep(self._rejected, {"why": "It cannot be read.", "line": line})
        left = [write for write in writes if write.number >= sending]
        left = [replace(one, was_sent=one.was_sent or one.number <= last) for one in left]
        if is_damaged or len(left) < len(writes):
            self.replace(left)
        return left

    def _lines(self) -> Iterator[tuple[str, bool]]:
        """Every line, and whether it has its end."""
        try:
            text = files.read_text(self._path)
        except FileNotFoundError:
            return
        *whole, rest = text.split("\n")
        yield from ((line, True) for line in whole)
        if rest:
            yield rest, False

    def size(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0

    def append(self, write: QueuedWrite, most: int) -> None:
        fields = _fields(write)
        if self.size() + len(_line(fields)) > most:
            raise queue_full(f"{most} bytes")
        self._keep(self._path, fields)

    def mark_sending(self, first: int, last: int) -> None:
        self._keep(self._path, {"sending": first, "to": last})

    def replace(self, writes: Sequence[QueuedWrite]) -> None:
        if writes:
            with files.replacing(self._path) as file:
                file.writelines(_line(_fields(write)) for write in writes)
        else:
            self._path.unlink(missing_ok=True)
        self._sync_folder()

    def reject(self, write: QueuedWrite, why: str) -> None:
        kept = [fields_of(record.memory) for record in write.records]
        fields = {"at": time.time(), "why": why, "memories": kept, "deleted": list(write.deleted)}
        self._keep(self._rejected, fields)

    def rejected(self) -> tuple[int, str]:
        try:
            count = files.read_text(self._rejected).count("\n")
        except OSError:  # there is none
            count = 0
        return count, str(self._rejected)

    def _keep(self, path: Path, fields: dict[str, Any]) -> None:
        """Append a line, durably. If that fails, nothing of it is left."""
        is_new = not path.exists()
        handle = files.open_file(path, APPEND)
        try:
            before = os.fstat(handle).st_size
            try:
                _write_all(handle, _line(fields))
                os.fsync(handle)
            except OSError:
                os.ftruncate(handle, before)
                raise
        finally:
            os.close(handle)
        if is_new:
            self._sync_folder()

    def _sync_folder(self) -> None:
        if os.name == "nt":
            return  # has no descriptors of folders
        handle = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def _fields(write: QueuedWrite) -> dict[str, Any]:
    bases = [None if base is None else fields_of(base) for base in write.bases]
    records = [
        fields_with_vectors(record) | {"revision": record.revision, "replaces": record.replaces}
        for record in write.records
    ]
    made: dict[str, Any] = {"write": write.number, "records": records, "bases": bases}
    made |= {"deleted": list(write.deleted), "is_store": write.is_store}
    return made | ({"was_sent": True} if write.was_sent else {})


def _write_from(fields: dict[str, Any]) -> QueuedWrite:
    records = tuple(map(_record, fields["records"]))
    bases = tuple(None if base is None else _memory(base) for base in fields["bases"])
    if len(records) != len(bases):
        raise ValueError("every record needs what it was before")
    return QueuedWrite(
        int(fields["write"]),
        records,
        bases,
        tuple(map(str, fields["deleted"])),
        is_store=bool(fields["is_store"]),
        was_sent=bool(fields.get("was_sent")),
    )


def _record(fields: dict[str, Any]) -> Record:
    revision, replaces = int(fields.pop("revision")), fields.pop("replaces")
    return replace(record_from(fields), revision=revision, replaces=replaces)


def _memory(fields: dict[str, Any]) -> Memory:
    return record_from(fields).memory
