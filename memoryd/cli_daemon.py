"""The verbs about the daemon itself: run it, look at it, end it."""

from __future__ import annotations

import argparse
import asyncio
import os
import select
import signal
import time
from pathlib import Path
from typing import Any

from memoryd import places
from memoryd.cli_text import (
    BOLD,
    RED,
    clean,
    long_span,
    moment,
    note,
    paint,
    rows,
    say,
    say_json,
    size,
)
from memoryd.client_answers import Status
from memoryd.errors import MemorydError

END = 20.0  # seconds for a daemon to end; it drains its calls for up to ten
PATIENCE = 15.0  # seconds for an answer about itself
LOOK = 0.05  # seconds between two looks where the system cannot tell when a process ends


def serve(options: argparse.Namespace) -> int:
    """Run the daemon until it is told to stop."""
    from memoryd.config import load
    from memoryd.daemon import run

    file = Path(options.config) if options.config else None
    config = load(file, flags={"memory.path": options.data_dir})
    listen = places.socket_path(options.socket, options.data_dir)
    return run(config, socket=listen, log_file=options.log_file)


def mcp(options: argparse.Namespace) -> int:
    """The shim. The command takes it before it comes here; this is for those who call `main`."""
    from memoryd.shim import main

    given = {
        "--config": options.config,
        "--data-dir": options.data_dir,
        "--socket": options.socket,
    }
    return main(["mcp", *(word for flag in given.items() if flag[1] for word in flag)])


def setup(options: argparse.Namespace) -> int:
    """Find or fetch the model and prepare it, so that no call ever waits for it."""
    from memoryd.config import load
    from memoryd.wiring import prepare_model

    file = Path(options.config) if options.config else None
    config = load(file, flags={"memory.path": options.data_dir})
    prepared = prepare_model(config, progress=note)
    if options.json:
        facts = {"model": prepared.identity, "dimension": prepared.dimension}
        say_json(facts | {"folder": str(prepared.folder)})
        return 0
    say(f"Ready: {prepared.identity}, {prepared.dimension} numbers a vector")
    say(f"In {prepared.folder}")
    return 0


def status(options: argparse.Namespace) -> int:
    """Show how the daemon is; exit code 1 if none runs."""
    from memoryd.client import DaemonUnavailable

    try:
        found = asyncio.run(_status(options))
    except DaemonUnavailable:
        if not options.json:
            raise
        listen = places.socket_path(options.socket, options.data_dir)
        say_json({"health": "stopped", "socket": str(listen)})
        return 1
    if options.json:
        say_json(found)
        return 0
    health = paint(found["health"], RED if found["health"] == "failed" else BOLD)
    say(f"memoryd {found['version']}  {health}")
    for row in rows({name: clean(value) for name, value in _facts(found).items()}):
        say(row)
    return 0


def stop(options: argparse.Namespace) -> int:
    """End the daemon and wait until it is gone; it is no failure if none runs."""
    pid = end_running(options)
    if options.json:
        say_json({"stopped": pid is not None, "pid": pid})
    elif pid is None:
        say(f"No memoryd answers at {places.socket_path(options.socket, options.data_dir)}.")
    else:
        say(f"Stopped process {pid}.")
    return 0


def end_running(options: argparse.Namespace) -> int | None:
    """End the daemon that runs; its process, or None if there was none. Raises MemorydError if
    it does not end in time."""
    from memoryd.client import DaemonUnavailable

    try:
        pid = asyncio.run(_status(options))["pid"]
    except DaemonUnavailable:
        return None
    if not _end(pid):
        raise MemorydError(
            f"The daemon (process {pid}) has not ended within {END:g} seconds.",
            code="still_running",
            hint=f"Run: kill -KILL {pid}",
        )
    return pid


async def _status(options: argparse.Namespace) -> Status:
    from memoryd.client import Client

    async with Client(options.socket, data_dir=options.data_dir, timeout=PATIENCE) as daemon:
        return await daemon.status()


def _facts(found: Status) -> dict[str, str]:
    facts = {"uptime": f"{long_span(found['uptime_seconds'])} (process {found['pid']})"}
    if so_far := found.get("progress"):
        share = f": {so_far['done']} of {so_far['total']}" if so_far["total"] else ""
        facts["progress"] = so_far["what"] + share
    if "memories" in found:
        counts = found["memories"]
        each = ", ".join(f"{count} {type}" for type, count in counts.items())
        facts["memories"] = f"{sum(counts.values())} ({each})"
        end = found.get("next_expiry")
        facts["next expiry"] = moment(end) if end else "none"
        facts["sessions"] = f"{found.get('sessions', 0)} in RAM"
        facts["model"] = found.get("model") or f"none: {found.get('model_trouble')}"
    if pending := found.get("pending_vectors"):
        former = found.get("former_model")
        meanwhile = f"{former} searches until all have one" if former else "found by words only"
        facts["without vector"] = f"{pending}, {meanwhile}"
    if trouble := found.get("store", {}).get("error"):
        facts["store"] = f"{trouble['message']} {trouble['hint']}".strip()
    facts |= _store_facts(found.get("store", {}))
    facts["memory"] = size(found["resident_bytes"])
    disk = f"{size(found['disk_bytes'])} in {found['data_dir']}"
    facts["disk"] = f"{disk}, {size(found['disk_free_bytes'])} free"
    return facts


def _store_facts(store: dict[str, Any]) -> dict[str, str]:
    """What became of the store, where there is something to tell."""
    facts = {"backup": f"{moment(store['backup_at'])}"} if "backup_at" in store else {}
    if store.get("since_by") == "repair":
        facts["repaired"] = f"{moment(store['since'])}; nothing to do"
    if aside := store.get("set_aside"):
        facts["set aside"] = f"{', '.join(aside)}; delete what you do not need"
    return facts


def _end(pid: int) -> bool:
    """Ask a process to end; whether it did, in time."""
    try:
        watch = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return True
    if watch is None:
        return _gone(pid)
    try:
        # The descriptor, not the number: it stays this process's, and tells at once.
        return bool(select.select([watch], [], [], END)[0])
    finally:
        os.close(watch)


def _gone(pid: int) -> bool:
    until = time.monotonic() + END
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(LOOK)
    return False
