"""Open files safely: never through a link, and never something that is not a regular file.

Through a link in the place of a file we would write somewhere else; a pipe would block for ever.
So a file is opened only if it is a regular file of this user, and a new file is written under
another name and renamed, which replaces whatever is at its path.

Hard links are not detected: they are regular files of this user under two names.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
# Without blocking: opening a pipe that has no writer would block.
NO_WAIT = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)


class NotAFile(OSError):
    """The path is not a regular file of this user; `strerror` says what it is."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(errno.EPERM, f"{path} {what}")


def open_file(path: Path, flags: int, *, named: bool = False) -> int:
    """A descriptor of a regular file of this user; NotAFile for anything else. `named`: the user
    named the path, so it may be a link and belong to another user."""
    try:
        handle = os.open(path, flags | NO_WAIT | (0 if named else NO_LINKS), 0o600)
    except OSError as exc:
        refuse_other(path, named=named, cause=exc)
        raise
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        trouble = "is not a file"
    elif not named and not is_ours(found):
        trouble = f"belongs to another user (number {found.st_uid})"
    else:
        return handle
    os.close(handle)
    raise NotAFile(path, trouble)


def open_anew(path: Path) -> int:
    """A descriptor of a new empty file that only its owner can read; replaces what was there."""
    path.unlink(missing_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_WAIT | NO_LINKS, 0o600)


class Handle:
    """A descriptor that is closed when nobody uses it any more."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._descriptor)


def read_text(path: Path, *, named: bool = False) -> str:
    """The text of a file; NotAFile if it is not a regular file."""
    with os.fdopen(open_file(path, os.O_RDONLY, named=named), encoding="utf-8") as file:
        return file.read()


@contextmanager
def replacing(path: Path, part: Path | None = None, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """A private file that replaces `path` when the block ends, if `durable` after an fsync. If the
    block fails, `path` is unchanged and nothing is left. `part`: its name until then."""
    part = part or path.with_name(f"{path.name}.part")
    with os.fdopen(open_anew(part), "wb") as file:
        try:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise
    os.replace(part, path)


def touch(path: Path) -> None:
    """Create an empty file if there is none."""
    os.close(open_file(path, os.O_WRONLY | os.O_CREAT))


def is_ours(info: os.stat_result) -> bool:
    """Whether the file belongs to this user."""
    return not hasattr(os, "getuid") or info.st_uid == os.getuid()


def refuse_other(path: Path, *, named: bool = False, cause: OSError | None = None) -> None:
    """NotAFile if the path exists and is not a regular file."""
    try:
        mode = os.stat(path, follow_symlinks=named).st_mode
    except OSError:
        return
    if stat.S_ISLNK(mode):
        raise NotAFile(path, "is a link, not a file") from cause
    if not stat.S_ISREG(mode):
        raise NotAFile(path, "is not a file") from cause
