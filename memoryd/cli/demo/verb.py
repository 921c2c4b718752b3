"""`memoryd demo`: fill a directory of its own with invented memories, or delete it.

The demo never touches the user's memories: it has a data directory of its own, which must be new,
and its own settings, because those of the user may name a Chroma server, a folder for backups or
files that mirror the memories. A file marks the directory, and only a marked one is deleted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import shutil
from collections.abc import Iterable
from dataclasses import asdict, fields
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from memoryd import files
from memoryd.cli.daemon import end_running, refuse_orphan
from memoryd.cli.demo.content import Content, Fields, batches
from memoryd.cli.output import BOLD, counted, paint, say, say_json
from memoryd.cli.progress import Progress
from memoryd.cli.target import settings, target
from memoryd.client.owner import OwnerClient
from memoryd.config import load
from memoryd.errors import InvalidInput, MemorydError, NotFound
from memoryd.places import absolute, make_private
from memoryd.settings import EmbeddingSettings, variable

MARK = "demo"  # the file that marks the directory of a demo
CONFIG = "config.yaml"
BATCH, CONCURRENT = 100, 4  # memories of a call, and calls at a time
MAX_MEMORIES = 100_000
CALL_SECONDS = 600.0  # a batch waits for its vectors, however slow the model is
KEPT = {"pipeline-runs": 4, "holiday-plan": 2}  # compacted sessions, and messages that stay
WORKING_MEMORY = """## Goals
Keep the kitchen clean without waking anybody.

## People
Ann, Bob and Claire live here. Dan has a key.

## Now
The dock is in the laundry room; watch whether docking works there."""
# Prompts that get memories by the hook of a client: session, project, prompt.
PROMPTS = (
    ("robot-cat", "house/robot", "the lidar does not see the glass door to the terrace, why?"),
    ("robot-cat", "house/robot", "motor error 17 came again, what does it mean?"),
    ("web-checkout", "shop/web", "too many clients after a deploy, what shall I do?"),
    ("web-checkout", "shop/web", "how do we change a large table without locking it?"),
    ("pipeline-runs", "weather/pipeline", "station 214 reports strange temperatures in Fahrenheit"),
)
# Settings through which a demo could reach something of the user.
OUTWARD = {"store.mode": "embedded", "backup.dir": "", "mirror.path": "", "llm.url": ""}
OUTWARD |= {"doors.token_file": "", "doors.read_token_file": ""}


def demo(options: argparse.Namespace) -> int:
    """Make the demo, or with --remove delete it."""
    folder = _folder(options)
    if options.remove:
        return _remove(folder, options)
    content = Content(datetime.now(UTC))
    written = _written(content)
    wanted = _wanted(options.memories, len(written) + len(content.notes()))
    _prepare(folder, options)
    memories = chain(written, content.variations(wanted - len(written) - len(content.notes())))
    held = asyncio.run(_fill(folder, content, memories, wanted))
    if options.json:
        say_json({"data_dir": str(folder), "config": str(folder / CONFIG), "memories": held})
        return 0
    _tell(folder, content, held)
    return 0


def _folder(options: argparse.Namespace) -> Path:
    """The directory of the demo: --data-dir, else beside the user's own."""
    if options.socket:
        raise InvalidInput("A demo has its own socket.", code="usage", hint="Leave out --socket.")
    if options.data_dir:
        return absolute(options.data_dir)
    own = target(options).data_dir or settings(options).memory.path
    return own.with_name(f"{own.name}-demo")


def _written(content: Content) -> list[Fields]:
    """The memories and messages that were written by hand."""
    said = (content.messages(session) for session in content.sessions())
    return [*content.memories(), *chain.from_iterable(said)]


def _wanted(asked: int | None, least: int) -> int:
    """How many memories to make."""
    if asked is not None and not least <= asked <= MAX_MEMORIES:
        raise InvalidInput(
            f"A demo has from {least} to {MAX_MEMORIES} memories, not {asked}.",
            code="memories_invalid",
            hint="Leave out --memories for the smallest one.",
        )
    return least if asked is None else asked


def _prepare(folder: Path, options: argparse.Namespace) -> None:
    """Make the directory with its mark and its settings. InvalidInput if there is something."""
    if (folder / MARK).is_file():
        raise InvalidInput(
            f"There is a demo in {folder} already.",
            code="demo_exists",
            hint=f"Run: {_command(options, '--remove')}",
        )
    if folder.exists() and any(folder.iterdir()):
        raise InvalidInput(
            f"{folder} is not empty, and a demo must not mix with other memories.",
            code="demo_in_use",
            hint="Choose a new folder with --data-dir.",
        )
    text = _settings(settings(options).embedding)
    make_private(folder)
    _write(folder / CONFIG, text)
    try:
        _check_settings(folder)
    except MemorydError:
        (folder / CONFIG).unlink()
        folder.rmdir()
        raise
    _write(folder / MARK, "Invented memories, made by `memoryd demo`.\n")


