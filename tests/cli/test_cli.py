"""Every verb of the command line, against a real daemon."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memoryd.cli import daemon as cli_daemon
from memoryd.cli import output
from memoryd.cli.main import main
from memoryd.cli.verbs import parser
from tests.daemons import Daemon
from tests.processes import environment, is_running

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data directory for daemons that are started in the background; ended afterwards."""
    monkeypatch.setenv("MEMORYD_EMBEDDING_BACKEND", "hash")
    folder = tmp_path / "data"
    yield folder
    main(["stop", "--data-dir", str(folder)])


def test_store_says_what_became_of_it(run: Any) -> None:
    said = run("store", "Tea is at four.")
    assert said.startswith("Stored fact ")
    assert said.endswith(", kept until forgotten\n")
    assert run("store", "Tea is at four.").startswith("Already known: fact ")
    run("store", "Coffee is at ten.", "--name", "coffee")
    assert run("store", "Coffee is at nine.", "--name", "coffee").startswith("Replaced fact ")
    assert ", kept until 20" in run("store", "I am in the hall.", "--type", "context")


def test_store_takes_every_option(run: Any) -> None:
    words = ["--name", "all", "--session", "s1", "--metadata", "room=hall", "--metadata", "n=7"]
    stored = json.loads(run("store", "Every option.", *words, "--pinned", "--json"))
    assert stored["metadata"] == {"room": "hall", "n": 7}
    assert (stored["name"], stored["session_id"], stored["pinned"]) == ("all", "s1", True)
    ends = json.loads(run("store", "It ends.", "--expires-at", "2099-01-01T00:00:00Z", "--json"))
    assert datetime.fromisoformat(ends["expires_at"]) == datetime(2099, 1, 1, tzinfo=UTC)


def test_what_is_stored_from_stdin_is_in_no_process_list(daemon: Daemon) -> None:
    command = [sys.executable, "-m", "memoryd", "store", "-", "--socket", str(daemon.socket)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as storing:
        assert storing.stdin is not None
        storing.stdin.write(b"The surprise party is on Friday.")
        storing.stdin.flush()
        listed = b""
        while not listed and storing.poll() is None:  # empty for a moment after the exec
            listed = Path(f"/proc/{storing.pid}/cmdline").read_bytes()
        said, _ = storing.communicate(timeout=60)
    assert b"store" in listed
    assert b"surprise" not in listed
    assert said.startswith(b"Stored fact ")
    page = daemon.tool("search_memories", query="surprise party Friday")
    assert page["results"][0]["content"] == "The surprise party is on Friday."


def test_store_reads_stdin(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("from a pipe: ü\n".encode())))
    assert json.loads(run("store", "-", "--json"))["content"] == "from a pipe: ü"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe")))
    assert "not UTF-8" in run("store", "-", fails=1)


def test_search_shows_the_best_first(run: Any) -> None:
    stored = json.loads(run("store", "The ladder is in the shed.", "--name", "ladder", "--json"))
    said = run("search", "ladder in the shed").splitlines()
    again = run("search", "ladder", "in", "the", "shed").splitlines()
    assert again == said
    score, kind, *_, id, name = said[0].split()
    assert (kind, id, name) == ("fact", stored["id"], "ladder")
    assert 0.3 <= float(score) <= 1
    assert datetime.fromisoformat(said[0].split()[2].rstrip(",")) <= datetime.now(UTC)
    assert ", kept" in said[0]
    assert said[1] == "      The ladder is in the shed."


def test_search_takes_every_option(run: Any) -> None:
    run("store", "Blue paint is on the shelf.", "--session", "s2", "--metadata", "color=blue")
    query = ("search", "blue paint on the shelf", "--json")
    some = ("--limit", "1", "--min-score", "0.1", "--type", "fact", "--session", "s2")
    page = json.loads(run(*query, *some, "--metadata", "color=blue", "--since", "2020-01-01"))
    assert [hit["content"] for hit in page["results"]] == ["Blue paint is on the shelf."]
    assert json.loads(run(*query, "--metadata", "color=red"))["results"] == []
    assert json.loads(run(*query, "--until", "2020-01-01"))["results"] == []


def test_search_without_a_hit_says_so(run: Any) -> None:
    assert run("search", "zzz", "--session", "nobody") == "Nothing found.\n"


def test_json_is_what_comes_over_the_wire(run: Any, daemon: Daemon) -> None:
    stored = json.loads(run("store", "On the wire.", "--json"))
    page = daemon.tool("search_memories", query="on the wire")
    assert json.loads(run("search", "on the wire", "--json")) == page
    got = daemon.call("resources/read", uri=f"memory://memory/{stored['id']}")
    assert json.loads(run("get", stored["id"], "--json")) == json.loads(got["contents"][0]["text"])


