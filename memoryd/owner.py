"""Owning a data directory: the lock, and the record of where its daemon listens.

Imports little, so that a second daemon is refused before it loads anything large.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memoryd import __version__, daemon_record, files
from memoryd.daemon_record import JOURNAL, LISTENING, LOCK, MANAGED, STARTING, Record
from memoryd.errors import MemorydError, StoreBusy, StoreError
from memoryd.permissions import data_faults, refuse
from memoryd.places import absolute, try_lock

# A process that checks whether the lock is held takes it for a moment, so try more than once.
LOCK_ATTEMPTS, LOCK_RETRY_DELAY = 3, 0.02


class Owner:
    """The one process that may use a data directory, while it holds the lock."""

    def __init__(self, data_dir: Path, handle: int) -> None:
        self.data_dir = data_dir
        self._handle = handle  # of the lock
        self._log = ""
        self._announce = False
        self._socket = ""
        self._managed = False

    def starting(self, log: Path | None) -> None:
        """Record that a daemon is starting, so that clients wait for it. With a `log` it was
        started in the background, by a process that reads its startup output."""
        self._log = str(absolute(log)) if log else JOURNAL if logs_to_journal() else ""
        self._announce = log is not None
        daemon_record.write(self._record(os.getpid(), STARTING))

    def listening(self, socket: str, *, managed: bool) -> None:
        """Record that it listens. `managed`: on a socket of the service manager."""
        self._socket, self._managed = socket, managed
        record = self._record(os.getpid(), LISTENING)
        daemon_record.write(record)
        if self._announce:
            announce(record)

    def stopping(self) -> None:
        """Remove the record; if the service manager still listens, record that instead."""
        if self._managed:
            daemon_record.write(self._record(0, MANAGED))
        else:
            daemon_record.remove(self.data_dir)

    def is_in_place(self) -> bool:
        """Whether the lock that we hold is still the file at its path; false once the directory
        was moved or deleted."""
        try:
            return os.path.samestat(os.fstat(self._handle), os.stat(self.data_dir / LOCK))
        except OSError:
            return False

    def reclaim(self) -> None:
        """Take the lock at the path again, after the directory was moved or deleted. StoreBusy if
        another process has it by now, StoreError if it cannot be used."""
        handle = _take_lock(self.data_dir)
        self.close()
        self._handle = handle
        daemon_record.write(self._record(os.getpid(), LISTENING))

    def close(self) -> None:
        os.close(self._handle)

    def _record(self, pid: int, state: str) -> Record:
        return Record(pid, self._socket, str(self.data_dir), state, self._log, __version__)


@contextmanager
def own(data_dir: Path) -> Iterator[Owner]:
    """Hold the lock of a data directory inside the block. StoreBusy if another process has it,
    UnsafeFiles if other users can reach the directory, StoreError if it cannot be used."""
    owner = Owner(data_dir, _take_lock(data_dir))
    try:
        daemon_record.remove(data_dir)  # left by a daemon that was killed
        yield owner
    finally:
        owner.close()


def _take_lock(data_dir: Path) -> int:
    """Take the lock; its descriptor."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        refuse(data_faults(data_dir))
        handle = files.open_file(data_dir / LOCK, os.O_RDWR | os.O_CREAT)
    except OSError as exc:
        raise StoreError(
            f"The data directory {data_dir} cannot be used: {exc.strerror}.",
            code="store_unwritable",
            hint="Check that it exists, is yours and is writable, or choose another --data-dir.",
        ) from exc
    if not _try_lock_often(handle):
        who = os.pread(handle, 20, 0)
        os.close(handle)
        raise StoreBusy(_busy_message(data_dir, who))
    os.ftruncate(handle, 0)
    os.pwrite(handle, str(os.getpid()).encode(), 0)
    return handle


def announce(record: Record) -> None:
    """Tell the process that started us where the daemon listens, and unlock the startup file."""
    sys.stderr.write(record.line())
    sys.stderr.flush()
    if sys.platform != "win32":
        import fcntl

        # stderr is the startup file, locked until now so that there is one start at a time.
        with contextlib.suppress(OSError):
            fcntl.flock(sys.stderr.fileno(), fcntl.LOCK_UN)


def logs_to_journal() -> bool:
    """Whether stderr is connected to the journal of systemd, which names its device and inode."""
    try:
        found = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):  # closed, or not a file
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def say(exc: MemorydError) -> None:
    """Write to stderr why the daemon does not start."""
    hint = exc.hint.removeprefix("Run: ")
    sys.stderr.write(f"Error: {exc.message}\n" + (f"Try: {hint}\n" if hint else ""))


def _try_lock_often(handle: int) -> bool:
    for attempt in range(LOCK_ATTEMPTS):
        if attempt:
            time.sleep(LOCK_RETRY_DELAY)
        if try_lock(handle):
            return True
    return False


def _busy_message(data_dir: Path, pid: bytes) -> str:
    who = pid.decode(errors="replace").strip() or "unknown"
    record = daemon_record.read(data_dir)
    where = f", at {record.socket}" if record and record.state == LISTENING else ""
    return f"Another memoryd (process {who}) already serves {data_dir}{where}."
