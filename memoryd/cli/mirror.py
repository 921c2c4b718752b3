"""The verb `mirror`: the state of the files for people, and what a person changed in them."""

from __future__ import annotations

import argparse
import asyncio

from memoryd.cli.forget import connect
from memoryd.cli.memories import INDENT, excerpt
from memoryd.cli.output import clean, counted, moment, note, say, say_json
from memoryd.client.owner import MirrorEdit, MirrorResult
from memoryd.client.types import MirrorState

OFF = "There is no mirror. Set mirror.path to a folder, then restart the daemon."
ACTIONS = {"now": "run", "confirm": "confirm", "keep": "keep"}
TIMEOUT = 600.0  # seconds: many new items have to be embedded


def mirror(options: argparse.Namespace) -> int:
    """Show the state of the mirror, after an action if one is asked for; exit code 1 if it cannot
    be written."""
    found = asyncio.run(_ask(options))
    state = found["mirror"]
    if options.json:
        say_json(found)
    elif state is None:
        say(OFF)
    else:
        _tell(found, state)
    return 1 if state is not None and state["trouble"] else 0


async def _ask(options: argparse.Namespace) -> MirrorResult:
    wanted = [action for flag, action in ACTIONS.items() if getattr(options, flag)]
    async with connect(options, timeout=TIMEOUT) as daemon:
        return await daemon.mirror(*wanted)


def _tell(found: MirrorResult, state: MirrorState) -> None:
    say(summary(state))
    if state["written_at"]:
        say(f"Written: {moment(state['written_at'])}")
    for edit in found["edits"] or found["recent"]:
        say(f"{edit['how'].capitalize()}: {_place(edit)}")
    if found["held"]:
        say(f"{counted(len(found['held'])).capitalize()} held: missing from MEMORY.md, and not "
            "forgotten.")  # fmt: skip
        for memory in found["held"]:
            say(clean(memory["id"]))
            for line in excerpt(memory["content"]):
                say(INDENT + line)
        say("To forget them, run: memoryd mirror --confirm")
        say("To keep them, run: memoryd mirror --keep")
    if trouble := state["trouble"]:
        note(f"{clean(trouble['message'])} {clean(trouble['hint'])}".strip())


def summary(state: MirrorState) -> str:
    """The state in one line."""
    text = f"{state['facts']} facts and {state['archives']} archives in {clean(state['path'])}"
    edits = ", ".join(f"{count} {how}" for how, count in state["edits"].items())
    return text + (f"; edits: {edits}" if edits else "")


def _place(edit: MirrorEdit) -> str:
    parts = [edit["id"] or "", f"line {edit['line']}" if edit["line"] else "", edit["why"] or ""]
    return ", ".join(clean(part) for part in parts if part)
