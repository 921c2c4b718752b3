"""The verbs about the daemon itself: serve, status, stop."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import select
import shlex
import signal
import time
from pathlib import Path
from typing import Any

from memoryd import daemon_record
from memoryd.cli.output import (
    BOLD,
    RED,
    clean,
    error_facts,
    long_span,
    moment,
    paint,
    rows,
    say,
    say_json,
    size,
)
from memoryd.cli.target import given, setting_origins, settings, target, where
from memoryd.client.types import BlockState, MirrorState, Status
from memoryd.errors import (
    DaemonUnavailable,
    DaemonUnreachable,
    InvalidInput,
    MemorydError,
    StoreBusy,
)
from memoryd.launch.target import config_in_use, may_set_path, named_data_dir, named_socket
from memoryd.places import forbid_core_dumps

EXIT_DATA_DIR_TAKEN = 3  # exit code if another daemon serves this directory; nothing is wrong
STOP_TIMEOUT = 20.0  # seconds for a daemon to end; it finishes running calls for up to ten
STATUS_TIMEOUT = 15.0  # seconds for the daemon to answer with its status
POLL_INTERVAL = 0.05  # seconds between two checks where the system does not report a process's end
WORKER_TIMEOUT = 3.0  # seconds for a store worker without a daemon to finish its call


def serve(options: argparse.Namespace) -> int:
    """Run the daemon until it is told to stop."""
    from memoryd.owner import announce, own, say

    began = [time.perf_counter()]  # of each stage of the start until there is a log
    os.umask(0o077)  # only the owner can read what is created from here on
    forbid_core_dumps()
    config, origins = settings(options), setting_origins(options)
    note_config(options, config.memory.path)
    began.append(time.perf_counter())
    try:
        with own(config.memory.path) as owner:
            owner.starting(options.log_file)
            began.append(time.perf_counter())
            # Late: a second daemon is refused before it loads all this.
            from memoryd.wiring.early_worker import start_worker

            start_worker(config)
            gc.disable()  # imported objects stay: collections would only cost time
            from memoryd.daemon import run

            gc.enable()

            listen, log = named_socket(given(options)), options.log_file
            return run(config, owner, socket=listen, log_file=log, began=began, origins=origins)
    except StoreBusy as exc:
        say(exc)
        if options.log_file and (first := daemon_record.read(config.memory.path)):
            announce(first)
        return EXIT_DATA_DIR_TAKEN


def note_config(options: argparse.Namespace, data_dir: Path) -> None:
    """Record which data directory the configuration file names, for clients that read no YAML."""
    file = config_in_use(given(options))
    if file and not named_data_dir(given(options)) and may_set_path(file):
        daemon_record.note_config(file, data_dir)


def mcp(options: argparse.Namespace) -> int:
    """Run the shim. The command does so in `__main__`; this is for callers of `main`."""
    from memoryd.shim.entry import main

    tools = ["--tools", options.tools] if options.tools else []
    return main(["mcp", *(word for flag in given(options).items() for word in flag), *tools])


def status(options: argparse.Namespace) -> int:
    """Show the state of the daemon; exit code 1 if none runs or its store cannot be opened."""
    try:
        found = asyncio.run(fetch_status(options))
    except DaemonUnreachable:
        raise
    except DaemonUnavailable as exc:
        if not options.json:
            raise
        place = str(target(options).place)
        say_json({"health": "stopped", "socket": place, "error": error_facts(exc)})
        return 1
    code = 1 if found["health"] == "failed" else 0
    if options.json:
        say_json(found)
        return code
    health = paint(found["health"], RED if found["health"] == "failed" else BOLD)
    say(f"memoryd {found['version']}  {health}")
    for row in rows({name: clean(value) for name, value in _facts(found).items()}):
        say(row)
    return code


def stop(options: argparse.Namespace) -> int:
    """Stop the daemon and wait until it has ended; exit code 0 also if none runs."""
    if options.kill:
        return kill(options)
    try:
        pid = end_running(options)
    except DaemonUnreachable as exc:
        hint = kill_hint(options) if target(options).expected else exc.hint
        raise DaemonUnreachable(exc.message, hint=hint) from exc
    refuse_orphan(options)
    if options.json:
        say_json({"stopped": pid is not None, "pid": pid})
    elif pid is None:
        say(f"No memoryd answers at {target(options).place}.")
    else:
        say(f"Stopped process {pid}.")
    return 0


def kill_hint(options: argparse.Namespace, pid: int = 0) -> str:
    """The hint how to end a daemon that hangs."""
    if target(options).expected is None:
        return f"Run: kill -KILL {pid}"
    words = [word for flag in given(options).items() for word in flag]
    return f"Run: {shlex.join(['memoryd', 'stop', '--kill', *words])}"


def end_running(options: argparse.Namespace) -> int | None:
    """Stop the daemon that runs; its pid, or None if none ran. MemorydError if it does not end
    in time."""
    if (found := running(options)) is None:
        return None
    pid = found["pid"]
    if not end_process(pid):
        raise MemorydError(
            f"The daemon (process {pid}) did not end within {STOP_TIMEOUT:g} seconds.",
            code="still_running",
            hint=kill_hint(options, pid),
        )
    return pid


def running(options: argparse.Namespace, within: float | None = None) -> Status | None:
    """The status of the daemon; None if none runs. DaemonUnreachable if one runs and does not
    answer, TimeoutError if it does not answer `within` so many seconds."""
    if is_idle(options):
        return None
    try:
        return asyncio.run(asyncio.wait_for(fetch_status(options), within))
    except DaemonUnreachable:
        raise
    except DaemonUnavailable:
        return None


def is_idle(options: argparse.Namespace) -> bool:
    """Whether no process has the data directory. Checks the lock instead of connecting: where
    systemd listens, connecting would start a daemon."""
    meant = target(options)
    if meant.socket is not None or meant.data_dir is None:
        return False  # not known: the daemon at that socket may serve any directory
    return daemon_record.lock_holder(meant.data_dir) is None


async def fetch_status(options: argparse.Namespace, *, start: bool = False) -> Status:
    """The status of the daemon. Raises DaemonUnavailable if none runs, unless `start`."""
    from memoryd.client import Client

    async with Client(**where(options), start=start, timeout=STATUS_TIMEOUT) as daemon:
        return await daemon.status()


def _facts(found: Status) -> dict[str, str]:
    facts = {"uptime": f"{long_span(found['uptime_seconds'])} (process {found['pid']})"}
    if so_far := found.get("progress"):
        share = f": {so_far['done']} of {so_far['total']}" if so_far["total"] else ""
        since = f", for {long_span(so_far['seconds'])}" if "seconds" in so_far else ""
        facts["progress"] = so_far["what"] + share + since
    if "memories" in found:
        counts = found["memories"]
        each = ", ".join(f"{count} {type}" for type, count in counts.items())
        facts["memories"] = f"{sum(counts.values())} ({each})"
        if found.get("search_way") == "remote":
            facts["memories"] = _rows_fact(found.get("store", {}))
        end = found.get("next_expiry")
        facts["next expiry"] = moment(end) if end else "none"
        if doubt := found.get("clock_doubt"):
            left = long_span(doubt["seconds_left"])
            facts["clock"] = (
                f"last believed {moment(doubt['believed'])}; nothing expired is deleted for {left} "
                "more. If date and time are right: memoryd sweep --now"
            )
        facts["sessions"] = f"{found.get('sessions', 0)} at hand"
        model, why = found.get("model") or "none", found.get("model_trouble")
        facts["model"] = f"{model}: {why}" if why else model
        if llm := found.get("llm"):
            facts["language model"] = (
                f"{llm}: {found['llm_trouble']}" if found["llm_trouble"] else llm
            )
    if pending := found.get("pending_vectors"):
        facts["not embedded"] = f"{pending}, found by words only"
    if change := found.get("model_change"):
        share = f"{change['done']} of {change['total']} memories have a vector of {change['to']}"
        facts["model change"] = f"waits: {change['trouble']}" if change["trouble"] else share
    if trouble := found.get("store", {}).get("error"):
        facts["store"] = f"{trouble['message']} {trouble['hint']}".strip()
    if queued := _queue_fact(found.get("shared_store")):
        facts["queue"] = queued
    if taken := found.get("takeover"):
        from memoryd.cli.takeover import state_of

        facts["take-over"] = state_of(taken)
    if mirror := found.get("mirror"):
        facts["files"] = _mirror_fact(mirror)  # `mirror` is a call, see below
    if blocks := found.get("blocks"):
        facts["blocks"] = _blocks_fact(blocks)
    facts |= _store_facts(found.get("store", {}))
    for tool, figures in found.get("calls", {}).items():
        times = f"p50 {figures['p50_ms']:g} ms, p99 {figures['p99_ms']:g} ms"
        failed = f", {figures['errors']} failed" if figures["errors"] else ""
        steps = ", ".join(f"{name} {ms:g}" for name, ms in figures.get("steps_p50_ms", {}).items())
        facts[tool] = f"{figures['calls']} calls{failed}, {times}" + (
            f" ({steps})" if steps else ""
        )
    facts["RAM"] = size(found["resident_bytes"])
    disk = f"{size(found['disk_bytes'])} in {found['data_dir']}"
    facts["disk"] = f"{disk}, {size(found['disk_free_bytes'])} free"
    return facts


def _mirror_fact(state: MirrorState) -> str:
    from memoryd.cli.mirror import summary

    held = f"; {state['held']} held, see memoryd mirror" if state["held"] else ""
    trouble = state["trouble"]
    return summary(state) + held + (f"; {trouble['message']}" if trouble else "")


def _rows_fact(store: Any) -> str:
    """Where the rows are that a daemon without an index serves."""
    here, there = (part.get("rows", "unknown") for part in (store, store.get("server") or {}))
    return f"none in RAM; rows on the server: {there}, private ones here: {here}"


def _queue_fact(shared: Any) -> str:
    """What waits for the Chroma server, and what it has refused; "" if there is nothing."""
    if not shared:
        return ""
    rejected = shared.get("rejected")
    facts = [f"{shared['queued']} writes not yet on the server"] if shared.get("queued") else []
    facts += [f"{rejected} writes rejected; see memoryd doctor"] if rejected else []
    return "; ".join(facts)


def _blocks_fact(blocks: list[BlockState]) -> str:
    from memoryd.cli.mirror import block_summary

    wrong = [f"; {block['trouble']['message']}" if block["trouble"] else "" for block in blocks]
    return "; ".join(block_summary(block) + more for block, more in zip(blocks, wrong, strict=True))


def _store_facts(store: dict[str, Any]) -> dict[str, str]:
    """What is to be said about the store besides its counts."""
    facts = {"backup": f"{moment(store['backup_at'])}"} if "backup_at" in store else {}
    if store.get("since_by") == "repair":
        facts["repaired"] = f"{moment(store['since'])}; nothing to do"
    if others := store.get("other_collections"):
        named = ", ".join(f"{name} ({rows} rows)" for name, rows in others.items())
        facts["not served"] = f"other collections in this store: {named}; see store.collection"
    if unreadable := store.get("unreadable"):
        facts["unreadable"] = f"{unreadable['count']} rows of the store; see memoryd doctor"
    if aside := store.get("set_aside"):
        facts["set aside"] = f"{', '.join(aside)}; delete what you do not need"
    return facts


def end_process(pid: int, number: int = signal.SIGTERM) -> bool:
    """Send a process a signal; whether it ended within STOP_TIMEOUT."""
    try:
        watch = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        os.kill(pid, number)
    except ProcessLookupError:
        return True
    return _ended(pid, watch, STOP_TIMEOUT)


def wait_for_end(pid: int, seconds: float) -> bool:
    """Whether a process ends by itself in this time."""
    try:
        watch = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return True
    return _ended(pid, watch, seconds)


def _ended(pid: int, watch: int | None, seconds: float) -> bool:
    if watch is None:
        return _gone(pid, seconds)
    try:
        # The descriptor, not the pid: a pid can be reused, and the descriptor reports at once.
        return bool(select.select([watch], [], [], seconds)[0])
    finally:
        os.close(watch)


def _gone(pid: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(POLL_INTERVAL)
    return False


def kill(options: argparse.Namespace) -> int:
    """Kill the daemon and its store worker; exit code 0 also if there is none."""
    folder = target(options).expected
    if folder is None:  # only a socket was named: the daemon there may serve any directory
        raise InvalidInput(
            "--kill needs the data directory.",
            code="data_dir_missing",
            hint="Add --data-dir.",
        )
    daemon = daemon_record.lock_holder(folder)
    if daemon is not None:
        _kill(daemon, folder / daemon_record.LOCK)
    worker = _orphan(folder)
    if worker is not None:
        _kill(worker, folder / daemon_record.WORKER_LOCK)
    if options.json:
        say_json({"stopped": bool(daemon or worker), "pid": daemon, "worker": worker})
    for what, pid in (("daemon", daemon), ("store worker", worker)):
        if pid is not None and not options.json:
            say(f"Killed the {what} (process {pid}).")
    if daemon is None and worker is None and not options.json:
        say(f"No memoryd uses {folder}.")
    return 0


def refuse_orphan(options: argparse.Namespace) -> None:
    """MemorydError if a store worker holds the directory and its daemon has ended."""
    folder = target(options).expected
    if folder is None or daemon_record.lock_holder(folder) is not None:
        return
    if (worker := _orphan(folder)) is not None:
        raise MemorydError(
            f"The daemon has ended, but its store worker (process {worker}) hangs and still has "
            f"{folder} open.",
            code="still_running",
            hint=kill_hint(options, worker),
        )


def _orphan(folder: Path) -> int | None:
    """The store worker that still has the directory after WORKER_TIMEOUT; None if there is none."""
    worker = daemon_record.worker_holder(folder)
    if worker is None or (worker and wait_for_end(worker, WORKER_TIMEOUT)):
        return None
    return worker


def _kill(pid: int, lock: Path) -> None:
    # The pid in a lock file may be stale: the process must have the file open.
    if not pid or not daemon_record.has_open(pid, lock):
        raise MemorydError(
            f"A process holds {lock}, and it is not known which.",
            code="holder_unknown",
            hint=f"Find it: fuser {lock}",
        )
    if not end_process(pid, signal.SIGKILL):
        raise MemorydError(
            f"Process {pid} was killed but did not end within {STOP_TIMEOUT:g} seconds.",
            code="still_running",
            hint="It probably waits for its disk; look at the system's log.",
        )
