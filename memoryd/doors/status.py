"""What the daemon says about itself: health, counts, model, store, memory and disk."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio.to_thread

from memoryd import __version__
from memoryd.doors import render
from memoryd.doors.gate import Gate
from memoryd.errors import MemorydError


class Status:
    """Readable at any time, also while the engine is still being opened."""

    def __init__(self, gate: Gate, places: Mapping[str, str], data_dir: Path) -> None:
        self._gate = gate
        self._places = dict(places)
        self._data_dir = data_dir
        self._started = time.monotonic()

    async def read(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "health": self._gate.stage,
            "version": __version__,
            "pid": os.getpid(),
            "uptime_seconds": round(time.monotonic() - self._started, 1),
            "data_dir": str(self._data_dir),
            **self._places,
            "resident_bytes": _resident(),
            "disk_bytes": await anyio.to_thread.run_sync(_disk, self._data_dir),
        }
        engine = self._gate.now
        if engine is None:
            return found
        state = engine.state()
        if state["next_expiry"] is not None:
            state["next_expiry"] = render.moment(state["next_expiry"], engine.zone)
        try:
            store = dict(await engine.store_status())
            for key in store.keys() & {"since", "backup_at"}:
                if isinstance(at := store[key], float):
                    store[key] = render.moment(at, engine.zone)
        except MemorydError as exc:
            store = {"error": render.error(exc)}
        return found | state | {"store": store}


def _resident() -> int:
    """Bytes of this process in RAM; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _disk(folder: Path) -> int:
    """Bytes of all files under the data directory."""
    total = 0
    for root, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(root, name)).st_size
            except OSError:  # gone meanwhile
                continue
    return total
