"""Projects through the Python clients, against a real daemon."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from memoryd import MemoryManager
from memoryd.client import Client, DaemonLost, SyncClient
from memoryd.errors import InvalidInput, NotFound
from tests.daemons import Daemon, ForkedDaemon

A, B = "acme/app", "acme/site"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    running = ForkedDaemon(tmp_path / "data").start()
    yield running
    assert running.stop() == 0, running.log.read_text()


async def test_a_client_stores_into_its_project_and_finds_it_first(daemon: Daemon) -> None:
    async with Client(daemon.socket, project=A) as app, Client(daemon.socket, project=B) as site:
        for memory in (app, site):
            await memory.store("The port is 8080.")
            page = await memory.search("port")
        assert [hit["metadata"]["project"] for hit in page["results"]] == [B, A]
        assert (await app.remember_fact("x"))["metadata"] == {"project": A}
        assert (await app.store("I like tea.", shared=True))["metadata"] == {}
        narrow = await app.search("port", project=B)
        assert [hit["metadata"]["project"] for hit in narrow["results"]] == [B]
        assert (await app.list_memories(project=A))["total"] == 2


async def test_the_variable_is_used_unless_a_project_is_given(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORYD_PROJECT", A)
    for given, project in ((None, A), (B, B), ("", None)):
        async with Client(daemon.socket, project=given) as memory:
            stored = await memory.store(f"note {uuid4()}")
            assert stored["metadata"].get("project") == project


def test_a_client_keeps_its_project_over_a_restart(daemon: Daemon) -> None:
    with SyncClient(daemon.socket, project=A) as memory:
        memory.store("before")
        assert daemon.stop() == 0
        daemon.start()
        assert memory.store("after")["metadata"] == {"project": A}


def test_projects_are_renamed_merged_moved_and_forgotten(daemon: Daemon) -> None:
    with SyncClient(daemon.socket, project=A) as memory:
        ids = [memory.store(f"fact {n}")["id"] for n in range(3)]
        assert memory.projects.rename(A, B) == 3
        other = memory.store("again of the first")["id"]
        with pytest.raises(InvalidInput, match="has memories already"):
            memory.projects.rename(A, B)
        assert memory.projects.merge(A, B) == 1
        with pytest.raises(NotFound):
            memory.projects.merge(A, B)
        moved = memory.projects.move([ids[0], "nobody"], None)
        assert (moved["moved"], moved["missing"]) == (1, ["nobody"])
        listed = memory.projects.list()
        assert listed["own"] == A
        counts = {facts["project"]: facts["memories"] for facts in listed["projects"]}
        assert counts == {B: 3, None: 1}
        assert memory.projects.forget(f" {B} ") == 3
        assert memory.get(other) is None
        assert memory.get(ids[0]) is not None
        assert memory.projects.forget(B) == 0


async def test_a_window_shows_the_own_project_only(daemon: Daemon) -> None:
    async with Client(daemon.socket, project=A) as app, Client(daemon.socket, project=B) as site:
        await app.add_turn("user", "secret of the app", "s")
        assert [m["content"] for m in (await app.context_window("s"))["messages"]] == [
            "secret of the app"
        ]
        window = await site.context_window("s")
        assert window["messages"] == []
        assert "another project" in window["hint"]


async def test_a_memory_manager_has_a_project(daemon: Daemon) -> None:
    async with MemoryManager(daemon.folder, project=A) as manager:
        stored = await manager.remember_fact("The port is 8080.", room="lab")
        assert stored.metadata == {"project": A, "room": "lab"}
        shared = await manager.store("Tea.", "fact", {"project": None})
        assert shared.metadata == {}
        [found] = await manager.search("port 8080")
        assert found.memory.metadata["project"] == A
        listed = await manager.projects.list()
        assert [facts["project"] for facts in listed["projects"]] == [None, A]


def test_a_kill_during_a_rename_loses_no_memory(daemon: Daemon) -> None:
    """Each is in the old or in the new project, and `merge` moves the rest."""
    count = 600
    with SyncClient(daemon.socket) as memory:
        batch = [f"fact {n} of the rename" for n in range(count)]
        with ThreadPoolExecutor(16) as stores:
            list(stores.map(lambda text: memory.store(text, metadata={"project": A}), batch))
        with ThreadPoolExecutor(1) as renaming:
            running = renaming.submit(memory.projects.rename, A, B)
            with SyncClient(daemon.socket) as other:
                while B not in counts(other):
                    pass
            daemon.stop(signal.SIGKILL)
            assert isinstance(running.exception(60), DaemonLost | None)
        daemon.start()
        left = counts(memory)
        assert sum(left.values()) == count
        if A in left:
            assert memory.projects.merge(A, B) == left[A]
        assert counts(memory) == {B: count}
        page = memory.list_memories(limit=1000)
        assert {item["content"] for item in page["memories"]} == set(batch)


def counts(memory: SyncClient) -> dict[str | None, int]:
    return {facts["project"]: facts["memories"] for facts in memory.projects.list()["projects"]}
