"""The index's snapshot as one file: named arrays, then one text a memory.

Derived, so it is thrown away whenever in doubt: another version, a wrong checksum, a short file.
Written aside and renamed, so it is whole or not there. A text that is forgotten is overwritten
in place at once; arrays hold numbers only.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoryd import files
from memoryd.ports import Snapshot

MAGIC = b"memoryd index 1\n"
FORMER = "former.vectors"  # of the model before, while another makes new ones
LENGTH = 8  # bytes of the header's length


class FileShelf:
    """See `memoryd.ports.Shelf`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[int, tuple[int, int]] = {}  # of the texts in the file that is there
        self._ahead: Future[tuple[int, Snapshot]] | None = None

    def save(self, snapshot: Snapshot) -> None:
        texts = [text.encode() for text in snapshot.texts]
        sizes = np.array([len(text) for text in texts], dtype=np.int64)
        arrays: dict[str, NDArray[Any]] = dict(snapshot.arrays)
        arrays["text_size"] = sizes
        arrays["text_check"] = np.array([zlib.crc32(text) for text in texts], dtype=np.uint32)
        header = json.dumps(
            {
                "about": dict(snapshot.about),
                "arrays": [
                    [name, a.dtype.str, list(a.shape), _check(a)] for name, a in arrays.items()
                ],
            }
        ).encode()
        with files.replacing(self._path, self._path.with_suffix(".new")) as file:
            file.write(MAGIC + len(header).to_bytes(LENGTH, "big") + header)
            file.write(zlib.crc32(header).to_bytes(4, "big"))
            for array in arrays.values():
                file.write(np.ascontiguousarray(array).data)
            begin = file.tell()
            file.write(b"".join(texts))
        self._remember(snapshot.keys, sizes, begin)

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
        if file.read(len(MAGIC)) != MAGIC:
            raise ValueError
        length = int.from_bytes(file.read(LENGTH), "big")
        if length > os.fstat(file.fileno()).st_size:  # nobody may ask for that much memory
            raise ValueError
        header = file.read(length)
        if zlib.crc32(header) != int.from_bytes(file.read(4), "big"):
            raise ValueError
        facts = json.loads(header)
        arrays: dict[str, NDArray[Any]] = {}
        for name, kind, shape, check in facts["arrays"]:
            array = np.fromfile(file, dtype=np.dtype(kind), count=int(np.prod(shape)))
            if _check(array) != check:
                raise ValueError
            arrays[name] = array.reshape(shape)
        sizes, checks = arrays.pop("text_size"), arrays.pop("text_check")
        begin, data = file.tell(), file.read()
        texts: list[str] = []
        at = 0
        for size, check in zip(sizes.tolist(), checks.tolist(), strict=True):
            text = data[at : at + size]
            at += size
            texts.append(text.decode() if zlib.crc32(text) == check else "")  # overwritten
        found = Snapshot(facts["about"], arrays, texts)
        self._remember(found.keys, sizes, begin)
        return found

    def erase(self, key: int) -> None:
        place = self._places.pop(key, None)
        if place is None:
            return
        try:
            with os.fdopen(files.open_file(self._path, os.O_RDWR), "r+b") as file:
                file.seek(place[0])
                file.write(bytes(place[1]))
        except OSError:
            self.clear()  # better none than one that remembers

    def clear(self) -> None:
        self._places.clear()
        for path in (self._path, self._path.with_suffix(".new")):
            with contextlib.suppress(OSError):
                path.unlink()

    def _remember(self, keys: Sequence[int], sizes: NDArray[np.int64], begin: int) -> None:
        ends = (begin + np.cumsum(sizes)).tolist()
        places = zip(keys, ends, sizes.tolist(), strict=True)
        self._places = {key: (end - size, size) for key, end, size in places}


def _check(array: NDArray[Any]) -> int:
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
