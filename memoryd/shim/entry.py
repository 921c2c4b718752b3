"""`memoryd mcp`: the stdio door. Finds or starts the daemon and passes bytes both ways.

Clients start stdio servers several times over, probe them and kill them, so this is as little as
can be: the standard library, no lock, no state, bounded buffers. It ends with its client and
leaves the daemon running.
"""

from __future__ import annotations

import os
import signal
import sys

from memoryd.errors import InvalidInput
from memoryd.launch.start import Finder, reap
from memoryd.launch.target import FLAGS, Target
from memoryd.shim.relay import STDOUT, Relay


def main(arguments: list[str], serve: list[str] | None = None) -> int:
    """Run until the client leaves; the exit code. `serve` is the command that starts a daemon."""
    try:
        given = parse_flags(arguments)
    except InvalidInput as exc:
        sys.stderr.write(f"Error: {exc.message}\nTry: {exc.hint}\n")
        return 2
    os.umask(0o077)
    # Nothing here needs an orderly end, and Python's own SIGINT would print a traceback.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    # No zombie stays, even when a daemon that we started ends long after we found it.
    if hasattr(signal, "SIGCHLD"):
        signal.signal(signal.SIGCHLD, lambda *_: reap())
    # A terminal is shared with the shell, which would find itself without blocking reads.
    shared = os.isatty(STDOUT)
    os.set_blocking(STDOUT, shared)
    try:
        Relay(Finder(Target(given), serve)).run()
    except ConnectionError:  # the client stopped listening
        pass
    finally:
        os.set_blocking(STDOUT, True)
    return 0


def parse_flags(arguments: list[str]) -> dict[str, str]:
    """The flags that place the daemon, by name. Raises InvalidInput for anything else."""
    given: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name in FLAGS:
            given[name] = value if equals else next(words, "")
            if not given[name]:
                raise InvalidInput(f"{name} needs a path.", hint=f"memoryd mcp {name} PATH")
        elif word != "mcp":
            known = ", ".join(FLAGS)
            raise InvalidInput(f"memoryd mcp does not know {word!r}.", hint=f"one of {known}")
    return given
