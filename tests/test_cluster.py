"""Several real daemons on one real Chroma server: what one does the others see, and nothing is
lost or comes back. The long version is `scripts/bench/cluster.py`."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from scripts.bench.cluster import Server, cluster
from tests.daemons import Daemon, ForkedDaemon
from tests.processes import free_port

pytestmark = pytest.mark.slow


class Pair:
    """Two daemons on one server, without any setting of audiences."""

    def __init__(self, server: Server, daemons: list[Daemon]) -> None:
        self.server, self.daemons = server, daemons


@pytest.fixture
def pair() -> Iterator[Pair]:
    with tempfile.TemporaryDirectory(prefix="memoryd-test-") as name:
        folder, port = Path(name), free_port()
        (folder / "chroma").mkdir()
        server = Server(folder / "chroma", port)
        asyncio.run(server.start())
        settings = {"MEMORYD_STORE_MODE": "http", "MEMORYD_STORE_PORT": str(port)}
        settings |= {"MEMORYD_STORE_POLL_SECONDS": "0.2", "MEMORYD_DOORS_TOOLSETS": "all"}
        daemons = [ForkedDaemon(folder / f"d{n}", **settings).start() for n in range(2)]
        yield Pair(server, daemons)
        for daemon in daemons:
            daemon.stop()
        server.stop()


def eventually(holds: Callable[[], Any], seconds: float = 20) -> Any:
    """What `holds` returns, once it is true. Well below the time between two comparisons of all
    memories, so it is the feed that brings it."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := holds():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come")


def texts(daemon: Daemon) -> dict[str, str]:
    """By name, what a daemon shows."""
    listed = daemon.tool("list_memories", limit=1000)["memories"]
    return {memory.get("name", memory["id"]): memory["content"] for memory in listed}


def failure(daemon: Daemon, tool: str, **arguments: Any) -> str:
    """The text of the error that a tool answers with; empty if it succeeds."""
    answer = daemon.call("tools/call", name=tool, arguments=arguments)
    return str(answer["content"][0]["text"]) if answer.get("isError") else ""


def test_others_see_what_one_daemon_stores_updates_and_forgets(pair: Pair) -> None:
    one, other = pair.daemons
    id = one.tool("store_memory", content="the gate code is 1", name="gate")["id"]
    eventually(lambda: texts(other) == {"gate": "the gate code is 1"})
    assert other.tool("search_memories", query="gate code")["results"][0]["id"] == id
    long = "the gate code is 2 " * 200  # several passages
    other.tool("update_memory", memory_id=id, content=long)
    eventually(lambda: texts(one) == {"gate": long})
    one.tool("forget_memory", memory_id=id)
    eventually(lambda: texts(other) == {})
    assert failure(other, "update_memory", memory_id=id, content="again")
    assert pair.server.state() == {}


def test_a_change_of_what_another_daemon_just_changed_builds_on_it(pair: Pair) -> None:
    """Also within the seconds in which this daemon has not seen the other's change."""
    one, other = pair.daemons
    id = one.tool("store_memory", content="version 0", name="v")["id"]
    eventually(lambda: "v" in texts(other))
    for number in range(1, 9):
        writer, marker = (one, other) if number % 2 else (other, one)
        writer.tool("update_memory", memory_id=id, content=f"version {number}")
        marked = marker.tool("update_memory", memory_id=id, metadata={f"mark{number}": True})
        assert marked["content"] == f"version {number}"
    assert len(marked["metadata"]) >= 8


def test_a_name_is_one_memory_on_all_daemons(pair: Pair) -> None:
    one, other = pair.daemons
    for number in range(6):
        (one, other)[number % 2].tool("store_memory", content=f"value {number}", name="one name")
    eventually(lambda: texts(one) == texts(other) == {"one name": "value 5"})
    assert [name for name, _ in pair.server.state().values()] == ["one name"]


def test_two_that_store_under_new_names_at_the_same_moment_end_with_one_memory_each(
    pair: Pair,
) -> None:
    names = [f"name {number}" for number in range(8)]

    def store(daemon: Daemon) -> None:
        for name in names:
            daemon.tool("store_memory", content=f"{name} by {daemon.folder.name}", name=name)

    with ThreadPoolExecutor() as pool:
        list(pool.map(store, pair.daemons))
    one, other = pair.daemons

    def are_equal() -> bool:
        stored = pair.server.state().values()
        is_unique = sorted(name or "" for name, _ in stored) == names
        return is_unique and texts(one) == texts(other) == {n or "": text for n, text in stored}

    eventually(are_equal, seconds=40)


def test_without_its_server_a_daemon_serves_what_it_has_and_refuses_to_store(pair: Pair) -> None:
    one, other = pair.daemons
    one.tool("store_memory", content="the lighthouse is red", name="light")
    eventually(lambda: texts(other))
    pair.server.stop()
    eventually(lambda: other.status()["shared_store"]["trouble"])
    found = other.tool("search_memories", query="lighthouse")
    assert found["results"][0]["content"] == "the lighthouse is red"
    assert any("cannot be reached" in warning for warning in found["warnings"])
    assert "cannot be reached" in failure(other, "store_memory", content="lost?")
    asyncio.run(pair.server.start())
    eventually(lambda: not other.status()["shared_store"]["trouble"])
    one.tool("store_memory", content="the lighthouse is white", name="light")
    eventually(lambda: texts(other) == {"light": "the lighthouse is white"})


@pytest.mark.parametrize("offline", ["refuse", "queue"])
def test_mixed_writes_with_kills_a_pause_and_wrong_clocks_end_equal(offline: str) -> None:
    """Also while single daemons are cut off. With a queue, what they are told meanwhile arrives."""
    with tempfile.TemporaryDirectory(prefix="memoryd-test-") as folder:
        run = cluster(Path(folder), free_port(), 250, 3, 7, 4.0, offline, cuts=2)
        done = asyncio.run(run)
    assert done.counts["refused: store_offline"] == 0 or offline == "refuse"
    assert done.counts["acknowledged"] > 100, done.counts
    bad = {name: done.counts[name] for name in ("different", "lost", "undead", "names")}
    assert bad == dict.fromkeys(bad, 0), done.counts
