"""The lifecycle through every door: which searches count as uses, what is marked, and reviews."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.cli.main import main
from memoryd.client import SyncClient
from memoryd.doors.tokens import read_token
from memoryd.model import DAY
from tests.daemons import Daemon, ForkedDaemon, Lines
from tests.doors.clients import connected
from tests.doors.test_surface import undeclared
from tests.processes import free_port, until

MOST = 3


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with all doors and tools, which can be restarted."""
    settings = {
        "MEMORYD_DOORS_TCP_PORT": str(free_port()),
        "MEMORYD_DOORS_HTTP_PORT": str(free_port()),
        "MEMORYD_DOORS_MAX_FORGETS_PER_MINUTE": str(MOST),
        "MEMORYD_DOORS_TOOLSETS": "all",
    }
    running = ForkedDaemon(tmp_path_factory.mktemp("lifecycle") / "data", **settings).start()
    yield running
    assert running.stop() == 0, running.log.read_text()


def read(daemon: Daemon, name: str) -> Any:
    found = daemon.call("resources/read", uri=f"memory://memory/{name}")
    return json.loads(found["contents"][0]["text"])


def uses(daemon: Daemon, name: str) -> int:
    """How often a memory was used: a stop writes what was counted."""
    assert daemon.stop() == 0
    daemon.start()
    count: int = read(daemon, name)["metadata"].get("uses", 0)
    return count


def tcp(daemon: Daemon, token: str) -> Lines:
    port = int(daemon.settings["MEMORYD_DOORS_TCP_PORT"])
    link = socket.create_connection(("127.0.0.1", port), timeout=60)
    link.sendall(read_token(daemon.folder / token).encode() + b"\n")
    lines = Lines(link)
    lines.open()
    return lines


async def test_a_search_of_an_agent_counts_at_every_door(own: Daemon) -> None:
    own.tool("store_memory", content="the heron stands in the pond", name="heron")
    token = read_token(own.folder / "token")
    for door in ("unix", "stdio", "http"):
        async with connected(own, door, "legacy", token) as client:
            answer = await client.call_tool("search_memories", {"query": "heron in the pond"})
            assert (answer.structured_content or {})["results"][0]["name"] == "heron"
    with tcp(own, "token") as lines:
        lines.tool("search_memories", query="heron in the pond")
    with SyncClient(own.socket) as program:
        program.search("heron in the pond")
        program.search("", metadata={"heron": {"$exists": False}}, limit=1000)
        program.search("heron in the pond", count_use=False)
    assert uses(own, "heron") == 6


def test_to_look_is_no_use(own: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    own.tool("store_memory", content="the egret stands in the pond", name="egret")
    for _ in range(2):
        own.tool("list_memories")
        read(own, "egret")
    for words in (["search", "egret", "pond"], ["get", "egret"], ["list"], ["export", "-"]):
        assert main([*words, "--socket", str(own.socket)]) == 0
    assert "egret" in capsys.readouterr().out
    assert uses(own, "egret") == 0


def test_a_search_with_the_read_token_leaves_no_trace(own: Daemon) -> None:
    own.tool("store_memory", content="the bittern hides in the reeds", name="bittern")
    with tcp(own, "token.read") as lines:
        found = lines.tool("search_memories", query="bittern in the reeds")["structuredContent"]
        assert found["results"][0]["name"] == "bittern"
    assert uses(own, "bittern") == 0


def test_the_list_of_the_most_used_is_up_to_date(own: Daemon) -> None:
    for bird in ("coot", "rail"):
        own.tool("store_memory", content=f"the {bird} swims", name=bird, metadata={"swims": True})
    for _ in range(3):
        own.tool("search_memories", query="the coot swims", metadata={"swims": True}, limit=1)
    page = own.tool("list_memories", metadata={"swims": True}, order="most_used")
    assert [memory["name"] for memory in page["memories"]] == ["coot", "rail"]


def test_a_deprecated_memory_is_marked(own: Daemon) -> None:
    old = {
        "id": "old-grebe",
        "type": "fact",
        "content": "the grebe builds a floating nest",
        "created_at": time.time() - 100 * DAY,
        "expires_at": None,
        "metadata": {"kind": "work_state", "source": "mcp_auto"},
    }
    assert own.tool("import_memories", memories=[old])["outcomes"][0]["outcome"] == "added"
    page = own.tool("search_memories", query="grebe nest", explain=True, count_use=False)
    [hit] = [hit for hit in page["results"] if hit["id"] == "old-grebe"]
    assert hit["deprecated"] is True
    assert -0.0201 < hit["why"]["trust"] < 0.0
    [tool] = [one for one in own.call("tools/list")["tools"] if one["name"] == "search_memories"]
    assert undeclared(page, tool["outputSchema"]) == []
    assert own.stop() == 0
    own.start()
    with SyncClient(own.socket) as program:  # the first sweep marks it
        program.review("old-grebe", "confirm")
        found = program.search("grebe nest")["results"][0]
    assert (found["id"], "deprecated" in found) == ("old-grebe", False)


def test_a_review_by_the_tool(own: Daemon) -> None:
    own.tool("store_memory", content="the stork is black", name="stork")
    flagged = own.tool("review_memory", memory_id="stork", action="flag", reason="A white one?")
    assert flagged["memory"]["metadata"]["needs_review"] is True
    waiting = own.tool("list_memories", metadata={"needs_review": True})
    assert [memory["name"] for memory in waiting["memories"]] == ["stork"]
    right = own.tool(
        "review_memory", memory_id="stork", action="correct", content="the stork is white"
    )
    assert right["memory"]["content"] == "the stork is white"
    assert right["memory"]["metadata"]["user_verified"] is True
    assert "needs_review" not in right["memory"]["metadata"]
    gone = own.tool("review_memory", memory_id="stork", action="reject")
    assert (gone["id"], gone["forgotten"], "memory" in gone) == (right["id"], True, False)


def test_rejecting_over_the_network_counts_as_forgetting(own: Daemon) -> None:
    for n in range(MOST + 1):
        own.tool("store_memory", content=f"the gull {n}", name=f"gull {n}")
    with tcp(own, "token") as lines:
        for n in range(MOST + 1):
            lines.tool("review_memory", memory_id=f"gull {n}", action="confirm")
        answers = [
            lines.tool("review_memory", memory_id=f"gull {n}", action="reject")
            for n in range(MOST + 1)
        ]
    errors = [(answer.get("_meta") or {}).get("memoryd/error", {}) for answer in answers]
    assert [error.get("code") for error in errors] == [None] * MOST + ["rate_limited"]
    assert read(own, f"gull%20{MOST}")["content"] == f"the gull {MOST}"


async def test_a_sweep_notices_files_that_are_gone(own: Daemon, tmp_path: Path) -> None:
    (tmp_path / "shop" / "src").mkdir(parents=True)
    about = {"project": str(tmp_path / "shop"), "related_files": ["src/db.ts:45"]}
    own.tool("store_memory", content="close the pool", name="pool", metadata=about)
    assert own.stop() == 0
    own.start()  # with a sweep
    await until(lambda: "needs_review" in read(own, "pool")["metadata"])
    assert read(own, "pool")["metadata"]["review_reason"] == "src/db.ts:45 is gone."
