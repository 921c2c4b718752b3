"""`memoryd service`: let systemd or launchd run the daemon."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from memoryd.cli.daemon import end_running, note_config
from memoryd.cli.output import rows, say, say_json
from memoryd.cli.target import target
from memoryd.errors import MemorydError
from memoryd.service import choice as services


def service(options: argparse.Namespace) -> int:
    """Install, remove or show the service of this user."""
    command = services.command(target(options))
    manager = services.manager(command)
    if options.action == "status":
        return _show(manager.status(), options.json)
    if options.action == "uninstall":
        return _tell(manager.uninstall(), options.json)
    done, stopped = (manager.write(), []) if options.no_start else _install(manager, options)
    note_config(options, command.data_dir)
    return _tell(done, options.json, stopped)


def _install(
    manager: services.Manager, options: argparse.Namespace
) -> tuple[services.Done, list[str]]:
    """What was done, and which daemon was stopped for it."""
    stopped: list[str] = []

    def release() -> None:
        # A daemon that runs has the directory, and deletes the socket's file when it ends.
        if (pid := end_running(options)) is not None:
            stopped.append(f"Stopped process {pid}.")

    try:
        return manager.install(release), stopped
    except MemorydError:
        if stopped:  # a daemon ran before, so one runs afterwards
            from memoryd.cli.start import begin

            begin(options)
        raise


def _show(facts: dict[str, object], json: bool) -> int:
    if json:
        say_json(facts)
        return 0
    for row in rows({name: _words(value) for name, value in facts.items()}):
        say(row)
    return 0


def _tell(done: services.Done, json: bool, stopped: Sequence[str] = ()) -> int:
    if json:
        say_json({"done": [*stopped, *done.done], "to_run": done.to_run})
        return 0
    for line in (*stopped, *done.done):
        say(line)
    if done.to_run:
        say("Left to run, in a login session:")
        for line in done.to_run:
            say(f"  {line}")
    return 0


def _words(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