def _write(path: Path, text: str) -> None:
    """A new file that only its owner can read."""
    with os.fdopen(files.open_anew(path), "w", encoding="utf-8") as file:
        file.write(text)


def _settings(embedding: EmbeddingSettings) -> str:
    """The settings of the demo: the user's model, and nothing else of theirs. JSON is YAML."""
    usual, chosen = EmbeddingSettings(), asdict(embedding)
    differing = [key.name for key in fields(usual) if chosen[key.name] != getattr(usual, key.name)]
    lines = [f"  {name}: {json.dumps(chosen[name])}" for name in differing]
    head = ["# The settings of this demo. It uses no others."]
    return "\n".join([*head, *(["embedding:", *lines] if lines else []), ""])


def _check_settings(folder: Path) -> None:
    """InvalidInput if a variable would let the demo reach something of the user: variables win over
    the file."""
    config = load(folder / CONFIG, flags={"memory.path": str(folder)})
    for key, wanted in OUTWARD.items():
        section, _, name = key.partition(".")
        if getattr(getattr(config, section), name) != wanted:
            raise InvalidInput(
                f"{variable(key)} is set, so the demo would not keep to itself.",
                code="demo_not_separate",
                hint=f"Unset it first: unset {variable(key)}",
            )


async def _fill(folder: Path, content: Content, memories: Iterable[Fields], total: int) -> int:
    """Start the daemon of the demo and store everything; how many memories it holds."""
    config = folder / CONFIG
    async with OwnerClient(
        data_dir=folder, config=config, start=True, project="", timeout=CALL_SECONDS
    ) as daemon:
        with Progress("Storing", total) as progress:
            await _import(daemon, memories, progress)
        for note in content.notes():
            await daemon.notes.add(note.name, note.content, aliases=note.aliases)
        for session, keep in KEPT.items():
            await daemon.sessions.compact(session, keep)
        await daemon.set_working_memory(WORKING_MEMORY, "robot")
        for session, project, prompt in PROMPTS:
            await daemon.hook("prompt", {"session_id": session, "prompt": prompt}, project)
        return sum((await daemon.status()).get("memories", {}).values())


async def _import(daemon: OwnerClient, memories: Iterable[Fields], progress: Progress) -> None:
    """Import in batches, a few at a time. MemorydError if one is refused."""
    waiting, done = batches(memories, BATCH), 0

    async def work() -> None:
        nonlocal done
        for batch in waiting:
            for outcome in await daemon.import_batch(batch):
                if outcome["outcome"] == "refused":
                    raise MemorydError(outcome["error"]["message"], code=outcome["error"]["code"])
            done += len(batch)
            progress.at(done)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONCURRENT):
            tasks.create_task(work())


def _remove(folder: Path, options: argparse.Namespace) -> int:
    """Stop the daemon of the demo and delete its directory."""
    if not (folder / MARK).is_file():
        raise NotFound(f"There is no demo in {folder}.", hint="Run: memoryd demo --help")
    at_demo: dict[str, Any] = {"data_dir": str(folder), "config": str(folder / CONFIG)}
    there = argparse.Namespace(**{**vars(options), **at_demo, "socket": None})
    end_running(there)
    refuse_orphan(there)
    shutil.rmtree(folder)
    say_json({"removed": str(folder)}) if options.json else say(f"Removed {folder}")
    return 0


def _tell(folder: Path, content: Content, held: int) -> None:
    place = ["--data-dir", str(folder), "--config", str(folder / CONFIG)]
    sessions, notes = len(content.sessions()), len(content.notes())
    say(f"{paint(counted(held), BOLD)} in {folder}, with {sessions} sessions and {notes} notes.")
    say("They are invented, and your own memories are not touched. Look at them:")
    verbs = ["dashboard"], ["search", "where is the dock?"], ["review"]
    for words in (*verbs, ["chat-log", "Moving the dock"]):
        say(f"  {shlex.join(['memoryd', *place, *words])}")
    say("Delete them:")
    say(f"  {shlex.join(['memoryd', 'demo', '--remove', '--data-dir', str(folder)])}")


def _command(options: argparse.Namespace, *flags: str) -> str:
    place = ["--data-dir", options.data_dir] if options.data_dir else []
    return shlex.join(["memoryd", "demo", *flags, *place])
