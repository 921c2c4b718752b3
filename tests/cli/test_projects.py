"""`memoryd projects`, and the project of other verbs, against a real daemon."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.checkouts import checkout
from tests.daemons import Daemon, ForkedDaemon
from tests.processes import environment

A, B = "acme/app", "acme/site"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    running = ForkedDaemon(tmp_path / "data").start()
    yield running
    assert running.stop() == 0, running.log.read_text()


@pytest.fixture
def in_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory whose project is A."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MEMORYD_PROJECT")
    folder = checkout(tmp_path / "home" / "app", f"git@example.com:{A}.git")
    monkeypatch.chdir(folder)
    return folder


def project(said: str) -> str | None:
    found: str | None = json.loads(said)["metadata"].get("project")
    return found


@pytest.mark.usefixtures("in_checkout")
def test_verbs_use_the_project_of_the_working_directory(run: Any) -> None:
    """As an agent there does."""
    assert "project acme/app" in run("store", "The port is 8080.")
    assert project(run("store", "The port is 9090.", "--json")) == A
    assert project(run("store", "I like tea.", "--shared", "--json")) is None
    assert project(run("store", "I like coffee.", "--project", "", "--json")) is None
    assert project(run("store", "The port is 8080.", "--project", B, "--json")) == B
    hits = json.loads(run("search", "port 8080", "--json"))["results"]
    assert [hit["metadata"]["project"] for hit in hits][:2] == [A, B]
    assert "[acme/site]" in run("search", "port 8080")
    assert "project_invalid" not in run("store", "x", "--shared", "--project", A, fails=1)
    assert "* acme/app" in run("projects")


def test_a_filter_narrows_to_a_project_or_to_what_is_shared(run: Any) -> None:
    for name in (A, B, ""):
        run("store", f"port of {name}", "--project", name)
    for verb in ("list", "search"):
        found = [run(verb, *flags, "--json") for flags in (["--project", A], ["--shared"])]
        key = "memories" if verb == "list" else "results"
        contents = [[m["content"] for m in json.loads(said)[key]] for said in found]
        assert contents == [[f"port of {A}"], ["port of "]]
    assert "exclude each other" in run("list", "--project", A, "--shared", fails=2)
    assert "Would forget 1 memory" in run("forget", "--project", A, "--dry-run")
    narrow = run("list", "--project", A, "--filter", '{"project": {"$exists": true}}', "--json")
    assert json.loads(narrow)["total"] == 1


def test_projects_are_listed_renamed_merged_and_moved(run: Any) -> None:
    assert run("projects") == "No memories.\n"
    for n in range(3):
        run("store", f"fact {n}", "--project", A, "--name", f"m{n}")
    run("store", "said", "--type", "conversation", "--project", A)
    run("store", "shared")
    listed = run("projects")
    assert "acme/app  1 conversation, 3 fact, newest" in listed
    assert "(shared)" in listed
    assert "4 memories" in run("projects", "rename", A, B)
    run("store", "more", "--project", A)
    assert "merge acme/app into acme/site" in run("projects", "rename", A, B, fails=1)
    assert json.loads(run("projects", "merge", A, B, "--json")) == {"moved": 1}
    assert "no project 'acme/app'" in run("projects", "merge", A, B, fails=1)
    assert "Moved 2 memories to acme/app" in run("projects", "move", "m0", "m1", "--to", A)
    assert "no memory 'nobody'" in run("projects", "move", "m0", "nobody", "--shared", fails=1)
    facts = json.loads(run("projects", "list", "--json"))["projects"]
    assert {f["project"]: f["memories"] for f in facts} == {B: 3, A: 1, None: 2}


@pytest.mark.parametrize(
    "words",
    [
        ["rename", A],
        ["merge", A, B, "c"],
        ["list", A],
        ["forget"],
        ["move", "m0"],
        ["move", "--shared"],
        ["move", "m0", "--to", A, "--shared"],
        ["burn", A],
    ],
)
def test_wrong_usage_is_refused(run: Any, words: list[str]) -> None:
    assert run("projects", *words, fails=2).startswith("Error: ")


def test_a_project_is_forgotten_after_a_look(run: Any) -> None:
    for n in range(3):
        run("store", f"fact {n}", "--project", A)
    run("store", "of another", "--project", B)
    assert "Would forget 3 memories (3 fact)" in run("projects", "forget", A, "--dry-run")
    assert "Add --yes" in run("projects", "forget", A, fails=1)  # no terminal to ask on
    assert json.loads(run("projects", "--json"))["projects"][0]["memories"] == 3
    done = json.loads(run("projects", "forget", A, "--yes", "--json"))
    assert (done["matched"], done["forgotten"]) == (3, 3)
    assert "no project 'acme/app'" in run("projects", "forget", A, "--yes", fails=1)
    assert json.loads(run("list", "--json"))["total"] == 1


@pytest.mark.parametrize(("answer", "left"), [(f"forget {A}", 1), ("forget", 2), ("", 2)])
def test_a_terminal_is_asked_first(daemon: Daemon, answer: str, left: int) -> None:
    for name in (A, B):
        daemon.tool("store_memory", content="a fact", metadata={"project": name})
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "memoryd", "projects", "forget", A, *daemon.flags],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as asking:
        os.write(ours, f"{answer}\n".encode())
        said, _ = asking.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert b"Would forget 1 memory" in said
    assert asking.returncode == (0 if left == 1 else 1)
    assert len(daemon.tool("search_memories", query="fact")["results"]) == left
