"""Whether the files that Chroma has open are still those at their path.

A file that is deleted or moved stays usable for who has it open, and whatever is written to it is
gone with the process: so this is looked at before a write is acknowledged.
Takes less than a millisecond.
"""

from __future__ import annotations

import os
from pathlib import Path

from memoryd.adapters.chroma.sqlite_read import DATABASE
from memoryd.adapters.chroma.swap import command
from memoryd.errors import StoreError

LOG = f"{DATABASE}-wal"  # where SQLite commits to first
DELETED = " (deleted)"  # as Linux marks the name of an open file that has none any more


class OpenFiles:
    """The store's files as they were when it was opened."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._deleted_log = f"{folder.resolve() / LOG}{DELETED}"
        self._known = _identity(folder / DATABASE)

    @property
    def are_there(self) -> bool:
        return _identity(self._folder / DATABASE) == self._known and not self._log_is_deleted()

    def check(self) -> None:
        """Raise `store_gone` unless they are all in their place."""
        if not self.are_there:
            raise gone(self._folder)

    def _log_is_deleted(self) -> bool:
        try:
            handles = os.listdir("/proc/self/fd")
        except OSError:  # a system that does not tell
            return False
        return any(_target(handle) == self._deleted_log for handle in handles)


def gone(folder: Path) -> StoreError:
    """The error to answer every write with."""
    return StoreError(
        f"The store's files in {folder} were deleted, moved or replaced while the daemon has them "
        "open. Nothing can be stored or forgotten.",
        code="store_gone",
        hint=rescue_hint(folder.parent),
    )


def rescue_hint(data_dir: Path) -> str:
    """What to do while a daemon still has all memories in RAM, but no store that works."""
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
