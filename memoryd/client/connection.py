"""The client's connection to the daemon: find it, shake hands, reconnect when it was lost."""

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
from memoryd.client.errors import DaemonLost, HandshakeLost, error_from_wire
from memoryd.errors import DaemonUnavailable, DaemonUnreachable, InvalidInput
from memoryd.launch.start import Finder

FIRST_RETRY_DELAY, MAX_RETRY_DELAY = 0.02, 0.5  # seconds between two attempts
RECONNECT_TIMEOUT = 10.0  # seconds for a daemon that was connected before to come back
HANDSHAKE_TIMEOUT = 30.0  # seconds; the service manager may have to start a daemon first
# Shorter where a daemon is known to listen: its handshake needs neither the store nor the model.
LISTENER_HANDSHAKE_TIMEOUT = 10.0
MAX_HANDSHAKES = 3  # attempts, where the connection ends before the handshake is answered
Message = dict[str, Any]
PROTOCOL_VERSION = "2025-11-25"
# Extensions of ours, see `doors.lines`.
EXPECT, TOOLS = "notifications/memoryd/expect", "notifications/memoryd/tools"
PROJECT = "notifications/memoryd/project"
METHOD_NOT_FOUND = -32601
ERROR_DETAILS = "memoryd/error"  # where an answer carries the code, message and hint of an error
# Large: a page of a thousand long memories is one line.
MAX_LINE_BYTES = 1 << 30


class RemoteDoor(NamedTuple):
    """A daemon at a TCP port, and the token that has to be sent first."""

    host: str
    port: int
    token: str | None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Connection:
    """At most one open connection at a time, opened when a call needs it."""

    def __init__(self, door: Finder | RemoteDoor, project: str = "") -> None:
        """`project`: of the calls on it; "" for none."""
        self._door = door
        self._project = project
        self._opening = asyncio.Lock()
        self._current: OpenConnection | None = None

    async def open(self) -> OpenConnection:
        """The open connection; a new one if there is none or it was lost.

        Raises DaemonUnavailable if no daemon answers: at once the first time, after
        RECONNECT_TIMEOUT if one was connected before.
        """
        async with self._opening:
            if self._current is None:
                self._current = await self._connect()
            elif self._current.lost:
                await self._current.close()
                self._current = await self._reconnect()
            return self._current

    async def close(self) -> None:
        if self._current is not None:
            await self._current.close()

    async def _reconnect(self) -> OpenConnection:
        if isinstance(self._door, Finder) and self._door.may_start:
            return await self._connect()
        until, pause = time.monotonic() + RECONNECT_TIMEOUT, FIRST_RETRY_DELAY
        while True:
            try:
                return await self._connect()
            except DaemonUnavailable:
                if time.monotonic() + pause > until:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RETRY_DELAY)

    async def _connect(self) -> OpenConnection:
        """A new connection after its handshake."""
        if isinstance(self._door, RemoteDoor):
            return await self._connect_remote(self._door)
        for attempt in range(1, MAX_HANDSHAKES):
            try:
                return await self._connect_local(self._door)
            except HandshakeLost:
                await asyncio.sleep(FIRST_RETRY_DELAY * attempt)
        return await self._connect_local(self._door)

    async def _connect_local(self, finder: Finder) -> OpenConnection:
        """Connect to the daemon of this machine; start it if that is allowed."""
        finder.begin(time.monotonic())
        sock = finder.attempt(time.monotonic())
        while sock is None:
            await asyncio.sleep(max(0.0, finder.next_try - time.monotonic()))
            sock = finder.attempt(time.monotonic())
        streams = await asyncio.open_connection(sock=sock, limit=MAX_LINE_BYTES)
        opened = OpenConnection(*streams, self._project)
        return await self._after_handshake(opened, str(finder.socket))

    async def _connect_remote(self, door: RemoteDoor) -> OpenConnection:
        try:
            async with asyncio.timeout(HANDSHAKE_TIMEOUT):
                streams = await asyncio.open_connection(door.host, door.port, limit=MAX_LINE_BYTES)
        except OSError as exc:
            missing = isinstance(exc, ConnectionRefusedError)
            reason = "" if missing else f" ({exc or type(exc).__name__})"
            raise DaemonUnavailable(f"No memoryd answers at {door}{reason}.") from exc
        return await self._after_handshake(OpenConnection(*streams, self._project), str(door))

    async def _after_handshake(self, opened: OpenConnection, where: str) -> OpenConnection:
        """The connection once it has shaken hands; it is closed if that fails."""
        door = self._door
        pid = None if isinstance(door, RemoteDoor) else door.listener()
        timeout = LISTENER_HANDSHAKE_TIMEOUT if pid else HANDSHAKE_TIMEOUT
        try:
            async with asyncio.timeout(timeout):
                if isinstance(door, RemoteDoor):
                    await opened.shake_hands(door.token)
                else:
                    await opened.shake_hands(data_dir=door.target.expected)
            return opened
        except TimeoutError as exc:
            await opened.close()
            who = f"Process {pid}" if pid else "A process"
            raise DaemonUnreachable(
                f"{who} listens at {where}, but has not answered for {timeout:g} seconds.",
                hint=f"If it hangs, end it: kill -KILL {pid}" if pid else "Look at its log.",
            ) from exc
        except BaseException:
            await opened.close()
            raise


