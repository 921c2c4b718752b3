"""`memoryd review`, and the marks that lists and searches show, against a real daemon."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import pytest

from memoryd.model import DAY
from tests.daemons import Daemon

Capture = pytest.CaptureFixture[str]


def test_a_person_reviews(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("review") == "Nothing to review.\n"
    run("store", "the dock is red", "--name", "dock")
    assert run("review", "flag", "dock", "--reason", "It was painted.").startswith("Flagged")
    said = run("review")
    assert "the dock is red\n      Why: It was painted.\n1 memory needs a review.\n" in said
    assert "dock  (needs review)\n" in said
    assert "(needs review)" in run("list")
    assert run("review", "confirm", "dock").startswith("Confirmed ")
    assert run("review") == "Nothing to review.\n"
    assert run("review", "correct", "dock", "--content", "the dock is blue").startswith("Corrected")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"the dock is green\n")))
    run("review", "correct", "dock", "--content", "-")
    said = run("get", "dock")
    assert said.startswith("the dock is green\n")
    assert "metadata.user_verified" in said
    assert run("review", "reject", "dock").startswith("Rejected and forgotten: ")
    assert "no memory 'dock'" in run("get", "dock", fails=1)


def test_reviews_in_json(run: Any) -> None:
    for n in range(3):
        run("store", f"pier {n}", "--name", f"pier {n}")
        done = json.loads(run("review", "flag", f"pier {n}", "--reason", "odd", "--json"))
        assert done["memory"]["metadata"]["review_reason"] == "odd"
    page = json.loads(run("review", "--json", "--limit", "2"))
    assert (len(page["memories"]), page["total"]) == (2, 3)
    last = json.loads(run("review", "--json", "--limit", "2", "--cursor", page["cursor"]))
    assert [memory["name"] for memory in last["memories"]] == ["pier 0"]
    assert json.loads(run("review", "reject", "pier 0", "--json"))["forgotten"] is True


def test_wrong_usage(run: Any) -> None:
    assert "ID_OR_NAME is missing" in run("review", "confirm", fails=2)
    assert "Did you mean confirm?" in run("review", "confrim", "dock", fails=2)
    assert "new content is needed" in run("review", "correct", "pier 1", fails=1)
    assert "no memory 'nobody'" in run("review", "confirm", "nobody", fails=1)


def test_a_search_marks_what_is_deprecated(run: Any, daemon: Daemon) -> None:
    old = {
        "id": "old-crane",
        "type": "fact",
        "content": "the crane is broken",
        "created_at": time.time() - 100 * DAY,
        "expires_at": None,
        "metadata": {"kind": "work_state"},
    }
    daemon.tool("import_memories", memories=[old])
    said = run("search", "crane is broken")
    assert "old-crane  (deprecated)\n" in said
    page = json.loads(run("search", "crane is broken", "--json"))
    assert page["results"][0]["deprecated"] is True
