"""A daemon of a few lines, for tests of the client: each test says what it answers."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

Message = dict[str, Any]
HELLO: Message = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}


OF_THE_HANDSHAKE = ("notifications/initialized", "notifications/memoryd/tools")


class LineServer:
    """Takes the handshake by itself and hands every other message to `script`.

    The script returns what to send: a message, bytes as they are, a list of these, or None.
    `heard` is all that came; `connections` how many clients there were.
    """

    def __init__(self, script: Callable[[LineServer, Message], Any], token: str = "") -> None:
        self._script = script
        self._token = token
        self.heard: list[Message] = []
        self.connections = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            if self._token and (await reader.readline()).decode().strip() != self._token:
                return
            while line := await reader.readline():
                self.heard.append(message := json.loads(line))
                for answer in _many(self._answer(message)):
                    writer.write(answer if isinstance(answer, bytes) else _line(answer))
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    def _answer(self, message: Message) -> Any:
        if message.get("method") == "initialize":
            return result(message, HELLO)
        ours = message.get("method") in OF_THE_HANDSHAKE
        return None if ours else self._script(self, message)

    def hang_up(self) -> None:
        """End every connection."""
        for writer in self._writers:
            writer.close()

    def calls(self) -> list[Message]:
        """The arguments of each tool call, in order."""
        return [m["params"]["arguments"] for m in self.heard if m.get("method") == "tools/call"]


def result(message: Message, found: Message) -> Message:
    """The answer to a request."""
    return {"jsonrpc": "2.0", "id": message["id"], "result": found}


def tool_result(message: Message, found: Message) -> Message:
    """The answer to a tool call."""
    return result(message, {"content": [], "structuredContent": found, "isError": False})


def echo(server: LineServer, message: Message) -> Message | None:
    """A script: every tool answers with its arguments."""
    if message.get("method") != "tools/call":
        return None
    return tool_result(message, message["params"]["arguments"])


@asynccontextmanager
async def listening(
    script: Callable[[LineServer, Message], Any] = echo, path: Path | None = None
) -> AsyncIterator[tuple[LineServer, Path]]:
    """A server on a Unix socket. Sockets have short paths: theirs are limited."""
    place = path or Path(tempfile.mkdtemp(prefix="memoryd-test-")) / "s"
    made = LineServer(script)
    server = await asyncio.start_unix_server(made.handle, place, limit=1 << 26)
    try:
        yield made, place
    finally:
        server.close()
        made.hang_up()
        place.unlink(missing_ok=True)


@asynccontextmanager
async def listening_on_tcp(token: str) -> AsyncIterator[tuple[LineServer, int]]:
    """The same on a port of its own, for those who know the token."""
    made = LineServer(echo, token)
    server = await asyncio.start_server(made.handle, "127.0.0.1", 0)
    try:
        yield made, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        made.hang_up()


def _many(answer: Any) -> list[Any]:
    return answer if isinstance(answer, list) else [] if answer is None else [answer]


def _line(message: Message) -> bytes:
    return json.dumps(message).encode() + b"\n"
