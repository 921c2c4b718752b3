"""A program on a terminal of its own: typed to, and read as a person would see it."""

from __future__ import annotations

import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Sequence
from fcntl import ioctl
from pathlib import Path
from types import TracebackType

SECONDS = 60.0  # for what is waited for to appear, on a machine however busy


class Terminal:
    """`with Terminal(command, environment) as terminal: terminal.wait("text")`"""

    def __init__(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        *,
        folder: Path | None = None,
        columns: int = 100,
        rows: int = 40,
    ) -> None:
        self.pid, self._handle = pty.fork()
        if not self.pid:
            try:
                if folder is not None:
                    os.chdir(folder)
                os.execvpe(command[0], list(command), environment)
            finally:
                os._exit(127)
        ioctl(self._handle, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.seen = ""  # everything that was printed so far
        self._read_to = 0  # how far `wait` has come in it
        self._is_ended = False

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def type(self, text: str) -> None:
        os.write(self._handle, text.encode())

    def wait(self, text: str) -> None:
        """Read until this appears, after what was waited for before."""
        until = time.monotonic() + SECONDS
        while (at := self.seen.find(text, self._read_to)) < 0:
            assert time.monotonic() < until, self.seen
            assert self._read() or text in self.seen[self._read_to :], self.seen
        self._read_to = at + len(text)

    def is_raw(self) -> bool:
        """Whether a program reads single keys from it."""
        return not termios.tcgetattr(self._handle)[3] & termios.ICANON

    def end(self) -> int:
        """Read until the program has ended; its exit code."""
        while self._read():
            pass
        self._is_ended = True
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self) -> None:
        if not self._is_ended:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self._is_ended = True
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _read(self) -> bool:
        """Read what is there; false if the program has closed the terminal."""
        if not select.select([self._handle], [], [], 1)[0]:
            return True
        try:
            found = os.read(self._handle, 65_536)
        except OSError:  # how Linux says that nobody has it open any more
            return False
        self.seen += found.decode(errors="replace")
        return bool(found)
