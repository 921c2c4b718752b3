"""`memoryd mcp`: the stdio shim. Finds or starts the daemon and passes bytes both ways.

Clients start stdio servers several times over, probe them and kill them, so this is minimal: the
standard library, no lock, no state, bounded buffers. It ends with its client and leaves the daemon
running.
"""

from __future__ import annotations

import os
import signal
import sys

from memoryd.errors import InvalidInput
from memoryd.launch.start import Finder, reap
from memoryd.launch.target import FLAGS, Target
from memoryd.launch.upgrade import Upgrade
from memoryd.project_folder import own_project
from memoryd.shim.relay import STDOUT, Relay
from memoryd.toolsets import parse_toolsets

TOOLS, PROJECT = "--tools", "--project"
VALUES = {TOOLS: "LIST", PROJECT: "NAME"}  # what each takes; the other flags take a PATH


def main(arguments: list[str], serve: list[str] | None = None) -> int:
    """Run until the client leaves; the exit code. `serve`: the command that starts a daemon."""
    try:
        given = parse_flags(arguments)
        toolsets = parse_toolsets(given.pop(TOOLS)) if TOOLS in given else ()
        project = own_project(given.pop(PROJECT, None))
    except InvalidInput as exc:
        sys.stderr.write(f"Error: {exc.message}\nTry: {exc.hint}\n")
        return 2
    os.umask(0o077)
    # Nothing here needs cleaning up, and Python's SIGINT handler would print a traceback.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    # No zombie is left when a daemon that we started ends while we still run.
    if hasattr(signal, "SIGCHLD"):
        signal.signal(signal.SIGCHLD, lambda *_: reap())
    # A terminal stays blocking: it shares the mode with the shell.
    shared = os.isatty(STDOUT)
    os.set_blocking(STDOUT, shared)
    try:
        finder = Finder(Target(given), serve, upgrade=Upgrade())
        Relay(finder, toolsets, project).run()
    except ConnectionError:  # the client no longer reads
        pass
    finally:
        os.set_blocking(STDOUT, True)
    return 0


def parse_flags(arguments: list[str]) -> dict[str, str]:
    """The value of each flag. Only --project may be empty: that means no project. InvalidInput for
    anything else."""
    given: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name in FLAGS or name in VALUES:
            found = value if equals else next(words, None)
            if found is None or (not found and name != PROJECT):
                what = VALUES.get(name, "PATH")
                raise InvalidInput(
                    f"{name} needs a {what.lower()}.", hint=f"memoryd mcp {name} {what}"
                )
            given[name] = found
        elif word != "mcp":
            known = ", ".join((*FLAGS, *VALUES))
            raise InvalidInput(f"memoryd mcp has no option {word!r}.", hint=f"Use {known}.")
    return given
