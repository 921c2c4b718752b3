"""Find the daemon, and start it if none runs. Shim, client and command line all do it this way.

Twenty clients may look for it at once. The lock of the data directory decides which daemon
serves; but twenty interpreters that start only to be refused would slow down the one that serves.
So whoever starts a daemon locks the file for its startup output, and the lock is held until the
daemon listens: while it is locked a daemon is starting, and the others wait.

A daemon is started only if no process holds the data directory. If one does and cannot be
reached, starting another would not help: DaemonUnreachable says why.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from memoryd import daemon_record, files, places
from memoryd.daemon_record import LISTENING, STARTING, Record
from memoryd.errors import DaemonNotStarted, DaemonUnavailable, DaemonUnreachable
from memoryd.launch.target import PATH_VARIABLES, Target

if TYPE_CHECKING:
    import subprocess

FIRST_RETRY_DELAY, MAX_RETRY_DELAY = 0.005, 0.1  # seconds between two attempts to connect
LISTEN_TIMEOUT = 30.0  # seconds for a daemon to listen
OTHER_START_TIMEOUT = 5.0  # seconds for a start by another client before we start one too
RESTART_DELAY = 1.0  # seconds after a start that was refused: the other daemon may be stopping
MAX_STARTS = 3
SOCKET_TIMEOUT = 1.0  # seconds to connect to a daemon whose record says that it listens
STOP_TIMEOUT = 12.0  # seconds for a process that holds the directory but does not listen
EXIT_DATA_DIR_TAKEN = 3  # exit code of `memoryd serve` if another daemon has the data directory

# The daemons that this process started, to reap each when it ends.
_children: list[subprocess.Popen[bytes]] = []


def reap() -> None:
    """Reap the daemons of ours that have ended, so that none is left as a zombie."""
    _children[:] = [child for child in _children if child.poll() is None]


class Finder:
    """Connects to the daemon in repeated attempts, none of which blocks."""

    def __init__(
        self, target: Target, serve: list[str] | None = None, *, start: bool = True
    ) -> None:
        self.target = target
        self.next_try = 0.0
        self.socket: Path | None = None  # where we connected
        self.may_start = start
        # -P: a file in the working directory must not be imported instead of a module.
        self._serve = serve or [sys.executable, "-P", "-m", "memoryd", "serve"]
        self._startup_file = target.startup_file
        self._startup_offset = 0
        self._child: subprocess.Popen[bytes] | None = None  # started by us, not yet connected

    def begin(self, now: float) -> None:
        """Start a new series of attempts."""
        self.next_try = self._start_at = now
        self._delay = FIRST_RETRY_DELAY
        self._start_anyway_at, self._give_up_at = now + OTHER_START_TIMEOUT, now + LISTEN_TIMEOUT
        self._starts = 0
        self._announced: Record | None = None  # by a daemon that we started
        self._holder: tuple[int, str] | None = None  # pid and state of who has the directory
        self._holder_since = now

    def attempt(self, now: float) -> socket.socket | None:
        """A connection; None: call again at `next_try`. Raises DaemonUnavailable."""
        for path in self._sockets():
            listening, connection = self._connect(path)
            if connection is not None:
                self._child = None  # it has started; its exit code no longer matters
                self.socket = path
                return connection
            if listening:
                break
        else:
            self._check_child(now)
            if self._child is None and now >= self._start_at:
                self._wait_or_start(now)
        if now >= self._give_up_at:
            raise self.unavailable(f"did not accept a connection in {LISTEN_TIMEOUT:.0f} s")
        self.next_try = now + self._delay
        self._delay = min(2 * self._delay, MAX_RETRY_DELAY)
        return None

    def listener(self) -> int | None:
        """The process that listens where we connected; None if the record does not say."""
        known = daemon_record.read(folder) if (folder := self.target.data_dir) else None
        same = known is not None and known.state == LISTENING and known.socket == str(self.socket)
        return known.pid if known and same else None

    def unavailable(self, why: str) -> DaemonUnavailable:
        """The error, with the logs to look at as its hint."""
        hint = f"Look at {self.target.log} and {self._startup_file}"
        return DaemonUnavailable(f"The memory daemon {why}.", hint=hint)

    def _sockets(self) -> list[Path]:
        found = list(self.target.sockets())
        if self._announced and self._announced.socket and self.target.socket is None:
            found.append(Path(self._announced.socket))
        return list(dict.fromkeys(found))

    def _connect(self, path: Path) -> tuple[bool, socket.socket | None]:
        """Whether a process listens, and the connection unless its queue is full."""
        connection = socket.socket(socket.AF_UNIX if places.HAS_UNIX_SOCKETS else socket.AF_INET)
        try:
            if found := places.loopback(path):
                connection.connect((places.LOOPBACK, found[0]))
                connection.sendall(found[1].encode() + b"\n")
            connection.setblocking(False)
            if not found:
                connection.connect(str(path))
                if places.peer_uid(connection) not in (None, os.getuid()):
                    raise PermissionError("it belongs to another user")
        except BlockingIOError:  # the accept queue is full
            connection.close()
            return True, None
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            connection.close()
            return False, None
        except OSError as exc:
            connection.close()
            if self.target.socket is None:  # one of several sockets to try
                return False, None
            raise self.unavailable(f"cannot be reached at {path}: {exc}") from exc
        return True, connection

    def _check_child(self, now: float) -> None:
        if self._child is None:
            return
        code = self._child.poll()
        self._announced = daemon_record.announced(self._startup_output()) or self._announced
        if code is None:
            return
        self._child = None
        if code not in (0, EXIT_DATA_DIR_TAKEN):
            raise self._not_started(code)
        self._start_at = now if self._announced else now + RESTART_DELAY

    def _wait_or_start(self, now: float) -> None:
        """Nothing listens and no daemon of ours is starting: wait for the process that holds the
        directory, or start a daemon."""
        folder = Path(self._announced.data_dir) if self._announced else self.target.data_dir
        pid = daemon_record.lock_holder(folder) if folder else None
        if folder is not None and pid is not None:
            self._wait_for(folder, pid, now)
            return
        self._holder = None
        if not self.may_start:
            raise DaemonUnavailable(f"No memoryd answers at {self.target.place}.")
        if self._starts >= MAX_STARTS:
            raise self._not_started(EXIT_DATA_DIR_TAKEN)
        self._start(now)

    def _wait_for(self, folder: Path, pid: int, now: float) -> None:
        """A process holds the directory; DaemonUnreachable if it has not listened in time."""
        known = daemon_record.read(folder)
        state = known.state if known and known.pid == pid else ""
        if self._holder != (pid, state):
            self._holder, self._holder_since = (pid, state), now
        timeout = {LISTENING: SOCKET_TIMEOUT, STARTING: LISTEN_TIMEOUT}.get(state, STOP_TIMEOUT)
        if now < min(self._holder_since + timeout, self._give_up_at):
            return
        who = f"Process {pid or '(unknown)'}"
        if known is None or state not in (LISTENING, STARTING):
            what = f"{who} uses {folder} and does not listen for clients"
        elif state == STARTING:
            what = f"{who} has been starting to serve {folder} for {LISTEN_TIMEOUT:.0f} seconds"
        elif self.target.socket not in (None, Path(known.socket)):
            what = f"{who} serves {folder} at {known.socket}, not at {self.target.socket}"
        else:
            what = f"{who} serves {folder}, but nothing answers at its socket {known.socket}"
        hint = f"If it should not run, end it: kill {pid}" if pid else ""
        raise DaemonUnreachable(f"{what}.", hint=hint or f"Look at {self.target.log}")

    def _start(self, now: float) -> None:
        """Start a daemon that outlives us, unless another client is starting one."""
        self._startup_file = self.target.startup_file
        try:
            places.make_private(self._startup_file.parent)
            places.make_private(self.target.log.parent)
            handle = _open_startup_file(self._startup_file)
        except OSError as exc:
            raise self.unavailable(f"could not start: {exc}") from exc
        try:
            if places.try_lock(handle):
                os.ftruncate(handle, 0)
            elif now < self._start_anyway_at:
                return
            self._spawn(handle)
        finally:
            os.close(handle)

    def _spawn(self, handle: int) -> None:
        import subprocess  # late: importing it takes as long as the rest of the shim

        reap()
        self._startup_offset = os.fstat(handle).st_size
        self._starts += 1
        flags = [word for flag in self.target.given.items() for word in flag]
        paths = {name: os.environ[name] for name in PATH_VARIABLES if os.environ.get(name)}
        places_named = {name: str(places.absolute(path)) for name, path in paths.items()}
        try:
            self._child = subprocess.Popen(
                [*self._serve, "--log-file", str(self.target.log), *flags],
                stdin=subprocess.DEVNULL,
                stdout=handle,
                stderr=handle,
                cwd="/",  # it must not keep our working directory in use
                env=os.environ | places_named | self.target.variables,
                start_new_session=True,
            )
        except OSError as exc:
            raise self.unavailable(f"could not start: {exc}") from exc
        _children.append(self._child)

    def _not_started(self, code: int) -> DaemonNotStarted:
        """Why the daemon ended, from its startup output."""
        said = [line.strip() for line in self._startup_output().split("\n") if line.strip()]
        said = [line for line in said if not line.startswith(daemon_record.ANNOUNCEMENT)]
        blamed = [line for line in said if line.startswith("Error:")] or said
        advice = [line.removeprefix("Try: ")[:300] for line in said if line.startswith("Try: ")]
        reason = blamed[-1].removeprefix("Error: ")[:300] if blamed else f"exit code {code}"
        look = f"Look at {self.target.log} and {self._startup_file}"
        return DaemonNotStarted(
            f"The memory daemon could not start: {reason}", hint=advice[-1] if advice else look
        )

    def _startup_output(self) -> str:
        """The end of what the daemon that we started wrote; "" if it cannot be read."""
        with (
            contextlib.suppress(OSError),
            os.fdopen(files.open_file(self._startup_file, os.O_RDONLY), "rb") as file,
        ):
            file.seek(max(self._startup_offset, file.seek(0, os.SEEK_END) - 16_384))
            return file.read().decode(errors="replace")
        return ""


def _open_startup_file(path: Path) -> int:
    """Open the file for a daemon's startup output. PermissionError if others can write to it."""
    handle = files.open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    if daemon_record.is_private(os.fstat(handle)):
        return handle
    os.close(handle)
    raise PermissionError(f"other users can write to {path}")
