"""`memoryd` alone: whether the daemon runs, and what to do first."""

from __future__ import annotations

import argparse

from memoryd import __version__
from memoryd.cli.output import BOLD, clean, counted, paint, rows, say
from memoryd.cli.start import glance
from memoryd.errors import MemorydError

FIRST = {
    "memoryd start": "start the daemon (store and search do it, too)",
    'memoryd store "Ann prefers tea"': "remember something",
    'memoryd search "what does Ann drink?"': "find it again, by meaning",
    "memoryd setup claude-code": "connect Claude Code; memoryd setup shows other clients",
    "memoryd status": "show what the daemon holds",
    "memoryd doctor": "find out what is wrong",
    "memoryd --help": "show all commands",
}


def welcome(options: argparse.Namespace) -> int:
    """Show the first screen. Starts no daemon; always exit code 0."""
    say(f"{paint(f'memoryd {__version__}', BOLD)}, the memory that AI agents on this machine share")
    say(_state(options))
    say()
    for row in rows(FIRST):
        say(row)
    say()
    say("Any other MCP client: let it start the command `memoryd mcp`.")
    return 0


def _state(options: argparse.Namespace) -> str:
    try:
        found = glance(options)
    except MemorydError as exc:
        return f"It is not known whether the daemon is running: {clean(exc.message)}"
    if found is None:
        return "The daemon is not running."
    state = f"The daemon is running (process {found['pid']}, {found['health']})"
    if "memories" in found:
        state += f" with {counted(sum(found['memories'].values()))}"
    return f"{state}."
