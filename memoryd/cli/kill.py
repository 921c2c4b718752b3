"""`memoryd stop --kill`: end the processes that hold a data directory, by force.

Who holds it is told by its two locks: the daemon's, and the store worker's, which a worker that
hangs keeps after its daemon is gone.
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

from memoryd import daemon_record
from memoryd.cli.daemon import END, end_process, kill_hint, wait_for_end
from memoryd.cli.output import say, say_json
from memoryd.cli.target import target
from memoryd.errors import InvalidInput, MemorydError

FINISH = 3.0  # seconds for a store worker without a daemon to finish its call


def kill(options: argparse.Namespace) -> int:
    """Kill the daemon and its store worker; it is no failure if there is none."""
    folder = target(options).expected
    if folder is None:  # only a socket was named: whoever listens there may serve any directory
        raise InvalidInput(
            "--kill needs to know the data directory.",
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
    """Raise MemorydError if a store worker still has the directory though no daemon does."""
    folder = target(options).expected
    if folder is None or daemon_record.lock_holder(folder) is not None:
        return
    if (worker := _orphan(folder)) is not None:
        raise MemorydError(
            f"The store worker (process {worker}) of a daemon that is gone hangs, and still has "
            f"{folder} open.",
            code="still_running",
            hint=kill_hint(options, worker),
        )


def _orphan(folder: Path) -> int | None:
    """The store worker that has the directory, and has had time to finish."""
    worker = daemon_record.worker_holder(folder)
    if worker is None or (worker and wait_for_end(worker, FINISH)):
        return None
    return worker


def _kill(pid: int, lock: Path) -> None:
    # What a lock file says proves nothing: the process has to have it open.
    if not pid or not daemon_record.has_open(pid, lock):
        raise MemorydError(
            f"Some process holds {lock}, and which one cannot be told.",
            code="holder_unknown",
            hint=f"Find it: fuser {lock}",
        )
    if not end_process(pid, signal.SIGKILL):
        raise MemorydError(
            f"Process {pid} was killed and has not ended within {END:g} seconds.",
            code="still_running",
            hint="It waits for its disk; look at the system's log.",
        )
