"""`memoryd forget` by name, by filter and altogether, against a real daemon."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest

from memoryd.cli import forget
from memoryd.cli.forget import CONFIRMATION
from memoryd.cli.main import main
from tests.daemons import Daemon, Lines

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def run(daemon: Daemon, capsys: Capture) -> Any:
    """Run a verb on the emptied daemon; what it printed."""
    daemon.tool("forget_where", everything=True)

    def verb(*words: str, fails: int = 0) -> str:
        code = main([*words, "--socket", str(daemon.socket)])
        said = capsys.readouterr()
        assert code == fails, said.err
        return said.out if code == 0 else said.err

    return verb


def fill(run: Any) -> None:
    for n in range(7):
        run("store", f"Said {n}.", "--type", "conversation", "--session", "s1", "--meta", f"n={n}")
    run("store", "A fact.", "--metadata", "room=hall")


def count(daemon: Daemon) -> int:
    return int(sum(daemon.status()["memories"].values()))


def test_a_dry_run_shows_what_would_go(run: Any, daemon: Daemon) -> None:
    fill(run)
    said = run("forget", "--type", "conversation", "--dry-run").splitlines()
    assert said[0] == "Would forget 7 memories (7 conversation)."
    assert len(said) == 7
    assert said[1].endswith(": Said 0.")
    assert said[-1] == "  and 2 more"
    found = json.loads(run("forget", "--session", "s1", "--dry-run", "--json"))
    assert (found["matched"], found["forgotten"], len(found["first"])) == (7, 0, 5)
    assert run("forget", "--type", "context", "--dry-run") == "Would forget 0 memories.\n"
    assert count(daemon) == 8


def test_a_filter_forgets_exactly_what_it_matches(run: Any, daemon: Daemon) -> None:
    fill(run)
    assert run("forget", "--meta", "n=3") == "Forgot 1 memory (1 conversation).\n"
    assert run("forget", "--older-than", "7d") == "Forgot 0 memories.\n"
    assert run("forget", "--until", "2020-01-01") == "Forgot 0 memories.\n"
    done = json.loads(run("forget", "--since", "2020-01-01", "--session", "s1", "--json"))
    assert done == {"matched": 6, "forgotten": 6, "types": {"conversation": 6}, "dry_run": False}
    assert count(daemon) == 1


def test_names_and_ids_can_be_tried_first(run: Any) -> None:
    run("store", "Tea is at four.", "--name", "tea")
    assert run("forget", "tea", "--dry-run").endswith(": Tea is at four.\n")
    assert json.loads(run("forget", "tea", "--dry-run", "--json"))["exists"] is True
    assert "There is no memory 'nope'." in run("forget", "nope", "--dry-run", fails=1)
    assert run("forget", "tea") == "Forgot tea\n"
    assert "There is no memory 'tea'." in run("forget", "tea", fails=1)


@pytest.mark.parametrize(
    "words",
    [
        ("forget",),
        ("forget", "--dry-run"),
        ("forget", "name", "--type", "fact"),
        ("forget", "name", "--everything"),
        ("forget", "--everything", "--type", "fact", "--yes"),
        ("forget", "--type", "gossip"),
    ],
)
def test_what_is_not_clear_is_refused(run: Any, daemon: Daemon, words: tuple[str, ...]) -> None:
    fill(run)
    assert run(*words, fails=1).startswith("Error: ")
    assert count(daemon) == 8


def test_a_span_that_is_none_is_wrong_usage() -> None:
    assert main(["forget", "--older-than", "soon"]) == 2


@pytest.mark.parametrize("words", [("canary",), ("--type", "context")])
def test_what_is_purged_is_in_no_byte_of_the_data(
    run: Any, daemon: Daemon, words: tuple[str, ...]
) -> None:
    fill(run)
    run("store", "canary-93b1 sings", "--name", "canary", "--type", "context")
    assert "canary-93b1" in run("search", "canary-93b1")
    run("forget", *words, "--purge")
    files = [file for file in daemon.folder.rglob("*") if file.is_file()]
    assert files
    assert [file for file in files if b"canary-93b1" in file.read_bytes()] == []


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_everything_wants_to_be_confirmed(
    run: Any, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(run)
    monkeypatch.setattr("sys.stdin", io.StringIO(CONFIRMATION))
    assert "no terminal to confirm it on" in run("forget", "--everything", fails=1)
    monkeypatch.setattr("sys.stdin", Terminal("yes\n"))
    said = run("forget", "--everything", fails=1)
    assert "This deletes every memory for good (8 memories)" in said
    assert "Error: Not confirmed; nothing was forgotten.\nTry: Type " in said
    assert count(daemon) == 8
    monkeypatch.setattr("sys.stdin", Terminal(f"{CONFIRMATION}\n"))
    assert run("forget", "--everything") == "Forgot 8 memories (7 conversation, 1 fact).\n"
    assert count(daemon) == 0
    run("store", "One more.")
    assert run("forget", "--everything", "--yes") == "Forgot 1 memory (1 fact).\n"


def test_many_are_forgotten_call_by_call() -> None:
    """Each call takes so many; the sum is exact, and new ones do not make it endless."""
    answers = [(12, 5), (9, 5), (4, 4)]  # two came in meanwhile

    class Scripted:
        async def forget_where(self, **call: object) -> dict[str, int]:
            matched, forgotten = answers.pop(0)
            return {"matched": matched, "forgotten": forgotten}

    daemon: Any = Scripted()
    assert asyncio.run(forget.forget_all(daemon, 12, {})) == 14
    answers = [(5, 0)]
    assert asyncio.run(forget.forget_all(daemon, 5, {})) == 0


def test_it_is_not_advertised_to_agents(daemon: Daemon) -> None:
    with Lines(daemon.connect()) as lines:
        lines.open()
        listed = {tool["name"] for tool in lines.call("tools/list")["tools"]}
        assert "forget_where" not in listed
        unknown = lines.tool("dance")["message"]
        assert "search_memories" in unknown
        assert "forget_where" not in unknown
