"""Finding the daemon, and starting it where nobody listens.

Twenty shims may start at once. The daemon's own lock decides who serves; but twenty interpreters
that start only to learn this would slow down the one that matters. So the file that takes a
daemon's first words is locked by the shim that starts it and inherited by the daemon: while it is
locked somebody's daemon is on its way, and the others wait. The kernel frees it with the process.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from memoryd import places
from memoryd.errors import MemorydError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable, Mapping

FIRST_DELAY, LONGEST_DELAY = 0.005, 0.1
GIVE_UP = 30.0
INSIST = 5.0  # so long may another's start take before we start one too
AGAIN = 1.0  # a daemon that met another's lock: that one may be on its way out
TAKEN = 3  # how `memoryd serve` exits when another daemon has the data directory
FLAGS = {
    "--data-dir": "MEMORYD_DATA_DIR",
    "--socket": "MEMORYD_SOCKET",
    "--config": "MEMORYD_CONFIG",
}


class DaemonUnavailable(MemorydError):
    """No daemon listens and none could be started; the message says why and where the log is."""

    code = "daemon_unavailable"
    hint = "Run: memoryd serve"


class Finder:
    """Tries to connect, again and again, without ever blocking."""

    def __init__(self, given: dict[str, str], serve: list[str] | None = None) -> None:
        data = given.get("--data-dir")
        self.log = places.log_path(data, given.get("--socket"))
        self.next_try = 0.0
        self._socket = places.socket_path(given.get("--socket"), data)
        self._words = self.log.with_suffix(".start")
        self._words_from = 0
        self._given = given
        self._serve = serve or [sys.executable, "-P", "-m", "memoryd", "serve"]
        self._child: subprocess.Popen[bytes] | None = None  # on its way, as far as we know
        self._children: list[subprocess.Popen[bytes]] = []

    def begin(self, now: float) -> None:
        """Start looking."""
        self.next_try = self._start_at = now
        self._delay = FIRST_DELAY
        self._insist_at, self._give_up_at = now + INSIST, now + GIVE_UP

    def attempt(self, now: float) -> socket.socket | None:
        """A connection, or None: try again at `next_try`. Raises DaemonUnavailable."""
        listening, found = self._connect()
        if found is not None:
            self._child = None  # however it ends from now on, it has started
            return found
        self._look_at_child(now)
        if not listening and self._child is None and now >= self._start_at:
            self._start(now)
        if now >= self._give_up_at:
            raise self.unavailable(f"did not accept a connection in {GIVE_UP:.0f} s")
        self.next_try = now + self._delay
        self._delay = min(2 * self._delay, LONGEST_DELAY)
        return None

    def unavailable(self, why: str) -> DaemonUnavailable:
        """The error with the place to look at."""
        return DaemonUnavailable(f"The memory daemon {why}. Log: {self.log} and {self._words}")

    def _connect(self) -> tuple[bool, socket.socket | None]:
        """Whether somebody listens, and the connection if there was room for it."""
        link = socket.socket(socket.AF_UNIX if places.HAS_UNIX_SOCKETS else socket.AF_INET)
        try:
            if found := places.loopback(self._socket):
                link.connect((places.LOOPBACK, found[0]))
                link.sendall(found[1].encode() + b"\n")
            link.setblocking(False)
            if not found:
                link.connect(str(self._socket))
        except BlockingIOError:  # the queue of those who wait to be accepted is full
            link.close()
            return True, None
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError):
            link.close()
            return False, None
        except OSError as exc:
            link.close()
            raise self.unavailable(f"cannot be reached at {self._socket}: {exc}") from exc
        return True, link

    def _look_at_child(self, now: float) -> None:
        code = None if self._child is None else self._child.poll()
        if code is None:
            return
        self._child = None
        if code not in (0, TAKEN):
            raise self.unavailable(f"could not start (exit code {code}){self._last_words()}")
        self._start_at = now + AGAIN

    def _start(self, now: float) -> None:
        """Start a daemon that outlives us, unless one is already on its way."""
        try:
            make_private(self.log.parent)
            words = os.open(self._words, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
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
        # Imported late: they cost what the rest of the shim costs, and most shims find a daemon.
        import signal
        import subprocess

        self._words_from = os.fstat(words).st_size
        signal.signal(signal.SIGCHLD, lambda *_: self._reap())
        try:
            self._child = subprocess.Popen(
                [*self._serve, "--log-file", str(self.log), *self._flags()],
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                cwd="/",  # it must not hold the client's directory
                env=os.environ | self._absolute(os.environ, FLAGS.values()),
                start_new_session=True,
            )
        except OSError as exc:
            raise self.unavailable(f"could not start: {exc}") from exc
        self._children.append(self._child)

    def _reap(self) -> None:
        """No zombie stays, even when the daemon ends long after we found it."""
        self._children = [child for child in self._children if child.poll() is None]

    def _flags(self) -> list[str]:
        absolute = self._absolute(self._given, FLAGS)
        return [word for flag in absolute.items() for word in flag]

    def _absolute(self, values: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
        """Paths that mean the same in another working directory."""
        return {
            name: str(Path(values[name]).expanduser().absolute())
            for name in names
            if values.get(name)
        }

    def _last_words(self) -> str:
        """The line of a daemon's first output that says most about its end, or nothing."""
        try:
            with open(self._words, "rb") as words:
                words.seek(max(self._words_from, words.seek(0, os.SEEK_END) - 16_384))
                said = words.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        lines = [line.strip() for line in said if line.strip()]
        blamed = [line for line in lines if line.startswith("Error:")] or lines
        advice = [f" {line[:300]}" for line in lines if line.startswith("Try:")][-1:]
        return f": {blamed[-1][:300]}{''.join(advice)}" if blamed else ""


def make_private(folder: Path) -> None:
    """Make a directory and its missing parents, for us alone."""
    if folder.is_dir():
        return
    make_private(folder.parent)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not folder.is_dir():  # else another shim was quicker
            raise NotADirectoryError(f"not a directory: {folder}") from None
