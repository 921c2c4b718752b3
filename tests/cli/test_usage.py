"""What somebody meets who types `memoryd` alone, or mistypes something."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memoryd.cli.completion.commands import Command, command_of
from memoryd.cli.main import main
from memoryd.cli.options import Parser
from memoryd.cli.verbs import parser
from memoryd.cli.verbs.examples import EXAMPLES
from memoryd.cli.welcome import FIRST
from memoryd.client.connection import HANDSHAKE_TIMEOUT
from tests.daemons import ForkedDaemon
from tests.processes import environment

Capture = pytest.CaptureFixture[str]


def test_alone_it_shows_what_to_do_first(tmp_path: Path, capsys: Capture) -> None:
    """Short, no failure, and nothing is started for it."""
    there = ["--data-dir", str(tmp_path / "data")]
    assert main(there) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "The daemon is not running; store and search start it." in said.out
    assert len(FIRST) == 5
    for command in ("memoryd setup", "memoryd store", "memoryd search", "memoryd doctor"):
        assert f"\n  {command} " in said.out
    assert "memoryd mcp" in said.out
    assert len(said.out.splitlines()) <= 15
    assert not (tmp_path / "data").exists()


def test_alone_it_says_that_the_daemon_runs(tmp_path: Path) -> None:
    daemon = ForkedDaemon(tmp_path / "data").start()
    daemon.tool("store_memory", content="one")
    command = [sys.executable, "-m", "memoryd", "--socket", str(daemon.socket)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment())
    assert daemon.process is not None
    state = f"The daemon is running (process {daemon.process.pid}, ready) with 1 memory."
    assert ended.stdout.splitlines()[1] == state
    assert daemon.stop() == 0


def test_alone_it_does_not_wait_for_a_daemon_that_says_nothing(
    tmp_path: Path, capsys: Capture
) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        began = time.monotonic()
        assert main(["--socket", str(tmp_path / "s")]) == 0
        assert time.monotonic() - began < HANDSHAKE_TIMEOUT
    assert "It is not known whether the daemon is running" in capsys.readouterr().out


def test_the_first_screen_names_only_what_there_is() -> None:
    verbs = parser().verbs()
    named = {found[1] for text in FIRST if (found := re.match(r"memoryd ([a-z]+)", text))}
    assert named
    assert named <= verbs.keys()


@pytest.mark.parametrize(
    ("words", "sentence", "hint"),
    [
        ("serch tea", "There is no verb 'serch'. Did you mean search?", "memoryd --help"),
        ("serach tea", "There is no verb 'serach'. Did you mean search?", "memoryd --help"),
        ("notes raed x", "There is no action 'raed'. Did you mean read?", "notes"),
        ("notes read x --jsn", "There is no option '--jsn'. Did you mean --json?", "notes read"),
        ("top --interval 0", "--interval: 0 is not from 0.1 to 3600.", "top"),
        ("remember x", "There is no verb 'remember'.", "memoryd --help"),
        ("search x --limt 3", "There is no option '--limt'. Did you mean --limit?", "search"),
        ("search --limt", "There is no option '--limt'. Did you mean --limit?", "search"),
        ("search x --limt=3", "There is no option '--limt'. Did you mean --limit?", "search"),
        ("search x -q", "There is no option '-q'.", "search"),
        ("--jsn status", "There is no option '--jsn'. Did you mean --json?", "memoryd --help"),
        ("--json status", "--json goes after the verb.", "memoryd --help"),
        ("service instal", "There is no 'instal' here. Did you mean install?", "service"),
        (
            "service dance",
            "There is no 'dance' here. It is one of install, uninstall, status.",
            "service",
        ),
        ("store", "CONTENT is missing.", "store"),
        (
            "store two words",
            "'words' is one word too many. A text of several words needs quotes.",
            "store",
        ),
        ("search x --limit", "--limit needs a value.", "search"),
        ("search x --limit many", "--limit: 'many' is not a whole number.", "search"),
        ("search x --min-score high", "--min-score: 'high' is not a number.", "search"),
        ("search x --s 1", "--s could be any of --socket, --session, --since, --shared.", "search"),
        ("status --json=1", "--json takes no value, but has '1'.", "status"),
        ("store x --meta novalue", "--metadata/--meta: 'novalue' is not KEY=VALUE.", "store"),
        ("logs -n -1", "-n/--lines: -1 is negative.", "logs"),
        (
            "forget --older-than x",
            "--older-than: 'x' is not a length of time such as 12h or 7d.",
            "forget",
        ),
    ],
)
def test_wrong_usage_is_a_sentence_and_a_hint(
    words: str, sentence: str, hint: str, capsys: Capture
) -> None:
    assert main(words.split()) == 2
    hint = hint if hint.startswith("memoryd") else f"memoryd {hint} --help"
    said = capsys.readouterr()
    if "--json" in words.split():
        assert json.loads(said.out)["error"]["message"] == sentence
    else:
        assert said == ("", f"Error: {sentence}\nTry: {hint}\n")


def test_what_only_looks_like_an_option_is_text(capsys: Capture) -> None:
    options = parser().parse_args(["store", "--name", "n", "--", "--limt"])
    assert options.content == "--limt"
    assert parser().parse_args(["store", "-5 degrees"]).content == "-5 degrees"
    assert parser().parse_args(["search", "x", "--lim", "3"]).limit == 3


def test_every_sentence_of_argparse_is_made_one_of_ours(capsys: Capture) -> None:
    """What has no sentence of its own is still an error with a hint, and a capital letter."""
    odd = Parser(prog="odd")
    odd.add_argument("--a", nargs=2)
    for words in (["--a", "1"], ["--a", "1", "2", "3"]):
        with pytest.raises(Exception, match=r"^[A-Z'-].*\.$") as caught:
            odd.parse_args(words)
        assert (type(caught.value).__name__, caught.value.hint) == ("UsageError", "Run: odd --help")  # type: ignore[attr-defined]


def test_a_mistyped_type_is_answered_with_the_nearest(tmp_path: Path, capsys: Capture) -> None:
    daemon = ForkedDaemon(tmp_path / "data").start()
    there = ("--socket", str(daemon.socket))
    for verb in (["store", "x"], ["search", "x"]):
        assert main([*verb, "--type", "facts", *there]) == 1
        said = capsys.readouterr().err
        assert said.startswith("Error: There is no memory type 'facts'. Did you mean fact?\n")
    assert daemon.stop() == 0


def test_every_verb_has_examples_that_work(capsys: Capture) -> None:
    """Each is what it says: the real parser takes it, as this verb."""
    for command in command_of(parser()).all():
        if not command.path:
            continue
        found = EXAMPLES[" ".join(command.path)]
        for line, _ in found:
            words = shlex.split(re.split(r" [|<>] ", line)[0])
            start = next(n for n, word in enumerate(words) if word.endswith("memoryd"))
            given = [word.rstrip(")") for word in words[start + 1 :]]
            assert parser().parse_args(given).verb == _verb(command)
    known = {" ".join(command.path) for command in command_of(parser()).all()}
    assert EXAMPLES.keys() <= known
    with pytest.raises(SystemExit):
        main(["search", "--help"])
    assert "examples:\n  memoryd search" in capsys.readouterr().out


def _verb(command: Command) -> object:
    """The function that a command runs, as its parser says."""
    part = parser()
    for name in command.path:
        part = part.verbs()[name]
    return part.get_default("verb")


@pytest.mark.parametrize("width", [60, 200])
def test_a_help_fits_its_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = parser().verbs()["top"].format_help().split("examples:")[0]
    assert max(map(len, text.splitlines())) <= width
