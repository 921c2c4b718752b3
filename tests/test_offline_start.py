"""A daemon that is started while its Chroma server cannot be reached: real processes."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.bench.cluster import Server
from tests.daemons import Daemon, ForkedDaemon
from tests.processes import free_port
from tests.test_cluster import eventually, failure, texts

pytestmark = pytest.mark.slow


class Place:
    """A Chroma server and daemons on it, each with an owner and settings of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        (folder / "chroma").mkdir()
        self.server = Server(folder / "chroma", self.port)
        self.daemons: list[Daemon] = []

    def daemon(self, name: str, **settings: str) -> Daemon:
        given = {"MODE": "http", "PORT": str(self.port), "POLL_SECONDS": "0.2", "AUDIENCE": "team"}
        given = {f"MEMORYD_STORE_{key}": value for key, value in (given | settings).items()}
        self.daemons.append(
            ForkedDaemon(self.folder / name, MEMORYD_DOORS_TOOLSETS="all", **given).start()
        )
        return self.daemons[-1]

    def restart_without_server(self, daemon: Daemon) -> None:
        self.server.stop()
        daemon.stop()
        daemon.start()

    def start_server(self) -> None:
        asyncio.run(self.server.start())


@pytest.fixture
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="memoryd-test-") as name:
        made = Place(Path(name))
        made.start_server()
        yield made
        for daemon in made.daemons:
            if daemon.process is not None:
                daemon.stop()
        made.server.stop()


def warnings(daemon: Daemon, query: str) -> list[Any]:
    found: list[Any] = daemon.tool("search_memories", query=query)["warnings"]
    return found


def test_it_serves_what_it_had_and_says_so(place: Place) -> None:
    one, other = place.daemon("one"), place.daemon("other")
    ids = {
        name: one.tool("store_memory", content=f"the {name} is on the hill", name=name)["id"]
        for name in ("lighthouse", "mill", "chapel")
    }
    other.tool("store_memory", content="my own garden", name="garden", audience="private")
    eventually(lambda: len(texts(other)) == 4)
    place.restart_without_server(other)
    assert set(texts(other)) == {"lighthouse", "mill", "chapel", "garden"}
    found = other.tool("search_memories", query="lighthouse on the hill")
    assert found["results"][0]["id"] == ids["lighthouse"]
    assert any("cannot be reached" in warning for warning in found["warnings"])
    assert "store_offline" in failure(other, "store_memory", content="lost?")
    other.tool("update_memory", memory_id="garden", content="my own orchard")

    # Meanwhile others changed one memory and forgot another: that counts as soon as it is known.
    place.start_server()
    eventually(lambda: not one.status()["shared_store"]["trouble"])
    one.tool("update_memory", memory_id="mill", content="the mill is in the valley")
    one.tool("forget_memory", memory_id="chapel")
    expected = {
        "lighthouse": "the lighthouse is on the hill",
        "mill": "the mill is in the valley",
        "garden": "my own orchard",
    }
    eventually(lambda: texts(other) == expected, seconds=60)
    eventually(lambda: not any("cannot be reached" in w for w in warnings(other, "mill")))
    other.stop()
    kept = (other.folder / "index.snapshot").read_bytes()
    assert b"the lighthouse" in kept
    assert b"the chapel" not in kept


def test_a_server_that_hangs_does_not_hold_up_a_start(place: Place) -> None:
    one = place.daemon("one")
    one.tool("store_memory", content="the lighthouse is red", name="light")
    one.stop()
    assert place.server.process is not None
    place.server.process.send_signal(signal.SIGSTOP)
    try:
        one.start()
        assert texts(one) == {"light": "the lighthouse is red"}
        assert any("cannot be reached" in warning for warning in warnings(one, "lighthouse"))
    finally:
        place.server.process.send_signal(signal.SIGCONT)
    eventually(lambda: not one.status()["shared_store"]["trouble"], seconds=60)
    one.tool("store_memory", content="the lighthouse is white", name="light")
    assert texts(one) == {"light": "the lighthouse is white"}


def test_what_is_forgotten_here_does_not_come_back(place: Place) -> None:
    """Private memories are known without the server, also after a kill."""
    one = place.daemon("one")
    one.tool("store_memory", content="a shared secret", name="shared")
    one.tool("store_memory", content="a private secret", name="private", audience="private")
    one.stop()  # which saves the snapshot
    snapshot = (one.folder / "index.snapshot").read_bytes()
    assert b"a private secret" in snapshot
    one.start()
    one.tool("forget_memory", memory_id="private")
    one.stop(signal.SIGKILL)
    (one.folder / "index.snapshot").write_bytes(snapshot)  # as if it had not been erased there
    place.server.stop()
    one.start()
    assert set(texts(one)) == {"shared"}
    assert b"a private secret" not in (one.folder / "index.snapshot").read_bytes()


def test_a_snapshot_is_only_for_the_server_and_the_user_it_was_made_for(place: Place) -> None:
    one = place.daemon("one", OWNER="anna", PROJECTS='["acme/app"]')
    given: dict[str, Any] = {"audience": "project", "metadata": {"project": "acme/app"}}
    one.tool("store_memory", content="the deploy key is in the safe", name="key", **given)
    place.server.stop()
    for change in ({"PORT": str(free_port())}, {"OWNER": "ben"}, {"PROJECTS": "[]"}):
        one.stop()
        kept = (one.folder / "index.snapshot").read_bytes()
        changed = {f"MEMORYD_STORE_{key}": value for key, value in change.items()}
        looker = ForkedDaemon(one.folder, **(one.settings | changed)).start()
        assert texts(looker) == {}
        looker.stop()
        (one.folder / "index.snapshot").write_bytes(kept)
        one.start()
        assert set(texts(one)) == {"key"}


def test_what_is_queued_and_what_was_there_are_both_shown(place: Place) -> None:
    one = place.daemon("one", OFFLINE="queue")
    one.tool("store_memory", content="version 1", name="plan")
    one.tool("store_memory", content="kept", name="kept")
    place.restart_without_server(one)
    one.tool("store_memory", content="version 2", name="plan")
    one.tool("store_memory", content="new", name="new")
    one.tool("forget_memory", memory_id="kept")
    expected = {"plan": "version 2", "new": "new"}
    for by in (signal.SIGTERM, signal.SIGKILL):
        one.stop(by)
        one.start()
        assert texts(one) == expected
    place.start_server()

    def stored() -> dict[str, str]:
        return {name or "": text for name, text in place.server.state().values()}

    eventually(lambda: stored() == expected == texts(one), seconds=60)
