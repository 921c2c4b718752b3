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
from memoryd.shim.relay import STDOUT, Relay
from memoryd.toolsets import parse_toolsets

TOOLS = "--tools"


def main(arguments: list[str], serve: list[str] | None = None) -> int:
    """Run until the client leaves; the exit code. `serve`: the command that starts a daemon."""
    try:
        given, toolsets = parse_flags(arguments)
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
        Relay(Finder(Target(given), serve), toolsets).run()
    except ConnectionError:  # the client no longer reads
        pass
    finally:
        os.set_blocking(STDOUT, True)
    return 0


def parse_flags(arguments: list[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The flags that say which daemon is meant, by name, and the toolsets, if any were named.
    InvalidInput for anything else."""
    given: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name in FLAGS or name == TOOLS:
            given[name] = value if equals else next(words, "")
            if not given[name]:
                what = "LIST" if name == TOOLS else "PATH"
                raise InvalidInput(
                    f"{name} needs a {what.lower()}.", hint=f"memoryd mcp {name} {what}"
                )
        elif word != "mcp":
            known = ", ".join((*FLAGS, TOOLS))
            raise InvalidInput(f"memoryd mcp has no option {word!r}.", hint=f"Use {known}.")
    tools = given.pop(TOOLS, None)
    return given, () if tools is None else parse_toolsets(tools)
