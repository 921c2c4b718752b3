"""`memoryd service`: have systemd or launchd keep the daemon."""

from __future__ import annotations

import argparse
from dataclasses import replace

from memoryd import service as units
from memoryd.cli_daemon import end_running
from memoryd.cli_text import rows, say, say_json


def service(options: argparse.Namespace) -> int:
    """Install, remove or show the units of this user."""
    manager = units.manager(units.command(options.config, options.data_dir, options.socket))
    if options.action == "status":
        return _show(manager.status(), options.json)
    if options.action == "uninstall":
        return _tell(manager.uninstall(), options.json)
    # One that runs has the directory, and would take the socket's file with it when it ends.
    pid = end_running(options)
    done = manager.install()
    if pid is not None:
        done = replace(done, done=(f"Stopped process {pid}.", *done.done))
    return _tell(done, options.json)


def _show(found: dict[str, object], json: bool) -> int:
    if json:
        say_json(found)
        return 0
    for row in rows({name: _words(value) for name, value in found.items()}):
        say(row)
    return 0


def _tell(done: units.Done, json: bool) -> int:
    if json:
        say_json({"done": done.done, "to_run": done.to_run})
        return 0
    for line in done.done:
        say(line)
    if done.to_run:
        say(done.why)
        for line in done.to_run:
            say(f"  {line}")
    return 0


def _words(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
