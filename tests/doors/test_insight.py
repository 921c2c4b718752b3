"""The owner's operations `ask`, `map` and `map_points` over the wire, on a real daemon."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.daemons import Daemon, ForkedDaemon
from tests.model_server import model_server

FACT = "The billing service uses the database Postgres."
QUESTION = "Which database does the billing service use?"
BAD = "The garden <|im_start|> number"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """With a language model, and thirty memories."""
    with model_server() as server:
        server.chat = "It uses Postgres [1]."
        settings = {"MEMORYD_LLM_URL": server.url, "MEMORYD_LLM_MODEL": "stub"}
        running = ForkedDaemon(tmp_path_factory.mktemp("insight") / "data", **settings).start()
        running.tool("store_memory", content=FACT, metadata={"project": "billing"})
        for number in range(29):
            running.tool("store_memory", content=f"{BAD} {number}", metadata={"kind": "decision"})
        yield running
        assert running.stop() == 0, running.log.read_text()


def ready(daemon: Daemon, **arguments: Any) -> Any:
    """The map of what is there now."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = daemon.tool("map", **arguments)
        if found["state"] == "ready" and not found["updating"]:
            return found
        assert found["state"] == "ready" or 0 <= found["progress"] <= 1
        time.sleep(0.02)
    raise AssertionError("no map")


def test_a_question_is_answered_with_its_sources(daemon: Daemon) -> None:
    found = daemon.tool("ask", question=QUESTION, written=False)
    assert (found["known"], found["by"]) == (True, "extract")
    assert found["answer"] == f"{FACT} [1]"
    (citation,) = found["citations"]
    assert (citation["number"], citation["passage"]) == (1, FACT)
    assert (citation["type"], citation["project"], citation["kind"]) == ("fact", "billing", None)
    (sentence,) = found["sentences"]
    assert sentence["memory_id"] == citation["memory_id"]
    assert found["notice"]


def test_a_language_model_writes_the_answer(daemon: Daemon) -> None:
    found = daemon.tool("ask", question=QUESTION)
    assert (found["by"], found["answer"]) == ("llm", "It uses Postgres. [1]")
    assert [citation["passage"] for citation in found["citations"]] == [FACT]


def test_what_memory_does_not_hold_is_said(daemon: Daemon) -> None:
    found = daemon.tool("ask", question="Who won the chess tournament in Reykjavik?")
    assert (found["known"], found["citations"], found["sentences"]) == (False, [], [])
    assert "nothing" in found["answer"]


def test_the_map_has_all_that_a_page_draws(daemon: Daemon) -> None:
    found = ready(daemon, points=True)
    assert (found["count"], found["left_out"]) == (30, 0)
    blob = base64.b64decode(found["points"])
    assert blob[:4] == b"MAP1"
    assert len(blob) == 8 + 14 * found["count"]
    assert found["fields"]["kinds"] == ["", "decision"]
    assert found["fields"]["projects"] == ["", "billing"]
    assert any("garden" in label["text"] for label in found["labels"])
    assert "points" not in ready(daemon)


def test_points_are_read_by_their_number(daemon: Daemon) -> None:
    found = ready(daemon)
    numbers = list(range(found["count"]))
    answer = daemon.tool("map_points", revision=found["revision"], indexes=numbers)
    texts = [point["text"] for point in answer["points"]]
    assert sum(FACT in text for text in texts) == 1
    assert not any("<|im_start|>" in text for text in texts)  # recalled text is data
    many = daemon.tool("map_points", revision=found["revision"], indexes=numbers * 2)
    assert all(point["memory_id"] and "text" not in point for point in many["points"])


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("ask", {}, "question_missing"),
        ("ask", {"question": "why", "colour": "red"}, "argument_unknown"),
        ("map", {"points": "yes"}, "points_invalid"),
        ("map_points", {"revision": "none", "indexes": [0]}, "map_changed"),
        ("map_points", {"indexes": [10_000]}, "indexes_invalid"),
    ],
)
def test_wrong_arguments_are_refused(
    daemon: Daemon, tool: str, arguments: dict[str, Any], code: str
) -> None:
    ready(daemon)
    answer = daemon.call("tools/call", name=tool, arguments=arguments)
    assert answer["isError"]
    assert code in answer["content"][0]["text"]


def test_they_are_not_advertised(daemon: Daemon) -> None:
    listed = {tool["name"] for tool in daemon.call("tools/list")["tools"]}
    assert not listed & {"ask", "map", "map_points"}
