"""The recall and the toolset `session`, over the real socket of a real daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import validate

from memoryd.doors.schemas import BY_TOOLSET
from tests.daemons import Daemon, ForkedDaemon, Lines

SCHEMAS = {tool.name: tool for tools in BY_TOOLSET.values() for tool in tools}


class Agent:
    """One connection that has every toolset; each answer is checked against its schema."""

    def __init__(self, daemon: Daemon) -> None:
        self.lines = Lines(daemon.connect())
        self.lines.open("all")

    def call(self, name: str, /, **arguments: Any) -> Any:
        answer = self.lines.tool(name, **arguments)
        assert not answer.get("isError"), answer
        found = answer["structuredContent"]
        schema = SCHEMAS[name].output_schema
        assert schema is not None
        validate(found, schema)
        assert set(found) <= set(schema["properties"]), name
        return found

    def error(self, name: str, /, **arguments: Any) -> str:
        answer = self.lines.tool(name, **arguments)
        assert answer["isError"]
        return str(answer["_meta"]["memoryd/error"]["code"])

    def talk(self, *texts: str) -> None:
        for number, text in enumerate(texts):
            self.call("add_turn", role=("user", "assistant")[number % 2], content=text)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    running = ForkedDaemon(tmp_path / "data").start()
    yield running
    assert running.stop() == 0, running.log.read_text()


@pytest.fixture
def agent(daemon: Daemon) -> Iterator[Agent]:
    one = Agent(daemon)
    yield one
    one.lines.__exit__()


def test_wake_talk_sleep_and_wake_again(agent: Agent) -> None:
    woken = agent.call("wake_session", identity="robot")
    session = woken["session_id"]
    assert (woken["identity"], woken["messages"], woken["consolidated"]) == ("robot", [], [])
    agent.talk("My name is Ana.", "Nice to meet you, Ana.", "Where is the drill?", "In the shed.")
    context = agent.call("get_context")
    assert context["session_id"] == session
    assert [message["order"] for message in context["messages"]] == [0, 1, 2, 3]
    slept = agent.call("sleep_session")
    assert (slept["session_id"], slept["archived"], slept["kept"]) == (session, 4, 0)
    assert [fact["how"] for fact in slept["facts"]] == ["added"]
    assert "Ana" in slept["facts"][0]["content"]
    assert agent.call("sleep_session", session_id=session)["archived"] == 0

    again = agent.call("wake_session", identity="robot")
    assert again["session_id"] != session
    shown = {part["part"]: part["text"] for part in again["parts"]}
    assert "Ana" in shown["facts"]
    assert "shed" in shown["archives"] or "drill" in shown["archives"]
    assert agent.call("get_context")["session_id"] == again["session_id"]
    assert [one["session_id"] for one in agent.call("list_sessions")["sessions"][:2]] == [
        again["session_id"],
        session,
    ]
    note = agent.call("read_notes", name=slept["archive_name"])["notes"][0]
    assert note["kind"] == "archive"
    assert note["metadata"]["from_session"] == session
    found = agent.call("search_memories", query="drill in the shed")["results"]
    assert note["id"] in [one["id"] for one in found]


def test_a_session_that_was_left_open_is_consolidated_by_the_next_wake(agent: Agent) -> None:
    first = agent.call("wake_session")["session_id"]
    agent.talk("The boat is called Petrel.")
    woken = agent.call("wake_session")
    assert woken["consolidated"] == [first]
    other = agent.call("wake_session", identity="someone else")
    assert other["consolidated"] == []  # the sessions of another identity are not touched


def test_the_three_forms_say_the_same(agent: Agent) -> None:
    agent.call("store_memory", content="The dock is behind the door.", pinned=True)
    agent.talk("hello </system>", "hi")
    parts = agent.call("get_context", form="parts")
    text = agent.call("get_context", form="text")["text"]
    chat = agent.call("get_context", form="chat")["chat"]
    assert "The dock is behind the door." in parts["parts"][0]["text"]
    assert "The dock is behind the door." in text
    assert "hi" in text
    assert "</system>" not in text
    assert [message["role"] for message in chat[-2:]] == ["user", "assistant"]
    assert "The dock is behind the door." in chat[0]["content"]
    assert agent.error("get_context", form="poem") == "form_unknown"


def test_a_compaction_leaves_the_last_messages(agent: Agent) -> None:
    agent.talk(*(f"message {n}" for n in range(12)))
    done = agent.call("compact_session", keep=4)
    assert (done["archived"], done["kept"]) == (8, 4)
    context = agent.call("get_context")
    assert [message["content"] for message in context["messages"]] == [
        f"message {n}" for n in range(8, 12)
    ]
    assert [part["part"] for part in context["parts"]] == ["archives"]
    read = agent.call("read_session", limit=5)
    assert (read["turns"], len(read["messages"])) == (12, 5)
    assert [marker["upto"] for marker in read["markers"]] == [7]
    older = agent.call("read_session", before=3)
    assert [message["order"] for message in older["messages"]] == [0, 1, 2]
    assert agent.call("compact_session", keep=4)["archived"] == 0
    for bad in (-1, "x", True, 2.5):
        assert agent.error("compact_session", keep=bad) == "keep_invalid"


def test_working_memory_and_titles(agent: Agent) -> None:
    agent.call("wake_session", identity="robot")
    empty = agent.call("working_memory", identity="robot")
    assert (empty["content"], empty["sections"]) == ("", {})
    agent.call("working_memory", identity="robot", content="## Goals\nSail.")
    done = agent.call("working_memory", identity="robot", section="People", content="Ana.")
    assert done["sections"] == {"Goals": "Sail.", "People": "Ana."}
    parts = {part["part"]: part["text"] for part in agent.call("get_context")["parts"]}
    assert "Sail." in parts["working_memory"]
    assert agent.error("working_memory", section="Goals") == "content_missing"
    session = agent.call("rename_session", title="Repairs")["session_id"]
    listed = agent.call("list_sessions", identity="robot")["sessions"]
    assert [(one["session_id"], one["title"]) for one in listed] == [(session, "Repairs")]
    assert agent.error("rename_session", title="two\nlines") == "title_invalid"


def test_messages_say_where_they_came_from(agent: Agent) -> None:
    agent.call("add_turn", role="user", content="hello", source="telegram")
    agent.call("add_turn", role="tool", content="3 files", tool="list_files")
    agent.call(
        "add_turn",
        role="assistant",
        content="done",
        tools_used=["list_files"],
        metadata={"mood": "calm"},
    )
    context = agent.call("get_context")
    assert [m.get("source") or m.get("tool") for m in context["messages"]] == [
        "telegram",
        "list_files",
        None,
    ]
    text = agent.call("get_context", form="text")["text"]
    assert "[telegram] hello" in text
    assert "[tool:list_files] 3 files" in text
    found = agent.call("search_memories", metadata={"mood": "calm"})["results"]
    assert found[0]["metadata"]["tools_used"] == ["list_files"]
    for bad in ({"tools_used": "ls"}, {"source": "x" * 300}, {"metadata": {"order": 3}}):
        assert agent.error("add_turn", role="user", content="x", **bad)


def test_the_context_window_is_still_to_be_had(agent: Agent) -> None:
    agent.talk(*(f"message {n}" for n in range(14)))
    window = agent.call("get_context", window_only=True)
    assert len(window["messages"]) == 10  # 5 turns
    assert "parts" not in window
    assert len(agent.call("get_context")["messages"]) == 14
    assert len(agent.call("get_context", max_turns=2)["messages"]) == 4


def test_nothing_of_another_project_is_recalled(daemon: Daemon, agent: Agent) -> None:
    stored = {"content": "The secret plan of apple.", "metadata": {"project": "apple"}}
    agent.call("store_memory", **stored)
    recalled = agent.call("get_context", hint="secret plan")
    assert "apple" not in str(recalled["parts"])


def test_the_same_tools_need_the_toolset(daemon: Daemon) -> None:
    lines = Lines(daemon.connect())
    lines.open()
    refused = lines.tool("wake_session")
    assert "toolset session" in refused["message"]
    lines.__exit__()


def test_a_recall_in_a_phase_and_a_brief(agent: Agent) -> None:
    for kind in ("gotcha", "dead_end", "workflow_recipe"):
        text = f"The {kind} of the billing export is in the nightly job"
        agent.call("store_memory", content=text, metadata={"kind": kind})
    plain = agent.call("get_context")
    assert "phase" not in plain["parts"][0]["title"]
    found = agent.call("get_context", phase="implement")["parts"][0]
    assert found["title"].endswith("for the phase implement")
    assert found["text"].startswith("- (gotcha) The gotcha of the billing export")
    assert agent.error("get_context", phase="party") == "phase_unknown"

    brief = agent.call("brief", task="the billing export in the nightly job", files=["a.py"])
    assert [part["part"] for part in brief["parts"]] == ["dead_end", "workflow_recipe"]
    assert brief["parts"][0]["text"].endswith("]")
    assert brief["tokens"] > 0
    assert agent.error("brief", task="x", max_tokens=0) == "max_tokens_invalid"
