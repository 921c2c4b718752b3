"""What Chroma and SQLite say when the disk is the trouble, as errors of our own.

Told apart from a broken store by their words, for Chroma wraps everything in one kind of
exception: a full disk must be waited out, never repaired.
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

PROBE = 65_536  # bytes
ROOM = 1_048_576
SPARE_FILES = 8  # that one call may open

FULL = StoreError(
    "The disk is full.",
    code="store_full",
    hint="Free some space; reading goes on, and writing as soon as there is room.",
)
READ_ONLY = StoreError(
    "The data directory cannot be written.",
    code="store_unwritable",
    hint="Check that the disk is mounted for writing and that the directory is yours.",
)
FILES = StoreError(
    "The limit of open files is reached.",
    code="store_files",
    hint="Raise it (ulimit -n), or close connections.",
)
FAULT = StoreError(
    "The disk does not take what is written.",
    code="store_disk",
    hint="Look for the disk's errors in the system's log, and for limits on file sizes.",
)
SAID = {
    "disk is full": FULL,
    "no space left": FULL,
    "disk quota exceeded": FULL,
    "readonly database": READ_ONLY,
    "read-only file system": READ_ONLY,
    "permission denied": READ_ONLY,
    "too many open files": FILES,
    "unable to open database file": FILES,
    "disk i/o error": FAULT,
    "file too large": FAULT,
}
DAMAGED = ("malformed", "file is not a database")
NUMBERS = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EROFS: READ_ONLY,
    errno.EACCES: READ_ONLY,
    errno.EPERM: READ_ONLY,
    errno.EMFILE: FILES,
    errno.ENFILE: FILES,
    errno.EFBIG: FAULT,
    errno.EIO: FAULT,
}


def disk_trouble(exc: BaseException) -> StoreError | None:
    """The error to show if the disk is to blame; None if it is something else."""
    known = NUMBERS.get(exc.errno or 0) if isinstance(exc, OSError) else None
    text = f"{exc} {exc.__cause__ or ''}".lower()  # errors of ours do not repeat the words
    known = known or next((error for said, error in SAID.items() if said in text), None)
    return StoreError(known.message, code=known.code, hint=known.hint) if known else None


def says_damaged(exc: BaseException) -> bool:
    """Whether SQLite says that the database itself is damaged."""
    text = f"{exc} {exc.__cause__ or ''}".lower()
    return any(said in text for said in DAMAGED)


def denied(exc: OSError) -> StoreError | None:
    """What to say where the system refused a file, by its name; None if that is not it."""
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
    """Raise StoreError for the first file of a store that we may not read and write. Chroma says
    of such a file that the store is broken, which it is not."""
    for path in (folder, *sorted(folder.rglob("*"))):
        mode = os.R_OK | os.W_OK | (os.X_OK if path.is_dir() else 0)
        if not os.access(path, mode):
            refused = PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            raise denied(refused) or READ_ONLY


def shortage(folder: Path, room: int = 0) -> StoreError | None:
    """What a write to this store would run out of, seen before it begins: Chroma that meets a
    full disk in the middle has committed what it then calls failed. Takes microseconds.

    It writes its index anew each time, so it needs as much room again; `room` is for the rest.
    """
    index = sum(file.stat().st_size for file in folder.glob("store/*/*"))
    if shutil.disk_usage(folder).free < index + max(room, ROOM):
        return FULL
    if hasattr(os, "statvfs") and os.statvfs(folder).f_flag & os.ST_RDONLY:
        return READ_ONLY
    if sys.platform == "linux":
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if len(os.listdir("/proc/self/fd")) + SPARE_FILES > most:
            return FILES
    return None


def disk_refuses(folder: Path) -> StoreError | None:
    """What is wrong with the disk, found by trying: Chroma's words do not always tell."""
    place = folder / "probe"
    try:
        if trouble := shortage(folder):
            return trouble
        with os.fdopen(files.open_anew(place), "wb") as file:
            file.write(bytes(PROBE))
            file.flush()
            os.fsync(file.fileno())
        place.unlink()
    except OSError as exc:
        with contextlib.suppress(OSError):
            place.unlink(missing_ok=True)
        return disk_trouble(exc)
    return None


def translated(exc: Exception, folder: Path | None = None) -> MemorydError:
    """Any exception as an error of ours, told apart by its words, which are never repeated: they
    can quote a memory. With a folder the disk under it is tried, if the words do not tell."""
    if isinstance(exc, MemorydError):
        return exc
    kind = StoreUnavailable if type(exc).__module__.startswith("httpx") else StoreError
    said = f"The store failed with {type(exc).__name__}."
    return _named(disk_trouble(exc), folder) or kind(said)


def _named(trouble: StoreError | None, folder: Path | None) -> StoreError | None:
    """A fault of the disk can be told better by trying it."""
    if folder is None or (trouble is not None and trouble.code != FAULT.code):
        return trouble
    return disk_refuses(folder) or trouble
