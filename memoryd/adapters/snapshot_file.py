"""The index's snapshot as one file: named arrays and one text a memory, then a table of contents.

Derived, so it is thrown away whenever in doubt: another version, a wrong checksum, a short file.
Written aside in pieces, each of which is gone from RAM when it is written, and renamed, so it is
whole or not there. A text that is forgotten is overwritten in place at once, also while it is
written; arrays hold numbers only.
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
PREVIOUS_VECTORS = "former.vectors"  # of the model before, while another makes new ones
TAIL = struct.Struct("!QI")  # of the table of contents, at the very end: its length and checksum
FLUSH = 32 << 20  # bytes after which the disk is waited for, so that no wait is long


class SnapshotFile:
    """See `memoryd.ports.Shelf`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._texts: _Texts | None = None  # of the file that is there
        self._aside: _Aside | None = None  # the one that is being written
        self._lock = threading.Lock()  # held for moments: the event loop may wait for it
        self._ahead: Future[tuple[int, Snapshot]] | None = None

    def save(self, about: Mapping[str, object], pieces: Iterable[Piece]) -> None:
        aside = _Aside(self._path.with_suffix(".new"))
        with self._lock:
            self._aside = aside
        try:
            for name, piece in pieces:
                if isinstance(piece, np.ndarray):
                    aside.add(name, piece)
                else:
                    data = [text.encode() for text in piece]
                    with self._lock:
                        aside.add_texts(data)
            aside.finish(about)
            with self._lock:
                os.replace(aside.path, self._path)
                self._texts, self._aside = aside.texts, None
        except BaseException:
            with self._lock:
                self._aside = None
                aside.discard()
            raise

    def prefetch(self) -> None:
        """Begin to read now, while the store opens; `load` waits for it. Changes nothing: whether
        the directory is ours is known only then."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="snapshot")
        self._ahead = pool.submit(self._open)
        pool.shutdown(wait=False)

    def load(self) -> Snapshot | None:
        with contextlib.suppress(OSError):
            self._path.with_suffix(".new").unlink()  # of a kill while it was written
        ahead, self._ahead = self._ahead, None
        try:
            if ahead is not None:
                inode, found = ahead.result()
                if os.lstat(self._path).st_ino == inode:
                    return found
            return self._open()[1]  # also if another was put there meanwhile
        except FileNotFoundError:
            return None
        except Exception:  # not ours, damaged, cut short, or more than fits into RAM
            self.clear()
            return None

    def _open(self) -> tuple[int, Snapshot]:
        with os.fdopen(files.open_file(self._path, os.O_RDONLY), "rb") as file:
            return os.fstat(file.fileno()).st_ino, self._read(file)

    def _read(self, file: Any) -> Snapshot:
        contents = _contents(file)
        arrays: dict[str, NDArray[Any]] = {}
        for name, kind, shape, check, begin in contents["arrays"]:
            file.seek(begin)
            array = np.fromfile(file, dtype=np.dtype(kind), count=int(np.prod(shape)))
            if _check(array) != check:
                raise ValueError
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
        self._texts = _Texts(arrays["key"])
        self._texts.place(sizes, contents["texts"])
        return found

    def erase(self, key: int) -> None:
        with self._lock:
            try:
                if self._aside is not None:
                    self._aside.erase(key)
                place = self._texts.take(key) if self._texts is not None else None
                if place is not None:
                    _blank(self._path, place)
                return
            except OSError:
                pass
        self.clear()  # better none than one that remembers

    def clear(self) -> None:
        with self._lock:
            self._texts = None
            # One that is being written loses its name, and cannot take the place of this one.
            for path in (self._path, self._path.with_suffix(".new")):
                with contextlib.suppress(OSError):
                    path.unlink()


class _Texts:
    """Where each text is in its file, by its key."""

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]
        self._begins = np.zeros(len(keys), dtype=np.int64)
        self._sizes = np.zeros(len(keys), dtype=np.int64)
        self.placed = 0

    def number(self, key: int) -> int | None:
        """The place of a key in the order of the texts; None if it has none."""
        at = int(np.searchsorted(self._sorted, np.uint64(key)))
        found = at < len(self._sorted) and int(self._sorted[at]) == key
        return int(self._order[at]) if found else None

    def place(self, sizes: NDArray[np.int64], begin: int) -> None:
        """The next texts are so long, and follow each other from `begin` on."""
        part = slice(self.placed, self.placed + len(sizes))
        self._begins[part] = begin + np.cumsum(sizes) - sizes
        self._sizes[part] = sizes
        self.placed += len(sizes)

    def take(self, key: int) -> tuple[int, int] | None:
        """Where the text of a key begins, and how long it is; once, then None."""
        number = self.number(key)
        if number is None or not self._sizes[number]:
            return None
        size, self._sizes[number] = int(self._sizes[number]), 0
        return int(self._begins[number]), size


class _Aside:
    """The file while it is written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.texts = _Texts(np.zeros(0, dtype=np.uint64))
        handle = files.open_anew(path)
        self._file = open(handle, "wb", buffering=0)  # until it is finished
        self._arrays: dict[str, list[Any]] = {}  # kind, shape, checksum, begin
        self._sizes: list[NDArray[np.int64]] = []
        self._checks: list[NDArray[np.uint32]] = []
        self._texts_begin = 0
        self._end = self._flushed = 0
        self._gone: set[int] = set()  # numbers of texts that are not to be written any more
        self._write(MAGIC)

    def add(self, name: str, array: NDArray[Any]) -> None:
        """A part of an array; the parts of one follow each other."""
        if name == "key":
            self.texts = _Texts(array)
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        known = self._arrays.setdefault(
            name, [array.dtype.str, [0, *array.shape[1:]], 0, self._end]
        )
        known[1][0] += len(array)
        known[2] = zlib.crc32(data, known[2])
        self._write(data)

    def add_texts(self, texts: Sequence[bytes]) -> None:
        """Some more, in the order of the keys."""
        first = self.texts.placed
        kept = [b"" if first + n in self._gone else text for n, text in enumerate(texts)]
        sizes = np.array([len(text) for text in kept], dtype=np.int64)
        if not self._sizes:
            self._texts_begin = self._end
        self._sizes.append(sizes)
        self._checks.append(np.array([zlib.crc32(text) for text in kept], dtype=np.uint32))
        self.texts.place(sizes, self._end)
        self._write(b"".join(kept))

    def erase(self, key: int) -> None:
        """Do not write this text, or overwrite it."""
        if (number := self.texts.number(key)) is not None:
            self._gone.add(number)
        if (place := self.texts.take(key)) is not None:
            _blank(self.path, place)

    def finish(self, about: Mapping[str, object]) -> None:
        """Nothing more comes; on return all of it is on the disk."""
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
        """Leave nothing of it."""
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
        raise ValueError
    end = os.fstat(file.fileno()).st_size - TAIL.size
    file.seek(max(0, end))
    length, check = TAIL.unpack(file.read(TAIL.size))
    if length > end:  # nobody may ask for that much memory
        raise ValueError
    file.seek(end - length)
    data = file.read(length)
    if zlib.crc32(data) != check:
        raise ValueError
    found: dict[str, Any] = json.loads(data)
    return found


def _blank(path: Path, place: tuple[int, int]) -> None:
    with os.fdopen(files.open_file(path, os.O_RDWR), "r+b") as file:
        file.seek(place[0])
        file.write(bytes(place[1]))


def _check(array: NDArray[Any]) -> int:
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
