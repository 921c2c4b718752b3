"""Replaces a file that people and their editors write to too, at any moment.

A file is replaced by an exchange of names where the system has one: whatever was at the path is
then in our hands, even if it came in the last microsecond, and is compared with what the caller had
read. An editor that has the replaced file still open may go on writing to it. Therefore it stays
open here until the next replacement, and `late` returns what was written to it meanwhile.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
from collections import deque
from pathlib import Path

from memoryd import files

QUIET = 1.0  # seconds without a change after which a file counts as written
MAX_BYTES = 16 << 20  # of a file that is read
Stamp = tuple[int, int, int]  # inode, size and time of the last change
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux: renameat2(2)


class SharedFile:
    """One file, and the name that a new version of it has until it is complete."""

    def __init__(self, path: Path, part: Path) -> None:
        self._path = path
        self._part = part
        self._replaced: tuple[int, bytes] | None = None  # an open file, and what it held
        self._own: deque[Stamp] = deque(maxlen=2)  # of the files that we wrote last

    def stamp(self) -> object:
        """A value that differs once the file has changed; None without a file."""
        try:
            found = [os.lstat(self._path)]
        except FileNotFoundError:
            return None
        return [_stamp(info) for info in found + self._of_replaced()]

    def is_settled(self) -> bool:
        """False while a program may still be writing the file: it changed a moment ago."""
        found = self._of_replaced()
        with contextlib.suppress(FileNotFoundError):
            found.append(os.lstat(self._path))
        ages = [time.time() - info.st_mtime for info in found if _stamp(info) not in self._own]
        return not any(0 <= age < QUIET for age in ages)  # one in the future has another clock

    def is_own(self) -> bool:
        """Whether the file is as we wrote it."""
        try:
            return _stamp(os.lstat(self._path)) in self._own
        except FileNotFoundError:
            return False

    def _of_replaced(self) -> list[os.stat_result]:
        return [os.fstat(self._replaced[0])] if self._replaced else []

    def replace(
        self, data: bytes, expected: bytes | None, like: os.stat_result | None = None
    ) -> bytes | None:
        """Replace the file atomically. None if it held `expected`; otherwise what another program
        wrote in between, which is replaced too. `like`: the new file gets this mode and group;
        without it only the owner can read it."""
        files.refuse_other(self._path)
        with os.fdopen(files.open_anew(self._part), "wb") as file:
            file.write(data)
            file.flush()
            if like is not None and hasattr(os, "fchown"):
                with contextlib.suppress(PermissionError):  # a group that this user is not in
                    os.fchown(file.fileno(), -1, like.st_gid)
                os.fchmod(file.fileno(), like.st_mode & 0o777)
            os.fsync(file.fileno())
            self._own.append(_stamp(os.fstat(file.fileno())))
        try:
            return self._swap(expected)
        finally:
            self._part.unlink(missing_ok=True)

    def _swap(self, expected: bytes | None) -> bytes | None:
        """Give the new file its name, and keep the replaced one open."""
        self.release()
        if _exchange(self._part, self._path):
            handle = files.open_file(self._part, os.O_RDONLY)
        else:
            try:
                handle = files.open_file(self._path, os.O_RDONLY)
            except FileNotFoundError:
                os.replace(self._part, self._path)
                return None
            os.replace(self._part, self._path)
        found = content(handle)
        self._replaced = (handle, found)
        return None if found == expected else found

    def late(self) -> bytes | None:
        """What another program wrote into a file after it was replaced; each content once."""
        if self._replaced is None:
            return None
        handle, known = self._replaced
        if (found := content(handle)) == known:
            return None
        self._replaced = (handle, found)
        return found

    def release(self) -> None:
        """Give up the replaced file, so that nothing of it is kept."""
        if self._replaced is not None:
            os.close(self._replaced[0])
            self._replaced = None


def content(handle: int) -> bytes:
    """All that an open file holds. Raises OSError if that is too much."""
    size = os.fstat(handle).st_size
    if size > MAX_BYTES:
        raise OSError(f"it has {size} bytes, more than {MAX_BYTES}")
    return os.pread(handle, MAX_BYTES, 0)


def _stamp(info: os.stat_result) -> Stamp:
    return info.st_ino, info.st_size, info.st_mtime_ns


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
