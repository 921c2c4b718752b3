"""A daemon with `store.offline: queue` that loses its Chroma server, beside one that does not: real
daemons, a real server, and a link that is cut."""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.bench.cluster import Server
from scripts.bench.link import Link
from tests.daemons import Daemon, ForkedDaemon
from tests.processes import free_port
from tests.test_cluster import eventually, failure, texts

pytestmark = pytest.mark.slow
LIMIT = 40
SENT = 90.0  # seconds until a busy machine has sent them all


class Split:
    """Two daemons on one server. The link of `away` can be cut; it queues its writes then."""

    def __init__(self, folder: Path) -> None:
        (folder / "chroma").mkdir()
        self.server = Server(folder / "chroma", free_port())
        asyncio.run(self.server.start())
        self.link = Link(self.server.port)
        self.away = self._daemon(folder / "away", self.link.port)
        self.home = self._daemon(folder / "home", self.server.port)

    def _daemon(self, folder: Path, port: int) -> Daemon:
        settings = {
            "MEMORYD_STORE_MODE": "http",
            "MEMORYD_STORE_PORT": str(port),
            "MEMORYD_STORE_OFFLINE": "queue",
            "MEMORYD_STORE_OFFLINE_LIMIT": str(LIMIT),
            "MEMORYD_STORE_POLL_SECONDS": "0.2",
            "MEMORYD_DOORS_TOOLSETS": "all",
        }
        return ForkedDaemon(folder, **settings).start()

    def cut(self) -> None:
        self.link.cut()
        eventually(lambda: self.away.status()["shared_store"]["trouble"])

    def mend(self) -> None:
        """Mend the link and wait until everything is sent."""
        self.link.mend()
        eventually(self._is_sent, SENT)

    def _is_sent(self) -> bool:
        return not self.queued and not self.away.status()["shared_store"]["trouble"]

    @property
    def queued(self) -> int:
        return int(self.away.status()["shared_store"]["queued"])

    @property
    def queue_file(self) -> Path:
        return self.away.folder / "offline.queue"

    def ends_with(self, expected: dict[str, str]) -> None:
        """All show exactly this: text by name."""
        eventually(lambda: texts(self.away) == texts(self.home) == expected, SENT)
        assert dict(self.server.state().values()) == expected


@pytest.fixture
def split() -> Iterator[Split]:
    with tempfile.TemporaryDirectory(prefix="memoryd-test-") as folder:
        made = Split(Path(folder))
        yield made
        for daemon in (made.away, made.home):
            daemon.stop()
        made.link.cut()
        made.server.stop()


def store(daemon: Daemon, name: str, text: str) -> str:
    return str(daemon.tool("store_memory", content=text, name=name)["id"])


def test_writes_are_queued_shown_at_once_and_sent_when_the_server_is_back(split: Split) -> None:
    gate = store(split.away, "gate", "the gate is green")
    store(split.away, "light", "the lighthouse is red")
    eventually(lambda: "light" in texts(split.home))
    split.cut()
    done = [
        split.away.tool("store_memory", content="the boiler is in the cellar", name="boiler"),
        split.away.tool("update_memory", memory_id=gate, content="the gate is blue"),
        split.away.tool("update_memory", memory_id=gate, metadata={"seen": True}),
        split.away.tool("forget_memory", memory_id="light"),
    ]
    for answer in done:
        assert any("not yet on the server" in warning for warning in answer["warnings"]), answer
    shown = {"gate": "the gate is blue", "boiler": "the boiler is in the cellar"}
    assert texts(split.away) == shown
    found = split.away.tool("search_memories", query="boiler")
    assert found["results"][0]["name"] == "boiler"
    assert split.queued == len(done)
    assert "light" in texts(split.home)
    split.mend()
    split.ends_with(shown)
    assert not split.queue_file.exists()
    after = split.away.tool("store_memory", content="the boiler is new", name="boiler")
    assert not after["warnings"]


