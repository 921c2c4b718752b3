"""Everybody finds the one daemon of a data directory, whatever environment they were started with.

Real processes with the environments that people and SDKs give them.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memoryd import daemon_record
from memoryd.launch.start import LISTEN_TIMEOUT
from tests.homes import Home
from tests.processes import is_running

pytestmark = pytest.mark.slow

OTHER = {"sdk": "shell", "shell": "sdk"}


@pytest.mark.parametrize("kind", ["shell", "sdk"])
@pytest.mark.parametrize("starter", ["serve", "verb", "shim"])
def test_a_daemon_is_found_from_another_environment(home: Home, kind: str, starter: str) -> None:
    """Started in one environment by anybody, found in the other by everybody."""
    if starter == "serve":
        pid = home.serve(kind)
    elif starter == "verb":
        home.run(kind, "store", "The dock is in the kitchen.")
        pid = home.json(kind, "status")["pid"]
    else:
        pid = home.shim_status(kind)["pid"]
    assert home.pids(OTHER[kind]) == {pid}
    assert home.pids(kind) == {pid}
    assert home.json(OTHER[kind], "stop")["pid"] == pid
    assert not is_running(pid)


def test_twenty_shims_of_mixed_environments_share_one_daemon(home: Home) -> None:
    with ThreadPoolExecutor(20) as pool:
        kinds = ["sdk", "shell"] * 10
        found = list(pool.map(home.shim_status, kinds))
    assert len({status["pid"] for status in found}) == 1
    assert len(home.listening()) == 1


def test_a_killed_daemon_is_no_obstacle(home: Home) -> None:
    """It leaves its record and its socket; a new one takes their place."""
    killed = home.serve("shell")
    os.kill(killed, signal.SIGKILL)
    home.foreground.pop().wait(60)
    left = daemon_record.read(home.data)
    assert left is not None
    assert left.pid == killed
    assert home.shim_status("sdk")["pid"] != killed
    assert len(home.pids("shell")) == 1


def test_an_orderly_end_leaves_no_record(home: Home) -> None:
    home.serve("shell")
    assert daemon_record.read(home.data) is not None
    home.run("sdk", "stop")
    assert daemon_record.read(home.data) is None


# The data directory by the configuration file, which the shim does not read


@pytest.mark.parametrize("starter", ["serve", "verb", "shim"])
def test_the_users_configuration_moves_the_memories(home: Home, starter: str) -> None:
    """Everybody without a flag follows it, whoever started the daemon."""
    home.configure(home.path / "moved")
    if starter == "serve":
        pid = home.serve("shell")
    elif starter == "verb":
        home.run("sdk", "store", "Moved.")
        pid = home.json("sdk", "status")["pid"]
    else:
        pid = home.shim_status("shell")["pid"]
    assert home.json("shell", "status")["data_dir"] == str(home.path / "moved")
    assert home.pids("sdk") == home.pids("shell") == {pid}
    assert len(home.listening()) == 1


def test_a_shim_with_a_configuration_never_meets_the_default_daemon(home: Home) -> None:
    default = home.serve("shell")
    other = home.configure(home.path / "other", home.path / "b.yaml")
    status = home.shim_status("sdk", "--config", str(other))
    assert status["data_dir"] == str(home.path / "other")
    assert status["pid"] != default
    assert home.pids("shell", "--config", str(other)) == {status["pid"]}
    assert home.pids("sdk") == {default}


def test_a_changed_configuration_is_followed(home: Home) -> None:
    """What was noted of the file before counts no more."""
    home.configure(home.path / "first")
    first = home.shim_status("sdk")
    home.configure(home.path / "second, and longer")
    second = home.shim_status("sdk")
    assert (first["data_dir"], second["data_dir"]) == (
        str(home.path / "first"),
        str(home.path / "second, and longer"),
    )


def test_a_refused_daemon_leads_its_starter_to_the_first(home: Home) -> None:
    """The shim knows nothing but a configuration file, and starts a daemon that is not needed:
    one, and that tells it where to go."""
    other = home.configure(home.path / "other", home.path / "b.yaml")
    first = home.serve("shell", "--config", str(other), "--socket", str(home.path / "s"))
    for note in home.data.glob("config-*.json"):
        note.unlink()
    began = time.monotonic()
    assert home.shim_status("sdk", "--config", str(other))["pid"] == first
    assert time.monotonic() - began < LISTEN_TIMEOUT  # it did not wait for another daemon
    # The shim may be served before the other daemon has said that it is refused.
    words = ""
    while "already serves" not in words:
        assert time.monotonic() - began < LISTEN_TIMEOUT, words
        words = "".join(path.read_text() for path in home.path.rglob("*.start"))
    assert words.count("already serves") == 1


def test_a_second_daemon_is_refused_before_anything_is_loaded(home: Home) -> None:
    pid = home.serve("shell")
    code = (
        "import sys; from memoryd.cli.main import main; code = main(['serve']);"
        "print(*sys.modules); sys.exit(code)"
    )
    second = subprocess.run(
        [sys.executable, "-c", code],
        env=home.environment("sdk"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert second.returncode == 3
    socket = home.path / "run" / "memoryd" / "memoryd.sock"
    assert f"(process {pid}) already serves {home.data}, at {socket}." in second.stderr
    modules = {name.split(".")[0] for name in second.stdout.split()}
    assert {"mcp", "anyio", "chromadb", "numpy", "structlog", "pydantic"}.isdisjoint(modules)


# When nothing works the reason is told


def test_an_owner_that_cannot_be_reached_is_named_at_once(home: Home) -> None:
    """It hangs, and somebody cleaned up its socket. Starting daemons would not help, so none is
    started."""
    pid = home.serve("shell")
    place = home.path / "run" / "memoryd" / "memoryd.sock"
    os.kill(pid, signal.SIGSTOP)
    place.unlink()
    began = time.monotonic()
    answers = home.ask("sdk")
    assert [answer["error"]["code"] for answer in answers] == [-32000, -32000]
    assert answers[0]["error"]["data"]["code"] == "daemon_unreachable"
    told = f"Process {pid} serves {home.data}, but nothing answers at its socket {place}."
    assert told in answers[0]["error"]["message"]
    for verb in (["search", "dock"], ["status"]):
        said = home.run("sdk", *verb, fails=1).stderr
        assert said == f"Error: {told}\nTry: If it should not run, end it: kill {pid}\n"
    said = home.run("sdk", "stop", fails=1).stderr
    assert said == f"Error: {told}\nTry: memoryd stop --kill\n"
    said = home.run("sdk", "status", "--json", fails=1).stdout
    assert json.loads(said)["error"]["code"] == "daemon_unreachable"
    assert time.monotonic() - began < 2 * LISTEN_TIMEOUT  # no two of the five have waited
    assert not (home.data / "daemon.start").exists()


def test_a_socket_that_was_cleaned_up_is_made_again(home: Home) -> None:
    pid = home.serve("shell")
    place = home.path / "run" / "memoryd" / "memoryd.sock"
    place.unlink()
    end = time.monotonic() + 60
    while not place.exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    assert home.pids("sdk") == {pid}


def test_the_daemons_own_reason_reaches_the_client(home: Home) -> None:
    home.config.write_text("memory:\n  path: [\n")
    began = time.monotonic()
    error = home.ask("sdk")[0]["error"]
    assert "is not valid YAML" in error["message"]
    assert time.monotonic() - began < LISTEN_TIMEOUT  # it did not wait for another daemon


def test_a_place_that_is_not_a_directory_is_told(home: Home) -> None:
    (home.path / "file").write_text("")
    error = home.ask("sdk", "--data-dir", str(home.path / "file"))[0]["error"]
    assert "not a directory" in error["message"]


# Verbs act on the memories that they were told


def told_by(home: Home, means: str, data: Path) -> tuple[list[str], dict[str, Any]]:
    """The flags and variables that name a data directory."""
    match means:
        case "flag":
            return ["--data-dir", str(data)], {}
        case "configuration":
            return ["--config", str(home.configure(data, home.path / "b.yaml"))], {}
        case "MEMORYD_CONFIG":
            return [], {means: str(home.configure(data, home.path / "b.yaml"))}
    return [], {means: str(data)}


@pytest.mark.parametrize(
    "means", ["flag", "configuration", "MEMORYD_CONFIG", "MEMORYD_MEMORY_PATH"]
)
def test_a_verb_acts_only_on_the_directory_it_was_told(home: Home, means: str) -> None:
    """The default daemon runs and loses nothing; another one works beside it."""
    home.run("shell", "store", "Precious.")
    flags, variables = told_by(home, means, home.path / "b")
    wipe = ("forget", "--everything", "--yes")
    said = home.run("shell", *flags, *wipe, fails=1, **variables).stderr
    assert f"There are no memories in {home.path / 'b'}." in said
    home.run("shell", *flags, "store", "Other.", **variables)
    backup = home.json("shell", *flags, "backup", **variables)
    assert backup["memories"] == 1
    assert Path(backup["path"]).is_relative_to(home.path / "b")
    home.run("shell", *flags, *wipe, **variables)
    home.run("shell", *flags, "restore", backup["path"], **variables)
    found = home.json("sdk", *flags, "search", "Other.", **variables)["results"]
    assert [hit["content"] for hit in found] == ["Other."]
    assert home.shim_status("sdk", *flags, **variables)["data_dir"] == str(home.path / "b")
    found = home.json("sdk", "search", "Precious.")["results"]
    assert [hit["content"] for hit in found] == ["Precious."]


@pytest.mark.parametrize("means", ["flag", "configuration", "MEMORYD_MEMORY_PATH"])
def test_a_socket_of_other_memories_is_refused_with_both_paths(home: Home, means: str) -> None:
    home.run("shell", "store", "Precious.")
    place = str(home.path / "run" / "memoryd" / "memoryd.sock")
    flags, variables = told_by(home, means, home.path / "b")
    (home.path / "b" / "store").mkdir(parents=True)
    (home.path / "b").chmod(0o700)
    told = f"serves {home.data}, not {home.path / 'b'}; nothing was done."
    for verb in (["forget", "--everything", "--yes"], ["store", "x"], ["backup"], ["stop"]):
        said = home.run("shell", "--socket", place, *flags, *verb, fails=1, **variables).stderr
        assert told in said
        assert "Try: " in said
    if means == "flag":
        answers = home.ask("sdk", "--socket", place, *flags, **variables)
        assert all(told in answer["error"]["message"] for answer in answers)
        assert "daemon_of_other_data" in answers[0]["error"]["message"]
    assert home.json("shell", "status")["memories"]["fact"] == 1
    # A link to the directory is the directory.
    (home.path / "link").symlink_to(home.data)
    home.run("shell", "--socket", place, "--data-dir", str(home.path / "link"), "status")


# Odd places


def test_a_path_that_is_too_long_for_a_socket(home: Home) -> None:
    """The daemon listens at a short private place, and is found there."""
    data = home.path / ("long" * 30)
    pid = home.shim_status("sdk", "--data-dir", str(data))["pid"]
    known = daemon_record.read(data)
    assert known is not None
    place = Path(known.socket)
    assert len(os.fsencode(place)) <= 100
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert home.json("shell", "status", "--data-dir", str(data))["pid"] == pid
    home.run("shell", "stop", "--data-dir", str(data))
    assert not place.exists()
    assert not place.parent.exists()


def test_a_default_socket_that_is_taken_is_no_obstacle(home: Home) -> None:
    folder = home.path / "run" / "memoryd"
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(folder / "memoryd.sock"))
        door.listen()
        pid = home.serve("shell")
        assert home.json("sdk", "status")["pid"] == pid
        assert home.json("shell", "status")["socket"] == str(home.data / "memoryd.sock")


@pytest.mark.parametrize("name", ["daemon.start", "daemon.log", "daemon.json", "daemon.lock"])
def test_a_link_in_the_data_directory_is_not_written_through(home: Home, name: str) -> None:
    victim = home.path / "victim"
    victim.write_text("precious")
    data = home.path / "data"
    data.mkdir(mode=0o700)
    (data / name).symlink_to(victim)
    answers = home.ask("sdk", "--data-dir", str(data))
    assert "error" in answers[0]
    assert victim.read_text() == "precious"


def test_logs_are_found_from_another_environment(home: Home) -> None:
    home.run("shell", "store", "x")
    assert "listening" in home.run("sdk", "logs").stdout
