"""The verb `mirror`: the state of the files for people, and what a person changed in them."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

from memoryd.cli.forget import connect
from memoryd.cli.memories import INDENT, excerpt
from memoryd.cli.options import UsageError
from memoryd.cli.output import clean, counted, moment, note, say, say_json
from memoryd.client.owner import MirrorEdit, MirrorResult
from memoryd.client.types import BlockState, MirrorState
from memoryd.labels import normal_name
from memoryd.project_folder import project_at

OFF = (
    "There is no mirror. Set mirror.path to a folder, then restart the daemon. "
    "To keep a block in a file such as AGENTS.md, run: memoryd mirror --block FILE"
)
ACTIONS = {"now": "run", "confirm": "confirm", "keep": "keep"}
TIMEOUT = 600.0  # seconds: many new items have to be embedded


def mirror(options: argparse.Namespace) -> int:
    """Show the state of the mirror, after an action if one is asked for; exit code 1 if a file
    cannot be written."""
    if options.project is not None and options.block is None:
        raise UsageError("--project needs --block.")
    found = asyncio.run(_ask(options))
    state, blocks = found["mirror"], found["blocks"]
    if options.json:
        say_json(found)
    elif options.no_block is not None:
        say(f"memoryd keeps no block in {clean(options.no_block)} any more.")
    elif state is None and not blocks:
        say(OFF)
    else:
        if state is not None:
            _tell(found, state)
        _tell_blocks(blocks)
    troubled = [one for one in (state, *blocks) if one is not None and one["trouble"]]
    return 1 if troubled else 0


async def _ask(options: argparse.Namespace) -> MirrorResult:
    wanted = [action for flag, action in ACTIONS.items() if getattr(options, flag)]
    async with connect(options, timeout=TIMEOUT) as daemon:
        if options.block is not None:
            return await daemon.add_block(*_named_block(options))
        if options.no_block is not None:
            return await daemon.remove_block(_listed(options.no_block, await daemon.mirror()))
        return await daemon.mirror(*wanted)


def _named_block(options: argparse.Namespace) -> tuple[str, str | None]:
    """The path and the project. A person who names a link means the file that it leads to."""
    path = os.path.realpath(os.path.expanduser(options.block))
    named = options.project
    project = project_at(Path(path).parent) if named is None else normal_name(named)
    return path, project or None


def _listed(named: str, found: MirrorResult) -> str:
    """The path of a block as the daemon has it: the file may be a link by now, or be gone."""
    plain = os.path.abspath(os.path.expanduser(named))
    known = [block["path"] for block in found["blocks"]]
    return plain if plain in known else os.path.realpath(plain)


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


def _tell_blocks(blocks: list[BlockState]) -> None:
    for block in blocks:
        say(f"Block in {block_summary(block)}")
        if block["written_at"]:
            say(f"{INDENT}written: {moment(block['written_at'])}")
        if trouble := block["trouble"]:
            note(f"{clean(trouble['message'])} {clean(trouble['hint'])}".strip())


def block_summary(block: BlockState) -> str:
    """A block in one line."""
    facts = f"{block['facts']} facts" if block["facts"] != 1 else "1 fact"
    of = f" of {clean(block['project'])} and shared" if block["project"] else ", shared"
    return f"{clean(block['path'])}: {facts}{of}"


def summary(state: MirrorState) -> str:
    """The state in one line."""
    text = f"{state['facts']} facts and {state['archives']} archives in {clean(state['path'])}"
    edits = ", ".join(f"{count} {how}" for how, count in state["edits"].items())
    return text + (f"; edits: {edits}" if edits else "")


def _place(edit: MirrorEdit) -> str:
    parts = [edit["id"] or "", f"line {edit['line']}" if edit["line"] else "", edit["why"] or ""]
    return ", ".join(clean(part) for part in parts if part)
