"""The verbs on a real terminal: keys, live views, colours, widths; and plain in a pipe."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.cli.screen.view import Section, View
from tests.daemons import Daemon
from tests.processes import environment
from tests.terminal import Terminal

ESCAPE = "\x1b["
ALTERNATE, BACK = "\x1b[?1049h", "\x1b[?1049l"  # the screen of a live view, and the one before


def command(daemon: Daemon, *words: str) -> list[str]:
    return [sys.executable, "-m", "memoryd", *words, "--socket", str(daemon.socket)]


def terminal(
    daemon: Daemon, *words: str, columns: int = 100, rows: int = 40, **variables: str
) -> Terminal:
    env = environment(**{"TERM": "xterm-256color", **variables})
    for name in {"NO_COLOR", "COLUMNS", "LINES"} - variables.keys():
        env.pop(name, None)
    return Terminal(command(daemon, *words), env, columns=columns, rows=rows)


def piped(daemon: Daemon, *words: str) -> str:
    ended = subprocess.run(
        command(daemon, *words), capture_output=True, text=True, env=environment(), timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def test_colours_and_relative_times_are_for_people(run: Any, daemon: Daemon) -> None:
    run("store", "The ladder stands in the shed.", "--name", "ladder")
    with terminal(daemon, "search", "ladder") as shown:
        assert shown.end() == 0
        assert ESCAPE in shown.seen
        assert "s ago, kept" in shown.seen
    with terminal(daemon, "search", "ladder", NO_COLOR="1") as shown:
        assert shown.end() == 0
        assert ESCAPE not in shown.seen
        assert "s ago, kept" in shown.seen
    said = piped(daemon, "search", "ladder")
    assert ESCAPE not in said
    assert " ago" not in said
    assert re.search(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", said)


def test_a_search_loads_nothing_for_terminals(daemon: Daemon) -> None:
    """Not even on one: `rich` is for views and Markdown."""
    words = command(daemon, "search", "ladder")
    with Terminal([words[0], "-X", "importtime", *words[1:]], environment()) as shown:
        assert shown.end() == 0
    loaded = set(re.findall(r"\| +([\w.]+)", shown.seen))
    assert "memoryd.client.client" in loaded
    assert not {name for name in loaded if name.split(".")[0] == "rich"}
    assert "memoryd.cli.verbs.examples" not in loaded


def test_a_narrow_terminal_is_not_overrun(run: Any, daemon: Daemon) -> None:
    run("store", "The ladder " + "is very long " * 20, "--name", "a long name for a ladder")
    with terminal(daemon, "search", "ladder", columns=50) as shown:
        assert shown.end() == 0
        assert max(map(len, plain(shown.seen).splitlines())) <= 50


def test_errors_are_red_on_a_terminal(daemon: Daemon) -> None:
    with terminal(daemon, "get", "nobody") as shown:
        assert shown.end() == 1
        assert "\x1b[31mError:\x1b[0m There is no memory 'nobody'." in shown.seen


def test_top_is_live_and_leaves_the_terminal_as_it_was(run: Any, daemon: Daemon) -> None:
    secret = "the parrot of the admiral"
    stored = json.loads(run("store", secret, "--json"))
    with terminal(daemon, "top", "--interval", "0.2") as shown:
        shown.wait(ALTERNATE)
        shown.wait("store_memory")
        assert shown.is_raw()
        run("get", stored["id"])
        run("search", "parrot")
        shown.wait("search_memories")
        shown.type("q")
        assert shown.end() == 0
        assert shown.seen.rstrip().endswith(("\x1b[?25h", BACK))
        assert secret not in shown.seen
        assert "parrot" not in shown.seen  # nor what was asked


def test_top_ends_clean_by_ctrl_c(daemon: Daemon) -> None:
    with terminal(daemon, "top") as shown:
        shown.wait("q quits")
        shown.type("\x03")
        assert shown.end() == 0
        assert BACK in shown.seen
        assert "Traceback" not in shown.seen


def test_top_shows_texts_only_if_asked(run: Any, daemon: Daemon) -> None:
    run("store", "the kettle is copper")
    with terminal(daemon, "top", "--text", columns=160) as shown:
        shown.wait("the kettle is copper")
        shown.type("q")
        assert shown.end() == 0


def test_top_in_a_pipe_is_one_snapshot(run: Any, daemon: Daemon) -> None:
    stored = json.loads(run("store", "the anchor is iron", "--session", "s9", "--json"))
    said = piped(daemon, "top")
    assert said.startswith("memoryd ")
    assert ESCAPE not in said
    assert re.search(rf"store_memory +[\d.]+  ok .*{stored['id']}", said)
    assert "anchor" not in said
    assert "the anchor is iron" in piped(daemon, "top", "--text")
    found = json.loads(piped(daemon, "top", "--json"))
    assert found["status"]["health"] == "ready"
    latest = next(call for call in found["calls"] if call["tool"] == "store_memory")
    assert (latest["session_id"], latest["ids"]) == ("s9", [stored["id"]])
    assert "recent_calls" not in [call["tool"] for call in found["calls"]]


def test_top_starts_no_daemon(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "memoryd", "top", "--data-dir", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("Error: No memoryd answers")
    assert not (tmp_path / "data").exists()


@pytest.fixture
def flagged(run: Any, request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Three memories that need a review, in the order in which they are shown."""
    names = [f"{number} of {request.node.name}" for number in ("third", "second", "first")]
    for name in reversed(names):
        run("store", f"The {name} is made of oak.", "--name", name)
        run("review", "flag", name, "--reason", "It was rebuilt.")
    yield names
    for name in _needing(run):
        run("review", "confirm", name)


