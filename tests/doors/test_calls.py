"""How many calls of one connection are under way: a real socket, a server whose tool waits."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp.types as types
import pytest
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.server.lowlevel import Server

from memoryd.doors.lines import Connection, Limits
from tests.daemons import INITIALIZE

BOUND = 60


class Waiting:
    """A tool that runs until it is let go, even when it is cancelled."""

    def __init__(self) -> None:
        self.running = 0
        self.started = 0
        self.let_go = anyio.Event()

    async def call(self, ctx: Any, params: Any) -> types.CallToolResult:
        self.started += 1
        self.running += 1
        with anyio.CancelScope(shield=True):
            await self.let_go.wait()
        self.running -= 1
        return types.CallToolResult(content=[])


class Wire:
    """The client's end."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._lines = BufferedByteReceiveStream(stream)

    async def send(self, *messages: dict[str, Any]) -> None:
        """All of them at once: the daemon reads them as one piece."""
        lines = [json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages]
        await self._stream.send("".join(lines).encode())

    async def read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self._lines.receive_until(b"\n", 1 << 20))
        return found


def call(id: str | int) -> dict[str, Any]:
    return {"id": id, "method": "tools/call", "params": {"name": "wait", "arguments": {}}}


@asynccontextmanager
async def connected(tool: Waiting, most: int) -> AsyncIterator[Wire]:
    ours, theirs = socket.socketpair()
    stream = await SocketStream.from_socket(ours)
    server: Server[Any] = Server("waiting", on_call_tool=tool.call)
    limits = Limits(calls=most)
    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Connection(stream, limits).serve, server)
            async with await SocketStream.from_socket(theirs) as near:
                wire = Wire(near)
                try:
                    await wire.send({"id": "hello", "method": "initialize", "params": INITIALIZE})
                    await wire.read()
                    await wire.send({"method": "notifications/initialized"})
                    yield wire
                finally:
                    tool.let_go.set()


@pytest.mark.parametrize("second", [7, "7", "07", " 7"])
async def test_an_id_in_flight_is_refused(second: str | int) -> None:
    tool = Waiting()
    async with connected(tool, most=3) as wire:
        await wire.send(call(7), *[call(second) for _ in range(9)])
        refused = [await wire.read() for _ in range(9)]
        assert [answer["id"] for answer in refused] == [second] * 9
        assert {answer["error"]["code"] for answer in refused} == {types.INVALID_REQUEST}
        assert "another id" in refused[0]["error"]["message"]
        await anyio.wait_all_tasks_blocked()
        assert tool.started == 1
        tool.let_go.set()
        assert "result" in await wire.read()
        await wire.send(call(second))  # answered: the id is free again
        assert "result" in await wire.read()


@pytest.mark.parametrize("noise", [{"id": 0}, call(0)], ids=["no message", "the same id"])
async def test_a_refusal_makes_no_room(noise: dict[str, Any]) -> None:
    """An answer that has the id of a call under way does not end that call."""
    tool = Waiting()
    async with connected(tool, most=2) as wire:
        await wire.send(call(0), noise, noise, call(1), call(2), call(3))
        assert [(await wire.read())["id"] for _ in range(2)] == [0, 0]
        await anyio.wait_all_tasks_blocked()
        assert (tool.started, tool.running) == (2, 2)
        tool.let_go.set()
        assert {(await wire.read())["id"] for _ in range(4)} == {0, 1, 2, 3}


async def test_a_cancelled_call_counts_until_it_has_ended() -> None:
    tool = Waiting()
    async with connected(tool, most=1) as wire:
        cancel = {"method": "notifications/cancelled", "params": {"requestId": 1}}
        await wire.send(call(1), cancel, call(2))
        while not tool.started:
            await anyio.wait_all_tasks_blocked()
        await anyio.wait_all_tasks_blocked()
        assert (tool.started, tool.running) == (1, 1)
        tool.let_go.set()
        assert (await wire.read())["id"] == 2  # the first one is never answered
        assert tool.started == 2
