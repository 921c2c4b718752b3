"""The lock on a data directory: one process has the store open, whoever is killed when.

`flock`, never a pid file: the kernel frees it when its holder dies. What the file says
(who holds it) is for people and for deciding how long to wait; it proves nothing.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from memoryd import files
from memoryd.errors import StoreBusy, StoreError
from memoryd.places import is_alive, try_lock

POLL = 0.05
SHUTTING_DOWN = 2.0  # a living owner may be on its way out

_held: list[int] = []  # descriptors stay open, hence locked, for the life of the process


def take_lock(data_dir: Path, owner: int, wait: float) -> None:
    """Hold `<data_dir>/lock` until this process dies; StoreBusy if another keeps it.

    A worker whose daemon was killed finishes its call and goes: it is waited for up to
    `wait` seconds. One whose daemon lives is there to stay: that is refused soon.
    """
    handle = _open_lock(data_dir / "lock")
    started = time.monotonic()
    while not try_lock(handle):
        holder = _holder(handle)
        patience = min(wait, SHUTTING_DOWN) if is_alive(holder.get("owner", 0)) else wait
        if time.monotonic() - started >= patience:
            os.close(handle)
            who = f" by process {holder['owner']}" if "owner" in holder else ""
            raise StoreBusy(f"The memories in {data_dir} are already open{who}.")
        time.sleep(POLL)
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps({"owner": owner, "worker": os.getpid()}).encode(), 0)
    _held.append(handle)


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


def _holder(handle: int) -> dict[str, int]:
    try:
        found = json.loads(os.pread(handle, 200, 0))
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: pid for key, pid in found.items() if isinstance(pid, int)}
