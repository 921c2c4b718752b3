"""`memoryd` alone: whether the daemon runs, what it holds, and what to do first."""

from __future__ import annotations

import argparse

from memoryd import __version__
from memoryd.cli.output import BOLD, RED, clean, counted, paint, rows, say
from memoryd.cli.start import glance
from memoryd.client.types import Status
from memoryd.errors import MemorydError

FIRST = {
    "memoryd setup claude-code": "connect an agent; memoryd setup lists all clients",
    'memoryd store "Ann prefers tea"': "remember something",
    'memoryd search "what does Ann drink?"': "find it again, by meaning",
    "memoryd dashboard": "see and govern what is remembered, in the browser",
    "memoryd doctor": "find out what is wrong",
}


def welcome(options: argparse.Namespace) -> int:
    """Show the first screen. Starts no daemon; always exit code 0."""
    say(f"{paint(f'memoryd {__version__}', BOLD)}, the memory that AI agents on this machine share")
    for line in _state(options):
        say(line)
    say()
    for row in rows(FIRST):
        say(row)
    say()
    say("memoryd --help shows all verbs, memoryd VERB --help explains one with examples.")
    say("Any other MCP client: let it start the command `memoryd mcp`.")
    return 0


def _state(options: argparse.Namespace) -> list[str]:
    try:
        found = glance(options)
    except MemorydError as exc:
        return [f"It is not known whether the daemon is running: {clean(exc.message)}"]
    if found is None:
        return ["The daemon is not running; store and search start it."]
    health = paint(found["health"], RED if found["health"] == "failed" else BOLD)
    state = f"The daemon is running (process {found['pid']}, {health})"
    if "memories" in found:
        state += f" with {counted(sum(found['memories'].values()))}"
    return [f"{state}.", *_trouble(found)]


def _trouble(found: Status) -> list[str]:
    """What hinders a search, if anything does."""
    if why := found.get("model_trouble"):
        return [f"It searches by words only: {clean(why)}"]
    if so_far := found.get("progress"):
        share = f": {so_far['done']} of {so_far['total']}" if so_far["total"] else ""
        return [f"In progress: {clean(so_far['what'])}{share}."]
    return []
