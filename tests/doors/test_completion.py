"""Completion of ids, names and sessions, for a person who types into a client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.types import ResourceTemplateReference

from tests.daemons import Daemon, ForkedDaemon, Lines, unix_transport

MEMORY, SESSION = "memory://memory/{id}", "memory://session/{id}"


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon of which every memory is known."""
    folder: Path = tmp_path_factory.mktemp("completion") / "data"
    running = ForkedDaemon(folder).start()
    with Lines(running.connect()) as lines:
        lines.open()
        for n in range(130):
            lines.tool("store_memory", content=f"shelf {n}", name=f"Shelf {n:03}")
        lines.tool("store_memory", content="nasty", name="tricky <|im_start|> name")
        for n in range(3):
            turn = {"role": "user", "content": f"hello {n}", "session_id": f"Talk-{n}"}
            lines.tool("add_turn", **turn)
    yield running
    assert running.stop() == 0


def complete(daemon: Daemon, uri: str, typed: str, name: str = "id") -> Any:
    ref = {"type": "ref/resource", "uri": uri}
    argument = {"name": name, "value": typed}
    found = daemon.call("completion/complete", ref=ref, argument=argument)
    return found.get("completion", found)


def test_names_that_begin_so_are_found_in_order(shelf: Daemon) -> None:
    found = complete(shelf, MEMORY, "shelf 01")
    assert found["values"] == [f"Shelf {n:03}" for n in range(10, 20)]
    assert (found["total"], found["hasMore"]) == (10, False)


def test_an_id_is_completed_and_leads_to_its_memory(shelf: Daemon) -> None:
    made = shelf.tool("store_memory", content="by its id")
    assert made["id"] in complete(shelf, MEMORY, made["id"][:9])["values"]
    shelf.tool("forget_memory", memory_id=made["id"])
    assert complete(shelf, MEMORY, made["id"])["values"] == []


def test_no_more_than_a_hundred_and_the_rest_is_counted(shelf: Daemon) -> None:
    found = complete(shelf, MEMORY, "shelf")
    assert len(found["values"]) == 100
    assert (found["total"], found["hasMore"]) == (130, True)
    everything = complete(shelf, MEMORY, "")
    assert len(everything["values"]) == 100
    assert everything["total"] == 131 + 134


def test_an_expired_memory_is_not_offered(tmp_path: Path) -> None:
    """Nor a session of which nothing is left. What lives for a second is gone soon enough."""
    daemon = ForkedDaemon(tmp_path / "data", MEMORYD_MEMORY_CONVERSATION_DAYS="0.00001").start()
    try:
        daemon.tool("store_memory", content="brief", name="brief", memory_type="conversation")
        daemon.tool("add_turn", role="user", content="hi", session_id="brief")
        deadline = time.monotonic() + 60
        while any(complete(daemon, uri, "brief")["values"] for uri in (MEMORY, SESSION)):
            assert time.monotonic() < deadline
    finally:
        daemon.stop()


def test_sessions_are_completed_latest_first(shelf: Daemon) -> None:
    found = complete(shelf, SESSION, "talk")
    assert found["values"] == ["Talk-2", "Talk-1", "Talk-0"]
    assert complete(shelf, SESSION, "Talk-1")["values"] == ["Talk-1"]


def test_names_are_cleaned_like_all_recalled_text(shelf: Daemon) -> None:
    found = complete(shelf, MEMORY, "tricky")
    assert found["values"] == ["tricky \u2039|im_start|\u203a name"]


def test_the_prompt_has_nothing_to_complete(shelf: Daemon) -> None:
    ref = {"type": "ref/prompt", "name": "use_memory"}
    found = shelf.call("completion/complete", ref=ref, argument={"name": "x", "value": ""})
    assert found["completion"]["values"] == []


@pytest.mark.parametrize(
    ("ref", "name", "code"),
    [
        ({"type": "ref/resource", "uri": "memory://other/{id}"}, "id", "reference_unknown"),
        ({"type": "ref/resource", "uri": MEMORY}, "name", "reference_unknown"),
        ({"type": "ref/prompt", "name": "nobody"}, "x", "prompt_unknown"),
    ],
)
def test_what_cannot_be_completed_is_refused(shelf: Daemon, ref: Any, name: str, code: str) -> None:
    error = shelf.call("completion/complete", ref=ref, argument={"name": name, "value": ""})
    assert error["code"] == -32602
    assert error["data"]["memoryd/error"]["code"] == code
    assert "Try: Use " in error["message"]


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_the_official_client_completes_in_both_eras(shelf: Daemon, era: str) -> None:
    async with Client(unix_transport(shelf.socket), mode=era) as client:
        ref = ResourceTemplateReference(type="ref/resource", uri=MEMORY)
        found = await client.complete(ref, {"name": "id", "value": "Shelf 12"})
    assert found.completion.values == [f"Shelf {n}" for n in range(120, 130)]


def test_the_server_says_that_it_completes(shelf: Daemon) -> None:
    with Lines(shelf.connect()) as lines:
        assert "completions" in lines.open()["capabilities"]
