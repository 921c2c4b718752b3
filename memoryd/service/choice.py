"""The daemon as a service of this user: systemd on Linux, launchd on macOS."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from memoryd import places
from memoryd.launch.target import Target, named_data_dir
from memoryd.places import absolute
from memoryd.service.launchd import Launchd
from memoryd.service.manager import Command, Done, Manager, NoManager, ServiceError
from memoryd.service.systemd import Systemd

__all__ = ["Command", "Done", "Manager", "NoManager", "ServiceError", "command", "manager"]


def command(target: Target) -> Command:
    """The command that serves this target, independent of environment and working directory."""
    named = named_data_dir(target.given)
    given = {
        "--config": target.given.get("--config") or os.environ.get("MEMORYD_CONFIG"),
        "--data-dir": named and str(named),
        "--socket": target.socket and str(target.socket),
    }
    flags = [word for flag, path in given.items() if path for word in (flag, str(absolute(path)))]
    data_dir = target.data_dir or places.data_dir()
    return Command((*_executable(), "serve", *flags), data_dir, target.log, target.socket)


def _executable() -> tuple[str, ...]:
    """The `memoryd` command of this installation; else the interpreter with the module."""
    beside = Path(sys.executable).parent / "memoryd"
    if os.access(beside, os.X_OK):
        return (str(beside),)
    return (sys.executable, "-P", "-m", "memoryd")


def manager(command: Command) -> Manager:
    """The service manager of this platform. Raises ServiceError."""
    if sys.platform == "darwin":
        return Launchd(command)
    if sys.platform == "win32":
        raise ServiceError("Windows services are not supported.", hint="Run: memoryd start")
    return Systemd(command)
