"""One client's flood and another's single call: how much of the flood is served before it.

Work is counted, not timed: batches of the encoder, searches, commits.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from memoryd import fair
from memoryd.adapters.embed.hash import HashEncoder
from memoryd.doors.lines import Connection, Limits
from memoryd.doors.readiness import Readiness
from memoryd.doors.server import McpServer
from memoryd.doors.status import Status
from memoryd.engine.models.lanes import RUNNERS, Lane
from memoryd.engine.run import run_engine
from memoryd.engine.search import pipeline, search
from memoryd.settings import Config, EmbeddingSettings, MemorySettings
from tests.daemons import INITIALIZE
from tests.processes import until
from tests.ramstore import RamStore

FLOOD = 64
MB = 1 << 20


class Held(HashEncoder):
    """Encodes documents once it is let go, and remembers its batches."""

    def __init__(self) -> None:
        super().__init__(max_words=150)
        self.batches: list[list[str]] = []
        self.split_texts: list[str] = []
        self.go = threading.Event()

    def split(self, text: str, lead: str = "") -> list[tuple[int, int]]:
        self.split_texts.append(text)
        return super().split(text, lead)

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Any:
        if not query:
            self.batches.append(list(texts))
            assert self.go.wait(60)
        return super().encode(texts, query=query)


class Wire:
    """A client of the line door."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._lines = BufferedByteReceiveStream(stream)

    async def send(self, method: str, id: int | None = None, **params: Any) -> None:
        named = {} if id is None else {"id": id}
        message = {"jsonrpc": "2.0", "method": method, "params": params} | named
        await self._stream.send(json.dumps(message).encode() + b"\n")

    async def call(self, tool: str, id: int, **arguments: Any) -> None:
        await self.send("tools/call", id, name=tool, arguments=arguments)

    async def answer(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self._lines.receive_until(b"\n", 8 * MB))
        assert "result" in found, found
        return found


@asynccontextmanager
async def clients(path: Path, encoder: HashEncoder, count: int = 2) -> AsyncIterator[list[Wire]]:
    """Connections to one daemon's server, greeted."""
    config = Config(MemorySettings(path=path), embedding=EmbeddingSettings(backend="hash"))
    readiness = Readiness()
    server = McpServer(readiness, Status(readiness, path)).lowlevel
    async with AsyncExitStack() as stack:
        readiness.open(
            await stack.enter_async_context(run_engine(config, RamStore(), encoder, 384))
        )
        tasks = await stack.enter_async_context(anyio.create_task_group())
        wires = []
        for _ in range(count):
            ours, theirs = socket.socketpair()
            link = await stack.enter_async_context(await SocketStream.from_socket(ours))
            tasks.start_soon(Connection(link, Limits()).serve, server)
            near = await stack.enter_async_context(await SocketStream.from_socket(theirs))
            wires.append(Wire(near))
            await wires[-1].send("initialize", 0, **INITIALIZE)
            await wires[-1].answer()
            await wires[-1].send("notifications/initialized")
        yield wires
        tasks.cancel_scope.cancel()


async def test_a_short_store_does_not_wait_for_the_long_ones_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches in the order in which they are taken: their threads may begin in another one."""
    encoder, taken = Held(), list[list[str]]()
    next_batch = Lane._next_batch

    def recorded(lane: Lane) -> Any:
        if (batch := next_batch(lane)) and not lane._query:
            taken.append([job.texts[number] for job, number in batch])
        return batch

    monkeypatch.setattr(Lane, "_next_batch", recorded)
    async with clients(tmp_path, encoder) as (flooding, short):
        for n in range(FLOOD):
            await flooding.call("store_memory", n + 1, content=f"number {n} and more words " * 400)
        await until(lambda: len(encoder.split_texts) == FLOOD)
        await until(lambda: len(encoder.batches) == RUNNERS)
        await short.call("store_memory", 1, content="short")
        await until(lambda: "short" in encoder.split_texts)
        under_way = len(taken)
        encoder.go.set()
        with anyio.fail_after(60):
            await short.answer()
    place = next(n for n, batch in enumerate(taken) if "short" in batch)
    assert place - under_way <= 1
    assert taken[place] == ["short"]  # and not in one batch with a long passage


async def test_a_search_does_not_wait_for_the_searches_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searches in the order in which they get their turn; threads may begin in another one."""
    order: list[str] = []
    go = threading.Event()
    ranked = pipeline._ranked

    async def recorded(state: pipeline.SearchState) -> None:
        order.append(state.text)
        await pipeline.gather(state)

    def held(state: pipeline.SearchState, *args: Any) -> Any:
        assert go.wait(60)
        return ranked(state, *args)

    monkeypatch.setattr(search, "STEPS", (recorded, *pipeline.STEPS[1:]))
    monkeypatch.setattr(pipeline, "_ranked", held)
    async with clients(tmp_path, HashEncoder()) as (flooding, single):
        await single.call("store_memory", 1, content="where it is")
        await single.answer()
        for n in range(FLOOD):
            await flooding.call("search_memories", n + 1, query=f"where is number {n}")
        await until(lambda: len(order) == fair.THREADS)
        await until(lambda: len(fair.turn().waiting) == FLOOD - fair.THREADS)
        await single.call("search_memories", 2, query="where is it")
        await until(lambda: len(fair.turn().waiting) == FLOOD - fair.THREADS + 1)
        go.set()
        with anyio.fail_after(60):
            await single.answer()
    assert order.index("where is it") <= fair.THREADS + 1


async def test_what_a_client_that_is_gone_wanted_is_not_embedded(tmp_path: Path) -> None:
    encoder = Held()
    async with clients(tmp_path, encoder, 3) as (flooding, leaving, short):
        await leaving.call("store_memory", 1, content="nobody waits for this " * 400)
        await until(lambda: len(encoder.batches) == RUNNERS)
        await leaving._stream.aclose()
        await flooding.call("store_memory", 1, content="this is waited for " * 400)
        await until(lambda: len(encoder.split_texts) == 2)
        encoder.go.set()
        with anyio.fail_after(60):
            await flooding.answer()
            await short.call("store_memory", 1, content="short")
            await short.answer()
    texts = [text for batch in encoder.batches[RUNNERS:] for text in batch]
    assert sum("nobody waits" in text for text in texts) <= 2
