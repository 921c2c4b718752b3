"""The daemon as a service of this user: systemd on Linux, launchd on macOS.

Files are written in any case. Where the manager answers it is told; where it does not (a
container, a login without a session) the commands to run later are handed back instead.
"""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from memoryd import places
from memoryd.errors import MemorydError
from memoryd.service_units import DEFAULT_SOCKET, units

PATIENCE = 60  # seconds for a manager to do what it is told
LABEL = "memoryd.daemon"


class ServiceError(MemorydError):
    """The service manager refused, or there is none that we know."""

    code = "service_failed"


@dataclass(frozen=True, slots=True)
class Done:
    """What was done, and what is left to run where the manager does not answer."""

    done: tuple[str, ...]
    to_run: tuple[str, ...] = ()
    why: str = "No service manager answers here. In a login session, run:"


class Manager(Protocol):
    """What keeps a daemon running."""

    def install(self) -> Done: ...
    def uninstall(self) -> Done: ...
    def status(self) -> dict[str, object]: ...


@dataclass(frozen=True, slots=True)
class Command:
    """The daemon's command line, its log, and its socket if it is not the default one."""

    words: tuple[str, ...]
    log: Path
    socket: Path | None = None


def command(config: str | None, data_dir: str | None, socket: str | None) -> Command:
    """The command that serves what these flags or the environment name, from any directory."""
    given = {
        "--config": config or os.environ.get("MEMORYD_CONFIG"),
        "--data-dir": data_dir or os.environ.get("MEMORYD_DATA_DIR"),
        "--socket": socket or os.environ.get("MEMORYD_SOCKET"),
    }
    paths = {flag: Path(path).expanduser().absolute() for flag, path in given.items() if path}
    flags = [word for flag, path in paths.items() for word in (flag, str(path))]
    own_socket = (
        places.socket_path(socket, data_dir) if len(paths) > ("--config" in paths) else None
    )
    log = places.log_path(data_dir)
    return Command((*_executable(), "serve", *flags), log, own_socket)


def _executable() -> tuple[str, ...]:
    """The installed command of this very installation; else the interpreter with the module."""
    beside = Path(sys.executable).parent / "memoryd"
    if os.access(beside, os.X_OK):
        return (str(beside),)
    return (sys.executable, "-P", "-m", "memoryd")


def manager(command: Command) -> Manager:
    """The one of this platform."""
    if sys.platform == "darwin":
        return Launchd(command)
    if sys.platform == "win32":
        raise ServiceError("Windows services are not supported.", hint="Run: memoryd serve")
    return Systemd(command)


class Systemd:
    """Two user units: the socket is enabled, the first client brings the daemon up."""

    def __init__(self, command: Command) -> None:
        self._command = command
        home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        self._folder = Path(home) / "systemd" / "user"

    def install(self) -> Done:
        """Write the units and have systemd listen."""
        for name, text in self._texts().items():
            _write(self._folder / name, text)
        done = tuple(f"Wrote {self._folder / name}" for name in self._texts())
        told = (("daemon-reload",), ("enable", "--now", "memoryd.socket"))
        return self._tell(told, done, "Listening: the first client starts the daemon.")

    def uninstall(self) -> Done:
        """Stop both units and remove them."""
        names = tuple(self._texts())
        if self._answers():
            _run("systemctl", "--user", "disable", "--now", *names, check=False)
        removed = tuple(f"Removed {path}" for path in self._paths() if path.exists())
        for path in self._paths():
            path.unlink(missing_ok=True)
        return self._tell((("daemon-reload",),), removed or ("No unit was installed.",))

    def status(self) -> dict[str, object]:
        """Whether the units are there, and what systemd says of them."""
        found: dict[str, object] = {
            "manager": "systemd",
            "installed": all(path.exists() for path in self._paths()),
            "files": ", ".join(str(path) for path in self._paths() if path.exists()) or "none",
        }
        for name in self._texts():
            active = _run("systemctl", "--user", "is-active", name, check=False)
            found[name] = active if self._answers() and active else "unknown"
        return found

    def _texts(self) -> dict[str, str]:
        line = " ".join(_quoted(word) for word in self._command.words)
        listen = str(self._command.socket).replace("%", "%%") if self._command.socket else None
        return units(line, listen or DEFAULT_SOCKET)

    def _paths(self) -> list[Path]:
        return [self._folder / name for name in self._texts()]

    def _tell(
        self, commands: Sequence[tuple[str, ...]], done: tuple[str, ...], good: str = ""
    ) -> Done:
        if not self._answers():
            return Done(done, tuple(f"systemctl --user {' '.join(words)}" for words in commands))
        for words in commands:
            _run("systemctl", "--user", *words)
        return Done((*done, good) if good else done)

    def _answers(self) -> bool:
        """Whether there is a manager for this user."""
        return bool(_run("systemctl", "--user", "show-environment", check=False))


class Launchd:
    """One agent, kept alive by launchd."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._path = Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        self._domain = f"gui/{os.getuid()}"

    def install(self) -> Done:
        """Write the agent and start it, anew if it was there."""
        _write(self._path, self._text())
        _run("launchctl", "bootout", f"{self._domain}/{LABEL}", check=False)
        return self._tell(f"Wrote {self._path}", "bootstrap", self._domain, str(self._path))

    def uninstall(self) -> Done:
        """Stop the agent and remove it."""
        if not self._path.exists():
            return Done(("No agent was installed.",))
        _run("launchctl", "bootout", f"{self._domain}/{LABEL}", check=False)
        self._path.unlink()
        return Done((f"Removed {self._path}",))

    def status(self) -> dict[str, object]:
        found = _run("launchctl", "print", f"{self._domain}/{LABEL}", check=False)
        return {"manager": "launchd", "installed": self._path.exists(), "loaded": bool(found)}

    def _tell(self, done: str, *words: str) -> Done:
        if shutil.which("launchctl") is None:
            return Done((done,), (f"launchctl {' '.join(words)}",))
        _run("launchctl", *words)
        return Done((done, "Started."))

    def _text(self) -> str:
        agent = {
            "Label": LABEL,
            "ProgramArguments": [*self._command.words, "--log-file", str(self._command.log)],
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "Umask": 0o077,
        }
        return plistlib.dumps(agent, sort_keys=False).decode()


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as exc:
        raise ServiceError(f"{path} cannot be written: {exc.strerror}.") from exc


def _quoted(word: str) -> str:
    """A word of ExecStart: systemd expands % and $, and splits at spaces."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{word}"' if any(c in word for c in " \t\"'\\;") else word


def _run(*words: str, check: bool = True) -> str:
    """What a command says on stdout; ServiceError if it fails and must not."""
    try:
        ended = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as exc:
        if check:
            raise ServiceError(f"`{' '.join(words)}` could not be run: {exc}.") from exc
        return ""
    if ended.returncode and check:
        raise ServiceError(f"`{' '.join(words)}` failed: {ended.stderr.strip()}")
    return ended.stdout.strip()
