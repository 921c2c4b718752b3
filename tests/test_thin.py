"""A daemon without an index (`search.index: remote`) beside a full one, on a real Chroma server."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.bench.cluster import Server
from tests.daemons import Daemon, ForkedDaemon
from tests.processes import free_port
from tests.test_cluster import eventually, failure

pytestmark = pytest.mark.slow


class Fleet:
    """A thin and a full daemon on one server."""

    def __init__(self, server: Server, thin: Daemon, full: Daemon) -> None:
        self.server, self.thin, self.full = server, thin, full


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with tempfile.TemporaryDirectory(prefix="memoryd-test-") as name:
        folder, port = Path(name), free_port()
        (folder / "chroma").mkdir()
        server = Server(folder / "chroma", port)
        asyncio.run(server.start())
        settings = {"MEMORYD_STORE_MODE": "http", "MEMORYD_STORE_PORT": str(port)}
        settings |= {"MEMORYD_STORE_POLL_SECONDS": "0.2", "MEMORYD_DOORS_TOOLSETS": "all"}
        thin = ForkedDaemon(folder / "thin", MEMORYD_SEARCH_INDEX="remote", **settings).start()
        full = ForkedDaemon(folder / "full", **settings).start()
        yield Fleet(server, thin, full)
        for daemon in (thin, full):
            daemon.stop()
        server.stop()


def ids(daemon: Daemon, query: str, **filters: Any) -> list[str]:
    found = daemon.tool("search_memories", query=query, min_score=0.0, **filters)
    return [hit["id"] for hit in found["results"]]


def test_try(fleet: Fleet) -> None:
    thin, full = fleet.thin, fleet.full
    id = thin.tool("store_memory", content="the gate code is 1234", name="gate")["id"]
    assert ids(thin, "gate code") == [id]
    assert thin.tool("store_memory", content="the gate code is 99", name="gate")["id"] == id
    assert thin.tool("list_memories")["memories"][0]["content"] == "the gate code is 99"
    assert thin.tool("update_memory", memory_id="gate", content="no gate")["changed"]
    eventually(lambda: ids(full, "gate") == [id])
    assert thin.tool("forget_memory", memory_id="gate")["success"]
    assert ids(thin, "gate") == []
    assert "needs_full_index" in failure(thin, "list_projects")
