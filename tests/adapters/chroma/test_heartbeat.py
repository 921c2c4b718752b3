"""Whether a server gives a sign of life, and what a store does without one."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import anyio
import pytest

from memoryd.adapters.chroma import heartbeat
from memoryd.adapters.chroma import server as shared_server
from memoryd.adapters.chroma.heartbeat import answers
from memoryd.adapters.chroma.server import Server
from memoryd.adapters.chroma.store import ChromaStore, open_chroma
from memoryd.errors import StoreOffline
from memoryd.settings import StoreSettings
from memoryd.tasks import task_group
from tests.adapters.chroma.test_contract import IDENTITY
from tests.processes import free_port


def at(port: int) -> StoreSettings:
    return StoreSettings(mode="http", port=port)


@pytest.fixture
def answering() -> Iterator[Callable[[int], int]]:
    """Starts a server that answers everything with a status; its port."""
    servers: list[HTTPServer] = []

    def start(status: int) -> int:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None: ...

        servers.append(server := HTTPServer(("127.0.0.1", 0), Handler))
        Thread(target=server.serve_forever, daemon=True).start()
        return int(server.server_address[1])

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


async def test_a_server_that_runs_answers(chroma_server: int) -> None:
    assert await answers(at(chroma_server))


@pytest.mark.parametrize(("status", "is_there"), [(401, True), (500, True), (502, False)])
async def test_a_proxy_counts_with_its_server_only(
    answering: Callable[[int], int], status: int, is_there: bool
) -> None:
    assert await answers(at(answering(status))) is is_there


async def test_a_server_that_is_stopped_or_hangs_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not await answers(at(free_port()))
    monkeypatch.setattr(heartbeat, "ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert not await answers(at(silent.getsockname()[1]))


async def test_a_server_that_neither_answers_nor_refuses_is_not_asked_to_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a start would wait as long as the system tries to connect."""
    monkeypatch.setattr(shared_server, "REFUSAL_SECONDS", 0.01)
    monkeypatch.setattr(shared_server, "SILENT_SECONDS", 0.1)
    attempts = 0

    async def silent() -> bool:
        await anyio.sleep(0.02)
        return False

    @asynccontextmanager
    async def opened() -> AsyncIterator[ChromaStore]:
        nonlocal attempts
        attempts += 1
        raise AssertionError
        yield

    server = Server(opened, silent)
    with anyio.fail_after(30):
        async with task_group() as tasks:
            await tasks.start(server.run)
            with pytest.raises(StoreOffline, match="does not answer"):
                _ = server.store
            tasks.cancel_scope.cancel()
    assert attempts == 0


class Life:
    """A server whose signs of life a test decides on, and whose store opens only with them."""

    def __init__(self, port: int, folder: Path) -> None:
        self.is_there = False
        self.attempts = self.asked = 0
        self._opened = partial(open_chroma, at(port), folder, IDENTITY)

    async def answers(self) -> bool:
        self.asked += 1
        return self.is_there

    @asynccontextmanager
    async def open(self) -> AsyncIterator[ChromaStore]:
        self.attempts += 1
        if not self.is_there:
            raise StoreOffline("The Chroma server cannot be reached.")
        async with self._opened() as store:
            yield store


@pytest.mark.usefixtures("forked_worker")
async def test_a_store_opens_when_its_server_is_back_and_nobody_waits_while_that_is_silent(
    chroma_server: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_server, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(shared_server, "RETRY", 1000.0)  # no attempt comes by itself
    monkeypatch.setattr(shared_server, "MAX_RETRY", 1000.0)
    life = Life(chroma_server, tmp_path)
    server = Server(life.open, life.answers)
    with anyio.fail_after(60):
        async with task_group() as tasks:
            await tasks.start(server.run)
            while life.asked < 5:  # noqa: ASYNC110
                await anyio.sleep(0.01)
            assert life.attempts == 1
            life.is_there = True
            while not server._has_heartbeat:  # noqa: ASYNC110
                await anyio.sleep(0.01)
            assert await server.store.get(["a"]) == []
            life.is_there = False
            for _ in range(2):
                with pytest.raises(StoreOffline):
                    await server.check()
            with pytest.raises(StoreOffline):
                _ = server.store
            life.is_there = True
            await server.check()
            assert await server.store.get(["a"]) == []
            tasks.cancel_scope.cancel()
    assert life.attempts == 2
