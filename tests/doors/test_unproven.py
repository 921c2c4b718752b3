"""Connections that have not shown the token: few, and never in the way of those that have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest

from memoryd.doors import sockets
from memoryd.doors.lines import Limits
from memoryd.doors.page.app import Page
from memoryd.doors.page.logins import Logins
from memoryd.doors.readiness import Readiness
from memoryd.doors.rights import Tokens
from memoryd.doors.server import McpServer
from memoryd.doors.sockets import LineDoor, bind_tcp
from memoryd.doors.status import Status
from memoryd.doors.web import connections
from memoryd.doors.web.app import serve_web
from memoryd.settings import DoorSettings

MAX_CONNECTIONS, MAX_UNAUTHENTICATED = 3, 4


@asynccontextmanager
async def served(door: str, path: Path) -> AsyncIterator[int]:
    """The port of a door with tight limits."""
    readiness = Readiness()
    server = McpServer(readiness, Status(readiness, path))
    listening = bind_tcp("127.0.0.1", 0)
    port: int = listening.getsockname()[1]
    async with anyio.create_task_group() as tasks:
        if door == "tcp":
            lines = LineDoor(
                server.lowlevel,
                Limits(),
                MAX_CONNECTIONS,
                Tokens("token"),
                max_unauthenticated=MAX_UNAUTHENTICATED,
            )
            await tasks.start(lines.serve, listening)
        else:
            doors = DoorSettings(
                max_connections=MAX_CONNECTIONS, max_unauthenticated=MAX_UNAUTHENTICATED
            )
            given = (Tokens("token"), Page(server, Logins()), listening)
            await tasks.start(serve_web, server, readiness, doors, *given)
        yield port
        tasks.cancel_scope.cancel()


async def authenticated(door: str, port: int, stream: anyio.abc.ByteStream) -> bytes:
    """The first bytes of the answer to a call with the token."""
    if door == "tcp":
        await stream.send(b'token\n{"jsonrpc": "2.0", "id": 1, "method": "nothing"}\n')
    else:
        head = f"GET /x HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer token\r\n\r\n"
        await stream.send(head.encode())
    return await stream.receive()


@pytest.mark.parametrize("door", ["tcp", "http"])
async def test_who_has_no_token_does_not_keep_out_who_has(
    door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "TOKEN_SECONDS", 3600.0)
    monkeypatch.setattr(connections, "HEADER_SECONDS", 3600.0)
    with anyio.fail_after(60):
        async with served(door, tmp_path) as port, AsyncExitStack() as stack:

            async def connected() -> anyio.abc.SocketStream:
                stream = await anyio.connect_tcp("127.0.0.1", port)
                return await stack.enter_async_context(stream)

            silent = [await connected() for _ in range(3 * MAX_UNAUTHENTICATED)]
            for stream in silent[: 2 * MAX_UNAUTHENTICATED]:  # the oldest give way
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await stream.receive()
            answers = [
                await authenticated(door, port, await connected()) for _ in range(MAX_CONNECTIONS)
            ]
            assert all(b"nothing" in a or b"-32" in a or b" 404 " in a for a in answers), answers
            # Those that had the token first are served on; one more is told.
            refused = await authenticated(door, port, await connected())
            assert b"too_many_connections" in refused


@pytest.mark.parametrize("door", ["tcp", "http"])
async def test_a_connection_that_waited_is_told_when_there_is_no_room_for_it(
    door: str, tmp_path: Path
) -> None:
    with anyio.fail_after(60):
        async with served(door, tmp_path) as port, AsyncExitStack() as stack:
            streams = []
            for _ in range(MAX_CONNECTIONS + 1):
                stream = await anyio.connect_tcp("127.0.0.1", port)
                streams.append(await stack.enter_async_context(stream))
            answers = [await authenticated(door, port, stream) for stream in streams]
            refused = [b"too_many_connections" in answer for answer in answers]
            assert refused == [False] * MAX_CONNECTIONS + [True]
