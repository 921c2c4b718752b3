"""`memoryd chat-log` against a real daemon, in a pipe and on a terminal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.test_terminal import ESCAPE, piped, terminal
from tests.daemons import Daemon

BELL = "\x07"


@pytest.fixture(scope="module", autouse=True)
def talk(daemon: Daemon) -> None:
    """A session of eight messages whose first four became an archive, and a second session."""
    for number in range(4):
        asked = f"Question {number}: is **oak** better?{BELL}"
        daemon.tool("add_turn", role="user", content=asked, session_id="talk-1", speaker="Ann")
        answer = f"Answer {number}.\n\n- yes\n- no, see [this](http://example.org/{number})"
        daemon.tool("add_turn", role="assistant", content=answer, session_id="talk-1")
    daemon.tool("add_turn", role="user", content="hello", session_id="talk-2")
    for words in (["rename", "talk-1", "Choosing the wood"], ["compact", "talk-1", "--keep", "4"]):
        piped(daemon, "sessions", *words)


def test_a_pipe_gets_the_whole_conversation(run: Any) -> None:
    said = run("chat-log", "talk-1")
    assert said.startswith("Choosing the wood\ntalk-1\n")
    assert "] user (Ann): Question 0: is **oak** better?\n" in said
    assert "] assistant: Answer 3.\n\n  - yes\n" in said
    assert BELL not in said
    assert said.index("Answer 1") < said.index("[Until here 4 messages archived as ")
    assert said.index("[Until here 4 messages archived as ") < said.index("Question 2")
    assert said.count("] user (Ann): ") == 4


def test_the_last_messages_come_after_the_marker(run: Any) -> None:
    said = run("chat-log", "talk-1", "--limit", "3")
    assert "] user (Ann): Question 2" not in said
    assert said.index("Until here") < said.index("Answer 2") < said.index("Answer 3")
    found = json.loads(run("chat-log", "talk-1", "--limit", "3", "--json"))
    assert [message["order"] for message in found["messages"]] == [5, 6, 7]
    assert list(found["archive_texts"]) == [found["markers"][0]["archive_id"]]


@pytest.mark.parametrize("wanted", ["choosing THE wood", "Choosing", "talk-1"])
def test_a_session_is_found_by_title_and_beginning(run: Any, wanted: str) -> None:
    assert run("chat-log", wanted).startswith("Choosing the wood\n")


def test_an_unknown_session_is_answered_with_the_nearest(run: Any) -> None:
    said = run("chat-log", "chosing", fails=1)
    assert said == (
        "Error: There is no session 'chosing'.\nTry: Did you mean talk-1 (Choosing the wood)?\n"
    )
    assert "Try: memoryd sessions" in run("chat-log", "zzzzzzzz", fails=1)
    said = run("chat-log", "talk", fails=1)
    assert said.startswith("Error: 2 sessions match 'talk'.\nTry: Name one of ")


def test_markdown_is_rendered_on_a_terminal(daemon: Daemon) -> None:
    with terminal(daemon, "chat-log", "talk-1", columns=60) as shown:
        assert shown.end() == 0
    assert "**oak**" not in shown.seen
    assert "\x1b[1moak\x1b[0m" in shown.seen
    assert " • " in shown.seen
    assert BELL not in shown.seen
    assert "\x1b]8;" not in shown.seen  # no link that hides where it leads
    assert "http://example.org/3" in shown.seen
    with terminal(daemon, "chat-log", "talk-1", NO_COLOR="1", TERM="dumb") as shown:
        assert shown.end() == 0
    assert ESCAPE not in shown.seen
