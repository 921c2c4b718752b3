"""Disk errors that Chroma and SQLite raise, as errors of memoryd.

They are recognised by their text, because Chroma wraps everything in one exception type. A full
disk is not a broken store: a repair would make it worse.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
import sys
from pathlib import Path

from memoryd import files
from memoryd.errors import MemorydError, StoreError, StoreUnavailable

PROBE_BYTES = 65_536  # bytes
MIN_FREE_BYTES = 1_048_576
SPARE_FILES = 8  # descriptors that one call may need

FULL = StoreError(
    "The disk is full.",
    code="store_full",
    hint="Free some space. Reading still works, and writing works again as soon as there is space.",
)
READ_ONLY = StoreError(
    "The data directory cannot be written.",
    code="store_unwritable",
    hint="Check that the disk is mounted for writing and that you own the directory.",
)
FILES = StoreError(
    "The limit of open files is reached.",
    code="store_files",
    hint="Raise it (ulimit -n), or close connections.",
)
IO_ERROR = StoreError(
    "Writing to the disk failed.",
    code="store_disk",
    hint="Look for disk errors in the system log, and check the limits on file sizes.",
)
BY_TEXT = {
    "disk is full": FULL,
    "no space left": FULL,
    "disk quota exceeded": FULL,
    "readonly database": READ_ONLY,
    "read-only file system": READ_ONLY,
    "permission denied": READ_ONLY,
    "too many open files": FILES,
    "unable to open database file": FILES,
    "disk i/o error": IO_ERROR,
    "file too large": IO_ERROR,
}
DAMAGE_TEXTS = ("malformed", "file is not a database")
BY_ERRNO = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EROFS: READ_ONLY,
    errno.EACCES: READ_ONLY,
    errno.EPERM: READ_ONLY,
    errno.EMFILE: FILES,
    errno.ENFILE: FILES,
    errno.EFBIG: IO_ERROR,
    errno.EIO: IO_ERROR,
}


def disk_error(exc: BaseException) -> StoreError | None:
    """The error to report if the disk caused this exception; None otherwise."""
    known = BY_ERRNO.get(exc.errno or 0) if isinstance(exc, OSError) else None
    text = (
        f"{exc} {exc.__cause__ or ''}".lower()
    )  # our own errors do not contain the text of their cause
    known = known or next((error for part, error in BY_TEXT.items() if part in text), None)
    return StoreError(known.message, code=known.code, hint=known.hint) if known else None


def is_damage_error(exc: BaseException) -> bool:
    """Whether SQLite says that the database itself is damaged."""
    text = f"{exc} {exc.__cause__ or ''}".lower()
    return any(part in text for part in DAMAGE_TEXTS)


def permission_error(exc: OSError) -> StoreError | None:
    """The error for a file that the system refused to open; None for any other exception."""
    if not isinstance(exc, PermissionError) or not exc.filename:
        return None
    path = str(exc.filename)
    return StoreError(
        f"{path} cannot be read and written: {exc.strerror}. Nothing was changed.",
        code=READ_ONLY.code,
        hint=f"Check its owner and mode, and that its disk is mounted for writing: "
        f"ls -ld {shlex.quote(path)}",
    )


def check_access(folder: Path) -> None:
    """Raise StoreError for the first file of a store that we may not read and write. Chroma would
    report a broken store."""
    for path in (folder, *sorted(folder.rglob("*"))):
        mode = os.R_OK | os.W_OK | (os.X_OK if path.is_dir() else 0)
        if not os.access(path, mode):
            refused = PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            raise permission_error(refused) or READ_ONLY


def find_shortage(folder: Path, room: int = 0) -> StoreError | None:
    """The error for a disk or process limit that a write to this store would hit; None if none.

    Checked before a write, because Chroma may commit rows and then report that it failed on a full
    disk. Takes microseconds. Chroma writes a new copy of its index each time, so as many bytes must
    be free; `room`: bytes that are needed besides.
    """
    index = sum(file.stat().st_size for file in folder.glob("store/*/*"))
    if shutil.disk_usage(folder).free < index + max(room, MIN_FREE_BYTES):
        return FULL
    if hasattr(os, "statvfs") and os.statvfs(folder).f_flag & os.ST_RDONLY:
        return READ_ONLY
    if sys.platform == "linux":
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if len(os.listdir("/proc/self/fd")) + SPARE_FILES > most:
            return FILES
    return None


def probe_disk(folder: Path) -> StoreError | None:
    """The error that a test write to the disk gives, None if it works. For exceptions of Chroma
    whose text does not name the cause."""
    path = folder / "probe"
    try:
        if error := find_shortage(folder):
            return error
        with os.fdopen(files.open_anew(path), "wb") as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
    except OSError as exc:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        return disk_error(exc)
    return None


def to_memoryd_error(exc: Exception, folder: Path | None = None) -> MemorydError:
    """Any exception as an error of memoryd. The text of the exception is not repeated: it can quote
    a memory. With a folder, its disk is probed if the text does not name the cause."""
    if isinstance(exc, MemorydError):
        return exc
    kind = StoreUnavailable if type(exc).__module__.startswith("httpx") else StoreError
    message = f"The store failed with {type(exc).__name__}."
    return _probed(disk_error(exc), folder) or kind(message)


def _probed(error: StoreError | None, folder: Path | None) -> StoreError | None:
    """A more exact error by probing the disk, for an I/O error or none."""
    if folder is None or (error is not None and error.code != IO_ERROR.code):
        return error
    return probe_disk(folder) or error
