"""One client's worst messages, and how long the event loop is busy with each of them.

The processor time of the loop's own thread is measured between two of its turns, so that a busy
machine does not count. What runs on another thread does not hold up the loop.
"""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.doors.lines import MAX_VALUES, BadLine, Connection, Limits, parse, values_in
from memoryd.doors.page.app import Page
from memoryd.doors.page.logins import Logins
from memoryd.doors.readiness import Readiness
from memoryd.doors.rights import Tokens
from memoryd.doors.server import McpServer
from memoryd.doors.status import Status
from memoryd.doors.web.app import web_app
from memoryd.engine.run import run_engine
from memoryd.settings import Config, EmbeddingSettings, MemorySettings
from tests.daemons import INITIALIZE
from tests.ramstore import RamStore

MOST = 0.25  # seconds of processor time; most take a tenth of it
MB = 1 << 20
SIZE = 4 * MB - 1000


def tool(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}


def nested(size: int) -> Any:
    """Metadata of many small objects, each within others."""
    one = {"a": {"b": {"c": {"d": [1, {"e": {}}]}}}}
    return {str(n): one for n in range(size // (len(json.dumps(one)) + 13))}


def worst() -> dict[str, dict[str, Any]]:
    """The worst messages that we could think of."""
    huge, commas = "x" * SIZE, [0] * (SIZE // 3 - 100)
    login = "login a password " * 5_800
    return {
        "nested metadata": tool("store_memory", content="x", metadata=nested(SIZE)),
        "metadata filter": tool("search_memories", query="x", metadata=nested(SIZE)),
        "metadata of one text": tool("store_memory", content="x", metadata={"k": huge}),
        "metadata key": tool("store_memory", content="x", metadata={huge: 1}),
        "query": tool("search_memories", query="word " * (MB // 5)),
        "long query": tool("search_memories", query="a1 " * 3_300),
        "query without letters": tool("search_memories", query=" " * SIZE),
        "list of numbers": tool("store_memory", content=commas),
        "list of lists": tool("store_memory", content="x", metadata={"k": [[]] * (SIZE // 4)}),
        "values just below the limit": tool(
            "store_memory", content="x", metadata={"k": [{}] * (MAX_VALUES // 2 - 100)}
        ),
        "list as type": tool("store_memory", content="x", memory_type=commas),
        "list as time": tool("store_memory", content="x", expires_at=commas),
        "list as role": tool("add_turn", role=commas, content="x"),
        "type": tool("store_memory", content="x", memory_type=huge),
        "time": tool("store_memory", content="x", expires_at="2" * SIZE),
        "role": tool("add_turn", role=huge, content="x"),
        "name": tool("store_memory", content="x", name=huge),
        "session": tool("get_context", session_id="\u0301" * (SIZE // 6)),
        "content": tool("store_memory", content=" " * SIZE),
        "invisible content": tool("store_memory", content="\u200b" * (SIZE // 6)),
        "id": tool("forget_memory", memory_id=huge),
        "argument name": tool("search_memories", **{huge: 1}),
        "many argument names": tool("search_memories", **{f"k{n}": 1 for n in range(300_000)}),
        "tool name": tool(huge),
        "URI": {"method": "resources/read", "params": {"uri": "memory://memory/" + huge}},
        "percent URI": {
            "method": "resources/read",
            "params": {"uri": "memory://session/" + "%41" * (SIZE // 3)},
        },
        "prompt name": {"method": "prompts/get", "params": {"name": huge}},
        "method": {"method": huge},
        "completion": {
            "method": "completion/complete",
            "params": {
                "ref": {"type": "ref/resource", "uri": "memory://memory/{id}"},
                "argument": {"name": "id", "value": huge},
            },
        },
        "passwords": tool("store_memory", content=login),
        "passwords in a turn": tool("add_turn", role="user", content=login),
        "wide passwords": tool("store_memory", content="\uff4cogin a password " * 4_500),
        "marks": tool("store_memory", content="\u0300\u0327" * 25_000),
        "marks in a query": tool("search_memories", query="\u0300\u0327" * 5_000),
        "numbers in a query": tool("search_memories", query="1 " * 5_000),
        "open quotes": tool("store_memory", content="password='" * 9_900),
        "URLs": tool("store_memory", content="://a:" * 19_000),
        "passwords in metadata": tool(
            "store_memory", content="x", metadata={"k": "login a password " * 900}
        ),
    }


class Lag:
    """The longest time that the loop's thread was busy between two turns."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def run(self) -> None:
        before = time.thread_time()
        while True:
            await anyio.lowlevel.checkpoint()
            now = time.thread_time()
            self.longest, before = max(self.longest, now - before), now


class Wire:
    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._lines = BufferedByteReceiveStream(stream)

    async def ask(self, line: bytes) -> dict[str, Any]:
        await self._stream.send(line)
        found: dict[str, Any] = json.loads(await self._lines.receive_until(b"\n", 8 * MB))
        return found


def line_of(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, **message}).encode() + b"\n"


async def stalls(path: Path, messages: dict[str, bytes]) -> dict[str, float]:
    """How long the loop was busy at a time, at most, by each message."""
    config = Config(MemorySettings(path=path), embedding=EmbeddingSettings(backend="hash"))
    readiness, found = Readiness(), {}
    server = McpServer(readiness, Status(readiness, path)).lowlevel
    ours, theirs = socket.socketpair()
    link = await SocketStream.from_socket(ours)
    async with run_engine(config, RamStore(), HashEncoder(), 384) as engine:
        readiness.open(engine)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Connection(link, Limits()).serve, server)
            async with await SocketStream.from_socket(theirs) as near:
                wire = Wire(near)
                await wire.ask(line_of({"method": "initialize", "params": INITIALIZE}))
                await near.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
                for name, line in messages.items():
                    found[name] = await _measured(wire, line)
    return found


async def _measured(wire: Wire, line: bytes) -> float:
    lag = Lag()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lag.run)
        answer = await wire.ask(line)
        assert "result" in answer or "error" in answer
        tasks.cancel_scope.cancel()
    return lag.longest


@pytest.mark.slow
async def test_no_message_holds_up_the_others(tmp_path: Path) -> None:
    lines = {name: line_of(message) for name, message in worst().items()}
    assert all(len(line) <= Limits().line_bytes for line in lines.values())
    found = await stalls(tmp_path, lines)
    assert {name: spent for name, spent in found.items() if spent > MOST} == {}


@pytest.mark.slow
async def test_no_request_over_http_holds_up_the_others(tmp_path: Path) -> None:
    bodies = {name: line_of(message) for name, message in worst().items()}
    found = await stalls_over_http(tmp_path, bodies)
    assert {name: spent for name, spent in found.items() if spent > MOST} == {}


async def stalls_over_http(path: Path, bodies: dict[str, bytes]) -> dict[str, float]:
    """The same as `stalls` for the HTTP door's application, called without a network."""
    config = Config(MemorySettings(path=path), embedding=EmbeddingSettings(backend="hash"))
    readiness, found = Readiness(), {}
    server = McpServer(readiness, Status(readiness, path))
    given = (Tokens("token"), Page(server, Logins()), 80)
    app = web_app(server, readiness, config.doors, *given)
    headers = {
        "Authorization": "Bearer token",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }
    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:80", headers=headers
    )
    async with (
        run_engine(config, RamStore(), HashEncoder(), 384) as engine,
        server.lowlevel.session_manager.run(),
        client,
    ):
        readiness.open(engine)
        hello = line_of({"method": "initialize", "params": INITIALIZE})
        answer = await client.post("/mcp", content=hello)
        client.headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
        for name, body in bodies.items():
            lag = Lag()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lag.run)
                answer = await client.post("/mcp", content=body)
                assert answer.status_code in (200, 400, 413), answer.text
                tasks.cancel_scope.cancel()
            found[name] = lag.longest
    return found


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        (b'{"k": [' + b"0," * 140_000 + b"0]}", True),
        (b"[" * 140_000, True),
        (b'{"k": [' + b'{"a":"b"},' * 150_000 + b"0]}", True),
        (b'{"k": "' + b"a, b, [c], {d}, " * 60_000 + b'"}', False),
        (b'{"k": "' + b'\\"a\\", ' * 200_000 + b'"}', False),
    ],
    ids=["numbers", "open lists", "objects", "prose", "quotes in prose"],
)
def test_values_are_counted_and_texts_are_not(line: bytes, refused: bool) -> None:
    assert (values_in(line) > MAX_VALUES) is refused


def test_too_many_values_are_a_clear_error() -> None:
    with pytest.raises(BadLine) as caught:
        parse(b'{"k": [' + b"0," * 140_000 + b"0]}", 4 * MB)
    assert caught.value.answer.error.code == -32600
    assert str(MAX_VALUES) in caught.value.answer.error.message
