"""Nothing long runs on the event loop: with thousands of memories in a real store, no call of any
kind keeps the loop's own thread busy, and neither do upkeep, backup, purge and stop."""

from __future__ import annotations

import gc
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from memoryd.doors.lines import Connection, Limits
from memoryd.doors.readiness import Readiness
from memoryd.doors.server import McpServer
from memoryd.doors.status import Status
from memoryd.settings import Config, EmbeddingSettings, MemorySettings
from memoryd.wiring.engine import open_engine
from tests.daemons import INITIALIZE
from tests.doors.test_stalls import MOST, Lag, Wire, line_of, tool

COUNT, BATCH = 6000, 100
LONG = 2 * MOST  # the heap of a test run is large, and its collections count
WORDS = "dock kitchen battery charge table lamp window robot arm grip floor plan".split()


def fields(n: int) -> dict[str, Any]:
    """One memory as an import has it."""
    text = " ".join(WORDS[(n * k) % len(WORDS)] for k in range(1, 40))
    return {
        "id": f"{n:020x}",
        "type": ["fact", "conversation", "context"][n % 3],
        "content": f"{n} {text}",
        "created_at": 1_700_000_000.0 + n,
        "expires_at": 4_000_000_000.0,
        "name": f"name {n}" if n % 3 == 0 else None,
        "session_id": f"session {n % 50}",
        "metadata": {"n": n, "deep": {"a": [n, None]}} if n % 2 else {},
        "pinned": False,
    }


def every_kind() -> dict[str, dict[str, Any]]:
    ref = {"type": "ref/resource", "uri": "memory://memory/{id}"}
    completed = {"ref": ref, "argument": {"name": "id", "value": "n"}}
    more = [fields(n) for n in range(COUNT, COUNT + BATCH)]
    return {
        "first search": tool("search_memories", query="where is the dock"),
        "search": tool("search_memories", query="robot arm", limit=1000, min_score=0, explain=True),
        "filtered search": tool("search_memories", query="lamp", metadata={"n": 7}, min_score=0),
        "store": tool("store_memory", content="A new one."),
        "replacement": tool("store_memory", content="Another.", name="name 0"),
        "turn": tool("add_turn", role="user", content="Hello.", session_id="session 1"),
        "context": tool("get_context", session_id="session 2", max_turns=50),
        "completion": {"method": "completion/complete", "params": completed},
        "status": {"method": "resources/read", "params": {"uri": "memory://status"}},
        "export": tool("export_memories"),
        "export with vectors": tool("export_memories", embeddings=True),
        "import": tool("import_memories", memories=more),
        "dry run": tool("forget_where", everything=True, dry_run=True),
        "audit": tool("audit"),
        "question": tool("ask", question="where is the robot arm"),
        "map": tool("map"),
        "search beside the map": tool("search_memories", query="robot arm", min_score=0),
        "sweep": tool("sweep"),
        "backup": tool("backup"),
        "purge": tool("purge"),
        "forget by filter": tool("forget_where", session_id="session 3"),
        "forget everything": tool("forget_where", everything=True),
    }


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[Wire]:
    """A real engine and store behind the owner's own door."""
    config = Config(MemorySettings(path=path), embedding=EmbeddingSettings(backend="hash"))
    readiness = Readiness()
    server = McpServer(readiness, Status(readiness, path)).lowlevel
    ours, theirs = socket.socketpair()
    async with open_engine(config) as engine:
        readiness.open(engine)
        gc.freeze()  # as the daemon does
        link = await SocketStream.from_socket(ours)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Connection(link, Limits(), path).serve, server)
            async with await SocketStream.from_socket(theirs) as near:
                wire = Wire(near)
                await wire.ask(line_of({"method": "initialize", "params": INITIALIZE}))
                await near.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
                yield wire


async def measured(call: Any) -> float:
    lag = Lag()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lag.run)
        await call
        tasks.cancel_scope.cancel()
    return lag.longest


@pytest.mark.slow
async def test_no_call_on_a_large_store_holds_up_the_others(tmp_path: Path) -> None:
    found: dict[str, float] = {}
    async with served(tmp_path) as wire:
        for start in range(0, COUNT, BATCH):
            batch = [fields(n) for n in range(start, start + BATCH)]
            line = line_of(tool("import_memories", memories=batch))
            spent = await measured(wire.ask(line))
            found["filling"] = max(found.get("filling", 0.0), spent)
    async with served(tmp_path) as wire:  # with everything to be read at its start
        for name, message in every_kind().items():
            answers: list[Any] = []

            async def ask(line: bytes = line_of(message), into: list[Any] = answers) -> None:
                into.append(await wire.ask(line))

            found[name] = await measured(ask())
            assert "result" in answers[0], name
            assert not answers[0]["result"].get("isError"), json.dumps(answers[0])[:500]
    assert {name: spent for name, spent in found.items() if spent > LONG} == {}
