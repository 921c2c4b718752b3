"""Owning a data directory: the lock, and the record of where its daemon listens.

Imports little, so that a second daemon is refused before it has loaded anything.
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
from memoryd.daemon_record import LISTENING, LOCK, MANAGED, STARTING, Record
from memoryd.errors import MemorydError, StoreBusy, StoreError
from memoryd.permissions import data_faults, refuse
from memoryd.places import absolute, try_lock

# Somebody who looks whether a lock is held has it for a moment.
TRIES, PAUSE = 3, 0.02


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
        """A daemon comes up: who looks for it shall wait. With a log it was started in the
        background, by somebody who reads what it says first."""
        self._log = str(absolute(log)) if log else ""
        self._announce = log is not None
        daemon_record.write(self._record(os.getpid(), STARTING))

    def listening(self, socket: str, *, managed: bool) -> None:
        """It listens, on a socket of the service manager if `managed`."""
        self._socket, self._managed = socket, managed
        told = self._record(os.getpid(), LISTENING)
        daemon_record.write(told)
        if self._announce:
            announce(told)

    def stopping(self) -> None:
        """It listens no more; where the service manager does, that is still the place."""
        if self._managed:
            daemon_record.write(self._record(0, MANAGED))
        else:
            daemon_record.remove(self.data_dir)

    def is_in_place(self) -> bool:
        """Whether the lock that we hold is the one at its path: it is not once the directory was
        moved or deleted."""
        try:
            return os.path.samestat(os.fstat(self._handle), os.stat(self.data_dir / LOCK))
        except OSError:
            return False

    def reclaim(self) -> None:
        """Own the place again from which the directory was moved or deleted. StoreBusy if another
        process has it by now, StoreError if it cannot be used."""
        handle = _take(self.data_dir)
        self.close()
        self._handle = handle
        daemon_record.write(self._record(os.getpid(), LISTENING))

    def close(self) -> None:
        os.close(self._handle)

    def _record(self, pid: int, state: str) -> Record:
        return Record(pid, self._socket, str(self.data_dir), state, self._log, __version__)


@contextmanager
def own(data_dir: Path) -> Iterator[Owner]:
    """Be the only process that uses this directory inside the block; StoreBusy if there is
    another, UnsafeFiles if others can reach it."""
    owner = Owner(data_dir, _take(data_dir))
    try:
        daemon_record.remove(data_dir)  # of one that was killed
        yield owner
    finally:
        owner.close()


def _take(data_dir: Path) -> int:
    """The handle of the lock, held."""
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
    if not _locked(handle):
        who = os.pread(handle, 20, 0)
        os.close(handle)
        raise StoreBusy(_busy(data_dir, who))
    os.ftruncate(handle, 0)
    os.pwrite(handle, str(os.getpid()).encode(), 0)
    return handle


def announce(told: Record) -> None:
    """Tell whoever started us where the daemon is, and that nobody need wait for us."""
    sys.stderr.write(told.line())
    sys.stderr.flush()
    if sys.platform != "win32":
        import fcntl

        # The file that takes our first words is locked until now: one start at a time.
        with contextlib.suppress(OSError):
            fcntl.flock(sys.stderr.fileno(), fcntl.LOCK_UN)


def say(exc: MemorydError) -> None:
    """Why there will be no daemon."""
    hint = exc.hint.removeprefix("Run: ")
    sys.stderr.write(f"Error: {exc.message}\n" + (f"Try: {hint}\n" if hint else ""))


def _locked(handle: int) -> bool:
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE)
        if try_lock(handle):
            return True
    return False


def _busy(data_dir: Path, pid: bytes) -> str:
    who = pid.decode(errors="replace").strip() or "unknown"
    told = daemon_record.read(data_dir)
    where = f", at {told.socket}" if told and told.state == LISTENING else ""
    return f"Another memoryd (process {who}) already serves {data_dir}{where}."
