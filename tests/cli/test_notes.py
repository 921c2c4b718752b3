"""`memoryd notes` against a real daemon."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest

Capture = pytest.CaptureFixture[str]


def test_every_action(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("notes") == "0 notes.\n"
    added = run("notes", "add", "Deploy steps", "Build, then ship.", "--alias", "rollout")
    assert added == "Added note 1: Deploy steps (rollout)\n"
    assert run("notes", "read", "ROLLOUT") == "Build, then ship.\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Test first.\n")))
    assert run("notes", "write", "rollout", "-") == "Changed note 1: Deploy steps (rollout)\n"
    assert run("notes", "read", "deploy steps") == "Test first.\n"
    renamed = run("notes", "rename", "rollout", "Release", "--keep-alias")
    assert renamed == "Changed note 1: Release (rollout, Deploy steps)\n"
    assert run("notes", "alias", "release", "R") == (
        "Changed note 1: Release (rollout, Deploy steps, R)\n")  # fmt: skip
    assert run("notes", "alias", "release", "r").startswith("Unchanged: note 1")
    assert run("notes", "unalias", "r") == "Changed note 1: Release (rollout, Deploy steps)\n"
    assert run("notes", "add", "Talk", "x", "--kind", "archive") == "Added archive 2: Talk\n"
    listed = run("notes", "list").splitlines()
    assert "1  note" in listed[0]
    assert listed[0].endswith("Release  (rollout, Deploy steps)  Test first.")
    assert listed[-1] == "2 notes."
    assert run("notes", "list", "--kind", "archive").endswith("1 note.\n")
    assert run("notes", "remove", "Deploy Steps") == "Removed Deploy Steps\n"
    assert run("notes", "remove", "talk") == "Removed talk\n"


def test_json(run: Any) -> None:
    added = json.loads(run("notes", "add", "A", "x", "--meta", 'tags=["t"]', "--json"))
    assert added["note"]["metadata"] == {"tags": ["t"]}
    assert json.loads(run("notes", "read", "a", "--json")) == added["note"]
    assert json.loads(run("notes", "--json"))["total"] == 1
    assert json.loads(run("notes", "remove", "a", "--json"))["action"] == "remove"


def test_errors_help(run: Any) -> None:
    run("notes", "add", "Deploy steps", "x")
    assert "Try: Did you mean 'Deploy steps'?" in run("notes", "read", "deplyo steps", fails=1)
    assert "is taken by the note 'Deploy steps'" in run(
        "notes", "add", "DEPLOY STEPS", "y", fails=1
    )
    assert "Did you mean read?" in run("notes", "reed", "x", fails=2)
    assert "NAME is missing" in run("notes", "read", fails=2)
    assert "Did you mean --kind?" in run("notes", "list", "--kinds", "note", fails=2)
    run("notes", "remove", "deploy steps")


def test_a_search_by_words(run: Any) -> None:
    run("notes", "add", "heron", "Nests in May.", "--alias", "osprey")
    assert "Nests in May." in run("search", "heron", "--mode", "words")
    assert run("search", "osprey", "--mode", "words") == "Nothing found.\n"
    assert "There is no mode 'meaning'" in run("search", "heron", "--mode", "meaning", fails=1)
