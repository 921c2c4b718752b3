"""The snapshot of the index as one file: named arrays, one text a memory, a table of contents.

The file is derived, so it is deleted in any doubt: another version, a wrong checksum, a short file.
It is written under another name in pieces, so that only one piece is in RAM, and renamed at the
end: it is complete or absent. The text of a forgotten memory is overwritten in place at once, also
during a write; arrays hold numbers only.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memoryd import files
from memoryd.ports import Snapshot

if TYPE_CHECKING:
    from memoryd.ports import Piece

MAGIC = b"memoryd index 2\n"
TAIL = struct.Struct("!QI")  # the end of the file: length and checksum of the table of contents
FLUSH = 32 << 20  # bytes between two calls of fsync, so that none takes long


class LocalSnapshotFile:
    """See `memoryd.ports.SnapshotFile`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._texts: _TextPositions | None = None  # of the present file
        self._writer: _SnapshotWriter | None = None  # of the file that is being written
        self._lock = threading.Lock()  # held for moments: the event loop may wait for it
        self._prefetched: Future[tuple[int, Snapshot]] | None = None  # inode and content

    def save(self, about: Mapping[str, object], pieces: Iterable[Piece]) -> None:
        writer = _SnapshotWriter(self._path.with_suffix(".new"))
        with self._lock:
            self._writer = writer
        try:
            for name, piece in pieces:
                if isinstance(piece, np.ndarray):
                    writer.add(name, piece)
                else:
                    data = [text.encode() for text in piece]
                    with self._lock:
                        writer.add_texts(data)
            writer.finish(about)
            with self._lock:
                os.replace(writer.path, self._path)
                self._texts, self._writer = writer.texts, None
        except BaseException:
            with self._lock:
                self._writer = None
                writer.discard()
            raise

    def prefetch(self) -> None:
        """Start reading now, while the store opens; `load` waits for it. Changes no file, because
        the lock on the directory is not held yet."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="snapshot")
        self._prefetched = pool.submit(self._open_and_read)
        pool.shutdown(wait=False)

    def load(self) -> Snapshot | None:
        with contextlib.suppress(OSError):
            self._path.with_suffix(".new").unlink()  # left by a kill during a write
        prefetched, self._prefetched = self._prefetched, None
        try:
            if prefetched is not None:
                inode, found = prefetched.result()
                if os.lstat(self._path).st_ino == inode:
                    return found
            return self._open_and_read()[1]  # also if the file was replaced meanwhile
        except FileNotFoundError:
            return None
        except Exception:  # another format, damaged, truncated, or too large for RAM
            self.clear()
            return None

    def _open_and_read(self) -> tuple[int, Snapshot]:
        with os.fdopen(files.open_file(self._path, os.O_RDONLY), "rb") as file:
            return os.fstat(file.fileno()).st_ino, self._read(file)

    def _read(self, file: Any) -> Snapshot:
        contents = _contents(file)
        arrays: dict[str, NDArray[Any]] = {}
        for name, kind, shape, check, begin in contents["arrays"]:
            file.seek(begin)
            array = np.fromfile(file, dtype=np.dtype(kind), count=int(np.prod(shape)))
            if _checksum(array) != check:
                raise ValueError(f"the checksum of {name} is wrong")
            arrays[name] = array.reshape(shape)
        sizes, checks = arrays.pop("text_size"), arrays.pop("text_check")
        file.seek(contents["texts"])
        data = file.read(int(sizes.sum()))
        texts: list[str] = []
        at = 0
        for size, check in zip(sizes.tolist(), checks.tolist(), strict=True):
            text = data[at : at + size]
            at += size
            texts.append(text.decode() if zlib.crc32(text) == check else "")  # overwritten
        found = Snapshot(contents["about"], arrays, texts)
        self._texts = _TextPositions(arrays["key"])
        self._texts.add(sizes, contents["texts"])
        return found

    def erase(self, key: int) -> None:
        with self._lock:
            try:
                if self._writer is not None:
                    self._writer.erase(key)
                position = self._texts.take(key) if self._texts is not None else None
                if position is not None:
                    _overwrite(self._path, position)
                return
            except OSError:
                pass
        self.clear()  # the text must not stay in the file

    def clear(self) -> None:
        with self._lock:
            self._texts = None
            # A file that is being written loses its name, so `save` cannot rename it.
            for path in (self._path, self._path.with_suffix(".new")):
                with contextlib.suppress(OSError):
                    path.unlink()


class _TextPositions:
    """The position of each text in its file, by its key."""

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]
        self._begins = np.zeros(len(keys), dtype=np.int64)
        self._sizes = np.zeros(len(keys), dtype=np.int64)
        self.count = 0  # texts whose position is known

    def number(self, key: int) -> int | None:
        """The number of a key in the order of the texts; None if it is unknown."""
        at = int(np.searchsorted(self._sorted, np.uint64(key)))
        found = at < len(self._sorted) and int(self._sorted[at]) == key
        return int(self._order[at]) if found else None

    def add(self, sizes: NDArray[np.int64], begin: int) -> None:
        """Record the next texts, which have these sizes and follow each other from `begin` on."""
        part = slice(self.count, self.count + len(sizes))
        self._begins[part] = begin + np.cumsum(sizes) - sizes
        self._sizes[part] = sizes
        self.count += len(sizes)

    def take(self, key: int) -> tuple[int, int] | None:
        """Start and size of the text of a key; once, then None."""
        number = self.number(key)
        if number is None or not self._sizes[number]:
            return None
        size, self._sizes[number] = int(self._sizes[number]), 0
        return int(self._begins[number]), size


class _SnapshotWriter:
    """Writes one snapshot file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.texts = _TextPositions(np.zeros(0, dtype=np.uint64))
        handle = files.open_anew(path)
        self._file = open(handle, "wb", buffering=0)  # `finish` and `discard` close it
        self._arrays: dict[str, list[Any]] = {}  # kind, shape, checksum, begin
        self._sizes: list[NDArray[np.int64]] = []
        self._checks: list[NDArray[np.uint32]] = []
        self._texts_begin = 0
        self._end = self._flushed = 0
        self._erased: set[int] = set()  # numbers of texts that must not be written
        self._write(MAGIC)

    def add(self, name: str, array: NDArray[Any]) -> None:
        """Write a part of an array; the parts of one array follow each other."""
        if name == "key":
            self.texts = _TextPositions(array)
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        known = self._arrays.setdefault(
            name, [array.dtype.str, [0, *array.shape[1:]], 0, self._end]
        )
        known[1][0] += len(array)
        known[2] = zlib.crc32(data, known[2])
        self._write(data)

    def add_texts(self, texts: Sequence[bytes]) -> None:
        """Write the next texts, in the order of the keys."""
        first = self.texts.count
        kept = [b"" if first + n in self._erased else text for n, text in enumerate(texts)]
        sizes = np.array([len(text) for text in kept], dtype=np.int64)
        if not self._sizes:
            self._texts_begin = self._end
        self._sizes.append(sizes)
        self._checks.append(np.array([zlib.crc32(text) for text in kept], dtype=np.uint32))
        self.texts.add(sizes, self._end)
        self._write(b"".join(kept))

    def erase(self, key: int) -> None:
        """Do not write this text, or overwrite it if it is written."""
        if (number := self.texts.number(key)) is not None:
            self._erased.add(number)
        if (position := self.texts.take(key)) is not None:
            _overwrite(self.path, position)

    def finish(self, about: Mapping[str, object]) -> None:
        """Write the table of contents, flush the file to the disk and close it."""
        self.add("text_size", np.concatenate(self._sizes or [np.zeros(0, np.int64)]))
        self.add("text_check", np.concatenate(self._checks or [np.zeros(0, np.uint32)]))
        contents = json.dumps(
            {
                "about": dict(about),
                "arrays": [[name, *known] for name, known in self._arrays.items()],
                "texts": self._texts_begin,
            }
        ).encode()
        self._write(contents + TAIL.pack(len(contents), zlib.crc32(contents)))
        os.fsync(self._file.fileno())
        self._file.close()

    def discard(self) -> None:
        """Close and delete the file."""
        self._file.close()
        with contextlib.suppress(OSError):
            self.path.unlink()

    def _write(self, data: bytes | memoryview) -> None:
        left = memoryview(data)
        while left:
            done = self._file.write(left)
            self._end += done
            left = left[done:]
        if self._end - self._flushed > FLUSH:
            os.fsync(self._file.fileno())
            self._flushed = self._end


def _contents(file: Any) -> dict[str, Any]:
    """The table of contents; ValueError if this is not such a file."""
    if file.read(len(MAGIC)) != MAGIC:
        raise ValueError("not a snapshot")
    end = os.fstat(file.fileno()).st_size - TAIL.size
    file.seek(max(0, end))
    length, check = TAIL.unpack(file.read(TAIL.size))
    if length > end:  # before that much memory is allocated
        raise ValueError("the table of contents is longer than the file")
    file.seek(end - length)
    data = file.read(length)
    if zlib.crc32(data) != check:
        raise ValueError("the checksum of the table of contents is wrong")
    found: dict[str, Any] = json.loads(data)
    return found


def _overwrite(path: Path, position: tuple[int, int]) -> None:
    with os.fdopen(files.open_file(path, os.O_RDWR), "r+b") as file:
        file.seek(position[0])
        file.write(bytes(position[1]))


def _checksum(array: NDArray[Any]) -> int:
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
