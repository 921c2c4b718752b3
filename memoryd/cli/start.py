"""The verbs start, restart and version; the last shows our version and the daemon's.

If the daemon is installed as a service, systemd or launchd starts and restarts it: the service
manager's own daemon would find the directory taken, and ours would not be restarted after a crash.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from memoryd import __version__
from memoryd.cli.daemon import end_running, fetch_status, running
from memoryd.cli.output import clean, error_facts, note, say, say_json
from memoryd.cli.target import target
from memoryd.client.types import Status
from memoryd.errors import DaemonUnreachable, MemorydError
from memoryd.service import choice

GLANCE_TIMEOUT = 2.0  # seconds for a status that is not essential


def start(options: argparse.Namespace) -> int:
    """Start the daemon in the background; nothing to do if it runs."""
    began = time.monotonic()
    found = running(options) or begin(options)
    # Asking may have started it, where systemd listens; so compare its uptime.
    is_new = found["uptime_seconds"] <= time.monotonic() - began
    if options.json:
        say_json({"started": is_new, "pid": found["pid"], "version": found["version"]})
    elif is_new:
        say(f"Started memoryd {found['version']} (process {found['pid']}).")
    else:
        say(f"memoryd {found['version']} is already running (process {found['pid']}).")
        _warn_of_other_version(found)
    return 0


def restart(options: argparse.Namespace) -> int:
    """Stop the daemon, start it, and wait until it answers."""
    old = running(options)
    manager = _keeper(options)
    if manager is not None and old is not None and manager.pid() == old["pid"]:
        manager.restart()
        found = asyncio.run(fetch_status(options, start=True))
    else:
        end_running(options)
        found = begin(options)
    if options.json:
        old_pid = old["pid"] if old else None
        say_json({"pid": found["pid"], "previous_pid": old_pid, "version": found["version"]})
        return 0
    if old is None:
        say(f"Started memoryd {found['version']} (process {found['pid']}); none was running.")
    else:
        was = f"process {found['pid']}, before {old['pid']}"
        say(f"Restarted memoryd {found['version']} ({was}).")
    return 0


def version(options: argparse.Namespace) -> int:
    """Show our version, and that of the daemon if it runs."""
    found, trouble = None, None
    try:
        found = glance(options)
    except MemorydError as exc:  # our version can be shown all the same
        trouble = exc
    if options.json:
        daemon = {"version": found["version"], "pid": found["pid"]} if found else None
        facts = {"version": __version__, "daemon": daemon, "same": _is_same(found)}
        say_json(facts | ({"error": error_facts(trouble)} if trouble else {}))
        return 0
    say(f"memoryd {__version__}")
    if trouble:
        say(f"daemon  unknown: {clean(trouble.message)}")
    elif found:
        say(f"daemon  {found['version']} (process {found['pid']})")
        _warn_of_other_version(found)
    else:
        say("daemon  not running")
    return 0


def begin(options: argparse.Namespace) -> Status:
    """Start a daemon, through its service manager if it has one; its status."""
    if (manager := _keeper(options)) is not None:
        manager.start()
    return asyncio.run(fetch_status(options, start=True))


def glance(options: argparse.Namespace) -> Status | None:
    """The status of the daemon; None if none runs. Never starts one. DaemonUnreachable if it does
    not answer within GLANCE_TIMEOUT."""
    manager = _keeper(options) if target(options).socket else None
    if manager is not None and manager.pid() is None:
        return None  # connecting would start it
    try:
        return running(options, within=GLANCE_TIMEOUT)
    except TimeoutError as exc:
        raise DaemonUnreachable(
            f"The daemon did not answer within {GLANCE_TIMEOUT:g} seconds.",
            hint="Run: memoryd status",
        ) from exc


def _keeper(options: argparse.Namespace) -> choice.Manager | None:
    """The service manager of this daemon; None if it is not a service."""
    try:
        manager = choice.manager(choice.command(target(options)))
    except choice.ServiceError:
        return None
    return manager if manager.keeps() else None


def _is_same(status: Status | None) -> bool:
    return status is None or status["version"] == __version__


def _warn_of_other_version(status: Status) -> None:
    if not _is_same(status):
        note(
            f"The daemon runs version {status['version']}, this command is {__version__}. "
            "`memoryd restart` brings the daemon up to date."
        )
