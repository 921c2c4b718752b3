"""Under --json stdout is JSON and nothing else, however a command ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.cli import daemon as cli_daemon
from memoryd.cli import store as cli_store
from memoryd.cli.main import main
from memoryd.cli.verbs import parser
from tests.daemons import ForkedDaemon

Capture = pytest.CaptureFixture[str]

WORDS = {
    "store": ["x"],
    "search": ["x"],
    "get": ["x"],
    "update": ["x", "--pinned"],
    "pin": ["x"],
    "unpin": ["x"],
    "edit": ["x"],
    "forget": ["x"],
    "restore": ["nowhere.tar"],
    "import": ["nowhere.jsonl"],
    "service": ["status"],
}
# Its stdout is the wire of an MCP client, which reads no such document.
WITHOUT = {"mcp"}
VERBS = sorted(parser().verbs().keys() - WITHOUT)


@pytest.fixture
def absent(tmp_path: Path) -> list[str]:
    """A place where no daemon is, and none can be started."""
    (tmp_path / "file").touch()
    return ["--data-dir", str(tmp_path / "file" / "data")]


@pytest.fixture
def broken(tmp_path: Path, absent: list[str]) -> Iterator[list[str]]:
    """The same, with something at its socket that is no memoryd."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "s"))
    listening.listen()

    def serve() -> None:
        while True:
            try:
                link, _ = listening.accept()
            except OSError:
                return
            with link, contextlib.suppress(BrokenPipeError):  # some only look who listens
                link.sendall(b"220 mail.example ESMTP\n")

    server = threading.Thread(target=serve)
    server.start()
    yield [*absent, "--socket", str(tmp_path / "s")]
    listening.shutdown(socket.SHUT_RDWR)
    server.join()
    listening.close()


def documents(said: Any) -> list[Any]:
    return [json.loads(line) for line in said.out.splitlines()]


@pytest.mark.parametrize("where", ["absent", "broken"])
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_fails_in_json(
    verb: str,
    where: str,
    request: pytest.FixtureRequest,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MEMORYD_MEMORY_EMBEDDING_MODEL", "/nowhere/model")
    monkeypatch.setattr(cli_store, "REAPPEAR_TIMEOUT", 0.1)  # nobody comes back here
    place = request.getfixturevalue(where)
    code = main([verb, *WORDS.get(verb, []), "--json", *place])
    said = capsys.readouterr()
    last = documents(said)[-1]
    assert "Error:" not in said.err
    assert "Traceback" not in said.err
    if code == 0:
        assert verb in ("config", "plugin", "stop", "service", "version")
    elif verb == "doctor":
        assert last["faults"]
    else:
        assert last["error"].keys() == {"code", "message", "hint"}
        assert last["error"]["code"]
        assert last["error"]["message"].endswith(".")


def test_the_codes_tell_failures_apart(absent: list[str], capsys: Capture) -> None:
    found = {}
    for verb, words in {"status": [], "logs": [], "backup": [], "import": ["no"]}.items():
        assert main([verb, *words, "--json", *absent]) == 1
        found[verb] = documents(capsys.readouterr())[-1]["error"]["code"]
    assert found == {
        "status": "daemon_unavailable",
        "logs": "not_found",
        "backup": "no_store",
        "import": "file_unreadable",
    }


@pytest.mark.parametrize("words", [["dance"], ["get"], ["search", "x", "--limt"], ["serve"]])
def test_wrong_usage_is_json_too(words: list[str], capsys: Capture) -> None:
    assert main([*words, "--json"]) == 2
    said = capsys.readouterr()
    assert said.err == ""
    [found] = documents(said)
    assert found["error"]["code"] == "usage"
    assert found["error"]["hint"].endswith("--help")


def test_json_behind_two_dashes_is_a_text(capsys: Capture) -> None:
    assert main(["search", "--limt", "--", "--json"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("failure", "code", "exit_code"),
    [(ZeroDivisionError("oh"), "internal", 1), (KeyboardInterrupt(), "interrupted", 130)],
)
def test_what_nobody_expected_is_json_too(
    failure: BaseException,
    code: str,
    exit_code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    def broken(options: object) -> int:
        raise failure

    monkeypatch.setattr(cli_daemon, "status", broken)
    assert main(["status", "--json"]) == exit_code
    said = capsys.readouterr()
    assert (documents(said)[0]["error"]["code"], said.err) == (code, "")


def test_ctrl_c_ends_a_call_that_waits(tmp_path: Path) -> None:
    """A real signal to a real process, whose daemon never answers."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        command = [sys.executable, "-m", "memoryd", "search", "x", "--json", "--socket", str(path)]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Where the tests run in the background of a shell, it is ignored and inherited so.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as process:
            link, _ = listening.accept()
            assert link.recv(100)  # it has asked and now waits
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
            link.close()
    assert (process.returncode, err) == (130, b"")
    assert json.loads(out)["error"]["code"] == "interrupted"


def test_a_reader_that_goes_away_is_no_complaint_about_an_error(absent: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "memoryd", "status", "--json", *absent]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=60)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_an_output_that_cannot_be_written_is_told() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "memoryd", "version", "--json"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60, text=True)
    assert ended.returncode == 1
    assert ended.stderr == "Error: The output cannot be written: No space left on device.\n"


def test_forgetting_tells_of_each_memory_in_a_line(tmp_path: Path, capsys: Capture) -> None:
    daemon = ForkedDaemon(tmp_path / "data").start()
    daemon.tool("store_memory", content="one", name="one")
    there = ["--json", "--socket", str(daemon.socket)]
    assert main(["forget", "nope", "one", *there]) == 1
    said = capsys.readouterr()
    missing, gone = documents(said)
    assert said.err == ""
    assert (missing["success"], missing["error"]["code"]) == (False, "not_found")
    assert gone["success"] is True
    assert "error" not in gone
    assert main(["forget", "one", "--dry-run", *there]) == 1
    assert documents(capsys.readouterr())[0]["error"]["code"] == "not_found"
    assert daemon.stop() == 0
