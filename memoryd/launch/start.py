"""Finding the daemon, and starting it where none runs: the one way of shim, client and CLI.

Twenty may look for it at once. The lock of the data directory decides who serves; but twenty
interpreters that start only to learn this would slow down the one that matters. So the file that
takes a daemon's first words is locked by whoever starts it, and stays locked until the daemon
listens: while it is locked a daemon is on its way, and the others wait.

A daemon is started only if nobody holds the data directory. If somebody does and cannot be
reached, starting another would not help, so the reason is told instead.
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

FIRST_DELAY, LONGEST_DELAY = 0.005, 0.1
GIVE_UP = 30.0  # seconds for a daemon to listen
INSIST = 5.0  # so long may another's start take before we start one too
AGAIN = 1.0  # after a start that was refused: the other daemon may be on its way out
MOST_STARTS = 3
UNREACHABLE = 1.0  # seconds for the socket of a daemon that says it listens
ENDING = 12.0  # seconds for a process that holds the directory without listening: it is ending
TAKEN = 3  # how `memoryd serve` exits when another has the data directory

# Daemons that this process started: an ended one is reaped, not left as a zombie.
_children: list[subprocess.Popen[bytes]] = []


def reap() -> None:
    """Collect the daemons of ours that have ended."""
    _children[:] = [child for child in _children if child.poll() is None]


class Finder:
    """Tries to connect, again and again, without ever blocking."""

    def __init__(
        self, target: Target, serve: list[str] | None = None, *, start: bool = True
    ) -> None:
        self.target = target
        self.next_try = 0.0
        self.socket: Path | None = None  # where it was found
        self.may_start = start
        # -P: a file in the working directory must not take the place of a module.
        self._serve = serve or [sys.executable, "-P", "-m", "memoryd", "serve"]
        self._words = target.words
        self._words_from = 0
        self._child: subprocess.Popen[bytes] | None = None  # on its way, as far as we know

    def begin(self, now: float) -> None:
        """Start looking."""
        self.next_try = self._start_at = now
        self._delay = FIRST_DELAY
        self._insist_at, self._give_up_at = now + INSIST, now + GIVE_UP
        self._starts = 0
        self._led: Record | None = None  # what a daemon that we started told us
        self._holder: tuple[int, str] | None = None  # who has the directory, and its state
        self._holder_since = now

    def attempt(self, now: float) -> socket.socket | None:
        """A connection, or None: try again at `next_try`. Raises DaemonUnavailable."""
        for path in self._places():
            listening, link = self._connect(path)
            if link is not None:
                self._child = None  # however it ends from now on, it has started
                self.socket = path
                return link
            if listening:
                break
        else:
            self._look_at_child(now)
            if self._child is None and now >= self._start_at:
                self._go_on(now)
        if now >= self._give_up_at:
            raise self.unavailable(f"did not accept a connection in {GIVE_UP:.0f} s")
        self.next_try = now + self._delay
        self._delay = min(2 * self._delay, LONGEST_DELAY)
        return None

    def listener(self) -> int | None:
        """The process that listens where we connected, as far as the record tells."""
        known = daemon_record.read(folder) if (folder := self.target.data_dir) else None
        same = known is not None and known.state == LISTENING and known.socket == str(self.socket)
        return known.pid if known and same else None

    def unavailable(self, why: str) -> DaemonUnavailable:
        """The error with the place to look at."""
        hint = f"Look at {self.target.log} and {self._words}"
        return DaemonUnavailable(f"The memory daemon {why}.", hint=hint)

    def _places(self) -> list[Path]:
        found = list(self.target.sockets())
        if self._led and self._led.socket and self.target.socket is None:
            found.append(Path(self._led.socket))
        return list(dict.fromkeys(found))

    def _connect(self, path: Path) -> tuple[bool, socket.socket | None]:
        """Whether somebody listens, and the connection if there was room for it."""
        link = socket.socket(socket.AF_UNIX if places.HAS_UNIX_SOCKETS else socket.AF_INET)
        try:
            if found := places.loopback(path):
                link.connect((places.LOOPBACK, found[0]))
                link.sendall(found[1].encode() + b"\n")
            link.setblocking(False)
            if not found:
                link.connect(str(path))
                if places.peer_uid(link) not in (None, os.getuid()):
                    raise PermissionError("it belongs to another user")
        except BlockingIOError:  # the queue of those who wait to be accepted is full
            link.close()
            return True, None
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            link.close()
            return False, None
        except OSError as exc:
            link.close()
            if self.target.socket is None:  # one place of several
                return False, None
            raise self.unavailable(f"cannot be reached at {path}: {exc}") from exc
        return True, link

    def _look_at_child(self, now: float) -> None:
        if self._child is None:
            return
        code = self._child.poll()
        self._led = daemon_record.announced(self._said()) or self._led
        if code is None:
            return
        self._child = None
        if code not in (0, TAKEN):
            raise self._not_started(code)
        self._start_at = now if self._led else now + AGAIN

    def _go_on(self, now: float) -> None:
        """Nobody listens and no daemon of ours is on its way: wait for the one that holds the
        directory, or start one."""
        folder = Path(self._led.data_dir) if self._led else self.target.data_dir
        pid = daemon_record.lock_holder(folder) if folder else None
        if folder is not None and pid is not None:
            self._wait_for(folder, pid, now)
            return
        self._holder = None
        if not self.may_start:
            raise DaemonUnavailable(f"No memoryd answers at {self.target.place}.")
        if self._starts >= MOST_STARTS:
            raise self._not_started(TAKEN)
        self._start(now)

    def _wait_for(self, folder: Path, pid: int, now: float) -> None:
        """Somebody holds the directory. Raises DaemonUnavailable when it has had its time."""
        known = daemon_record.read(folder)
        state = known.state if known and known.pid == pid else ""
        if self._holder != (pid, state):
            self._holder, self._holder_since = (pid, state), now
        patience = {LISTENING: UNREACHABLE, STARTING: GIVE_UP}.get(state, ENDING)
        if now < min(self._holder_since + patience, self._give_up_at):
            return
        who = f"Process {pid or '(unknown)'}"
        if known is None or state not in (LISTENING, STARTING):
            what = f"{who} uses {folder} and does not listen for clients"
        elif state == STARTING:
            what = f"{who} has been starting to serve {folder} for {GIVE_UP:.0f} seconds"
        elif self.target.socket not in (None, Path(known.socket)):
            what = f"{who} serves {folder} at {known.socket}, not at {self.target.socket}"
        else:
            what = f"{who} serves {folder}, but nothing answers at its socket {known.socket}"
        hint = f"If it should not run, end it: kill {pid}" if pid else ""
        raise DaemonUnreachable(f"{what}.", hint=hint or f"Look at {self.target.log}")

    def _start(self, now: float) -> None:
        """Start a daemon that outlives us, unless one is already on its way."""
        self._words = self.target.words
        try:
            places.make_private(self._words.parent)
            places.make_private(self.target.log.parent)
            words = _open_words(self._words)
        except OSError as exc:
            raise self.unavailable(f"could not start: {exc}") from exc
        try:
            if places.try_lock(words):
                os.ftruncate(words, 0)
            elif now < self._insist_at:
                return
            self._spawn(words)
        finally:
            os.close(words)

    def _spawn(self, words: int) -> None:
        import subprocess  # late: it costs what the rest of the shim costs

        reap()
        self._words_from = os.fstat(words).st_size
        self._starts += 1
        flags = [word for flag in self.target.given.items() for word in flag]
        paths = {name: os.environ[name] for name in PATH_VARIABLES if os.environ.get(name)}
        try:
            self._child = subprocess.Popen(
                [*self._serve, "--log-file", str(self.target.log), *flags],
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                cwd="/",  # it must not hold the directory that we happen to be in
                env=os.environ | {name: str(places.absolute(p)) for name, p in paths.items()},
                start_new_session=True,
            )
        except OSError as exc:
            raise self.unavailable(f"could not start: {exc}") from exc
        _children.append(self._child)

    def _not_started(self, code: int) -> DaemonNotStarted:
        """Why it ended, as far as its first words tell."""
        said = [line.strip() for line in self._said().split("\n") if line.strip()]
        said = [line for line in said if not line.startswith(daemon_record.ANNOUNCEMENT)]
        blamed = [line for line in said if line.startswith("Error:")] or said
        advice = [line.removeprefix("Try: ")[:300] for line in said if line.startswith("Try: ")]
        reason = blamed[-1].removeprefix("Error: ")[:300] if blamed else f"exit code {code}"
        look = f"Look at {self.target.log} and {self._words}"
        return DaemonNotStarted(
            f"The memory daemon could not start: {reason}", hint=advice[-1] if advice else look
        )

    def _said(self) -> str:
        """What the daemon that we started wrote, at most the end of it."""
        with (
            contextlib.suppress(OSError),
            os.fdopen(files.open_file(self._words, os.O_RDONLY), "rb") as words,
        ):
            words.seek(max(self._words_from, words.seek(0, os.SEEK_END) - 16_384))
            return words.read().decode(errors="replace")
        return ""


def _open_words(path: Path) -> int:
    """Open the file for a daemon's first words, and nothing else that may lie in its place."""
    handle = files.open_file(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    if daemon_record.is_private(os.fstat(handle)):
        return handle
    os.close(handle)
    raise PermissionError(f"{path} is not a file of yours alone")
