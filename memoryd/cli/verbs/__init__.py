"""Every verb of the command line with its flags, and the function that runs it."""

from __future__ import annotations

from memoryd import __version__
from memoryd.cli.options import Parser
from memoryd.cli.verbs import insight, machine, memories
from memoryd.cli.verbs.shared import add_places


def parser() -> Parser:
    """Every verb with its flags."""
    top = Parser(
        prog="memoryd",
        description="The one memory that every AI agent on a machine shares.",
        epilog="`memoryd` alone shows what to do first; `memoryd VERB --help` explains a verb.",
    )
    top.add_argument("--version", action="version", version=f"memoryd {__version__}")
    top.set_defaults(verb="memoryd.cli.welcome:welcome")
    add_places(top, default=None)
    verbs = top.add_subparsers(metavar="VERB")
    machine.add_daemon_verbs(verbs)
    memories.add_memory_verbs(verbs)
    insight.add_insight_verbs(verbs)
    memories.add_managing_verbs(verbs)
    memories.add_project_verbs(verbs)
    memories.add_note_verbs(verbs)
    memories.add_session_verbs(verbs)
    machine.add_hook_verbs(verbs)
    machine.add_store_verbs(verbs)
    machine.add_governing_verbs(verbs)
    machine.add_machine_verbs(verbs)
    return top
