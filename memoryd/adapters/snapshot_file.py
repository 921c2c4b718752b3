"""The snapshot of the index as a file: named arrays, one text a slot, a table of contents. The
vectors are in a second file, beside it.

The files are derived, so they are deleted in any doubt: another version, a wrong checksum, a short
file. The snapshot is written under another name in pieces, so that only one piece is in RAM, and
renamed at the end: it is complete or absent. The text of a forgotten memory is overwritten in place
at once, also during a write; arrays hold numbers only.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memoryd import files
from memoryd.adapters.snapshot_contents import MAGIC, TAIL, contents_of, recent_path
from memoryd.adapters.vector_file import LocalVectorFile
from memoryd.index_files import Snapshot

if TYPE_CHECKING:
    from memoryd.index_files import Arrays, Piece

FLUSH = 32 << 20  # bytes between two calls of fsync, so that none takes long
VECTORS = "vectors"  # what names the file of vectors in the table of contents
GROUP = 2_000  # texts that are read at once


class LocalSnapshotFile:
    """See `memoryd.index_files.SnapshotFile`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._vectors_path = path.with_suffix(".vectors")
        self._recent_path = recent_path(path)
        self._vectors: LocalVectorFile | None = None  # of the present file, or of the next one
        self._texts: LocalTexts | None = None  # of the present file
        self._writer: _SnapshotWriter | None = None  # of the file that is being written
        self._lock = threading.Lock()  # held for moments: the event loop may wait for it
        self._prefetched: Future[_Read] | None = None

    def vectors(self, dimension: int) -> LocalVectorFile:
        if self._vectors is None:
            self._vectors = LocalVectorFile.create(self._vectors_path, dimension)
        return self._vectors

    def save(
        self, about: Mapping[str, object], pieces: Iterable[Piece], keep: Collection[str] = ()
    ) -> Snapshot:
        writer = _SnapshotWriter(self._path.with_suffix(".new"))
        with self._lock:
            self._writer = writer
        try:
            for name, piece in pieces:
                if isinstance(piece, np.ndarray):
                    writer.add(name, piece)
                else:
                    with self._lock:
                        writer.add_texts(piece)
            vectors = self._vectors
            writer.finish({**about, VECTORS: vectors.name if vectors else ""})
            arrays = {name: writer.array(name) for name in keep}
            with self._lock:
                os.replace(writer.path, self._path)
                self._texts, self._writer = writer.texts, None
            return Snapshot(about, arrays, writer.texts)
        except BaseException:
            with self._lock:
                self._writer = None
                writer.discard()
            raise

    def prefetch(self) -> None:
        """Start reading now, while the store opens; `load` waits for it. Changes no file, because
        the lock on the directory is not held yet."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="snapshot")
        self._prefetched = pool.submit(self._read)
        pool.shutdown(wait=False)

    def load(self) -> Snapshot | None:
        with contextlib.suppress(OSError):
            self._path.with_suffix(".new").unlink()  # left by a kill during a write
        prefetched, self._prefetched = self._prefetched, None
        try:
            found = prefetched.result() if prefetched is not None else self._read()
            if os.lstat(self._path).st_ino != found.inode:
                found = self._read()  # the file was replaced meanwhile
        except FileNotFoundError:
            return None
        except Exception:  # another format, damaged, truncated, or too large for RAM
            self.clear()
            return None
        with self._lock:
            self._texts, self._vectors = found.texts, found.vectors
        return Snapshot(found.about, found.arrays, found.texts, found.heads)

    def _read(self) -> _Read:
        file = files.Handle(files.open_file(self._path, os.O_RDWR))
        contents = contents_of(file)
        arrays = {name: _read_array(file, name, *known) for name, *known in contents["arrays"]}
        sizes, checks = arrays.pop("text_size"), arrays.pop("text_check")
        texts = LocalTexts(file, arrays["key"])
        texts.add(sizes, checks, contents["texts"])
        about: dict[str, object] = contents["about"]
        vectors = self._open_vectors(str(about.pop(VECTORS)), about, arrays)
        return _Read(os.fstat(file.fileno()).st_ino, about, arrays, texts, texts.heads(), vectors)

    def _open_vectors(
        self, name: str, about: Mapping[str, object], arrays: Arrays
    ) -> LocalVectorFile | None:
        if not name:
            return None
        found = LocalVectorFile.open(self._vectors_path, name, int(str(about["dimension"])))
        if len(found) < len(arrays["owner"]):
            raise ValueError("there are too few vectors")
        return found

    def save_recent(self, about: Mapping[str, object], pieces: Iterable[Piece]) -> None:
        if self._texts is not None:
            self._texts.flush()  # what was erased must not come back
        LocalSnapshotFile(self._recent_path).save(about, pieces)

    def take_recent(self) -> Snapshot | None:
        recent = LocalSnapshotFile(self._recent_path)
        try:
            return recent.load()
        finally:
            recent.clear()

    def erase(self, key: int) -> None:
        with self._lock:
            try:
                if self._writer is not None:
                    self._writer.erase(key)
                if self._texts is not None:
                    self._texts.erase(key)
                return
            except OSError:
                pass
        self.clear()  # the text must not stay in the file

    def clear(self) -> None:
        with self._lock:
            self._texts = self._vectors = None
            # A file that is being written loses its name, so `save` cannot rename it.
            new = self._path.with_suffix(".new")
            for path in (self._path, new, self._vectors_path, self._recent_path):
                with contextlib.suppress(OSError):
                    path.unlink()


class _Read(NamedTuple):
    """What was read of a file."""

    inode: int
    about: dict[str, object]
    arrays: Arrays
    texts: LocalTexts
    heads: list[str]
    vectors: LocalVectorFile | None


class LocalTexts:
    """The texts of one file, by their numbers and by their keys. The file stays open, so that they
    can be read when it was replaced. See `memoryd.index_files.Texts`."""

    def __init__(self, file: files.Handle, keys: NDArray[np.uint64]) -> None:
        self._file = file
        self._order = np.argsort(keys, kind="stable").astype(np.int32)
        self._sorted = keys[self._order]
        self._begins = np.zeros(len(keys), dtype=np.int64)
        self._sizes = np.zeros(len(keys), dtype=np.int32)
        self._checks = np.zeros(len(keys), dtype=np.uint32)
        self.count = 0  # texts whose position is known

    def __len__(self) -> int:
        return len(self._begins)

    def number(self, key: int) -> int | None:
        """The number of the text with a key; None if it is unknown."""
        at = int(np.searchsorted(self._sorted, np.uint64(key)))
        found = at < len(self._sorted) and int(self._sorted[at]) == key
        return int(self._order[at]) if found else None

    def add(self, sizes: NDArray[Any], checks: NDArray[np.uint32], begin: int) -> None:
        """Record the next texts, which have these sizes and follow each other from `begin` on."""
        part = slice(self.count, self.count + len(sizes))
        self._begins[part] = begin + np.cumsum(sizes, dtype=np.int64) - sizes
        self._sizes[part] = sizes
        self._checks[part] = checks
        self.count += len(sizes)

    def read(self, number: int) -> bytes:
        return self.read_range(number, number + 1)[0]

    def read_range(self, start: int, end: int) -> list[bytes]:
        parts = list(self._parts(start, end))
        for number, part in enumerate(parts, start):
            if zlib.crc32(part) != self._checks[number] and self._sizes[number]:
                raise OSError("A text of the index is damaged.")
        return parts

    def heads(self) -> list[str]:
        """The first line of each text, "" for those that are damaged or erased."""
        found: list[str] = []
        for start in range(0, len(self), GROUP):
            end = min(start + GROUP, len(self))
            checks = self._checks[start:end].tolist()
            for part, check in zip(self._parts(start, end), checks, strict=True):
                is_whole = part and zlib.crc32(part) == check
                found.append(part[: part.index(b"\n")].decode() if is_whole else "")
        return found

    def erase(self, key: int) -> None:
        """Overwrite the text with a key, if there is one. Raises OSError."""
        number = self.number(key)
        if number is not None and self._sizes[number]:
            size, self._sizes[number] = int(self._sizes[number]), 0
            os.pwrite(self._file.fileno(), bytes(size), int(self._begins[number]))

    def flush(self) -> None:
        """Wait until what was erased is on the disk. Raises OSError."""
        os.fsync(self._file.fileno())

    def _parts(self, start: int, end: int) -> Iterator[bytes]:
        """The texts with these numbers, unchecked; empty for those that were erased."""
        begins, sizes = self._begins[start:end].tolist(), self._sizes[start:end].tolist()
        first, last = min(begins), max(b + s for b, s in zip(begins, sizes, strict=True))
        data = os.pread(self._file.fileno(), last - first, first)
        for begin, size in zip(begins, sizes, strict=True):
            yield data[begin - first : begin - first + size]


class _SnapshotWriter:
    """Writes one snapshot file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = files.Handle(files.open_anew(path))
        self.texts = LocalTexts(self._file, np.zeros(0, dtype=np.uint64))
        self._arrays: dict[str, list[Any]] = {}  # kind, shape, checksum, begin
        self._sizes: list[NDArray[np.int32]] = []
        self._checks: list[NDArray[np.uint32]] = []
        self._texts_begin = 0
        self._end = self._flushed = 0
        self._erased: set[int] = set()  # numbers of texts that must not be written
        self._write(MAGIC)

    def add(self, name: str, array: NDArray[Any]) -> None:
        """Write a part of an array; the parts of one array follow each other."""
        if name == "key":
            self.texts = LocalTexts(self._file, array)
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
        sizes = np.array([len(text) for text in kept], dtype=np.int32)
        if not self._sizes:
            self._texts_begin = self._end
        self._sizes.append(sizes)
        checks = np.array([zlib.crc32(text) for text in kept], dtype=np.uint32)
        self._checks.append(checks)
        self.texts.add(sizes, checks, self._end)
        self._write(b"".join(kept))

    def erase(self, key: int) -> None:
        """Do not write this text, or overwrite it if it is written."""
        if (number := self.texts.number(key)) is not None:
            self._erased.add(number)
            self.texts.erase(key)

    def finish(self, about: Mapping[str, object]) -> None:
        """Write the table of contents and flush the file to the disk."""
        self.add("text_size", np.concatenate(self._sizes or [np.zeros(0, np.int32)]))
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

    def array(self, name: str) -> NDArray[Any]:
        """An array that was written, read again."""
        return _read_array(self._file, name, *self._arrays[name])

    def discard(self) -> None:
        """Delete the file."""
        with contextlib.suppress(OSError):
            self.path.unlink()

    def _write(self, data: bytes | memoryview) -> None:
        left = memoryview(data)
        while left:
            done = os.write(self._file.fileno(), left)
            self._end += done
            left = left[done:]
        if self._end - self._flushed > FLUSH:
            os.fsync(self._file.fileno())
            self._flushed = self._end


def _read_array(
    file: files.Handle, name: str, kind: str, shape: Sequence[int], check: int, begin: int
) -> NDArray[Any]:
    """One array; ValueError if its checksum is wrong."""
    array = np.empty(shape, dtype=np.dtype(kind))
    left = memoryview(array.reshape(-1).view(np.uint8).data)
    at = begin
    while left:
        got = os.preadv(file.fileno(), [left], at)
        if not got:
            raise ValueError("the file is too short")
        at, left = at + got, left[got:]
    if _checksum(array) != check:
        raise ValueError(f"the checksum of {name} is wrong")
    return array


def _checksum(array: NDArray[Any]) -> int:
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
