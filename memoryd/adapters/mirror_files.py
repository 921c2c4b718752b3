"""The folder of the mirror. See `memoryd.ports.MirrorFiles`.

People and their editors write to these files too, at any moment. So a file is replaced by an
exchange of names where the system has one: whatever was at the path is then in our hands, even if
it came in the last microsecond, and is compared with what the caller had read. An editor that has
the replaced file still open may go on writing to it. Therefore it stays open here until the next
replacement, and `late` returns what was written to it meanwhile.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
import time
from collections import deque
from pathlib import Path

from memoryd import files
from memoryd.permissions import OTHERS

NAMES = re.compile(r"MEMORY\.md|HISTORY(?:-\d{4,5}-\d\d)?\.md")
PART = ".part"  # ending of a file that is being written
RECORD = "mirror.json"  # in the data directory
QUIET = 1.0  # seconds without a change after which a file counts as written
MAX_BYTES = 16 << 20  # of a file that is read
Stamp = tuple[int, int, int]  # inode, size and time of the last change
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux: renameat2(2)


class LocalMirrorFiles:
    """See `memoryd.ports.MirrorFiles`."""

    def __init__(self, folder: Path, data_dir: Path) -> None:
        self._folder = folder
        self._record = data_dir / RECORD
        self._replaced: tuple[int, str] | None = None  # an open file, and the text it had
        self._own: deque[Stamp] = deque(maxlen=2)  # of the files that we wrote last

    @property
    def folder(self) -> str:
        return str(self._folder)

    def stamp(self, name: str) -> object:
        try:
            found = [os.lstat(self._folder / name)]
        except FileNotFoundError:
            return None
        found += self._of_replaced()
        return [_stamp(info) for info in found]

    def is_settled(self, name: str) -> bool:
        found = self._of_replaced()
        with contextlib.suppress(FileNotFoundError):
            found.append(os.lstat(self._folder / name))
        ages = [time.time() - info.st_mtime for info in found if _stamp(info) not in self._own]
        return not any(0 <= age < QUIET for age in ages)  # one in the future has another clock

    def _of_replaced(self) -> list[os.stat_result]:
        return [os.fstat(self._replaced[0])] if self._replaced else []

    def read(self, name: str) -> str | None:
        try:
            handle = files.open_file(self._folder / name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            if hasattr(os, "fchmod") and os.fstat(handle).st_mode & OTHERS:
                os.fchmod(handle, 0o600)  # an editor wrote it anew
            return _bytes(handle).decode()
        finally:
            os.close(handle)

    def write(self, name: str, text: str) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with files.replacing(self._folder / name, self._folder / (name + PART)) as file:
            file.write(text.encode())

    def replace(self, name: str, text: str, expected: str | None) -> str | None:
        path = self._folder / name
        part = path.with_name(name + PART)
        files.refuse_other(path)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(files.open_anew(part), "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
            self._own.append(_stamp(os.fstat(file.fileno())))
        try:
            return self._swap(path, part, expected)
        finally:
            part.unlink(missing_ok=True)

    def _swap(self, path: Path, part: Path, expected: str | None) -> str | None:
        """Give the new file its name, and keep the replaced one open."""
        self.release()
        if _exchange(part, path):
            handle = files.open_file(part, os.O_RDONLY)
        else:
            try:
                handle = files.open_file(path, os.O_RDONLY)
            except FileNotFoundError:
                os.replace(part, path)
                return None
            os.replace(part, path)
        found = _text(handle)
        self._replaced = (handle, found)
        return None if found == expected else found

    def late(self) -> str | None:
        if self._replaced is None:
            return None
        handle, known = self._replaced
        if (found := _text(handle)) == known:
            return None
        self._replaced = (handle, found)
        return found

    def release(self) -> None:
        if self._replaced is not None:
            os.close(self._replaced[0])
            self._replaced = None

    def names(self) -> list[str]:
        try:
            found = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        for name in found:  # left by a kill while a file was written
            if name.endswith(PART) and NAMES.fullmatch(name.removesuffix(PART)):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._folder / name)
        return sorted(name for name in found if NAMES.fullmatch(name))

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)

    def load_record(self) -> str | None:
        try:
            return files.read_text(self._record)
        except (FileNotFoundError, UnicodeDecodeError):
            return None

    def save_record(self, text: str) -> None:
        with files.replacing(self._record) as file:
            file.write(text.encode())


def _stamp(info: os.stat_result) -> Stamp:
    return info.st_ino, info.st_size, info.st_mtime_ns


def _text(handle: int) -> str:
    """The text of a file that was replaced. What is no UTF-8 in it is replaced, because this is the
    last time that it can be read."""
    return _bytes(handle).decode(errors="replace")


def _bytes(handle: int) -> bytes:
    size = os.fstat(handle).st_size
    if size > MAX_BYTES:
        raise OSError(f"a file of the mirror has {size} bytes, more than {MAX_BYTES}")
    return os.pread(handle, MAX_BYTES, 0)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two files in one step; false if the system cannot, or if one of them
    is missing."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError):
        return False
    paths = os.fsencode(one), os.fsencode(other)
    return bool(rename(AT_FDCWD, paths[0], AT_FDCWD, paths[1], RENAME_EXCHANGE) == 0)
