"""Keeps a connection to the daemon: finds it, greets it, comes back to it."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from memoryd.client.errors import GreetingLost
from memoryd.client.wire import LONGEST_LINE, Wire
from memoryd.errors import DaemonUnavailable, DaemonUnreachable
from memoryd.launch.start import Finder

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5  # seconds between two tries
RECONNECT = 10.0  # seconds for a daemon that was there to come back
GREETING = 30.0  # seconds for the handshake, if a daemon may first have to be started for it
PROMPT_GREETING = 10.0  # of one that listens: it waits neither for the store nor for the model
GREETINGS = 3  # so many connections in a row may end before the greeting is answered


class RemoteDoor(NamedTuple):
    """A daemon at a TCP port, with the token that it wants to see first."""

    host: str
    port: int
    token: str | None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Link:
    """One connection at a time, made when it is needed."""

    def __init__(self, door: Finder | RemoteDoor) -> None:
        self._door = door
        self._making = asyncio.Lock()
        self._wire: Wire | None = None

    async def wire(self) -> Wire:
        """A connection that is up. DaemonUnavailable if there is no daemon, at once for the
        first one; one that was there is waited for."""
        async with self._making:
            if self._wire is None:
                self._wire = await self._connect()
            elif self._wire.lost:
                await self._wire.close()
                self._wire = await self._again()
            return self._wire

    async def close(self) -> None:
        if self._wire is not None:
            await self._wire.close()

    async def _again(self) -> Wire:
        if isinstance(self._door, Finder) and self._door.may_start:
            return await self._connect()
        until, pause = time.monotonic() + RECONNECT, FIRST_PAUSE
        while True:
            try:
                return await self._connect()
            except DaemonUnavailable:
                if time.monotonic() + pause > until:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _connect(self) -> Wire:
        """Connect and greet."""
        if isinstance(self._door, RemoteDoor):
            return await self._remote(self._door)
        for attempt in range(1, GREETINGS):
            try:
                return await self._local(self._door)
            except GreetingLost:
                await asyncio.sleep(FIRST_PAUSE * attempt)
        return await self._local(self._door)

    async def _local(self, finder: Finder) -> Wire:
        """The daemon of this machine, started if that is allowed."""
        finder.begin(time.monotonic())
        sock = finder.attempt(time.monotonic())
        while sock is None:
            await asyncio.sleep(max(0.0, finder.next_try - time.monotonic()))
            sock = finder.attempt(time.monotonic())
        streams = await asyncio.open_connection(sock=sock, limit=LONGEST_LINE)
        return await self._greeted(Wire(*streams), str(finder.socket))

    async def _remote(self, door: RemoteDoor) -> Wire:
        try:
            async with asyncio.timeout(GREETING):
                streams = await asyncio.open_connection(door.host, door.port, limit=LONGEST_LINE)
        except OSError as exc:
            missing = isinstance(exc, ConnectionRefusedError)
            reason = "" if missing else f" ({exc or type(exc).__name__})"
            raise DaemonUnavailable(f"No memoryd answers at {door}{reason}.") from exc
        return await self._greeted(Wire(*streams), str(door))

    async def _greeted(self, wire: Wire, where: str) -> Wire:
        """The connection after its handshake; closed if that fails."""
        door = self._door
        pid = None if isinstance(door, RemoteDoor) else door.listener()
        patience = PROMPT_GREETING if pid else GREETING
        try:
            async with asyncio.timeout(patience):
                if isinstance(door, RemoteDoor):
                    await wire.greet(door.token)
                else:
                    await wire.greet(data_dir=door.target.expected)
            return wire
        except TimeoutError as exc:
            await wire.close()
            who = f"Process {pid}" if pid else "Somebody"
            raise DaemonUnreachable(
                f"{who} listens at {where}, but has not answered for {patience:g} seconds.",
                hint=f"If it hangs, end it: kill -KILL {pid}" if pid else "Look at its log.",
            ) from exc
        except BaseException:
            await wire.close()
            raise
