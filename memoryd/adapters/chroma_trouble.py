"""What Chroma and SQLite say when the disk is the trouble, as errors of our own.

Told apart from a broken store by their words, for Chroma wraps everything in one kind of
exception: a full disk must be waited out, never repaired.
"""

from __future__ import annotations

import errno

from memoryd.errors import MemorydError, StoreError, StoreUnavailable

FULL = StoreError(
    "The disk is full: nothing was changed.",
    code="store_full",
    hint="Free some space; reading goes on, and writing as soon as there is room.",
)
READ_ONLY = StoreError(
    "The data directory cannot be written: nothing was changed.",
    code="store_unwritable",
    hint="Check that the disk is mounted for writing and that the directory is yours.",
)
FILES = StoreError(
    "The limit of open files is reached: nothing was changed.",
    code="store_files",
    hint="Raise it (ulimit -n), or close connections.",
)
FAULT = StoreError(
    "The disk does not take what is written: nothing was changed.",
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
    text = str(exc).lower()
    known = known or next((error for said, error in SAID.items() if said in text), None)
    return StoreError(known.message, code=known.code, hint=known.hint) if known else None


def translated(exc: Exception) -> MemorydError:
    """Any exception as an error of ours, by its words and never with a traceback."""
    if isinstance(exc, MemorydError):
        return exc
    kind = StoreUnavailable if type(exc).__module__.startswith("httpx") else StoreError
    said = f"The store failed with {type(exc).__name__}: {str(exc)[:200]}"
    return disk_trouble(exc) or kind(said)
