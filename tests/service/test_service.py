"""The daemon as a user service: the units, and how the managers are told."""

from __future__ import annotations

import json
import plistlib
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from memoryd import daemon_record
from memoryd.cli.main import main
from memoryd.launch.target import Target
from memoryd.service import choice
from memoryd.service.systemd import units
from tests.paths import ROOT
from tests.processes import is_running

UNITS = ROOT / "systemd"
NAMES = ("memoryd.service", "memoryd.socket")
Capture = pytest.CaptureFixture[str]


class Running(NamedTuple):
    """A daemon that runs: the flags that place it, and its process."""

    flags: list[str]
    pid: int


class FakeManager:
    """A `systemctl` or `launchctl` that writes down what it is told."""

    def __init__(self, folder: Path, name: str) -> None:
        self._heard = folder / "heard"
        self._heard.touch()
        self._script = folder / name
        self.answers("echo ok")

    def answers(self, line: str) -> None:
        self._script.write_text(f'#!/bin/sh\necho "$@" >> {self._heard}\n{line}\n')
        self._script.chmod(0o755)

    def heard(self) -> list[str]:
        return self._heard.read_text().splitlines()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, and commands of its own."""
    commands = tmp_path / "bin"
    commands.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")
    return commands


@pytest.fixture
def systemctl(folder: Path) -> FakeManager:
    return FakeManager(folder, "systemctl")


@pytest.fixture
def launchctl(folder: Path, monkeypatch: pytest.MonkeyPatch) -> FakeManager:
    monkeypatch.setattr(sys, "platform", "darwin")
    return FakeManager(folder, "launchctl")


@pytest.mark.parametrize("name", NAMES)
def test_the_units_in_the_repository_are_the_ones_that_are_installed(name: str) -> None:
    assert (UNITS / name).read_text() == units()[name]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_finds_nothing_wrong_with_the_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a home where the command is installed."""
    command = tmp_path / ".local" / "bin" / "memoryd"
    command.parent.mkdir(parents=True)
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    files = [str(UNITS / name) for name in NAMES]
    ended = subprocess.run(
        ["systemd-analyze", "--user", "verify", *files], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_install_writes_the_units_and_tells_systemd(
    systemctl: FakeManager, tmp_path: Path, capsys: Capture
) -> None:
    assert main(["service", "install"]) == 0
    place = tmp_path / "config" / "systemd" / "user"
    said = capsys.readouterr().out
    assert all(f"Wrote {place / name}\n" in said for name in NAMES)
    text = (place / "memoryd.service").read_text()
    command = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    assert command.endswith("serve")
    assert shutil.which(command.removeprefix("ExecStart=").split()[0])
    assert (place / "memoryd.socket").read_text() == units()["memoryd.socket"]
    told = systemctl.heard()
    assert told[-3:] == [
        "--user daemon-reload",
        "--user enable memoryd.socket",
        "--user restart memoryd.socket",
    ]


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Iterator[Running]:
    """A daemon in the background that nobody keeps; ended afterwards."""
    monkeypatch.setenv("MEMORYD_EMBEDDING_BACKEND", "hash")
    flags = ["--data-dir", str(tmp_path / "data")]
    assert main(["start", "--json", *flags]) == 0
    yield Running(flags, json.loads(capsys.readouterr().out)["pid"])
    main(["stop", *flags])


@pytest.mark.parametrize("has_command", [True, False], ids=["systemctl fails", "no systemctl"])
@pytest.mark.slow
def test_install_without_a_manager_changes_nothing(
    has_command: bool,
    folder: Path,
    running: Running,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a container: the daemon goes on, no file is written, and it is a failure."""
    monkeypatch.setenv("PATH", str(folder))
    if has_command:
        FakeManager(folder, "systemctl").answers("echo 'Failed to connect to bus' >&2; exit 1")
    assert main(["service", "install", *running.flags]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("Error: No systemd user manager answers here; nothing was changed.")
    assert "Try: memoryd start" in said.err
    assert not (tmp_path / "config").exists()
    assert is_running(running.pid)
    assert main(["service", "install", "--json", *running.flags]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["error"]["code"] == "service_manager_missing"
    assert is_running(running.pid)


def test_the_files_alone_can_be_written(
    systemctl: FakeManager, tmp_path: Path, capsys: Capture
) -> None:
    """For the making of an image, where no manager runs."""
    systemctl.answers("exit 1")
    assert main(["service", "install", "--no-start", "--json"]) == 0
    assert (tmp_path / "config" / "systemd" / "user" / "memoryd.service").exists()
    left = ["systemctl --user daemon-reload", "systemctl --user enable --now memoryd.socket"]
    assert json.loads(capsys.readouterr().out)["to_run"] == left
    assert main(["service", "install", "--no-start"]) == 0
    assert f"Left to run, in a login session:\n  {left[0]}\n" in capsys.readouterr().out


@pytest.mark.parametrize("refused", ["daemon-reload", "enable", "restart"])
@pytest.mark.slow
def test_an_install_that_fails_leaves_all_as_it_was(
    refused: str, systemctl: FakeManager, running: Running, tmp_path: Path, capsys: Capture
) -> None:
    systemctl.answers(f'case "$*" in *{refused}*) echo "no way" >&2; exit 1;; *) echo ok;; esac')
    assert main(["service", "install", *running.flags]) == 1
    assert "no way" in capsys.readouterr().err
    assert list((tmp_path / "config" / "systemd" / "user").iterdir()) == []
    assert main(["status", "--json", *running.flags]) == 0
    pid = json.loads(capsys.readouterr().out)["pid"]
    assert pid == running.pid or refused == "restart"  # which comes after the daemon was ended
    if refused != "daemon-reload":
        assert "--user disable --now memoryd.socket" in systemctl.heard()


def test_an_install_that_fails_puts_older_units_back(
    systemctl: FakeManager, tmp_path: Path
) -> None:
    assert main(["service", "install"]) == 0
    unit = tmp_path / "config" / "systemd" / "user" / "memoryd.socket"
    old = unit.read_text()
    systemctl.answers('case "$*" in *enable*) exit 1;; *) echo ok;; esac')
    assert main(["service", "install", "--data-dir", str(tmp_path / "other")]) == 1
    assert unit.read_text() == old
    assert "--user disable --now memoryd.socket" not in systemctl.heard()


def answering_for(pid: int) -> str:
    return f'case "$*" in *MainPID*) echo {pid};; *) echo ok;; esac'


def test_restart_is_systemds_if_the_daemon_is(
    systemctl: FakeManager, running: Running, capsys: Capture
) -> None:
    assert main(["service", "install", "--no-start", *running.flags]) == 0
    systemctl.answers(answering_for(running.pid))
    assert main(["restart", *running.flags]) == 0
    assert systemctl.heard()[-1] == "--user restart memoryd.service"
    assert is_running(running.pid)  # only systemd may end it, and this one does not


def test_restart_hands_a_daemon_of_its_own_over_to_systemd(
    systemctl: FakeManager, running: Running, capsys: Capture
) -> None:
    assert main(["service", "install", "--no-start", *running.flags]) == 0
    systemctl.answers(answering_for(0))
    assert main(["restart", *running.flags]) == 0
    assert not is_running(running.pid)
    told = systemctl.heard()
    assert told[-2:] == ["--user restart memoryd.socket", "--user start memoryd.service"]


def test_systemd_is_not_asked_about_the_daemon_of_another_directory(
    systemctl: FakeManager, running: Running, capsys: Capture
) -> None:
    assert main(["service", "install", "--no-start"]) == 0
    assert main(["restart", *running.flags]) == 0
    assert not any("start" in line for line in systemctl.heard())


def test_a_look_does_not_start_what_systemd_would(
    systemctl: FakeManager, running: Running, tmp_path: Path, capsys: Capture
) -> None:
    """A connection to a socket of systemd's starts the daemon, so none is made."""
    assert main(["stop", *running.flags]) == 0
    place = tmp_path / "data" / "memoryd.sock"
    with socket.socket(socket.AF_UNIX) as systemds:
        systemds.bind(str(place))
        systemds.listen()
        systemds.settimeout(0)
        assert main(["service", "install", *running.flags]) == 0
        known = daemon_record.read(tmp_path / "data")
        assert known is not None
        assert known.socket == str(place)
        systemctl.answers(answering_for(0))
        capsys.readouterr()
        for words in ([], ["version"], ["--socket", str(place)]):
            assert main([*words, *running.flags]) == 0
            assert "not running" in capsys.readouterr().out
        with pytest.raises(BlockingIOError):
            systemds.accept()


def test_a_look_finds_a_daemon_that_systemd_did_not_start(
    systemctl: FakeManager, running: Running, capsys: Capture
) -> None:
    assert main(["service", "install", "--no-start", *running.flags]) == 0
    systemctl.answers(answering_for(0))
    capsys.readouterr()
    assert main(running.flags) == 0
    assert f"The daemon is running (process {running.pid}" in capsys.readouterr().out


def test_uninstall_reverses_it(systemctl: FakeManager, tmp_path: Path, capsys: Capture) -> None:
    main(["service", "install"])
    assert main(["service", "uninstall"]) == 0
    assert list((tmp_path / "config" / "systemd" / "user").iterdir()) == []
    disabled = "--user disable --now memoryd.service memoryd.socket"
    assert disabled in systemctl.heard()
    capsys.readouterr()
    assert main(["service", "uninstall"]) == 0
    assert "No unit was installed.\n" in capsys.readouterr().out


def test_status_reports(systemctl: FakeManager, capsys: Capture) -> None:
    assert main(["service", "status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["installed"] is False
    main(["service", "install"])
    systemctl.answers("echo active")
    capsys.readouterr()
    assert main(["service", "status", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["installed"] is True
    assert (found["memoryd.service"], found["memoryd.socket"]) == ("active", "active")
    assert main(["service", "status"]) == 0
    assert "  installed        yes\n" in capsys.readouterr().out


def test_places_go_into_the_units(systemctl: FakeManager, tmp_path: Path) -> None:
    """What the daemon serves and where clients look for it stay the same place."""
    data = tmp_path / "my data 50%"
    assert main(["service", "install", "--data-dir", str(data)]) == 0
    place = tmp_path / "config" / "systemd" / "user"
    escaped = str(data).replace("%", "%%")
    assert f'serve --data-dir "{escaped}"\n' in (place / "memoryd.service").read_text()
    assert f"ListenStream={escaped}/memoryd.sock\n" in (place / "memoryd.socket").read_text()


def test_clients_without_the_variable_are_told_where_systemd_listens(
    systemctl: FakeManager, tmp_path: Path
) -> None:
    """The record is there before the first activation, and goes with the units."""
    data = tmp_path / "home" / ".local" / "share" / "memoryd"
    assert main(["service", "install"]) == 0
    known = daemon_record.read(data)
    assert known is not None
    assert (known.pid, known.state) == (0, daemon_record.MANAGED)
    assert known.socket == str(tmp_path / "run" / "memoryd" / "memoryd.sock")
    assert main(["service", "uninstall"]) == 0
    assert daemon_record.read(data) is None


def test_a_configuration_with_a_directory_of_its_own_has_a_socket_of_its_own(
    systemctl: FakeManager, tmp_path: Path
) -> None:
    file = tmp_path / "b.yaml"
    file.write_text(f"memory: {{path: {tmp_path / 'b'}}}")
    assert main(["service", "install", "--config", str(file)]) == 0
    unit = tmp_path / "config" / "systemd" / "user" / "memoryd.socket"
    assert f"ListenStream={tmp_path / 'b' / 'memoryd.sock'}\n" in unit.read_text()
    assert Target({"--config": str(file)}).data_dir == tmp_path / "b"  # the shim knows it, too
    known = daemon_record.read(tmp_path / "b")
    assert known is not None
    assert known.socket == str(tmp_path / "b" / "memoryd.sock")


def test_install_takes_over_from_a_daemon_that_runs(
    systemctl: FakeManager, running: Running, capsys: Capture
) -> None:
    assert main(["service", "install", *running.flags]) == 0
    assert capsys.readouterr().out.startswith(f"Stopped process {running.pid}.\n")
    assert not is_running(running.pid)


def test_without_launchctl_nothing_is_changed(
    folder: Path, running: Running, monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(sys, "platform", "darwin")
    assert main(["service", "install", *running.flags]) == 1
    assert "Error: There is no launchctl here" in capsys.readouterr().err
    assert is_running(running.pid)
    assert not (tmp_path / "home" / "Library").exists()


def test_launchd_is_told_on_a_mac(launchctl: FakeManager, tmp_path: Path, capsys: Capture) -> None:
    assert main(["service", "install"]) == 0
    path = tmp_path / "home" / "Library" / "LaunchAgents" / "memoryd.daemon.plist"
    agent: dict[str, Any] = plistlib.loads(path.read_bytes())
    assert agent["ProgramArguments"][-3:-1] == ["serve", "--log-file"]
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert any(line.startswith("bootstrap gui/") for line in launchctl.heard())
    assert main(["service", "status", "--json"]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert json.loads(said) == {"manager": "launchd", "installed": True, "loaded": True}
    assert main(["service", "uninstall"]) == 0
    assert not path.exists()
    assert any(line.startswith("bootout gui/") for line in launchctl.heard())


def test_other_systems_are_told_so(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert main(["service", "install"]) == 1
    assert "Error: Windows services are not supported." in capsys.readouterr().err


def test_without_the_command_the_module_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    words = choice.command(Target({})).words
    assert words == (str(tmp_path / "python3"), "-P", "-m", "memoryd", "serve")
