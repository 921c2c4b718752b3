"""The file of an export or a backup: JSON lines, independent of the store. Standard library only.

    {"memoryd": "export", "version": 1, "count": 2, "model": "all-MiniLM-L6-v2", ...}
    {"id": ..., "type": ..., "content": ..., "created_at": ..., "expires_at": ..., ...}
    {"id": ...}
    {"end": true, "count": 2, "sha256": "..."}

A backup is the same file, gzipped, with vectors; its first line also has `created_at` and
`store_version`. The last line has the exact count, and a checksum of every byte before it, so a
file that was cut or changed by accident is refused. Files are written and read line by line.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from memoryd import files
from memoryd.errors import FileDamaged, InvalidInput
from memoryd.model import Memory
from memoryd.ports import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = 1
PASSAGES = "passages"
GZIP_MAGIC = b"\x1f\x8b"
BEGINNING = b'{"memoryd": "export"'  # of a file that is not compressed
MAX_LINE_BYTES = 64 << 20  # a memory with all its vectors is far below
NEEDED: dict[str, type | tuple[type, ...]] = {
    "id": str,
    "type": str,
    "content": str,
    "created_at": (int, float),
    "metadata": dict,
}


@dataclass(frozen=True, slots=True)
class Header:
    """The first line. Fields that are None are not written."""

    model: str | None = None  # whose vectors the file has
    dimension: int | None = None
    embeddings: bool = False  # whether it has vectors
    count: int | None = None  # of memories when the export began; the last line has the exact one
    created_at: float | None = None  # only in a backup
    store_version: str | None = None  # only in a backup: changes with every write to the store

    @property
    def is_backup(self) -> bool:
        return None not in (self.model, self.dimension, self.created_at)


class Writer:
    """Writes the lines of a file."""

    def __init__(self, file: IO[bytes], header: Header) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.count = 0
        fields = {key: value for key, value in asdict(header).items() if value is not None}
        self._write({"memoryd": "export", "version": FORMAT} | fields)

    def memory(self, fields: dict[str, Any]) -> None:
        self._write(fields)
        self.count += 1

    def end(self) -> None:
        self._write({"end": True, "count": self.count, "sha256": self._digest.hexdigest()})

    def _write(self, value: dict[str, Any]) -> None:
        line = json.dumps(value, ensure_ascii=False).encode() + b"\n"
        self._digest.update(line)
        self._file.write(line)


@contextmanager
def open_export(path: Path) -> Iterator[IO[bytes]]:
    """The file at this path. The user may name a link, but only to a regular file: reading a pipe
    would block. Raises InvalidInput."""
    try:
        raw = os.fdopen(files.open_file(path, os.O_RDONLY, named=True), "rb")
    except OSError as exc:
        raise _unreadable(str(path), exc) from exc
    with raw:
        yield raw


def is_export(path: Path) -> bool:
    """Whether a file begins as `Writer` begins one; false for compressed and unreadable ones."""
    try:
        with open_export(path) as file:
            return file.read(len(BEGINNING)) == BEGINNING
    except InvalidInput:
        return False


@contextmanager
def open_reader(path: Path) -> Iterator[Reader]:
    """A reader of this file. Raises InvalidInput."""
    with open_export(path) as raw:
        yield Reader(raw, str(path))


class Reader:
    """Reads a file, compressed or not, that can be read twice. `name`: for messages."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        file.seek(0)
        is_compressed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
        file.seek(0)
        self._file = gzip.GzipFile(fileobj=file, mode="rb") if is_compressed else file
        self._name = name

    def header(self) -> Header:
        """The first line. Raises FileDamaged."""
        for _, _, fields in self._lines():
            return self._header(fields)
        raise self.damaged(1, "the file is empty")

    def verify(self) -> int:
        """Read the whole file; how many memories it has. Raises FileDamaged with the line."""
        return sum(1 for _ in self.memories())

    def memories(self) -> Iterator[tuple[int, dict[str, Any], int]]:
        """Each memory: line number, fields, bytes of the line. Raises FileDamaged, in some cases
        only after the last memory: nothing is certain before that."""
        digest, count, number, ended = hashlib.sha256(), 0, 0, False
        for number, line, fields in self._lines():
            if ended:
                raise self.damaged(number, "there is more after the last line")
            if number == 1:
                self._header(fields)
            elif "end" in fields:
                self._check_end(fields, count, digest.hexdigest(), number)
                ended = True
            else:
                self._check_memory(fields, number)
                count += 1
                yield number, fields, len(line)
            digest.update(line)
        if not number:
            raise self.damaged(1, "the file is empty")
        if not ended:
            raise self.damaged(number, "the file ends here, before its last line: it was cut")

    def damaged(self, number: int, what: str) -> FileDamaged:
        """The error for a fault in a line."""
        return FileDamaged(f"{self._name}, line {number}: {what}.")

    def _lines(self) -> Iterator[tuple[int, bytes, dict[str, Any]]]:
        """Each line: its number, its bytes, its fields."""
        number, is_old = 0, False
        try:
            self._file.seek(0)
            lines = iter(lambda: self._file.readline(MAX_LINE_BYTES), b"")
            for number, line in enumerate(lines, start=1):
                fields = self._parsed(line, number)
                is_old = is_old or (number == 1 and fields.get("memoryd") == "backup")
                yield number, line, _from_old_backup(fields) if is_old else fields
        except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
            raise self.damaged(number + 1, "the compressed data is cut or damaged") from exc
        except (TypeError, ValueError) as exc:  # of `_from_old_backup`
            raise self.damaged(number, "it is not a memory") from exc
        except OSError as exc:
            raise _unreadable(self._name, exc) from exc

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        if not line.endswith(b"\n"):
            raise self.damaged(number, "the line has no end: the file was cut")
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise self.damaged(number, "it is not JSON") from exc
        if not isinstance(value, dict):
            raise self.damaged(number, "it is not a JSON object")
        return value

    def _header(self, fields: dict[str, Any]) -> Header:
        version = fields.get("version")
        if fields.get("memoryd") != "export" or not isinstance(version, int):
            raise self.damaged(1, "this is not an export or a backup of memoryd")
        if version > FORMAT:
            raise FileDamaged(
                f"A newer memoryd wrote {self._name} (format {version}, known: {FORMAT}).",
                code="file_newer",
                hint="Update memoryd, then try again.",
            )
        return Header(
            model=_typed(fields, "model", str),
            dimension=_typed(fields, "dimension", int),
            embeddings=fields.get("embeddings") is True,
            count=_typed(fields, "count", int),
            created_at=_typed(fields, "created_at", (int, float)),
            store_version=_typed(fields, "store_version", str),
        )

    def _check_memory(self, fields: dict[str, Any], number: int) -> None:
        for key, kind in NEEDED.items():
            if not isinstance(fields.get(key), kind):
                raise self.damaged(number, f"`{key}` is missing or of the wrong type")
        if "expires_at" not in fields:
            raise self.damaged(number, "`expires_at` is missing")

    def _check_end(self, fields: dict[str, Any], count: int, digest: str, number: int) -> None:
        if fields.get("count") != count:
            said = f"{fields.get('count')} memories were written, {count} are here"
            raise self.damaged(number, said)
        if fields.get("sha256") != digest:
            raise self.damaged(number, "the checksum does not match: a line above was changed")