def test_get_shows_all_of_a_memory(run: Any) -> None:
    words = ("--name", "lines", "--session", "s3", "--metadata", "room=attic")
    run("store", "one\ntwo\nthree", *words)
    text, _, facts = run("get", "lines").partition("\n\n")
    assert text == "one\ntwo\nthree"
    shown = dict(line.split(maxsplit=1) for line in facts.splitlines())
    assert shown.items() >= {"name": "lines", "session": "s3", "metadata.room": "attic"}.items()
    assert shown["expires"] == "never"


def test_metadata_cannot_pose_as_a_field_of_the_memory(run: Any) -> None:
    """What is shown as its id is what forget takes."""
    posing = {
        "id": "0" * 20,
        "name": "other",
        "type": "context",
        "created": "x",
        "note": "a\n  id  b",
    }
    words = [word for key, value in posing.items() for word in ("--metadata", f"{key}={value}")]
    stored = json.loads(run("store", "Who am I?", "--name", "real", *words, "--json"))
    _, _, facts = run("get", "real").partition("\n\n")
    shown = [line.split(maxsplit=1) for line in facts.splitlines()]
    assert [value for key, value in shown if key == "id"] == [stored["id"]]
    assert [value for key, value in shown if key == "name"] == ["real"]
    assert [value for key, value in shown if key == "type"] == ["fact"]
    assert ["metadata.id", "0" * 20] in shown
    assert ["metadata.note", "a id b"] in shown


def test_forget_takes_several_and_tells_what_was_not_there(run: Any, capsys: Capture) -> None:
    run("store", "first", "--name", "f1")
    run("store", "second", "--name", "f2")
    assert run("forget", "f1", "nope", "f2", fails=1) == (
        "Error: There is no memory 'nope'.\nTry: Search for it, or check the id.\n"
    )
    assert "There is no memory" in run("get", "f2", fails=1)
    run("store", "third", "--name", "f3")
    assert json.loads(run("forget", "f3", "--json"))["success"] is True


def test_an_unknown_memory_is_a_failure(run: Any) -> None:
    said = run("get", "nope", fails=1)
    assert said == "Error: There is no memory 'nope'.\nTry: Search for it, or check the id.\n"
    assert run("get", "nope", "--json", fails=1) == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("store", ""), "Content is empty."),
        (("store", "x", "--type", "gossip"), "There is no memory type 'gossip'."),
        (("search", "x", "--limit", "0"), "The limit must be a whole number"),
        (("search", "x", "--since", "soon"), "since is not a time"),
    ],
)
def test_refused_input_shows_the_daemons_sentence(run: Any, words: Any, sentence: str) -> None:
    assert run(*words, fails=1).startswith(f"Error: {sentence}")


def test_a_memory_cannot_drive_the_terminal(run: Any) -> None:
    run("store", "red \x1b[31malert\x07 text", "--name", "escape")
    assert run("get", "escape").startswith("red alert text\n")
    assert "\x1b" not in run("search", "red alert text")
    # Not even one that comes from elsewhere than our daemon.
    assert output.clean("a\x1b]0;title\x07b\x9b31mc\u202ed\x7f\r\ne") == "abcd\ne"


def test_status_shows_the_whole_picture(run: Any, daemon: Daemon) -> None:
    said = run("status")
    assert said.startswith("memoryd 0.1.0  ready\n")
    for name in ("uptime", "memories", "next expiry", "sessions", "model", "RAM", "disk"):
        assert f"\n  {name} " in said
    assert str(daemon.folder) in said
    found = json.loads(run("status", "--json"))
    assert found.keys() == daemon.status().keys()
    assert found["pid"] == daemon.status()["pid"]


