"""`memoryd logs`: the end of the log, filtered, followed across rotations, or from the journal."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from memoryd import daemon_record
from memoryd.cli.main import main
from memoryd.daemon_record import JOURNAL
from tests.daemons import Daemon, Lines
from tests.homes import Home
from tests.processes import environment

Capture = pytest.CaptureFixture[str]


def line(name: str, level: str = "info", **keys: object) -> str:
    stamp = {"timestamp": "2030-01-01T00:00:00.1"}
    return json.dumps({"event": name, "level": level, **stamp, **keys}) + "\n"


@contextmanager
def following(*words: str, **variables: str) -> Iterator[IO[str]]:
    """What a following `memoryd logs` prints; it is interrupted in the end."""
    with subprocess.Popen(
        [sys.executable, "-m", "memoryd", "logs", "-f", *words],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(**variables),
        # Where the tests run in the background of a shell, it is ignored and inherited so.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as follower:
        assert follower.stdout is not None
        try:
            yield follower.stdout
        finally:
            follower.send_signal(signal.SIGINT)
        assert follower.wait(10) == 130


def log_of(home: Home) -> Path:
    known = daemon_record.read(home.data)
    assert known is not None
    return Path(known.log)


def call_often(home: Home, times: int) -> None:
    """Make calls, each of which is an event."""
    known = daemon_record.read(home.data)
    assert known is not None
    client = socket.socket(socket.AF_UNIX)
    client.connect(known.socket)
    with Lines(client) as lines:
        lines.open()
        for _ in range(times):
            assert "error" not in lines.tool("get_context", session_id="s")


def test_logs_follow_across_a_rotation(tmp_path: Path) -> None:
    log = tmp_path / "daemon.log"
    log.write_text(line("first"))
    with following("--data-dir", str(tmp_path)) as seen:
        assert seen.readline() == "2030-01-01T00:00:00 info     first\n"
        with log.open("a") as file:
            file.write("Traceback: plain words\n")
        assert seen.readline() == "Traceback: plain words\n"
        log.rename(tmp_path / "daemon.log.1")
        log.write_text('{"event": "after", "level": "info", "n": 1}\n')
        assert seen.readline().split() == ["info", "after", "n=1"]


def test_rotations_of_a_daemon_hide_no_event_from_a_follower(home: Home) -> None:
    """Started by a client, as usual: the log is a file, and stderr another."""
    home.run("sdk", "start", MEMORYD_LOG_MAX_BYTES="1000", MEMORYD_LOG_KEEP="100")
    asked = 60
    variables = home.environment("sdk")
    with following("--json", "-n", "1", "--data-dir", str(home.data), **variables) as seen:
        assert seen.readline(), "it has the log open"
        call_often(home, asked)
        told: list[str] = []
        while told.count("call") < asked:
            told.append(json.loads(seen.readline())["event"])
    assert told.count("call") == asked
    log = log_of(home)
    files = sorted(log.parent.glob(f"{log.name}*"))
    assert len(files) > 5, "it was rotated"
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert all(file.stat().st_size <= 1000 for file in files)
    home.run("sdk", "stop")


def test_so_many_rotated_logs_are_kept_as_configured(home: Home) -> None:
    home.run("sdk", "start", MEMORYD_LOG_MAX_BYTES="1000", MEMORYD_LOG_KEEP="2")
    log = log_of(home)
    call_often(home, 40)
    home.run("sdk", "stop")
    files = sorted(file.name for file in log.parent.glob(f"{log.name}*"))
    assert files == [log.name, f"{log.name}.1", f"{log.name}.2"]


def test_the_last_events_may_be_in_rotated_files(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "daemon.log.2").write_text(line("a") + line("b", "error"))
    (tmp_path / "daemon.log.1").write_text(line("c") + line("d", "warning"))
    (tmp_path / "daemon.log").write_text(line("e", "debug") + "plain words\n" + line("f"))

    def shown(*words: str) -> list[str]:
        assert main(["logs", "--json", "--data-dir", str(tmp_path), *words]) == 0
        return [json.loads(text)["event"] for text in capsys.readouterr().out.splitlines()]

    assert shown("-n", "4") == ["d", "e", "plain words", "f"]
    assert shown() == ["a", "b", "c", "d", "e", "plain words", "f"]
    assert shown("--level", "info") == ["a", "b", "c", "d", "plain words", "f"]
    assert shown("--level", "warning") == ["b", "d", "plain words"]
    assert shown("--level", "error", "-n", "1") == ["plain words"]
    assert shown("-n", "0") == []


def test_an_unknown_level_is_wrong_usage(tmp_path: Path, capsys: Capture) -> None:
    assert main(["logs", "--level", "loud", "--data-dir", str(tmp_path)]) == 2
    assert "It is one of debug, info, warning, error." in capsys.readouterr().err


@pytest.mark.slow
def test_a_daemon_on_a_terminal_is_named(tmp_path: Path, capsys: Capture) -> None:
    """Not the old log of another daemon, which would mislead."""
    daemon = Daemon(tmp_path / "data").start()
    try:
        (daemon.folder / "daemon.log").write_text(line("old"))
        assert main(["logs", "--data-dir", str(daemon.folder)]) == 1
        assert daemon.process is not None
        said = capsys.readouterr()
        assert f"The daemon (process {daemon.process.pid}) logs to its stderr" in said.err
        assert said.out == ""
    finally:
        daemon.stop()


JOURNALCTL = """#!/bin/sh
echo "$@" > "$0.asked"
cat "{log}"
case "$*" in *--follow*) exec sleep 600;; esac
"""


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """A daemon whose stderr is named as the journal by the variable of systemd, and a program in
    the place of journalctl that prints what it wrote."""
    daemon = Daemon(tmp_path / "data")
    daemon.log.touch()
    found = os.stat(daemon.log)
    daemon.settings["JOURNAL_STREAM"] = f"{found.st_dev}:{found.st_ino}"
    program = tmp_path / "bin" / "journalctl"
    program.parent.mkdir()
    program.write_text(JOURNALCTL.format(log=daemon.log))
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    daemon.start()
    yield daemon
    daemon.stop()


@pytest.mark.slow
def test_the_log_of_a_service_is_read_from_the_journal(
    journal: Daemon, tmp_path: Path, capsys: Capture
) -> None:
    there = ["--data-dir", str(journal.folder)]
    known = daemon_record.read(journal.folder)
    assert known is not None
    assert known.log == JOURNAL
    assert main(["logs", *there]) == 0
    assert "listening" in capsys.readouterr().out
    asked = (tmp_path / "bin" / "journalctl.asked").read_text()
    assert "--user --unit memoryd.service" in asked
    assert "--lines 50" in asked
    assert main(["logs", "--level", "error", *there]) == 0
    assert capsys.readouterr().out == ""
    with following("-n", "3", *there, PATH=os.environ["PATH"]) as seen:
        assert "config" in seen.readline()
    assert "--follow" in (tmp_path / "bin" / "journalctl.asked").read_text()


@pytest.mark.parametrize("program", ["#!/bin/sh\nexit 3\n", None], ids=["fails", "is missing"])
@pytest.mark.slow
def test_a_journal_that_cannot_be_read_is_told(
    journal: Daemon,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    program: str | None,
) -> None:
    if program:
        (tmp_path / "bin" / "journalctl").write_text(program)
    else:
        monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["logs", "--data-dir", str(journal.folder)]) == 1
    said = capsys.readouterr().err
    assert "Error: The daemon logs to the journal of systemd, which cannot be read" in said
    assert "Try: journalctl --user -u memoryd" in said