def test_what_is_read_during_an_outage_says_so(split: Split) -> None:
    id = store(split.away, "gate", "the gate is green")
    split.cut()
    uri = f"memory://memory/{id}"
    got = json.loads(split.away.call("resources/read", uri=uri)["contents"][0]["text"])
    searched = split.away.tool("search_memories", query="gate")
    for answer in (got, split.away.tool("list_memories"), searched):
        told = [said for said in answer["warnings"] if "This is what was known" in said]
        assert len(told) == 1
        assert "queued" in told[0]
    split.mend()
    assert "warnings" not in split.away.tool("list_memories")


def test_a_kill_loses_nothing_that_is_queued_and_doubles_nothing(split: Split) -> None:
    """Also a kill while it is being sent."""
    split.cut()
    expected = {f"name {n}": f"text {n}" for n in range(LIMIT)}
    for name, text in expected.items():
        store(split.away, name, text)
    split.away.stop(signal.SIGKILL)
    split.link.mend()
    split.away.start()
    assert texts(split.away).keys() == expected.keys()
    eventually(lambda: len(split.server.state()) > 2)
    split.away.stop(signal.SIGKILL)
    split.away.start()
    eventually(lambda: not split.queued, SENT)
    split.ends_with(expected)
    assert len(split.server.state()) == LIMIT


def test_a_forgotten_memory_stays_forgotten_though_its_update_was_queued(split: Split) -> None:
    id = store(split.away, "gate", "the gate is green")
    eventually(lambda: texts(split.home))
    split.cut()
    split.away.tool("update_memory", memory_id=id, content="the gate is blue")
    split.home.tool("forget_memory", memory_id=id)
    split.mend()
    split.ends_with({})


def test_what_is_stored_under_a_name_stays_though_another_forgot_the_old_value(
    split: Split,
) -> None:
    store(split.away, "gate", "the gate is green")
    eventually(lambda: texts(split.home))
    split.cut()
    store(split.away, "gate", "the gate is blue")
    split.home.tool("forget_memory", memory_id="gate")
    split.mend()
    split.ends_with({"gate": "the gate is blue"})


def test_a_queued_update_is_merged_with_what_another_changed_meanwhile(split: Split) -> None:
    id = store(split.away, "gate", "the gate is green")
    eventually(lambda: texts(split.home))
    split.cut()
    split.away.tool("update_memory", memory_id=id, metadata={"by": "away"})
    split.away.tool("update_memory", memory_id=id, metadata={"count": 2})
    split.home.tool("update_memory", memory_id=id, content="the gate is blue", pinned=True)
    split.mend()
    split.ends_with({"gate": "the gate is blue"})
    for daemon in (split.away, split.home):
        memory = daemon.tool("list_memories")["memories"][0]
        assert memory["pinned"]
        assert {"by": "away", "count": 2}.items() <= memory["metadata"].items()


def test_of_a_name_that_both_gave_away_the_later_write_stays(split: Split) -> None:
    """Later by the order in which the server gets it."""
    split.cut()
    store(split.away, "gate", "written first, sent last")
    store(split.home, "gate", "written last, sent first")
    split.mend()
    split.ends_with({"gate": "written first, sent last"})


def test_a_full_queue_refuses_and_says_so(split: Split) -> None:
    split.cut()
    for number in range(LIMIT):
        store(split.away, f"name {number}", f"text {number}")
    assert "queue is full" in failure(split.away, "store_memory", content="too much")
    assert split.queued == LIMIT
    assert len(texts(split.away)) == LIMIT  # the one that was refused is not shown
    split.mend()
    assert len(split.server.state()) == LIMIT


def test_a_forgotten_text_leaves_the_queue_at_once_and_the_file_is_private(split: Split) -> None:
    split.cut()
    store(split.away, "secret", "the treasure is under the oak")
    assert "under the oak" in split.queue_file.read_text()
    assert split.queue_file.stat().st_mode & 0o777 == 0o600
    split.away.tool("forget_memory", memory_id="secret")
    assert "under the oak" not in split.queue_file.read_text()
    assert texts(split.away) == {}
    split.mend()
    split.ends_with({})
    left = [path for path in split.away.folder.rglob("*") if path.is_file()]
    assert not [path for path in left if b"under the oak" in path.read_bytes()]
