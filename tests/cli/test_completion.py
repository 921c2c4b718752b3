"""`memoryd completion`: the scripts in the real shells, against a real daemon."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memoryd.cli.completion.commands import command_of
from memoryd.cli.main import main
from memoryd.cli.verbs import parser
from tests.daemons import Daemon, ForkedDaemon
from tests.processes import environment
from tests.terminal import Terminal

SECONDS = 30.0  # for a shell to answer, on a machine however busy
Complete = Callable[[str], list[str]]
BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_memoryd
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with a project, a named memory, a note and a session."""
    running = ForkedDaemon(tmp_path_factory.mktemp("completion") / "data").start()
    running.tool("store_memory", content="x", name="drink of Ann", metadata={"project": "acme/web"})
    note = ["notes", "add", "steps", "Build.", "--alias", "rollout"]
    assert main([*note, "--socket", str(running.socket)]) == 0
    running.tool("add_turn", role="user", content="hello", session_id="planning-1")
    yield running
    assert running.stop() == 0, running.log.read_text()


@pytest.fixture(scope="module")
def shell_home(tmp_path_factory: pytest.TempPathFactory, daemon: Daemon) -> Path:
    """A folder with the three scripts, files to complete, and `memoryd` for the PATH."""
    home = tmp_path_factory.mktemp("shell")
    (home / "plan.jsonl").write_text("")
    (home / "folder one").mkdir()
    command = home / "bin" / "memoryd"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m memoryd "$@"\n')
    command.chmod(0o755)
    for shell in ("bash", "zsh", "fish"):
        script = subprocess.run(
            [command, "completion", shell], capture_output=True, text=True, check=True
        )
        (home / f"script.{shell}").write_text(script.stdout)
    return home


def variables(home: Path, daemon: Daemon) -> dict[str, str]:
    found = environment(MEMORYD_SOCKET=str(daemon.socket), HOME=str(home), TERM="dumb")
    return found | {"PATH": f"{home / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": os.getcwd()}


def bash(home: Path, daemon: Daemon) -> Complete:
    def complete(line: str) -> list[str]:
        command = ["bash", "-c", BASH, "bash", str(home / "script.bash"), *line.split(" ")]
        return _lines(command, home, daemon)

    return complete


def fish(home: Path, daemon: Daemon) -> Complete:
    def complete(line: str) -> list[str]:
        script = 'source script.fish; complete -C "$argv[1]"'
        found = _lines(["fish", "--no-config", "-c", script, line], home, daemon)
        return [entry.split("\t")[0] for entry in found]

    return complete


def zsh(home: Path, daemon: Daemon) -> Complete:
    def complete(line: str) -> list[str]:
        return Zsh(home, variables(home, daemon)).complete(line)

    return complete


def _lines(command: list[str], home: Path, daemon: Daemon) -> list[str]:
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=home,
        env=variables(home, daemon),
    )
    assert ended.stderr == ""
    return [line for line in ended.stdout.splitlines() if line]


class Zsh:
    """An interactive zsh, as completion works in no other: what it lists after Tab."""

    READY, LISTED = "READY>", "LISTED"

    def __init__(self, home: Path, env: dict[str, str]) -> None:
        self._found = home / "found.txt"
        self._found.unlink(missing_ok=True)
        self._terminal = Terminal(["zsh", "-f", "-i"], env, folder=home)
        self._terminal.type("autoload -U compinit; compinit -u -D; source ./script.zsh\n")
        # Writes the candidates to a file, one a line.
        self._terminal.type("_capture() { compadd() { local -a found; builtin compadd -O found ")
        self._terminal.type('"$@"; print -rl -- $found >> found.txt; builtin compadd "$@" }; ')
        self._terminal.type("_main_complete }; zle -C capture complete-word _capture\n")
        # Typed in two parts, so that only the prompt is the whole word, not the echo of this line.
        start = f"bindkey '^T' capture; PS1='{self.READY[:2]}''{self.READY[2:]}'\n"
        self._terminal.type(start)
        self._terminal.wait(self.READY)

    def complete(self, line: str) -> list[str]:
        self._terminal.type(line + "\x14")
        self._terminal.type(f"\x15print {self.LISTED[:2]}''{self.LISTED[2:]}\n")
        self._terminal.wait(self.LISTED)
        self._terminal.close()
        listed = self._found.read_text().splitlines() if self._found.exists() else []
        return [text for text in dict.fromkeys(listed) if text]


@pytest.fixture(params=["bash", "fish", "zsh"])
def complete(request: pytest.FixtureRequest, shell_home: Path, daemon: Daemon) -> Complete:
    """Completes a line in a real shell; what it offers for the last word."""
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed: its completion is NOT TESTED")
    made: Complete = {"bash": bash, "fish": fish, "zsh": zsh}[request.param](shell_home, daemon)
    return made


def test_verbs_flags_and_choices(complete: Complete) -> None:
    assert complete("memoryd sear") == ["search"]
    assert {"search", "store", "top", "demo"} <= set(complete("memoryd "))
    assert set(complete("memoryd notes re")) == {"read", "rename", "remove"}
    assert complete("memoryd search tea --lim") == ["--limit"]
    assert set(complete("memoryd logs --level ")) == {"debug", "info", "warning", "error"}
    assert complete("memoryd --data-dir /tmp service inst") == ["install"]


def test_names_come_from_the_daemon(complete: Complete) -> None:
    assert complete("memoryd search --project ac") == ["acme/web"]
    assert complete("memoryd chat-log plan") == ["planning-1"]
    assert set(complete("memoryd notes read ")) == {"steps", "rollout"}
    assert complete("memoryd get dri")[0].replace("\\", "") == "drink of Ann"


def test_files_and_folders(complete: Complete) -> None:
    assert complete("memoryd import pl") == ["plan.jsonl"]
    folders = [name.rstrip("/").replace("\\", "") for name in complete("memoryd backup fold")]
    assert set(folders) == {"folder one"}
    assert complete("memoryd backup pl") == []


def test_every_verb_is_in_every_script(shell_home: Path) -> None:
    """And each of its flags, as the parser has them."""
    for shell in ("bash", "zsh", "fish"):
        script = (shell_home / f"script.{shell}").read_text()
        for command in command_of(parser()).all():
            assert " ".join(command.path[-1:]) in script
            for flag in command.flags:
                name = flag.names[-1].lstrip("-") if shell == "fish" else flag.names[-1]
                assert name in script


def test_names_start_no_daemon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = ["--data-dir", str(tmp_path / "data")]
    assert main(["completion", "--list", "projects", *there]) == 0
    assert capsys.readouterr() == ("", "")
    assert not (tmp_path / "data").exists()


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion"]) == 2
    assert "SHELL is missing." in capsys.readouterr().err
    assert main(["completion", "bsh"]) == 2
    assert "Did you mean bash?" in capsys.readouterr().err
