"""Single keys from the terminal, without Enter."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from memoryd.errors import InvalidInput

ESCAPE = "\x1b"
END = ""  # the key of a terminal that was closed
READ_BYTES = 32  # more than the longest sequence of one key


def can_read_keys() -> bool:
    """Whether a person sits at stdin and stdout, on a system with this kind of terminal."""
    return sys.platform != "win32" and sys.stdin.isatty() and sys.stdout.isatty()


class Keys:
    """`with Keys() as keys: key = await keys.next(1.0)`. Restores the terminal at the end."""

    def __init__(self) -> None:
        if not can_read_keys():
            raise InvalidInput("There is no terminal to read keys from.", code="terminal_missing")
        self._handle = sys.stdin.fileno()
        self._before: list[Any] = []
        self._pressed: deque[str] = deque()  # keys that came together with an earlier one

    def __enter__(self) -> Keys:
        import termios
        import tty

        self._before = termios.tcgetattr(self._handle)
        tty.setcbreak(self._handle)  # Ctrl-C stays a signal
        return self

    def __exit__(self, *exc: object) -> None:
        import termios

        # Keys that were typed ahead are dropped: the shell must not run them.
        termios.tcsetattr(self._handle, termios.TCSAFLUSH, self._before)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """The terminal as it was, for another program inside the block."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

    async def next(self, seconds: float | None = None) -> str | None:
        """The next key; None after so many seconds, END if the terminal was closed."""
        if self._pressed:
            return self._pressed.popleft()
        loop = asyncio.get_running_loop()
        pressed: asyncio.Future[str] = loop.create_future()
        loop.add_reader(self._handle, self._read, pressed)
        try:
            return await asyncio.wait_for(pressed, seconds)
        except TimeoutError:
            return None
        finally:
            loop.remove_reader(self._handle)

    def _read(self, pressed: asyncio.Future[str]) -> None:
        if pressed.done():
            return
        try:
            found = os.read(self._handle, READ_BYTES)
        except OSError:  # the terminal is gone
            found = b""
        text = found.decode(errors="replace")
        if text.startswith(ESCAPE):  # a special key sends several characters
            pressed.set_result(text)
        else:
            pressed.set_result(text[:1])
            self._pressed.extend(text[1:])
