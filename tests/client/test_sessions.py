"""Sessions, recall and working memory of both clients: what is sent, and what a daemon does."""

from __future__ import annotations

from typing import Any

from memoryd.client import Client
from tests.client.line_server import LineServer, Message, listening, tool_result

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
