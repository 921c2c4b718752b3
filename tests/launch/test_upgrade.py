"""A newer shim replaces an older daemon that nobody else uses; real processes of two versions."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd import __version__, daemon_record
from memoryd.daemon_record import JOURNAL, LISTENING, MANAGED, Record, is_newer
from memoryd.doors.lines import SESSION
from memoryd.launch.upgrade import ANSWER_TIMEOUT, METHOD, Upgrade
from tests.daemons import Daemon, ForkedDaemon, Lines
from tests.homes import Home
from tests.processes import free_port

OLD = "0.0.9"


@pytest.fixture
def old(home: Home) -> dict[str, Any]:
    """The environment of processes of an older version, the daemon that they start included."""
    folder = home.path / "old"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(f"import memoryd\nmemoryd.__version__ = '{OLD}'\n")
    return {"PYTHONPATH": str(folder)}


@pytest.mark.slow
def test_an_idle_daemon_is_replaced(home: Home, old: dict[str, Any]) -> None:
    """At once, for the same client, without an error and with all memories."""
    home.run("sdk", "store", "The dock is in the hall.", "--name", "dock", **old)
    before = home.shim_status("sdk", **old)
    assert before["version"] == OLD
    after = home.shim_status("sdk")
    assert after["version"] == __version__
    assert after["pid"] != before["pid"]
    assert "The dock is in the hall." in home.run("sdk", "get", "dock").stdout
    assert "retiring" in home.run("sdk", "logs").stdout


@pytest.mark.slow
def test_a_daemon_that_others_use_stays(home: Home, old: dict[str, Any]) -> None:
    before = home.shim_status("sdk", **old)
    with socket.socket(socket.AF_UNIX) as other:
        other.connect(before["socket"])
        after = home.shim_status("sdk")
    assert (after["version"], after["pid"]) == (OLD, before["pid"])


@pytest.mark.slow
def test_an_older_shim_leaves_a_newer_daemon_alone(home: Home, old: dict[str, Any]) -> None:
    before = home.shim_status("sdk")
    assert home.shim_status("sdk", **old)["pid"] == before["pid"]


@pytest.mark.slow
def test_other_clients_take_any_version(home: Home, old: dict[str, Any]) -> None:
    """A verb must not end a daemon that it was only asked about."""
    before = home.shim_status("sdk", **old)
    assert home.json("sdk", "status")["pid"] == before["pid"]


@pytest.mark.slow
def test_a_daemon_with_an_http_door_stays(home: Home, old: dict[str, Any]) -> None:
    door = {"MEMORYD_DOORS_HTTP_PORT": str(free_port())}
    before = home.json("sdk", "start", **old, **door)
    assert (before["started"], before["version"]) == (True, OLD)
    assert home.shim_status("sdk")["pid"] == before["pid"]


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def note(folder: Path, state: str = LISTENING, log: str = "/x.log", version: str = OLD) -> Path:
    place = folder / "s"
    folder.chmod(0o700)
    daemon_record.write(Record(1, str(place), str(folder), state, log, version))
    return place


@pytest.mark.parametrize(
    ("state", "log", "version"),
    [
        (LISTENING, "", OLD),  # in a terminal
        (LISTENING, JOURNAL, OLD),  # of systemd
        (MANAGED, "/x.log", OLD),
        (LISTENING, "/x.log", __version__),
        (LISTENING, "/x.log", "99.0"),
        (LISTENING, "/x.log", "unknown"),
    ],
)
def test_who_is_not_asked(
    tmp_path: Path,
    ends: tuple[socket.socket, socket.socket],
    state: str,
    log: str,
    version: str,
) -> None:
    place = note(tmp_path, state, log, version)
    upgrade = Upgrade()
    assert not upgrade.ask(tmp_path, place, ends[0], 0.0)
    assert not upgrade.waits(0.0)


@pytest.mark.parametrize(
    "answer", [b'{"id": 1, "error": {"code": -32601}}\n', b"nonsense\n", b'{"result": {}}\n']
)
def test_a_daemon_that_does_not_end_is_used(
    tmp_path: Path, ends: tuple[socket.socket, socket.socket], answer: bytes
) -> None:
    place = note(tmp_path)
    upgrade = Upgrade()
    assert upgrade.ask(tmp_path, place, ends[0], 0.0)
    assert b"memoryd/upgrade" in ends[1].recv(4096)
    assert upgrade.waits(0.0)
    ends[1].sendall(answer)
    assert not upgrade.waits(0.1)
    assert not upgrade.ask(tmp_path, place, ends[0], 0.2)  # once is enough


def test_a_daemon_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, ends: tuple[socket.socket, socket.socket]
) -> None:
    upgrade = Upgrade()
    assert upgrade.ask(tmp_path, note(tmp_path), ends[0], 0.0)
    assert upgrade.waits(ANSWER_TIMEOUT / 2)
    assert not upgrade.waits(ANSWER_TIMEOUT)


def test_versions_are_compared_by_their_numbers() -> None:
    assert is_newer("0.10.0", "0.9.1")
    assert is_newer("1.0", "0.9.9")
    assert not is_newer("0.1.0", "0.1.0")
    assert not is_newer("0.1.0", "0.2.0.dev1")
    assert not is_newer("", "0.1")
    assert not is_newer("1.0", "unknown")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = ForkedDaemon(tmp_path / "data").start()
    yield made
    made.stop()


def test_a_daemon_ends_for_a_newer_version_only(daemon: Daemon) -> None:
    assert daemon.process is not None
    for version in (OLD, __version__, "", None, ["99.0"]):
        assert daemon.call(METHOD, version=version) == {"ending": False}
    assert daemon.process.poll() is None
    assert daemon.call(METHOD, version="99.0") == {"ending": True}
    assert daemon.process.wait(60) == 0


def test_an_agent_behind_a_shim_cannot_end_a_daemon(daemon: Daemon) -> None:
    """A connection that the shim has opened for its client has no owner's rights."""
    with Lines(daemon.connect()) as lines:
        lines.send({"jsonrpc": "2.0", "method": SESSION, "params": {"session_id": "s"}})
        lines.open()
        assert "code" in lines.call(METHOD, version="99.0")
    assert daemon.status()["health"]
