"""The file of an export: JSON lines, independent of the store.

    {"memoryd": "export", "version": 1, "count": 2, "model": "all-MiniLM-L6-v2", ...}
    {"id": ..., "type": ..., "content": ..., "created_at": ..., "expires_at": ..., ...}
    {"id": ...}
    {"end": true, "count": 2, "sha256": "..."}

The count in the first line is the number at the start, for a progress bar; the count in the last
line is exact, and its checksum covers every byte before it. So a file that was cut, or changed by
accident, is refused before the first memory is imported.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from memoryd.errors import InvalidInput

VERSION = 1
MAX_LINE_BYTES = 64 << 20  # bytes of a line; a memory with all its vectors is far below
NEEDED: dict[str, type | tuple[type, ...]] = {
    "id": str,
    "type": str,
    "content": str,
    "created_at": (int, float),
    "metadata": dict,
}


class Damaged(InvalidInput):
    """The file is not a complete export that this version can read."""

    code = "import_damaged"
    hint = "Nothing was imported. Export again, or use another copy of the file."


@dataclass(frozen=True, slots=True)
class Header:
    """The fields of the first line; but `count` is the exact one of the last line."""

    count: int
    model: str | None
    embeddings: bool


class Writer:
    """Writes the lines of an export, with their count and checksum."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.count = 0

    def head(self, count: int, model: str | None, dimension: int | None, vectors: bool) -> None:
        facts = {"memoryd": "export", "version": VERSION, "count": count, "model": model}
        self._write(facts | {"dimension": dimension, "embeddings": vectors})

    def memory(self, fields: dict[str, Any]) -> None:
        self._write(fields)
        self.count += 1

    def end(self) -> None:
        self._write({"end": True, "count": self.count, "sha256": self._digest.hexdigest()})

    def _write(self, value: dict[str, Any]) -> None:
        line = json.dumps(value, ensure_ascii=False).encode() + b"\n"
        self._digest.update(line)
        self._file.write(line)


def memories(file: IO[bytes]) -> Iterator[tuple[int, dict[str, Any], int]]:
    """Each memory of a verified file: line number, fields, bytes of the line."""
    file.seek(0)
    for number, line in enumerate(iter(file.readline, b""), start=1):
        fields = json.loads(line)
        if number > 1 and "end" not in fields:
            yield number, fields, len(line)


def verified(file: IO[bytes]) -> Header:
    """Read the whole file and check it. Raises Damaged, with the line number."""
    file.seek(0)
    header = _header(_parsed(file.readline(MAX_LINE_BYTES), 1))
    file.seek(0)
    digest, count, number, ended = hashlib.sha256(), 0, 0, False
    for line in iter(lambda: file.readline(MAX_LINE_BYTES), b""):
        number += 1
        if ended:
            raise _damaged(number, "there is more after the last line")
        fields = _parsed(line, number)
        if number > 1 and "end" in fields:
            _check_end(fields, count, digest.hexdigest(), number)
            ended = True
        elif number > 1:
            _check_memory(fields, number)
            count += 1
        digest.update(line)
    if not ended:
        raise _damaged(number, "the file ends here, before its last line: it was cut")
    return Header(count, header.model, header.embeddings)


def _parsed(line: bytes, number: int) -> dict[str, Any]:
    if not line:
        raise _damaged(number, "the file is empty")
    if not line.endswith(b"\n"):
        raise _damaged(number, "the line has no end: the file was cut")
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise _damaged(number, "it is not JSON") from exc
    if not isinstance(value, dict):
        raise _damaged(number, "it is not a JSON object")
    return value


def _header(fields: dict[str, Any]) -> Header:
    version, model = fields.get("version"), fields.get("model")
    if fields.get("memoryd") != "export" or not isinstance(version, int):
        raise _damaged(1, "this is not an export of memoryd")
    if version > VERSION:
        raise Damaged(
            f"Line 1: a newer memoryd wrote this file (format {version}, known: {VERSION}).",
            code="import_newer",
            hint="Update memoryd, then import again.",
        )
    return Header(0, model if isinstance(model, str) else None, fields.get("embeddings") is True)


def _check_memory(fields: dict[str, Any], number: int) -> None:
    for key, kind in NEEDED.items():
        if not isinstance(fields.get(key), kind):
            raise _damaged(number, f"`{key}` is missing or of the wrong type")
    if "expires_at" not in fields:
        raise _damaged(number, "`expires_at` is missing")


def _check_end(fields: dict[str, Any], count: int, digest: str, number: int) -> None:
    if fields.get("count") != count:
        raise _damaged(number, f"{fields.get('count')} memories were written, {count} are here")
    if fields.get("sha256") != digest:
        raise _damaged(number, "the checksum does not match: a line above was changed")


def _damaged(number: int, what: str) -> Damaged:
    return Damaged(f"Line {number}: {what}.")
