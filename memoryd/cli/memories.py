"""The verbs about memories. They start a daemon if none runs, as an MCP client would."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from memoryd.cli.options import selection
from memoryd.cli.output import (
    BOLD,
    CYAN,
    DIM,
    TYPE_STYLES,
    YELLOW,
    age,
    clean,
    moment,
    note,
    paint,
    remaining,
    rows,
    say,
    say_fitted,
    say_json,
    terminal_width,
)
from memoryd.cli.target import where
from memoryd.client import Client
from memoryd.client.types import Memory, Page, Stored
from memoryd.errors import InvalidInput, NotFound
from memoryd.project_folder import own_project

SHOWN_LINES = 2  # of each hit
INDENT = " " * 6


def store(options: argparse.Namespace) -> int:
    """Store a text; say whether it is new, known or a replacement."""
    content = stdin_text() if options.content == "-" else options.content
    stored = asyncio.run(_store(options, content))
    if options.json:
        say_json(stored)
        return 0
    notes(stored["warnings"])
    project = shown_project(stored)
    into = f", project {project}" if project else ""
    if audience := stored["metadata"].get("audience"):
        into += f", audience {clean(str(audience))}"
    say(f"{_how(stored)} {stored['type']} {stored['id']}, {kept_until(stored)}{into}")
    return 0


def search(options: argparse.Namespace) -> int:
    """Show the best matches, best first."""
    page = asyncio.run(_search(options))
    if options.json:
        say_json(page)
        return 0
    notes(page["warnings"])
    now = datetime.now(UTC)
    for hit in page["results"]:
        say_fitted("  ".join((paint(f"{hit['score']:.2f}", BOLD), heading(hit, now))))
        for line in excerpt(hit.get("passage", hit["content"])):
            say(INDENT + line)
        if more := len(hit.get("similar", ())):
            say(
                paint(
                    f"{INDENT}and {more} more that {'says' if more == 1 else 'say'} the same", DIM
                )
            )
        if "why" in hit:
            say(INDENT + ", ".join(f"{part} {value:+.2f}" for part, value in hit["why"].items()))
    if not page["results"]:
        say("Nothing found.")
    if "timings" in page:
        steps = ", ".join(f"{step} {ms:.1f}" for step, ms in page["timings"].items())
        say(f"Milliseconds: {steps}")
    return 0


def get(options: argparse.Namespace) -> int:
    """Show one memory in full; NotFound if there is none."""
    memory = asyncio.run(_get(options))
    if memory is None:
        raise _missing(options.memory)
    if options.json:
        say_json(memory)
        return 0
    say(clean(memory["content"]))
    say()
    for row in rows(_facts(memory)):
        say(row)
    return 0


def connect(options: argparse.Namespace) -> Client:
    """The daemon, started if none runs."""
    return Client(**where(options), start=True, project=own_project()[0])


async def _store(options: argparse.Namespace, content: str) -> Stored:
    metadata = dict(options.metadata or ())
    if options.project is not None:
        metadata["project"] = options.project or None  # empty: none, that is shared
    async with connect(options) as memory:
        return await memory.store(
            content,
            options.type or "fact",
            name=options.name,
            session_id=options.session,
            metadata=metadata or None,
            expires_at=options.expires_at,
            pinned=options.pinned,
            shared=options.shared,
            audience=options.audience,
        )


async def _search(options: argparse.Namespace) -> Page:
    chosen: Any = selection(options)
    async with connect(options) as memory:
        return await memory.search(
            " ".join(options.query),
            **chosen,
            limit=options.limit,
            min_score=options.min_score,
            max_tokens=options.max_tokens,
            explain=options.explain,
            include_superseded=options.include_superseded,
            mode=options.mode,
            count_use=False,  # a person looks; no agent uses what is found
        )


async def _get(options: argparse.Namespace) -> Memory | None:
    async with connect(options) as memory:
        return await memory.get(options.memory)


def stdin_text() -> str:
    """The text on stdin. Raises InvalidInput."""
    try:
        return sys.stdin.buffer.read().decode().rstrip("\n")
    except UnicodeDecodeError as exc:
        raise InvalidInput(
            "The text on stdin is not UTF-8.", code="content_not_text", hint="Convert it to UTF-8."
        ) from exc


def _missing(wanted: str) -> NotFound:
    return NotFound(f"There is no memory {wanted!r}.")


def notes(warnings: Sequence[str]) -> None:
    """Write warnings to stderr."""
    for warning in warnings:
        note(warning)


def _how(stored: Stored) -> str:
    if stored["duplicate"]:
        return "Already known:"
    return "Replaced" if stored.get("replaced") else "Stored"


def _one_line(value: object) -> str:
    return " ".join(str(value).split())


def kept_until(memory: Memory) -> str:
    """How long a memory is kept."""
    end = memory["expires_at"]
    return "kept until forgotten" if end is None else f"kept until {moment(end)}"


def heading(memory: Memory, now: datetime) -> str:
    """Type, age, time left, id, project, name and state on one line."""
    parts = (
        paint(f"{memory['type']:<12}", TYPE_STYLES.get(memory["type"], BOLD)),
        f"{age(memory, now):>11}, {remaining(memory, now):<17}",
        paint(memory["id"], DIM),
        paint(f"[{project}]", CYAN) if (project := shown_project(memory)) else "",
        clean(memory.get("name", "")),
        *(paint(f"({mark})", YELLOW) for mark in _marks(memory)),
    )
    return "  ".join(part for part in parts if part).rstrip()


def shown_project(memory: Memory) -> str:
    """The project of a memory; "" if it is shared."""
    project = memory["metadata"].get("project")
    return clean(project) if isinstance(project, str) else ""


def _marks(memory: Memory) -> list[str]:
    metadata = memory["metadata"]
    is_deprecated = memory.get("deprecated") or "deprecated_at" in metadata
    found = {"deprecated": is_deprecated, "needs review": metadata.get("needs_review") is True}
    return [mark for mark, holds in found.items() if holds]


def excerpt(text: str) -> list[str]:
    """The first lines that are not blank, cut to the width of the terminal."""
    width = max(terminal_width() - len(INDENT), 20)
    lines = [line.strip() for line in clean(text).splitlines() if line.strip()]
    cut = [line if len(line) <= width else line[: width - 1] + "…" for line in lines]
    return cut[:SHOWN_LINES] if len(cut) <= SHOWN_LINES else [*cut[: SHOWN_LINES - 1], "…"]


def _facts(memory: Memory) -> dict[str, str]:
    found = {
        "id": memory["id"],
        "name": memory.get("name"),
        "type": memory["type"],
        "created": moment(memory["created_at"]),
        "updated": moment(memory["updated_at"]) if "updated_at" in memory else None,
        "expires": moment(memory["expires_at"]) if memory["expires_at"] else "never",
        "session": memory.get("session_id"),
    }
    # With a prefix and on one line: metadata must not look like a field of the memory.
    found |= {f"metadata.{key}": _one_line(value) for key, value in memory["metadata"].items()}
    return {clean(key): clean(value) for key, value in found.items() if value is not None}
