"""`memoryd service`: have systemd or launchd keep the daemon."""

from __future__ import annotations

import argparse

from memoryd import service as units
from memoryd.cli_text import rows, say, say_json


def service(options: argparse.Namespace) -> int:
    """Install, remove or show the units of this user."""
    manager = units.manager(units.command(options.config, options.data_dir, options.socket))
    if options.action == "status":
        found = manager.status()
        if options.json:
            say_json(found)
            return 0
        for row in rows({name: _words(value) for name, value in found.items()}):
            say(row)
        return 0
    done = manager.install() if options.action == "install" else manager.uninstall()
    if options.json:
        say_json({"done": list(done.done), "to_run": list(done.to_run)})
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
