"""Keeps a connection to the daemon: finds it, greets it, comes back to it."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from memoryd import __version__
from memoryd.client.errors import DaemonLost, GreetingLost, told
from memoryd.errors import DaemonUnavailable, DaemonUnreachable, InvalidInput
from memoryd.launch.start import Finder

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5  # seconds between two tries
RECONNECT = 10.0  # seconds for a daemon that was there to come back
GREETING = 30.0  # seconds for the handshake, if a daemon may first have to be started for it
PROMPT_GREETING = 10.0  # of one that listens: it waits neither for the store nor for the model
GREETINGS = 3  # so many connections in a row may end before the greeting is answered
Message = dict[str, Any]
PROTOCOL = "2025-11-25"
EXPECT = "notifications/memoryd/expect"  # ours alone, see `doors.expect`
METHOD_UNKNOWN = -32601
DETAILS = "memoryd/error"  # code, message and hint of an error, beside the words for a reader
# A page of a thousand long memories is one line.
LONGEST_LINE = 1 << 30


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


@dataclass(slots=True)
class _Call:
    """A request that waits for its answer."""

    answer: asyncio.Future[Message]
    size: int  # bytes of its line


class Wire:
    """A connection after its handshake. Lost once it ends; a new one is needed then."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1)
        self._calls: dict[int, _Call] = {}
        self._reading = asyncio.create_task(self._read())

    @property
    def lost(self) -> bool:
        return self._reading.done() or self._writer.is_closing()

    async def greet(self, token: str | None = None, data_dir: Path | None = None) -> None:
        """The handshake; GreetingLost if the other side does not take it, WrongDaemon if it
        serves another data directory than the one that is named."""
        if token is not None:
            self._writer.write(token.encode() + b"\n")
        if data_dir is not None:
            named = {"data_dir": str(data_dir)}
            self._writer.write(_line({"method": EXPECT, "params": named}))
        who = {"name": "memoryd-client", "version": __version__}
        hello = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": who}
        try:
            await self.request("initialize", hello)
            await self._send(_line({"method": "notifications/initialized"}))
        except DaemonLost as exc:
            raise GreetingLost(
                "The connection was closed before the greeting was answered.",
                hint="Check the token." if token is not None else "Run: memoryd status",
            ) from exc

    async def request(self, method: str, params: Message) -> Message:
        """The result of one call. DaemonLost if the connection ends before it is there, or the
        error that the daemon answered."""
        number = next(self._ids)
        line = _line({"id": number, "method": method, "params": params})
        call = _Call(asyncio.get_running_loop().create_future(), len(line))
        self._calls[number] = call
        try:
            await self._send(line)
            return _result(await call.answer)
        except asyncio.CancelledError:
            self._cancel(number)
            raise
        finally:
            del self._calls[number]
            if call.answer.done() and not call.answer.cancelled():
                call.answer.exception()  # seen, also where the sending failed first

    async def close(self) -> None:
        """End it; calls under way get DaemonLost."""
        self._reading.cancel()
        await asyncio.wait([self._reading])
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _send(self, line: bytes) -> None:
        if self.lost:
            raise _lost()
        try:
            self._writer.write(line)
            await self._writer.drain()
        except OSError as exc:
            raise _lost() from exc

    def _cancel(self, number: int) -> None:
        """Tell the daemon that nobody waits any more, without waiting ourselves."""
        if not self.lost:
            note = {"method": "notifications/cancelled", "params": {"requestId": number}}
            self._writer.write(_line(note))

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                self._take(json.loads(line))
        except (OSError, ValueError):  # ValueError: not our protocol, so no use
            pass
        finally:
            self._writer.close()
            for call in self._calls.values():
                if not call.answer.done():
                    call.answer.set_exception(_lost())

    def _take(self, message: Any) -> None:
        if not isinstance(message, dict):
            return
        number = message.get("id")
        if "method" not in message:
            self._answer(number, message)
        elif message["method"] == "ping":
            self._writer.write(_line({"id": number, "result": {}}))
        elif number is not None:
            error = {"code": METHOD_UNKNOWN, "message": "This client serves no requests."}
            self._writer.write(_line({"id": number, "error": error}))

    def _answer(self, number: object, message: Message) -> None:
        if number is None and self._calls:
            # Only a line that is too long to be read is answered without its id.
            call = max(self._calls.values(), key=lambda call: call.size)
        elif isinstance(number, int) and number in self._calls:
            call = self._calls[number]
        else:
            return
        if not call.answer.done():
            call.answer.set_result(message)


def _line(message: Message) -> bytes:
    # ASCII: half of a character is for the daemon to refuse, not for us to choke on.
    return json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n"


def _result(message: Message) -> Message:
    """The result of a call and of the tool in it; raises what either refused."""
    if error := message.get("error"):
        text, details = str(error.get("message", "")), (error.get("data") or {}).get(DETAILS)
        if message.get("id") is None and not details:
            raise InvalidInput(text, code="call_too_long", hint="Send less at a time.")
        raise told(details or {"message": text})
    result: Message = message.get("result") or {}
    if result.get("isError"):
        texts = [str(part.get("text", "")) for part in result.get("content") or []]
        raise told((result.get("_meta") or {}).get(DETAILS) or {"message": "\n".join(texts)})
    return result


def _lost() -> DaemonLost:
    return DaemonLost("The daemon was lost during the call; it may or may not have been done.")
