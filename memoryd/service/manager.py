"""What the service managers have in common: their interface, and running their commands."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from memoryd import files
from memoryd.errors import MemorydError

COMMAND_TIMEOUT = 60.0  # seconds for one command of a service manager

Release = Callable[[], None]  # stops a running daemon, so that the service can take over


class ServiceError(MemorydError):
    """A command of the service manager failed, or this platform has no supported one."""

    code = "service_failed"
    hint = "Run: memoryd service status"


class NoManager(ServiceError):
    """No service manager answers; nothing was changed."""

    code = "service_manager_missing"
    hint = (
        "Run: memoryd start (runs the daemon until the next reboot), or "
        "memoryd service install --no-start (writes the files for later)"
    )


@dataclass(frozen=True, slots=True)
class Done:
    """What was done, and what is left to run by hand."""

    done: tuple[str, ...]
    to_run: tuple[str, ...] = ()


class Manager(Protocol):
    """systemd or launchd, for one daemon."""

    def install(self, release: Release) -> Done:
        """Install the service and start it. NoManager if no service manager answers."""

    def write(self) -> Done:
        """Write the files only, and say what is left to run."""

    def uninstall(self) -> Done: ...
    def status(self) -> dict[str, object]: ...

    def keeps(self) -> bool:
        """Whether the service is installed for this daemon, and the manager answers."""

    def pid(self) -> int | None:
        """The pid of the daemon that it runs; None if none."""

    def start(self) -> None: ...
    def restart(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Command:
    """The daemon's command line, its data directory and log, and its socket if one was named."""

    words: tuple[str, ...]
    data_dir: Path
    log: Path
    socket: Path | None = None


@contextmanager
def written(texts: Mapping[Path, str]) -> Iterator[None]:
    """Write files; if the block fails, restore what was there before."""
    before = {path: path.read_text() if path.exists() else None for path in texts}
    try:
        for path, text in texts.items():
            write(path, text)
        yield
    except BaseException:
        for path, old in before.items():
            path.unlink(missing_ok=True) if old is None else write(path, old)
        raise


def write(path: Path, text: str) -> None:
    """Write a file, and create its folders. Raises ServiceError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(path) as file:
            file.write(text.encode())
    except OSError as exc:
        raise ServiceError(f"{path} cannot be written: {exc.strerror}.") from exc


def run(*words: str, check: bool = True, timeout: float = COMMAND_TIMEOUT) -> str:
    """The output of a command. If it fails: ServiceError, or with `check=False` what it wrote."""
    try:
        ended = subprocess.run(words, capture_output=True, text=True, timeout=timeout)
    except (OSError, subprocess.TimeoutExpired) as exc:
        if check:
            raise ServiceError(f"`{' '.join(words)}` could not be run: {exc}.") from exc
        return ""
    if ended.returncode and check:
        raise ServiceError(f"`{' '.join(words)}` failed: {ended.stderr.strip()}")
    return ended.stdout.strip()
