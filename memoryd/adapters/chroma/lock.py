"""The lock of a data directory: whoever has its store open holds it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from memoryd import files
from memoryd.errors import StoreBusy, StoreError
from memoryd.places import is_alive, try_lock

LOCK_POLL = 0.05  # seconds between two attempts to take the lock
LIVE_OWNER_WAIT = 2.0  # seconds to wait for a running owner: it may be stopping
# Descriptors stay open, hence locked, for the life of the process. A child that inherits one holds
# the lock, too.
held: list[int] = []


def take_lock(data_dir: Path, owner: int, wait: float) -> None:
    """Hold `<data_dir>/lock` until this process dies; StoreBusy if another keeps it.

    A worker whose daemon was killed finishes its call and exits: wait up to `wait` seconds for
    it, as for the previous worker of the same daemon. A worker whose daemon runs keeps the lock:
    fail after `LIVE_OWNER_WAIT` seconds.
    """
    handle = _open_lock(data_dir / "lock")
    started = time.monotonic()
    while not try_lock(handle):
        holder = _lock_holder(handle)
        other = holder.get("owner", 0)
        limit = min(wait, LIVE_OWNER_WAIT) if other != owner and is_alive(other) else wait
        if time.monotonic() - started >= limit:
            os.close(handle)
            who = f" by process {holder['owner']}" if "owner" in holder else ""
            raise StoreBusy(f"The memories in {data_dir} are already open{who}.")
        time.sleep(LOCK_POLL)
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps({"owner": owner, "worker": os.getpid()}).encode(), 0)
    held.append(handle)


def _open_lock(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return files.open_file(path, os.O_RDWR | os.O_CREAT)
    except OSError as exc:
        raise StoreError(
            f"The data directory {path.parent} cannot be used: {exc.strerror}.",
            code="store_unwritable",
            hint="Check that it exists, is yours and is writable, or set memory.path.",
        ) from exc


def _lock_holder(handle: int) -> dict[str, int]:
    try:
        found = json.loads(os.pread(handle, 200, 0))
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: pid for key, pid in found.items() if isinstance(pid, int)}
