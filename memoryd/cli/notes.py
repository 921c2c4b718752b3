"""The verb `notes`: entries with a unique name, and what can be done with them."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from memoryd.cli.memories import connect, notes, stdin_text
from memoryd.cli.output import BOLD, DIM, age, clean, paint, say, say_json
from memoryd.client.notes import Notes
from memoryd.client.types import EditedNote, Note

Answer = TypeVar("Answer")


def add(options: argparse.Namespace) -> int:
    """Add a note; an error if the name or an alias is taken."""
    given: dict[str, Any] = {
        "aliases": options.alias or (),
        "kind": options.kind,
        "metadata": dict(options.metadata) if options.metadata else None,
    }
    text = _text(options)
    return _tell(options, _call(options, lambda all: all.add(options.name, text, **given)))


def read(options: argparse.Namespace) -> int:
    """Show the content of a note."""
    note = _call(options, lambda all: all.read(options.name))
    say_json(note) if options.json else say(clean(note["content"]))
    return 0


def write(options: argparse.Namespace) -> int:
    """Replace the content of a note."""
    text = _text(options)
    return _tell(options, _call(options, lambda all: all.write(options.name, text)))


def rename(options: argparse.Namespace) -> int:
    """Give a note another name."""
    how = {"keep_alias": options.keep_alias}
    done = _call(options, lambda all: all.rename(options.name, options.new_name, **how))
    return _tell(options, done)


def alias(options: argparse.Namespace) -> int:
    """Give a note one more name."""
    return _tell(options, _call(options, lambda all: all.alias(options.name, options.alias)))


def unalias(options: argparse.Namespace) -> int:
    """Take an alias away from its note."""
    return _tell(options, _call(options, lambda all: all.unalias(options.alias)))


def remove(options: argparse.Namespace) -> int:
    """Delete a note with its aliases."""
    done = _call(options, lambda all: all.remove(options.name))
    say_json(done) if options.json else say(f"Removed {clean(options.name)}")
    return 0


def list_notes(options: argparse.Namespace) -> int:
    """Show the notes, oldest first."""
    keys = ("kind", "limit", "after")
    given: dict[str, Any] = {key: getattr(options, key, None) for key in keys}
    page = _call(options, lambda all: all.list(**given))
    if options.json:
        say_json(page)
        return 0
    now = datetime.now(UTC)
    for note in page["notes"]:
        say(_line(note, now))
    total = page["total"]
    say(f"{total} {'note' if total == 1 else 'notes'}.")
    return 0


def _call(options: argparse.Namespace, call: Callable[[Notes], Awaitable[Answer]]) -> Answer:
    async def done() -> Answer:
        async with connect(options) as client:
            return await call(client.notes)

    return asyncio.run(done())


def _text(options: argparse.Namespace) -> str:
    return stdin_text() if options.content == "-" else str(options.content)


def _tell(options: argparse.Namespace, done: EditedNote) -> int:
    if options.json:
        say_json(done)
        return 0
    notes(done["warnings"])
    how = {"add": "Added"}.get(done["action"], "Changed") if done["changed"] else "Unchanged:"
    say(f"{how} {_named(done['note'])}")
    return 0


def _named(note: Note) -> str:
    """Number, name and aliases."""
    aliases = f" ({', '.join(note['aliases'])})" if note["aliases"] else ""
    return f"{note['kind']} {note['seq']}: {clean(note['name'] + aliases)}"


def _line(note: Note, now: datetime) -> str:
    aliases = f"({', '.join(note['aliases'])})" if note["aliases"] else ""
    parts = (
        f"{note['seq']:>4}  {note['kind']:<7}  {age(note, now):>11}",
        paint(clean(note["name"]), BOLD),
        clean(aliases),
        paint(clean(note.get("citation", "")), DIM),
    )
    return "  ".join(part for part in parts if part)
