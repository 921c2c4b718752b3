"""The daemon's status: health, counts, model, store, memory and disk."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from memoryd import __version__
from memoryd.doors import render
from memoryd.doors.calls import CallLog
from memoryd.doors.live import resident
from memoryd.doors.readiness import Readiness
from memoryd.engine.engine import Engine
from memoryd.errors import MemorydError, StoreUnavailable
from memoryd.ports import Progress

GAUGES = {"disk_bytes", "disk_free_bytes", "pending_vectors", "resident_bytes", "sessions"}
GAUGES |= {"uptime_seconds"}
STORE_SECONDS = 5.0  # for the store to answer: a rewrite may keep it busy
BEING_REWRITTEN = StoreUnavailable("The store is being rewritten.", hint="Try again in a while.")


class Status:
    """Can be read at any time, also while the engine is being opened."""

    def __init__(self, readiness: Readiness, data_dir: Path) -> None:
        self._readiness = readiness
        self._data_dir = data_dir
        self.socket = ""  # where the daemon listens, once it does
        self.calls = CallLog()
        self._started = time.monotonic()

    async def read(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "health": self._readiness.stage,
            "version": __version__,
            "pid": os.getpid(),
            "uptime_seconds": self.uptime,
            "data_dir": str(self._data_dir),
            "socket": self.socket,
            "resident_bytes": resident() or 0,
            "disk_bytes": await anyio.to_thread.run_sync(_disk, self._data_dir),
            "disk_free_bytes": await self.disk_free() or 0,
        }
        if calls := self.calls.summary():
            found["calls"] = calls
        so_far = self._readiness.progress
        if so_far is not None:
            found["progress"] = asdict(so_far[0]) | {"seconds": round(so_far[1], 1)}
        engine = self._readiness.opened
        if engine is None:
            why = self._readiness.error
            return found | ({"store": {"error": render.error(why)}} if why else {})
        state = engine.state()
        change = state["model_change"]
        if so_far is None and change and not change["trouble"]:
            share = Progress("changing the model", change["done"], change["total"])
            found["progress"] = asdict(share)
        elif so_far is None and state["pending_vectors"] and state["model"]:
            embedded = engine.count - state["pending_vectors"]
            found["progress"] = asdict(Progress("embedding", embedded, engine.count))
        if state["next_expiry"] is not None:
            state["next_expiry"] = render.moment(state["next_expiry"], engine.zone)
        if doubt := state["clock_doubt"]:
            doubt["believed"] = render.moment(doubt["believed"], engine.zone)
            doubt["seconds_left"] = round(doubt["seconds_left"])
        state["mirror"] = render.mirror(state["mirror"], engine.zone)
        state["blocks"] = [render.written(block, engine.zone) for block in state["blocks"]]
        return found | state | {"store": await store_facts(engine)}

    @property
    def socket_path(self) -> Path:
        """Where the daemon listens."""
        return Path(self.socket)

    @property
    def uptime(self) -> float:
        """Seconds since the start."""
        return round(time.monotonic() - self._started, 1)

    async def disk_free(self) -> int | None:
        """Free bytes on the disk of the data directory; None if the system does not tell."""
        return await anyio.to_thread.run_sync(_free, self._data_dir)

    async def metrics(self) -> str:
        """The same figures in the Prometheus text format."""
        found = await self.read()
        lines = ["# TYPE memoryd_ready gauge", f"memoryd_ready {int(found['health'] == 'ready')}"]
        for key in GAUGES & found.keys():
            lines += [f"# TYPE memoryd_{key} gauge", f"memoryd_{key} {found[key]}"]
        lines.append("# TYPE memoryd_memories gauge")
        for type_, count in found.get("memories", {}).items():
            lines.append(f'memoryd_memories{{type="{type_}"}} {count}')
        return "\n".join([*lines, *self.calls.metrics(), ""])


async def store_facts(engine: Engine) -> dict[str, Any]:
    """The store's own facts, or the error that prevents them."""
    store: dict[str, Any] = {"error": render.error(BEING_REWRITTEN)}
    with anyio.move_on_after(STORE_SECONDS):
        try:
            store = dict(await engine.store_status())
        except MemorydError as exc:
            store = {"error": render.error(exc)}
    for key in store.keys() & {"since", "backup_at"}:
        if isinstance(at := store[key], float):
            store[key] = render.moment(at, engine.zone)
    return store


def _free(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


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
