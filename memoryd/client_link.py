"""Keeps a connection to the daemon: finds it, greets it, comes back to it, starts it if asked."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from memoryd import places
from memoryd.client_errors import DaemonNotStarted, DaemonUnavailable
from memoryd.client_wire import LONGEST_LINE, Wire

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5  # seconds between two tries
RECONNECT = 10.0  # seconds for a daemon that was there to come back
START = 30.0  # seconds for a daemon that we started
GREETING = 30.0  # seconds for the handshake, which waits neither for the store nor the model
ALREADY_SERVED = 3  # exit code of a daemon that found another one on its directory
PATH_VARIABLES = ("MEMORYD_DATA_DIR", "MEMORYD_SOCKET", "MEMORYD_CONFIG")

# Held so that an ended daemon is reaped when the next one is started, not when we end.
_started: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, slots=True)
class Address:
    """Where the daemon is: a Unix socket, or a TCP port with a token."""

    socket: Path
    tcp: tuple[str, int] | None = None
    token: str | None = None

    def __str__(self) -> str:
        return f"{self.tcp[0]}:{self.tcp[1]}" if self.tcp else str(self.socket)


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start a daemon: the flags that place it."""

    data_dir: str | None = None
    socket: str | None = None
    config: str | None = None

    @property
    def log(self) -> Path:
        return places.log_path(self.data_dir, self.socket)

    @property
    def words(self) -> Path:
        """Where a daemon's first words go. As long as it lives it holds a lock on the file, so
        that of many who start at once only one starts a daemon; the shim does the same."""
        return self.log.with_suffix(".start")

    def command(self) -> list[str]:
        given = {"--config": self.config, "--data-dir": self.data_dir, "--socket": self.socket}
        flags = [word for flag, path in given.items() if path for word in (flag, _absolute(path))]
        # -P: a file in the working directory must not take the place of a module.
        return [sys.executable, "-P", "-m", "memoryd", "serve", "--log-file", str(self.log), *flags]

    def __call__(self) -> subprocess.Popen[bytes] | None:
        """Start it so that it outlives us and our terminal; None if one is on its way already."""
        _started[:] = [process for process in _started if process.poll() is None]
        try:
            self.words.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(self.words, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as exc:
            raise DaemonNotStarted(f"The daemon cannot have a log: {exc}.") from exc
        try:
            if not places.try_lock(handle):
                return None
            os.ftruncate(handle, 0)
            process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=handle,
                stderr=handle,
                cwd="/",  # it must not hold the directory that we happen to be in
                env=os.environ | {name: _absolute(os.environ[name]) for name in _set_paths()},
                start_new_session=True,
            )
        finally:
            os.close(handle)
        _started.append(process)
        return process

    def failure(self, code: int) -> DaemonNotStarted:
        """Why it ended, as far as its first words tell."""
        said = self.words.read_text(errors="replace").splitlines()
        blamed = [line.removeprefix("Error: ") for line in said if line.startswith("Error: ")]
        advice = [line.removeprefix("Try: ") for line in said if line.startswith("Try: ")]
        reason = blamed[-1] if blamed else f"It ended with exit code {code}."
        look = f"Look at {self.log} and {self.words}"
        return DaemonNotStarted(
            f"The daemon could not start. {reason}", hint=advice[-1] if advice else look
        )


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def _set_paths() -> list[str]:
    return [name for name in PATH_VARIABLES if os.environ.get(name)]


class Link:
    """One connection at a time, made when it is needed."""

    def __init__(self, address: Address, launch: Launch | None = None) -> None:
        self._address = address
        self._launch = launch
        self._making = asyncio.Lock()
        self._wire: Wire | None = None

    async def wire(self) -> Wire:
        """A connection that is up. DaemonUnavailable if there is no daemon, at once for the
        first one; one that was there is waited for."""
        async with self._making:
            if self._wire is None:
                self._wire = await self._first()
            elif self._wire.lost:
                await self._wire.close()
                self._wire = await self._again()
            return self._wire

    async def close(self) -> None:
        if self._wire is not None:
            await self._wire.close()

    async def _first(self) -> Wire:
        try:
            return await self._try()
        except DaemonUnavailable:
            if self._launch is None:
                raise
            return await self._begin(self._launch)

    async def _again(self) -> Wire:
        if self._launch is not None:
            return await self._first()
        return await self._retry(time.monotonic() + RECONNECT, self._try)

    async def _begin(self, launch: Launch) -> Wire:
        """Start a daemon and wait for it, or for the one that was quicker."""
        process = launch()

        async def attempt() -> Wire:
            nonlocal process
            ended = process.poll() if process else 0  # before the try, which then is the last
            try:
                return await self._try()
            except DaemonUnavailable:
                if ended not in (None, 0, ALREADY_SERVED):
                    raise launch.failure(ended) from None
                if ended is not None:  # the other one may be on its way out
                    process = launch()
                raise

        return await self._retry(time.monotonic() + START, attempt)

    async def _retry(self, until: float, attempt: Callable[[], Awaitable[Wire]]) -> Wire:
        pause = FIRST_PAUSE
        while True:
            try:
                return await attempt()
            except DaemonNotStarted:
                raise
            except DaemonUnavailable:
                if time.monotonic() + pause > until:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _try(self) -> Wire:
        """Connect and greet."""
        try:
            async with asyncio.timeout(GREETING):
                streams, token = await self._open()
                wire = Wire(*streams)
                try:
                    await wire.greet(token)
                except BaseException:
                    await wire.close()
                    raise
                return wire
        except OSError as exc:
            missing = isinstance(exc, FileNotFoundError | ConnectionRefusedError)
            reason = "" if missing else f" ({exc or type(exc).__name__})"
            raise DaemonUnavailable(f"No memoryd answers at {self._address}{reason}.") from exc

    async def _open(self) -> tuple[Streams, str | None]:
        """The streams, and the token that the daemon wants to see first."""
        tcp, token = self._address.tcp, self._address.token
        if not tcp and (found := places.loopback(Path(self._address.socket))):
            tcp, token = (places.LOOPBACK, found[0]), found[1]
        if tcp:
            return await asyncio.open_connection(*tcp, limit=LONGEST_LINE), token
        return await asyncio.open_unix_connection(self._address.socket, limit=LONGEST_LINE), token
