"""Sessions, recall and working memory of both clients: what is sent, and what a daemon does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from memoryd.client import Client, SyncClient
from tests.client.line_server import LineServer, Message, listening, tool_result
from tests.daemons import Daemon, ForkedDaemon

RECALLED = {
    "notice": "Data.",
    "session_id": "s-1",
    "parts": [{"part": "facts", "title": "Known facts", "text": "- Tea.", "ids": ["f"]}],
    "messages": [
        {"id": "m", "role": "user", "content": "Hi", "at": "x", "order": 0, "source": "radio"},
        {"id": "n", "role": "tool", "content": "42", "at": "x", "order": 1, "tool": "sum"},
    ],
    "tokens": 12,
    "warnings": ["Words only."],
}
WOKEN = RECALLED | {"created_at": "2026-01-01", "identity": "robot", "consolidated": ["s-0"]}


def recalling(server: LineServer, message: Message) -> Any:
    """A script: every tool answers with a recall of a session that was just opened."""
    return tool_result(message, WOKEN)


async def test_what_is_not_given_is_not_sent() -> None:
    async with listening(recalling) as (server, path), Client(path, session_id="own") as memory:
        await memory.recall()
        await memory.recall("s", "tea", 500, scope="session", identity="me", max_turns=3)
        await memory.add_turn("tool", "42", tool="sum", source="radio", metadata={"a": 1})
        await memory.sessions.compact(keep=2)
        await memory.sessions.read("s", limit=5, before=9)
        await memory.sessions.rename("Tea", "s")
        await memory.sessions.list(identity="me")
        await memory.working_memory()
        await memory.set_working_memory("", "me", "Goals")
        await memory.sessions.sleep()
    assert server.calls() == [
        {"session_id": "own"},
        {
            "session_id": "s",
            "hint": "tea",
            "max_tokens": 500,
            "scope": "session",
            "identity": "me",
            "max_turns": 3,
        },
        {
            "session_id": "own",
            "role": "tool",
            "content": "42",
            "tool": "sum",
            "source": "radio",
            "metadata": {"a": 1},
        },
        {"session_id": "own", "keep": 2},
        {"session_id": "s", "limit": 5, "before": 9},
        {"session_id": "s", "title": "Tea"},
        {"identity": "me"},
        {},
        {"identity": "me", "content": "", "section": "Goals"},
        {"session_id": "own"},
    ]


async def test_a_session_that_is_opened_becomes_the_clients_own() -> None:
    async with listening(recalling) as (server, path), Client(path, session_id="own") as memory:
        woken = await memory.sessions.wake("robot", hint="tea")
        assert (woken.session_id, memory.session_id) == ("s-1", "s-1")
        assert (woken.identity, woken.consolidated) == ("robot", ("s-0",))
        assert woken.created_at == "2026-01-01"
        await memory.add_turn("user", "hello")
    assert server.calls()[0] == {"identity": "robot", "hint": "tea"}
    assert server.calls()[1]["session_id"] == "s-1"


async def test_a_recall_is_chat_messages_and_one_text() -> None:
    async with listening(recalling) as (_, path), Client(path) as memory:
        recalled = await memory.recall()
    assert (recalled.tokens, recalled.warnings) == (12, ("Words only.",))
    system, hi, tool = recalled.messages
    assert system["role"] == "system"
    assert "Known facts" in system["content"]
    assert "- Tea." in system["content"]
    assert hi == {"role": "user", "content": "[radio] Hi"}
    assert tool["role"] == "user"
    assert tool["content"].endswith("[tool:sum] 42")
    places = [recalled.text.index(text) for text in ("- Tea.", "[radio] Hi", "[tool:sum] 42")]
    assert places == sorted(places)


# Against a real daemon


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = ForkedDaemon(tmp_path_factory.mktemp("sessions") / "data").start()
    yield running
    assert running.stop() == 0, running.log.read_text()


def test_a_day_of_the_sync_client(daemon: Daemon) -> None:
    """Wake, talk, compact, recall, sleep, and wake again: every call of the sync client."""
    with SyncClient(daemon.socket) as memory:
        before = memory.session_id
        woken = memory.sessions.wake("day")
        assert memory.session_id == memory.sessions.current == woken.session_id != before
        assert (woken.identity, woken.turns) == ("day", ())
        memory.add_turn("user", "My name is Ada.", source="radio", metadata={"room": "hall"})
        for number in range(7):
            memory.add_turn(("assistant", "user")[number % 2], f"message {number}")
        memory.add_turn("tool", "3 metres", tool="map", tools_used=["map"])
        done = memory.sessions.compact(keep=2)
        assert (done["archived"], done["kept"]) == (7, 2)
        [fact] = done["facts"]
        assert (fact["how"], "Ada" in fact["content"]) == ("added", True)
        recalled = memory.recall(hint="message 3")
        assert [turn["content"] for turn in recalled.turns] == ["message 6", "3 metres"]
        assert "archives" in {part["part"] for part in recalled.parts}
        assert recalled.text.rindex("[tool:map] 3 metres") > recalled.text.index("message 6")
        assert recalled.tokens > 0
        read = memory.sessions.read()
        assert (read["turns"], len(read["messages"]), len(read["markers"])) == (9, 9, 1)
        assert read["messages"][0].get("source") == "radio"
        older = memory.sessions.read(limit=2, before=3)["messages"]
        assert [message["order"] for message in older] == [1, 2]
        assert memory.sessions.rename("A talk")["title"] == "A talk"
        slept = memory.sessions.sleep()
        assert (slept["archived"], slept["session_id"]) == (2, memory.session_id)
        [session] = memory.sessions.list(identity="day")["sessions"]
        assert (session["title"], session["archives"], session["turns"]) == ("A talk", 2, 9)
        assert session["closed_at"] is not None
        again = memory.sessions.wake("day")
        assert again.session_id != session["session_id"]
        assert "Ada" in again.text


async def test_working_memory_is_in_the_recall_of_its_identity(daemon: Daemon) -> None:
    async with Client(daemon.socket) as memory:
        assert (await memory.working_memory("w"))["content"] == ""
        done = await memory.set_working_memory("## Goals\nCharge.", "w")
        assert (done["changed"], done["sections"]) == (True, {"Goals": "Charge."})
        await memory.set_working_memory("Ada", "w", "People")
        found = await memory.working_memory("w")
        assert found["sections"] == {"Goals": "Charge.", "People": "Ada"}
        assert not found["changed"]
        recalled = await memory.recall(identity="w")
        [part] = [part for part in recalled.parts if part["part"] == "working_memory"]
        assert "Charge." in part["text"]
        other = await memory.recall(identity="somebody else")
        assert "Charge." not in other.text


async def test_a_context_window_is_the_last_messages_alone(daemon: Daemon) -> None:
    """It keeps its meaning: a recall has more, and is another call."""
    async with Client(daemon.socket) as memory:
        await memory.store("A pinned fact.", pinned=True)
        await memory.add_turn("user", "hello")
        window = await memory.context_window()
        assert [message["content"] for message in window["messages"]] == ["hello"]
        assert "parts" not in window
        assert "A pinned fact." in (await memory.recall()).text


async def test_the_budget_of_a_recall(daemon: Daemon) -> None:
    async with Client(daemon.socket) as memory:
        for number in range(10):
            await memory.add_turn("user", f"{number} " + "word " * 40)
        small = await memory.recall(max_tokens=200)
        assert small.tokens <= 200
        assert small.turns[-1]["order"] == 9
        assert len(small.turns) < len((await memory.recall(max_tokens=4000)).turns) == 10
