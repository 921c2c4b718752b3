"""What the managers of services share: what they are given, what they tell, how they are run."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from memoryd import files
from memoryd.errors import MemorydError

PATIENCE = 60.0  # seconds for a manager to do what it is told

Release = Callable[[], None]  # ends the daemon that runs, so that the manager's can take over


class ServiceError(MemorydError):
    """The service manager refused, or there is none that we know."""

    code = "service_failed"


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
    """What keeps a daemon running."""

    def install(self, release: Release) -> Done:
        """Keep the daemon from now on; NoManager if there is none that could."""

    def write(self) -> Done:
        """Write the files only, and say what is left to run."""

    def uninstall(self) -> Done: ...
    def status(self) -> dict[str, object]: ...

    def keeps(self) -> bool:
        """Whether it is installed for this very daemon, and answers."""

    def pid(self) -> int | None:
        """The daemon that it runs; None if none."""

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
    """Files that stay if the block ends well; else what was there before is put back."""
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
    """Write a file, and the folders that it needs."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.replacing(path) as file:
            file.write(text.encode())
    except OSError as exc:
        raise ServiceError(f"{path} cannot be written: {exc.strerror}.") from exc


def run(*words: str, check: bool = True, patience: float = PATIENCE) -> str:
    """What a command says on stdout; ServiceError if it fails and must not."""
    try:
        ended = subprocess.run(words, capture_output=True, text=True, timeout=patience)
    except (OSError, subprocess.TimeoutExpired) as exc:
        if check:
            raise ServiceError(f"`{' '.join(words)}` could not be run: {exc}.") from exc
        return ""
    if ended.returncode and check:
        raise ServiceError(f"`{' '.join(words)}` failed: {ended.stderr.strip()}")
    return ended.stdout.strip()
