"""`memoryd hook --explain` and `memoryd pushes` against a real daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.daemons import Daemon, ForkedDaemon

Capture = pytest.CaptureFixture[str]
FACT = "The billing service keeps its invoices in PostgreSQL"
ASKED = "Where does the billing service keep its invoices?"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = ForkedDaemon(tmp_path_factory.mktemp("hooks") / "data").start()
    running.tool("store_memory", content=FACT)
    yield running
    assert running.stop() == 0, running.log.read_text()


def test_explain_shows_what_a_prompt_would_get(run: Any) -> None:
    told = run("hook", "--explain", ASKED)
    assert "pushed" in told
    assert f"- (fact, {told.partition('(fact, ')[2]:.10}) {FACT}" in told
    assert "Nothing is pushed" in run("hook", "--explain", "How warm is the sea in June?")
    found = json.loads(run("hook", "--explain", ASKED, "--json"))
    assert [one["pushed"] for one in found["candidates"]][:1] == [True]
    assert found["project"] is None
    named = json.loads(run("hook", "--explain", ASKED, "--json", "--project", "acme/one"))
    assert named["project"] == "acme/one"


def test_pushes_show_what_and_why(run: Any, daemon: Daemon) -> None:
    assert run("pushes", "--session", "s1") == "0 pushes, 0 tokens.\n"
    payload = json.dumps(
        {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt": ASKED}
    )
    told = daemon.tool("hook", event="prompt", client="codex", payload=payload, no_project=True)
    assert FACT in told["output"]
    listed = run("pushes").splitlines()
    assert "s1  prompt (matches the prompt)" in listed[0]
    assert listed[-1].startswith("1 push, ")
    found = json.loads(run("pushes", "--session", "s1", "--json"))
    assert found["pushes"][0]["tokens"] == found["tokens"] > 0
    assert FACT not in json.dumps(found)


def test_a_hook_without_an_event_says_how_to_use_it(run: Any) -> None:
    assert "memoryd hook --help" in run("hook", fails=2)
