"""The record of a daemon: a small file in its data directory that says where it listens.

The process that holds `daemon.lock` writes `daemon.json` beside it, so a client that knows the
directory finds the daemon, whatever environment either of them has. The file may be stale, as a
killed daemon leaves it behind: clients skip a socket on which no process listens. It is trusted
only if it belongs to this user and no other user can write to it.

A note for each configuration file says which directory it names (`config-*.json` in the default
data directory): shim and client read no YAML, and read the note.
"""

from __future__ import annotations

import binascii
import contextlib
import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from memoryd import files, places

NAME, LOCK = "daemon.json", "daemon.lock"
WORKER_LOCK = "lock"  # held by the store worker, which has ChromaDB open
MAX_FILE_BYTES = 16_384  # read of a record or note
STARTING, LISTENING = "starting", "listening"
MANAGED = "managed"  # the service manager listens, and starts a daemon on the first connection
JOURNAL = "journal"  # in place of the log's path: the daemon logs to the journal of systemd
VERSION = re.compile(r"(?:^|\.)(\d+)")  # its numbers
ANNOUNCEMENT = "memoryd-daemon "  # prefix of the line on stderr that says where a daemon listens


class Record(NamedTuple):
    """Where a daemon listens. `pid` is 0 while only the service manager listens; `socket` is empty
    while the daemon is starting."""

    pid: int
    socket: str
    data_dir: str
    state: str
    log: str
    version: str

    def line(self) -> str:
        """The record as an announcement."""
        return ANNOUNCEMENT + json.dumps(self._asdict()) + "\n"


def read(data_dir: Path) -> Record | None:
    """The record of a data directory; None if there is none that can be trusted."""
    return parse(read_private(data_dir / NAME))


def parse(fields: dict[str, Any]) -> Record | None:
    """A record from its JSON; None if a field is missing or of the wrong type."""
    values = [fields.get(name) for name in Record._fields]
    kinds = [int, str, str, str, str, str]
    if any(type(value) is not kind for value, kind in zip(values, kinds, strict=True)):
        return None
    record = Record(*values)  # type: ignore[arg-type]
    return record if not record.socket or os.path.isabs(record.socket) else None


def announced(text: str) -> Record | None:
    """The last announcement in a daemon's startup output; None if there is none."""
    lines = [line for line in text.splitlines() if line.startswith(ANNOUNCEMENT)]
    if not lines:
        return None
    with contextlib.suppress(ValueError):
        found = json.loads(lines[-1].removeprefix(ANNOUNCEMENT))
        return parse(found) if isinstance(found, dict) else None
    return None


def is_newer(version: str, than: str) -> bool:
    """Whether a version is later than another; false if either cannot be compared."""
    numbers = [tuple(map(int, found)) for found in map(VERSION.findall, (version, than))]
    return bool(numbers[0] and numbers[1]) and numbers[0] > numbers[1]


def write(record: Record) -> None:
    """Replace the record of its data directory."""
    write_private(Path(record.data_dir) / NAME, record._asdict())


def remove(data_dir: Path) -> None:
    (data_dir / NAME).unlink(missing_ok=True)


def lock_holder(data_dir: Path) -> int | None:
    """The pid of the process that holds the lock of a data directory, 0 if it is not known which;
    None if no process does, or the lock cannot be read."""
    try:
        handle = files.open_file(data_dir / LOCK, os.O_RDWR)
    except OSError:
        return None
    try:
        said = os.pread(handle, 20, 0).strip()
        pid = int(said) if said.isdigit() else 0
        # The check takes the lock for a moment, and would refuse a daemon that starts just then.
        # So check only if the process in the file is alive.
        if pid and not places.is_alive(pid):
            return None
        return None if places.try_lock(handle) else pid
    finally:
        os.close(handle)


def worker_holder(data_dir: Path) -> int | None:
    """As `lock_holder`, for the store worker's own lock."""
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
    """Whether a process has this file open; without /proc, whether it is alive."""
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
    """Note which data directory a configuration file names, in its present version."""
    with contextlib.suppress(OSError):  # without the note clients start a daemon, which is slower
        places.data_dir().mkdir(parents=True, exist_ok=True, mode=0o700)
        note = {"file": str(file), "stamp": _file_stamp(file), "data_dir": str(data_dir)}
        write_private(_note_path(file), note)


def noted_config(file: Path) -> Path | None:
    """The noted data directory of a configuration file; None if the file has changed since."""
    found = read_private(_note_path(file))
    with contextlib.suppress(OSError):
        if found.get("file") == str(file) and found.get("stamp") == _file_stamp(file):
            named = found.get("data_dir")
            return Path(named) if isinstance(named, str) and os.path.isabs(named) else None
    return None


def _note_path(file: Path) -> Path:
    return places.data_dir() / f"config-{binascii.crc32(os.fsencode(file)):08x}.json"


def _file_stamp(file: Path) -> list[int]:
    found = file.stat()
    return [found.st_mtime_ns, found.st_ctime_ns, found.st_size]


def read_private(path: Path) -> dict[str, Any]:
    """The JSON object in a file that only this user can write; empty if it is no such file."""
    try:
        handle = files.open_file(path, os.O_RDONLY)
    except OSError:
        return {}
    with os.fdopen(handle, "rb") as file:
        if not is_private(os.fstat(handle)):
            return {}
        try:
            found = json.loads(file.read(MAX_FILE_BYTES))
        except (OSError, ValueError, RecursionError):
            return {}
    return found if isinstance(found, dict) else {}


def is_private(info: os.stat_result) -> bool:
    """Whether the file belongs to this user and no other user can write to it."""
    return files.is_ours(info) and not (hasattr(os, "getuid") and info.st_mode & 0o022)


def write_private(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object atomically: a reader finds the old content or the new."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with files.replacing(path, part, durable=False) as file:
        file.write(json.dumps(value).encode())