@dataclass(slots=True)
class _Call:
    """A request that waits for its answer. `size`: bytes of its line."""

    answer: asyncio.Future[Message]
    size: int


class OpenConnection:
    """One stream to the daemon with the calls on it. Once it is lost it stays lost."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, project: str = ""
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._project = project
        self._ids = itertools.count(1)
        self._calls: dict[int, _Call] = {}
        self._reading = asyncio.create_task(self._read())

    @property
    def lost(self) -> bool:
        return self._reading.done() or self._writer.is_closing()

    async def shake_hands(self, token: str | None = None, data_dir: Path | None = None) -> None:
        """Make the handshake. Raises HandshakeLost if the connection ends before it is answered,
        WrongDaemon if the daemon serves another directory than `data_dir`."""
        if token is not None:
            self._writer.write(token.encode() + b"\n")
        if data_dir is not None:
            named = {"data_dir": str(data_dir)}
            self._writer.write(_line({"method": EXPECT, "params": named}))
        self._writer.write(_line({"method": TOOLS, "params": {"tools": ["all"]}}))
        if self._project:
            told = {"project": self._project, "given": True}
            self._writer.write(_line({"method": PROJECT, "params": told}))
        who = {"name": "memoryd-client", "version": __version__}
        hello = {"protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": who}
        try:
            await self.request("initialize", hello)
            await self._send(_line({"method": "notifications/initialized"}))
        except DaemonLost as exc:
            raise HandshakeLost(
                "The connection was closed before the handshake was answered.",
                hint="Check the token." if token is not None else "Run: memoryd status",
            ) from exc

    async def request(self, method: str, params: Message) -> Message:
        """The result of one call. Raises the error that the daemon answered, or DaemonLost if
        the connection ends before the answer."""
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
                # Retrieved, or asyncio would log it where sending failed before the answer came.
                call.answer.exception()

    async def close(self) -> None:
        """Close the connection; running calls get DaemonLost."""
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
        """Tell the daemon that the call was given up; does not wait."""
        if not self.lost:
            note = {"method": "notifications/cancelled", "params": {"requestId": number}}
            self._writer.write(_line(note))

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                self._take(json.loads(line))
        except (OSError, ValueError):  # ValueError: the other side does not speak the protocol
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
            error = {"code": METHOD_NOT_FOUND, "message": "This client serves no requests."}
            self._writer.write(_line({"id": number, "error": error}))

    def _answer(self, number: object, message: Message) -> None:
        if number is None and self._calls:
            # Only a line that is too long to be parsed is answered without an id.
            call = max(self._calls.values(), key=lambda call: call.size)
        elif isinstance(number, int) and number in self._calls:
            call = self._calls[number]
        else:
            return
        if not call.answer.done():
            call.answer.set_result(message)


def _line(message: Message) -> bytes:
    # ASCII: UTF-8 cannot encode half a surrogate pair; the daemon is to refuse it, not this.
    return json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n"


def _result(message: Message) -> Message:
    """The result in an answer; raises its error, of the protocol or of the tool."""
    if error := message.get("error"):
        text, details = str(error.get("message", "")), (error.get("data") or {}).get(ERROR_DETAILS)
        if message.get("id") is None and not details:
            raise InvalidInput(text, code="call_too_long", hint="Send less at a time.")
        raise error_from_wire(details or {"message": text})
    result: Message = message.get("result") or {}
    if result.get("isError"):
        texts = [str(part.get("text", "")) for part in result.get("content") or []]
        raise error_from_wire(
            (result.get("_meta") or {}).get(ERROR_DETAILS) or {"message": "\n".join(texts)}
        )
    return result


def _lost() -> DaemonLost:
    return DaemonLost(
        "The connection to the daemon was lost during the call; it may or may not have been done."
    )
