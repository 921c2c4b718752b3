"""`memoryd start`, `restart` and `version`, with real daemons in the background."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.cli import start
from memoryd.cli.main import main
from tests.processes import is_running

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Flags of a place of its own; what runs there is ended afterwards."""
    monkeypatch.setenv("MEMORYD_EMBEDDING_BACKEND", "hash")
    place = ["--data-dir", str(tmp_path / "data")]
    yield place
    main(["stop", *place])


@pytest.fixture
def ask(there: list[str], capsys: Capture) -> Any:
    """What a verb answers in JSON."""

    def verb(*words: str) -> Any:
        capsys.readouterr()
        assert main([*words, "--json", *there]) == 0
        return json.loads(capsys.readouterr().out)

    return verb


def test_start_starts_one_daemon(there: list[str], ask: Any, capsys: Capture) -> None:
    assert main(["start", *there]) == 0
    pid = ask("status")["pid"]
    assert is_running(pid)
    assert main(["start", *there]) == 0
    assert capsys.readouterr().out == f"memoryd 0.1.0 is already running (process {pid}).\n"
    assert ask("start") == {"started": False, "pid": pid, "version": "0.1.0"}


@pytest.mark.slow
def test_start_says_which_it_started(there: list[str], ask: Any, capsys: Capture) -> None:
    assert main(["start", *there]) == 0
    said = capsys.readouterr().out
    assert said == f"Started memoryd 0.1.0 (process {ask('status')['pid']}).\n"
    ask("stop")
    assert ask("start")["started"] is True


def test_a_daemon_that_cannot_start_is_a_failure(tmp_path: Path, capsys: Capture) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("memory:\n  pth: x\n")
    place = ["--data-dir", str(tmp_path / "data"), "--config", str(config)]
    for verb in ("start", "restart"):
        assert main([verb, *place]) == 1
        assert "There is no setting `memory.pth`" in capsys.readouterr().err


@pytest.mark.slow
def test_restart_replaces_the_process_and_keeps_the_memories(
    there: list[str], ask: Any, capsys: Capture
) -> None:
    ask("store", "kept", "--name", "kept")
    old = ask("status")["pid"]
    found = ask("restart")
    assert found["previous_pid"] == old != found["pid"]
    assert not is_running(old)
    assert ask("status")["pid"] == found["pid"]
    assert ask("get", "kept")["content"] == "kept"
    assert main(["restart", *there]) == 0
    new = ask("status")["pid"]
    main(["restart", *there])
    said = capsys.readouterr().out.splitlines()[-1]
    assert said == f"Restarted memoryd 0.1.0 (process {ask('status')['pid']}, before {new})."


def test_restart_without_a_daemon_starts_one(there: list[str], ask: Any, capsys: Capture) -> None:
    assert main(["restart", *there]) == 0
    assert capsys.readouterr().out.endswith("none was running.\n")
    assert is_running(ask("status")["pid"])


def test_version_tells_both(
    there: list[str], ask: Any, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert main(["version", *there]) == 0
    assert capsys.readouterr().out == "memoryd 0.1.0\ndaemon  not running\n"
    assert ask("version") == {"version": "0.1.0", "daemon": None, "same": True}
    assert not (tmp_path / "data").exists()  # it started none
    pid = ask("start")["pid"]
    same = {"version": "0.1.0", "daemon": {"version": "0.1.0", "pid": pid}, "same": True}
    assert ask("version") == same
    monkeypatch.setattr(start, "__version__", "0.2.0")
    assert ask("version")["same"] is False
    for verb in ("version", "start"):
        assert main([verb, *there]) == 0
        assert "The daemon runs version 0.1.0, this command is 0.2.0." in capsys.readouterr().err


@pytest.mark.slow
def test_a_daemon_that_does_not_answer_is_not_called_stopped(
    there: list[str], ask: Any, capsys: Capture
) -> None:
    """It has the directory, so nobody can start another."""
    pid = ask("start")["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        found = ask("version")
        assert found["daemon"] is None
        assert found["error"]["code"] == "daemon_unreachable"
        assert main(there) == 0
        assert "It is not known whether the daemon is running" in capsys.readouterr().out
    finally:
        os.kill(pid, signal.SIGCONT)


def test_the_first_screen_shows_what_is_wrong_with_the_configuration(
    tmp_path: Path, capsys: Capture
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("memory: {path: [")
    assert main(["--config", str(config)]) == 0
    said = capsys.readouterr().out
    assert f"The configuration file {config} is not valid YAML" in said
    assert "memoryd doctor" in said
