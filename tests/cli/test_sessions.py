"""`memoryd recall`, `memoryd sessions` and `memoryd working-memory` against a real daemon."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest

from memoryd.client import SyncClient
from tests.daemons import Daemon

Capture = pytest.CaptureFixture[str]


def talk(daemon: Daemon, session: str, count: int) -> None:
    """A conversation of so many messages."""
    with SyncClient(daemon.socket, session_id=session) as memory:
        for number in range(count):
            memory.add_turn(("user", "assistant")[number % 2], f"message {number} of {session}")


def test_the_actions_of_sessions(run: Any, daemon: Daemon) -> None:
    woken = run("sessions", "wake", "--identity", "robot", "--session", "night")
    assert woken.startswith("Session night\n")
    talk(daemon, "night", 6)
    with SyncClient(daemon.socket, session_id="night") as memory:
        memory.add_turn("user", "My name is Ada.", source="radio")
        memory.add_turn("tool", "3 metres", tool="map")
    assert run("sessions", "rename", "night", "The hall") == "Renamed to The hall\n"
    listed = run("sessions").splitlines()
    assert listed[-1] == "1 session."
    for part in ("night", "robot", "8 messages", "open", "The hall"):
        assert part in listed[0]
    assert run("sessions", "list", "--identity", "nobody") == "0 sessions.\n"
    read = run("sessions", "read", "night", "--limit", "3").splitlines()
    assert read[0] == "The hall, 8 messages"
    assert read[1].endswith("assistant: message 5 of night")
    assert read[2].endswith("user: [radio] My name is Ada.")
    assert read[3].endswith("tool: [tool:map] 3 metres")
    assert (
        run("sessions", "read", "night", "--before", "1")
        .splitlines()[1:][0]
        .endswith("user: message 0 of night")
    )
    done = run("sessions", "compact", "night", "--keep", "2")
    assert done.startswith("Archived 6 messages as ")
    assert done.endswith("(summary by extract); the session shows 2 messages.\n")
    assert "(until here: 6 messages archived as " in run("sessions", "read", "night")
    assert run("sessions", "compact", "night", "--keep", "2") == (
        "Nothing to archive; the session shows 2 messages.\n"
    )
    slept = run("sessions", "sleep", "night").splitlines()
    assert slept[0].startswith("Closed night. Archived 2 messages as ")
    assert any(line.startswith("  added: ") and "Ada" in line for line in slept)
    assert "closed" in run("sessions").splitlines()[0]


def test_recall_shows_the_text_of_a_prompt(run: Any, daemon: Daemon) -> None:
    talk(daemon, "day", 2)
    with SyncClient(daemon.socket) as memory:
        memory.store("The charging dock is behind the kitchen door.", pinned=True)
    said = run("recall", "--session", "day")
    places = [said.index(text) for text in ("kitchen door", "message 0 of day", "message 1 of day")]
    assert places == sorted(places)
    told = json.loads(run("recall", "where is", "the dock?", "--session", "day", "--json"))
    assert [turn["content"] for turn in told["turns"]] == ["message 0 of day", "message 1 of day"]
    assert told["session_id"] == "day"
    assert told["parts"][0]["part"] == "facts"
    assert "kitchen door" in told["text"]
    assert told["messages"][-1] == {"role": "assistant", "content": "message 1 of day"}
    short = json.loads(run("recall", "--session", "day", "--max-tokens", "60", "--json"))
    assert short["tokens"] <= 60
    assert "scope" in run("recall", "x", "--scope", "galaxy", fails=1)


def test_working_memory(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("working-memory") == "\n"
    text = "## Goals\nCharge.\n\n## People\nAda"
    assert run("working-memory", "--set", text) == "Changed default\n"
    assert run("working-memory", "--set", text) == "Unchanged: default\n"
    assert run("working-memory") == text + "\n"
    assert run("working-memory", "--section", "people") == "Ada\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Rest.\n")))
    run("working-memory", "--section", "Goals", "--set", "-")
    assert run("working-memory", "--section", "goals") == "Rest.\n"
    assert run("working-memory", "--identity", "robot") == "\n"
    told = json.loads(run("working-memory", "--json"))
    assert told["sections"] == {"Goals": "Rest.", "People": "Ada"}
    missing = run("working-memory", "--section", "Pets", fails=1)
    assert "no section 'Pets'" in missing
    assert "Goals, People" in missing
    assert "Rest." in run("recall")


def test_json(run: Any, daemon: Daemon) -> None:
    woken = json.loads(run("sessions", "wake", "--identity", "json", "--json"))
    session = woken["session_id"]
    talk(daemon, session, 3)
    assert woken["identity"] == "json"
    assert json.loads(run("sessions", "--json"))["total"] >= 1
    read = json.loads(run("sessions", "read", session, "--json"))
    assert (read["turns"], len(read["messages"])) == (3, 3)
    renamed = json.loads(run("sessions", "rename", session, "Talk", "--json"))
    assert renamed == {"session_id": session, "title": "Talk"}
    compacted = json.loads(run("sessions", "compact", session, "--keep", "1", "--json"))
    assert (compacted["archived"], compacted["kept"]) == (2, 1)
    assert json.loads(run("sessions", "sleep", session, "--json"))["closed_at"]


def test_errors_help(run: Any) -> None:
    assert "ID is missing" in run("sessions", "read", fails=2)
    assert "Did you mean compact?" in run("sessions", "compct", "x", fails=2)
    assert "title" in run("sessions", "rename", "x", " ", fails=1)
    assert "Try: memoryd sessions\n" in run("sessions", "read", "nowhere", fails=1)


def test_a_recall_in_a_phase_and_a_brief(run: Any, daemon: Daemon) -> None:
    with SyncClient(daemon.socket) as memory:
        for kind in ("gotcha", "dead_end"):
            text = f"The {kind} of the ledger import is in the weekly job"
            memory.store(text, metadata={"kind": kind, "related_files": ["src/ledger.py"]})
        assert memory.recall(phase="implement").parts[0]["title"].endswith("implement")
        assert memory.brief("the ledger import", ["src/ledger.py"]).text.count("(dead_end") == 1
    assert "for the phase implement" in run("recall", "--phase", "implement")
    assert "There is no phase 'party'" in run("recall", "--phase", "party", fails=1)
    shown = run("brief", "the", "ledger", "import", "--file", "src/ledger.py")
    assert "(dead_end, src/ledger.py) The dead_end of the ledger import" in shown
    found = json.loads(run("brief", "the ledger import", "--json"))
    assert found["text"].count("dead_end, src/ledger.py") == 1
    assert "Nothing is known" in run("brief", "zebra")
