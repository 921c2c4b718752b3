"""`memoryd completion`: a script for a shell, or the names that the scripts ask for."""

from __future__ import annotations

import argparse
import asyncio
import importlib

from memoryd.cli.completion.commands import MEMORIES, NOTES, PROJECTS, SESSIONS, command_of
from memoryd.cli.options import UsageError
from memoryd.cli.output import clean, say
from memoryd.cli.start import glance
from memoryd.cli.target import where
from memoryd.cli.verbs import parser
from memoryd.client import Client
from memoryd.errors import MemorydError

SHELLS = ("bash", "zsh", "fish")
MOST = 200  # names
ANSWER_SECONDS = 1.0  # who presses Tab does not wait


def completion(options: argparse.Namespace) -> int:
    """Print the script of a shell; with --list, names for it."""
    if options.list:
        for name in _names(options):
            say(name)
        return 0
    if options.shell is None:
        raise UsageError("SHELL is missing.", hint="Run: memoryd completion --help")
    script = importlib.import_module(f"memoryd.cli.completion.{options.shell}").script
    say(script(command_of(parser())))
    return 0


def _names(options: argparse.Namespace) -> list[str]:
    """The names of a kind; none if no daemon runs or it does not answer at once. Starts none."""
    try:
        if glance(options) is None:
            return []
        found = asyncio.run(asyncio.wait_for(_fetch(options), ANSWER_SECONDS))
    except (MemorydError, TimeoutError, OSError):
        return []
    # One a line, and nothing that could control the terminal.
    return list(dict.fromkeys(name for text in found if (name := clean(text)) and "\n" not in name))


async def _fetch(options: argparse.Namespace) -> list[str]:
    async with Client(**where(options), timeout=ANSWER_SECONDS) as daemon:
        if options.list == MEMORIES:
            page = await daemon.list_memories(limit=MOST)
            return [memory.get("name") or memory["id"] for memory in page["memories"]]
        if options.list == NOTES:
            notes = (await daemon.notes.list(limit=MOST))["notes"]
            return [name for note in notes for name in (note["name"], *note["aliases"])]
        if options.list == PROJECTS:
            projects = (await daemon.projects.list())["projects"]
            return [facts["project"] for facts in projects if facts["project"] is not None]
        assert options.list == SESSIONS
        sessions = (await daemon.sessions.list(limit=MOST))["sessions"]
        return [session["session_id"] for session in sessions]
