"""Whether the files that Chroma has open are still those at their paths.

A process can go on writing to an open file that was deleted or moved, and what it writes is lost
when it ends: so this is checked before a write is acknowledged. Takes less than a millisecond.
"""

from __future__ import annotations

import os
from pathlib import Path

from memoryd.adapters.chroma.sqlite_read import DATABASE
from memoryd.adapters.chroma.swap import command
from memoryd.errors import StoreError

LOG = f"{DATABASE}-wal"  # the write-ahead log: SQLite commits to it first
DELETED = " (deleted)"  # Linux appends this to the name of an open file that was deleted


class OpenFiles:
    """The store's files as they were when it was opened."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._deleted_log = f"{folder.resolve() / LOG}{DELETED}"
        self._known = _identity(folder / DATABASE)

    @property
    def are_in_place(self) -> bool:
        return _identity(self._folder / DATABASE) == self._known and not self._log_is_deleted()

    def check(self) -> None:
        """Raise `store_gone` unless all of them are in their place."""
        if not self.are_in_place:
            raise store_gone_error(self._folder)

    def _log_is_deleted(self) -> bool:
        try:
            handles = os.listdir("/proc/self/fd")
        except OSError:  # not Linux
            return False
        return any(_target(handle) == self._deleted_log for handle in handles)


def store_gone_error(folder: Path) -> StoreError:
    """The error to answer every write with."""
    return StoreError(
        f"The store's files in {folder} were deleted, moved or replaced while the daemon has them "
        "open. Nothing can be stored or forgotten.",
        code="store_gone",
        hint=rescue_hint(folder.parent),
    )


def rescue_hint(data_dir: Path) -> str:
    """The hint while the daemon still has all memories in RAM, but no working store."""
    return (
        "Put them back as they were, or do not stop the daemon and run: "
        f"{command(data_dir, 'rescue')}. It writes everything that the daemon still holds to a "
        "backup and to a new store."
    )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _target(handle: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{handle}")
    except OSError:  # closed meanwhile
        return ""