def _needing(run: Any) -> list[str]:
    page = json.loads(run("review", "--json"))
    return [memory["name"] for memory in page["memories"]]


def test_a_review_by_keys(run: Any, daemon: Daemon, flagged: list[str]) -> None:
    """Confirm, correct in the editor, reject; the changes are in the store."""
    with terminal(daemon, "review", EDITOR="sed -i s/oak/pine/") as shown:
        shown.wait("1/3")
        shown.wait("Why:")
        shown.type("c")
        shown.wait("Confirmed.")
        shown.wait("2/3")
        shown.type("e")
        shown.wait("Corrected.")
        shown.wait("3/3")
        shown.type("r")
        shown.wait("takes it back")
        shown.type("\n")
        shown.wait("1 confirmed, 1 corrected, 1 rejected.")
        assert shown.end() == 0
    assert run("review") == "Nothing to review.\n"
    _, corrected, rejected = flagged
    assert run("get", corrected).startswith(f"The {corrected} is made of pine.\n")
    assert f"no memory '{rejected}'" in run("get", rejected, fails=1)


def test_a_rejection_can_be_taken_back(run: Any, daemon: Daemon, flagged: list[str]) -> None:
    with terminal(daemon, "review") as shown:
        shown.wait("1/3")
        shown.type("r")
        shown.wait("2/3")
        shown.wait("undo the rejection")
        shown.type("u")
        shown.wait("Kept ")
        shown.type("xs")  # x means nothing, so s counts
        shown.wait("3/3")
        shown.type("q")
        shown.wait("Nothing was changed.")
        assert shown.end() == 0
    assert _needing(run) == flagged


def test_ctrl_c_keeps_what_was_just_rejected(run: Any, daemon: Daemon, flagged: list[str]) -> None:
    with terminal(daemon, "review") as shown:
        shown.wait("1/3")
        shown.type("r")
        shown.wait("2/3")
        shown.wait("undo")
        shown.type("\x03")
        assert shown.end() == 130
        assert "Traceback" not in shown.seen
    assert _needing(run) == flagged


def test_an_editor_that_fails_changes_nothing(run: Any, daemon: Daemon, flagged: list[str]) -> None:
    with terminal(daemon, "review", EDITOR="false") as shown:
        shown.wait("1/3")
        shown.type("e")
        shown.wait("The editor ended with exit code 1")
        shown.wait("quit")
        shown.type("q")
        assert shown.end() == 0
    assert _needing(run) == flagged


def test_a_listing_can_be_had_on_a_terminal(daemon: Daemon, flagged: list[str]) -> None:
    with terminal(daemon, "review", "--list") as shown:
        assert shown.end() == 0
        assert "3 memories need a review." in shown.seen


def test_top_shows_every_part_on_a_low_screen(run: Any, daemon: Daemon) -> None:
    """Many tools leave room for sessions and calls."""
    for verb in ("status", "projects", "sessions", "notes", "review", "pushes", "list"):
        run(verb)
    run("search", "ladder")
    with terminal(daemon, "top", rows=18) as shown:
        shown.wait("Tools")
        shown.wait("Latest calls")
        shown.wait("q quits")
        shown.type("q")
        assert shown.end() == 0


def test_rows_are_shared_among_the_tables() -> None:
    tables = [Section(title, ("a",), [(str(n),) for n in range(20)]) for title in ("one", "two")]
    short = Section("three", ("a",), [("0",)])
    fitted = View(["head"], [*tables, short], "foot").fitted(24)
    assert [len(section.rows) for section in fitted.sections] == [5, 6, 1]
    assert View(["head"], tables, "foot").fitted(100).sections == tables


def test_the_keys_of_a_review_are_never_cut(daemon: Daemon, flagged: list[str]) -> None:
    with terminal(daemon, "review", columns=50) as shown:
        shown.wait("quit")
        shown.type("q")
        assert shown.end() == 0
    lines = plain(shown.seen).splitlines()
    assert max(map(len, lines)) <= 50
    assert any("r reject and forget" in line for line in lines)