def test_places_may_be_named_before_the_verb(daemon: Daemon, capsys: Capture) -> None:
    assert main(["--socket", str(daemon.socket), "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["health"] == "ready"


def test_without_a_daemon(tmp_path: Path, capsys: Capture) -> None:
    """Status fails, stop has nothing to do, and neither starts one."""
    there = ["--data-dir", str(tmp_path / "data")]
    socket = tmp_path / "data" / "memoryd.sock"
    assert main(["status", *there]) == 1
    said = f"Error: No memoryd answers at {socket}.\nTry: memoryd start\n"
    assert capsys.readouterr() == ("", said)
    assert main(["status", "--json", *there]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["health"], found["socket"]) == ("stopped", str(socket))
    assert main(["stop", *there]) == 0
    assert capsys.readouterr().out == f"No memoryd answers at {socket}.\n"
    assert main(["stop", "--json", *there]) == 0
    assert json.loads(capsys.readouterr().out) == {"stopped": False, "pid": None}
    assert main(["logs", *there]) == 1
    assert capsys.readouterr().err.startswith("Error: There is no log at ")
    assert not (tmp_path / "data").exists()


def test_a_daemon_that_was_started_by_a_verb(home: Path, capsys: Capture) -> None:
    """Store starts one and says nothing about it; it has a log; stop waits until it is gone."""
    there = ["--data-dir", str(home)]
    assert main(["store", "Started for this.", "--json", *there]) == 0
    assert json.loads(capsys.readouterr().out)["content"] == "Started for this."
    assert main(["status", "--json", *there]) == 0
    pid = json.loads(capsys.readouterr().out)["pid"]
    assert main(["logs", *there]) == 0
    assert any("listening" in line for line in capsys.readouterr().out.splitlines())
    assert main(["logs", "-n", "1", "--json", *there]) == 0
    assert "event" in json.loads(capsys.readouterr().out)
    assert main(["stop", *there]) == 0
    assert capsys.readouterr().out == f"Stopped process {pid}.\n"
    assert not is_running(pid)


@pytest.mark.slow
def test_a_stop_that_takes_too_long_is_a_failure(
    home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_daemon, "end_process", lambda pid: False)
    main(["store", "x", "--data-dir", str(home)])
    assert main(["stop", "--data-dir", str(home)]) == 1
    assert "Try: memoryd stop --kill" in capsys.readouterr().err
    monkeypatch.undo()


@pytest.mark.parametrize("tells", [True, False], ids=["the system tells", "by looking"])
def test_the_end_of_a_process_is_waited_for(tells: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not tells:
        monkeypatch.delattr(os, "pidfd_open")
    command = ["sh", "-c", "sleep 60 & echo $!; wait"]  # a parent that buries its child
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert cli_daemon.end_process(pid)
        assert not is_running(pid)
    assert cli_daemon.end_process(pid)


def test_failures_never_show_a_traceback(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def broken(options: object) -> int:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(cli_daemon, "status", broken)
    assert main(["status"]) == 1
    assert capsys.readouterr().err == (
        "Error: memoryd failed with ZeroDivisionError.\nTry: memoryd doctor\n"
    )


def test_interrupting_exits_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(options: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_daemon, "status", interrupted)
    assert main(["status"]) == 130


def test_a_bad_setting_is_told_by_serve(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("memory:\n  pth: x\n")
    assert main(["serve", "--config", str(file), "--data-dir", str(tmp_path / "data")]) == 1
    assert "There is no setting `memory.pth`" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_complaint(daemon: Daemon) -> None:
    command = [sys.executable, "-m", "memoryd", "--socket", str(daemon.socket), "status"]
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=60)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_colour_is_for_terminals(daemon: Daemon) -> None:
    command = [sys.executable, "-m", "memoryd", "--socket", str(daemon.socket), "status"]
    plain = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    assert b"\x1b" not in plain
    main_end, terminal = pty.openpty()
    env = {k: v for k, v in environment(TERM="xterm").items() if k != "NO_COLOR"}
    subprocess.run(command, stdout=terminal, env=env, check=True, timeout=60)
    os.close(terminal)
    assert b"\x1b[1mready" in os.read(main_end, 100)
    os.close(main_end)


def test_quick_verbs_import_little(daemon: Daemon) -> None:
    code = (
        "import sys; from memoryd.cli.main import main;"
        f"main(['status', '--socket', {str(daemon.socket)!r}]); print(*sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = {name.split(".")[0] for name in found.stdout.splitlines()[-1].split()}
    heavy = {"chromadb", "onnxruntime", "mcp", "numpy", "yaml", "anyio", "structlog", "pydantic"}
    assert heavy.isdisjoint(modules)


def test_every_verb_has_help(capsys: Capture) -> None:
    text = parser().format_help()
    verbs = "serve mcp status stop logs store search get forget export import setup config"
    verbs += " service doctor list update pin unpin edit"
    assert all(f"\n    {verb} " in text for verb in verbs.split())


def test_times_and_sizes_read_well(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [output.span(n) for n in (0.2, 59, 60, 7200, 90_000, 200_000)] == [
        *("0 s", "59 s", "1 min", "2 h", "1 day", "2 days"),
    ]
    assert [output.long_span(n) for n in (0, 60, 3661, 90_000)] == [
        *("0 s", "1 min", "1 h 1 min", "1 day 1 h"),
    ]
    assert [output.size(n) for n in (0, 999, 18_300_000, 5e15)] == [
        *("0 B", "999 B", "18.3 MB", "5000.0 TB"),
    ]
    now = datetime.now(UTC)
    memory = {"created_at": (now - timedelta(minutes=3)).isoformat(), "expires_at": None}
    made = datetime.fromisoformat(memory["created_at"] or "").replace(microsecond=0)
    assert datetime.fromisoformat(output.age(memory, now)) == made  # exact in a pipe
    assert output.remaining(memory, now) == "kept"
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    assert output.age(memory, now) == "3 min ago"
    memory["expires_at"] = (now + timedelta(days=2)).isoformat()
    assert output.remaining(memory, now) == "expires in 2 days"


def test_a_line_is_cut_at_the_edge_whatever_its_colours() -> None:
    painted = "\x1b[1mscore\x1b[0m and \x1b[2mthe rest of it\x1b[0m"
    assert output.fitted(painted, 24) == painted
    assert output.fitted(painted, 12) == "\x1b[1mscore\x1b[0m and \x1b[2mt…\x1b[0m"
    assert output.fitted("plain text", 6) == "plain…"
