"""Where the daemon of a data directory listens: a small file in that directory.

Whoever holds `daemon.lock` writes `daemon.json` beside it, so a client that knows the directory
finds the daemon, whatever environment either of them was started with. The file is a hint, never
a proof: a killed daemon leaves it behind, so a socket that nobody listens on is passed over. It
is followed only if it is a file of ours that nobody else could have written.

Which directory a configuration file names is noted too (`config-*.json` in the default data
directory): shim and client read no YAML, and look there.
"""

from __future__ import annotations

import binascii
import contextlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from memoryd import files, places

NAME, LOCK = "daemon.json", "daemon.lock"
WORKER_LOCK = "lock"  # of the store worker, which has ChromaDB open
LARGEST = 16_384  # bytes of such a file
STARTING, LISTENING = "starting", "listening"
MANAGED = "managed"  # the service manager listens, and starts a daemon for whoever connects
ANNOUNCEMENT = "memoryd-daemon "  # how the line begins that tells a starter where the daemon is


class Record(NamedTuple):
    """What is known of a daemon. `pid` is 0 while only the service manager listens; `socket` is
    empty while it is starting."""

    pid: int
    socket: str
    data_dir: str
    state: str
    log: str
    version: str

    def line(self) -> str:
        """As an announcement."""
        return ANNOUNCEMENT + json.dumps(self._asdict()) + "\n"


def read(data_dir: Path) -> Record | None:
    """The record of a data directory; None if there is none that can be trusted."""
    return parse(read_private(data_dir / NAME))


def parse(found: dict[str, Any]) -> Record | None:
    """A record from its JSON."""
    values = [found.get(name) for name in Record._fields]
    kinds = [int, str, str, str, str, str]
    if any(type(value) is not kind for value, kind in zip(values, kinds, strict=True)):
        return None
    record = Record(*values)  # type: ignore[arg-type]
    return record if not record.socket or os.path.isabs(record.socket) else None


def announced(text: str) -> Record | None:
    """The last announcement in a daemon's first words."""
    lines = [line for line in text.splitlines() if line.startswith(ANNOUNCEMENT)]
    if not lines:
        return None
    with contextlib.suppress(ValueError):
        found = json.loads(lines[-1].removeprefix(ANNOUNCEMENT))
        return parse(found) if isinstance(found, dict) else None
    return None


def write(record: Record) -> None:
    """Put it in the place of the one before."""
    write_private(Path(record.data_dir) / NAME, record._asdict())


def remove(data_dir: Path) -> None:
    (data_dir / NAME).unlink(missing_ok=True)


def lock_holder(data_dir: Path) -> int | None:
    """The process that holds the lock of a data directory, 0 if it has no name; None if nobody
    does, as far as can be seen."""
    try:
        handle = files.open_file(data_dir / LOCK, os.O_RDWR)
    except OSError:
        return None
    try:
        said = os.pread(handle, 20, 0).strip()
        pid = int(said) if said.isdigit() else 0
        # Looking takes the lock for a moment. A daemon that starts just then would be refused,
        # so only look where there is somebody to hold it.
        if pid and not places.is_alive(pid):
            return None
        return None if places.try_lock(handle) else pid
    finally:
        os.close(handle)


def worker_holder(data_dir: Path) -> int | None:
    """The same for the store worker, which has a lock of its own."""
    try:
        handle = files.open_file(data_dir / WORKER_LOCK, os.O_RDWR)
    except OSError:
        return None
    try:
        pid = 0
        with contextlib.suppress(ValueError, AttributeError, TypeError):
            pid = int(json.loads(os.pread(handle, 200, 0)).get("worker"))
        if pid and not places.is_alive(pid):
            return None
        return None if places.try_lock(handle) else pid
    finally:
        os.close(handle)


def has_open(pid: int, file: Path) -> bool:
    """Whether a process has this file open; true where the system does not tell."""
    folder = Path(f"/proc/{pid}/fd")
    if not folder.is_dir():
        return places.is_alive(pid)
    wanted = file.stat()
    for link in folder.iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            if os.path.samestat(link.stat(), wanted):
                return True
    return False


def note_config(file: Path, data_dir: Path) -> None:
    """Remember which data directory a configuration file names, as it is now."""
    with contextlib.suppress(OSError):  # whoever misses the note asks a daemon, which is slower
        places.data_dir().mkdir(parents=True, exist_ok=True, mode=0o700)
        note = {"file": str(file), "stamp": _stamp(file), "data_dir": str(data_dir)}
        write_private(_note(file), note)


def noted_config(file: Path) -> Path | None:
    """The data directory that this configuration file names; None if it was changed since."""
    found = read_private(_note(file))
    with contextlib.suppress(OSError):
        if found.get("file") == str(file) and found.get("stamp") == _stamp(file):
            named = found.get("data_dir")
            return Path(named) if isinstance(named, str) and os.path.isabs(named) else None
    return None


def _note(file: Path) -> Path:
    return places.data_dir() / f"config-{binascii.crc32(os.fsencode(file)):08x}.json"


def _stamp(file: Path) -> list[int]:
    found = file.stat()
    return [found.st_mtime_ns, found.st_ctime_ns, found.st_size]


def read_private(path: Path) -> dict[str, Any]:
    """The JSON object in a file that only we can have written; empty if it is not such a file."""
    try:
        handle = files.open_file(path, os.O_RDONLY)
    except OSError:
        return {}
    with os.fdopen(handle, "rb") as file:
        if not is_private(os.fstat(handle)):
            return {}
        try:
            found = json.loads(file.read(LARGEST))
        except (OSError, ValueError, RecursionError):
            return {}
    return found if isinstance(found, dict) else {}


def is_private(found: os.stat_result) -> bool:
    """Whether it is a file of ours that nobody else can write to."""
    return files.is_ours(found) and not (hasattr(os, "getuid") and found.st_mode & 0o022)


def write_private(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object so that a reader finds all of it or what was there before."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with files.replacing(path, part, durable=False) as file:
        file.write(json.dumps(value).encode())
