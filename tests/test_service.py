"""The daemon as a user service: the units, and how the managers are told."""

from __future__ import annotations

import json
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memoryd import service
from memoryd.cli import main
from memoryd.service_units import units
from tests.processes import is_running

UNITS = Path(__file__).parent.parent / "systemd"
NAMES = ("memoryd.service", "memoryd.socket")
Capture = pytest.CaptureFixture[str]


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
    assert told[-2:] == ["--user daemon-reload", "--user enable --now memoryd.socket"]


def test_install_without_a_manager_says_what_to_run(
    systemctl: FakeManager, tmp_path: Path, capsys: Capture
) -> None:
    systemctl.answers("exit 1")
    assert main(["service", "install", "--json"]) == 0
    assert (tmp_path / "config" / "systemd" / "user" / "memoryd.service").exists()
    assert json.loads(capsys.readouterr().out)["to_run"] == [
        "systemctl --user daemon-reload",
        "systemctl --user enable --now memoryd.socket",
    ]
    assert main(["service", "install"]) == 0
    assert "  systemctl --user daemon-reload\n" in capsys.readouterr().out


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


def test_a_refusing_manager_is_a_failure(systemctl: FakeManager, capsys: Capture) -> None:
    systemctl.answers('case "$*" in *enable*) echo "no way" >&2; exit 1;; *) echo ok;; esac')
    assert main(["service", "install"]) == 1
    assert "no way" in capsys.readouterr().err


def test_places_go_into_the_units(systemctl: FakeManager, tmp_path: Path) -> None:
    """What the daemon serves and where clients look for it stay the same place."""
    data = tmp_path / "my data 50%"
    assert main(["service", "install", "--data-dir", str(data)]) == 0
    place = tmp_path / "config" / "systemd" / "user"
    escaped = str(data).replace("%", "%%")
    assert f'serve --data-dir "{escaped}"\n' in (place / "memoryd.service").read_text()
    assert f"ListenStream={escaped}/memoryd.sock\n" in (place / "memoryd.socket").read_text()


def test_install_takes_over_from_a_daemon_that_runs(
    systemctl: FakeManager, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORYD_EMBEDDING_BACKEND", "hash")
    there = ["--data-dir", str(tmp_path / "data")]
    assert main(["store", "kept", *there]) == 0
    capsys.readouterr()
    assert main(["service", "install", *there]) == 0
    pid = int(capsys.readouterr().out.splitlines()[0].removeprefix("Stopped process ").rstrip("."))
    assert not is_running(pid)


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
    words = service.command(None, None, None).words
    assert words == (str(tmp_path / "python3"), "-P", "-m", "memoryd", "serve")