def fields_of(memory: Memory) -> dict[str, Any]:
    """The memory as plain values: a line of the file, without vectors."""
    made: dict[str, Any] = {
        "id": memory.id,
        "type": str(memory.type),
        "content": memory.content,
        "created_at": memory.created_at,
        "expires_at": memory.expires_at,
        "metadata": dict(memory.metadata),
    }
    extra: dict[str, Any] = {"name": memory.name, "session_id": memory.session_id}
    extra |= {"pinned": memory.pinned or None, "updated_at": memory.updated_at}
    return made | {key: value for key, value in extra.items() if value is not None}


def fields_with_vectors(record: Record) -> dict[str, Any]:
    """The same, with the vectors if the memory has some."""
    fields = fields_of(record.memory)
    if record.passages:
        fields[PASSAGES] = [
            {"span": list(passage.span), "vector": vector_text(passage.vector)}
            for passage in record.passages
        ]
    return fields


def vector_text(vector: NDArray[np.float32]) -> str:
    """A vector as base64 of 32-bit floats, little-endian: exact, and a quarter of the size of
    decimal digits."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def vector_from(text: str) -> NDArray[np.float32]:
    """The vector that `vector_text` wrote. Raises ValueError."""
    import numpy as np  # only here: the command line reads and writes files without it

    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4").astype(np.float32)


def _from_old_backup(fields: dict[str, Any]) -> dict[str, Any]:
    """A line of a backup from before backups had the format of exports, in that format."""
    if "memoryd" in fields:
        new = {"memoryd": "export", "version": FORMAT, "embeddings": True}
        return fields | new | {"store_version": fields.get("version")}
    if "id" not in fields:
        return {"end": True, "count": fields.get("memories"), "sha256": fields.get("sha256")}
    parts = [
        {"span": [start, end], "vector": text} for start, end, text in fields.get(PASSAGES, ())
    ]
    return fields | {PASSAGES: parts}


def _typed(fields: dict[str, Any], key: str, kind: type | tuple[type, ...]) -> Any:
    value = fields.get(key)
    return value if isinstance(value, kind) else None


def _unreadable(name: str, exc: OSError) -> InvalidInput:
    return InvalidInput(
        f"{name} cannot be read: {exc.strerror or exc}.",
        code="file_unreadable",
        hint="Check the path and the mode of the file.",
    )
