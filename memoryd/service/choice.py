"""The daemon as a service of this user: systemd on Linux, launchd on macOS."""

from __future__ import annotations

import sys

from memoryd import places
from memoryd.launch.command import command_words
from memoryd.launch.target import Target
from memoryd.service.launchd import Launchd
from memoryd.service.manager import Command, Done, Manager, NoManager, ServiceError
from memoryd.service.systemd import Systemd

__all__ = ["Command", "Done", "Manager", "NoManager", "ServiceError", "command", "manager"]


def command(target: Target) -> Command:
    """The command that serves this target, independent of environment and working directory."""
    data_dir = target.data_dir or places.data_dir()
    return Command(command_words("serve", target), data_dir, target.log, target.socket)


def manager(command: Command) -> Manager:
    """The service manager of this platform. Raises ServiceError."""
    if sys.platform == "darwin":
        return Launchd(command)
    if sys.platform == "win32":
        raise ServiceError("Windows services are not supported.", hint="Run: memoryd start")
    return Systemd(command)
