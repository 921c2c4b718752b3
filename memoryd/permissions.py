"""File permissions: only their owner can reach our files, or the daemon does not start.

Memories are as private as a mailbox. A directory that other users can list, a socket directory
that they can write to (they could replace our socket by theirs), a file of the store that is a
link to somewhere else: each is a fault with a message and, if one command repairs it, that command.
The daemon refuses to start on the first one; `memoryd doctor` reports them all.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memoryd.errors import UnsafeFiles

OTHERS = 0o077
SHARED = stat.S_ISVTX  # set on directories for all users, such as /tmp: their mode is left alone


@dataclass(frozen=True, slots=True)
class Fault:
    """A file that is not safe. `mode`: the mode that repairs it; None if no mode does."""

    path: Path
    code: str
    message: str
    hint: str
    mode: int | None = None

    def error(self) -> UnsafeFiles:
        return UnsafeFiles(self.message, code=self.code, hint=self.hint)


def refuse(faults: Iterator[Fault]) -> None:
    """Raise UnsafeFiles for the first fault, if there is one."""
    for fault in faults:
        raise fault.error()


def data_faults(folder: Path) -> Iterator[Fault]:
    """Faults of the data directory, and entries in it that are not files."""
    if not _checked_here() or not folder.exists():
        return
    if folder.is_symlink() and folder.stat().st_uid != os.getuid():
        message = f"The data directory {folder} is a link to a directory of another user."
        yield Fault(folder, "symlink_foreign", message, "Remove the link.")
        return
    yield from directory_faults(folder, "data directory")
    for path in _entries(folder):
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            yield from _kind_faults(path, path.lstat().st_mode)


def _kind_faults(path: Path, mode: int) -> Iterator[Fault]:
    """The fault of an entry that is not a file, a directory or a socket."""
    if stat.S_ISLNK(mode):
        message = f"{path} is a link; the files of the store must be files."
        yield Fault(path, "store_symlink", message, "Check where it points, then remove it.")
    elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISSOCK(mode)):
        message = f"{path} is a pipe or a device; the files of the store must be files."
        yield Fault(path, "store_special", message, f"Run: rm {shlex.quote(str(path))}")


def directory_faults(folder: Path, what: str) -> Iterator[Fault]:
    """The fault of a directory that other users can reach."""
    if not _checked_here():
        return
    found = folder.stat()
    if found.st_uid != os.getuid():
        message = f"The {what} {folder} belongs to another user (number {found.st_uid})."
        yield Fault(folder, "owner_wrong", message, "Choose a directory of your own.")
    elif (mode := stat.S_IMODE(found.st_mode)) & OTHERS:
        shared = bool(mode & SHARED) or folder.resolve() in (Path.home(), Path("/"))
        message = f"Other users can reach the {what} {folder} (mode {mode & 0o777:o}, not 700)."
        hint = "Choose a directory that only memoryd uses." if shared else _chmod("700", folder)
        yield Fault(folder, "mode_loose", message, hint, None if shared else 0o700)


def file_faults(path: Path, what: str) -> Iterator[Fault]:
    """The fault of a file that other users can reach."""
    if not _checked_here():
        return
    found = path.stat()
    if found.st_uid != os.getuid():
        message = f"The {what} {path} belongs to another user (number {found.st_uid})."
        yield Fault(path, "owner_wrong", message, "Use a file of your own.")
    elif (mode := stat.S_IMODE(found.st_mode)) & OTHERS:
        message = f"Other users can reach the {what} {path} (mode {mode:o}, not 600)."
        yield Fault(path, "mode_loose", message, _chmod("600", path), 0o600)


def inner_faults(folder: Path) -> Iterator[Fault]:
    """Faults of everything in a data directory. In a directory of mode 0700 other users cannot
    reach them, so they do not stop a daemon; in a copy of it they could."""
    for path in _entries(folder):
        if path.is_symlink() or path.is_socket():
            continue
        check = directory_faults if path.is_dir() else file_faults
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            yield from check(path, "directory" if path.is_dir() else "file")


def _entries(folder: Path) -> Iterator[Path]:
    """Every entry under a directory; links are listed, not followed."""
    for root, folders, files in os.walk(folder):
        yield from (Path(root) / name for name in (*folders, *files))


def _chmod(mode: str, path: Path) -> str:
    return f"Run: chmod {mode} {shlex.quote(str(path))}"


def _checked_here() -> bool:
    return hasattr(os, "getuid")  # on Windows, modes do not say who can reach a file
