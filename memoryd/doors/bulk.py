"""Owner operations on memories that are named one by one: read, tag, set, forget, export them."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from memoryd.doors import render
from memoryd.engine.bulk_change import (
    CHANGED,
    FORGOTTEN,
    MATCHED,
    MISSING,
    REFUSED,
    UNCHANGED,
    BulkOutcome,
)
from memoryd.engine.engine import Engine
from memoryd.errors import InvalidInput
from memoryd.export_file import Header, Writer, fields_of
from memoryd.fair import in_thread
from memoryd.formats import FORMATS, claude_md, markdown
from memoryd.formats.json_file import JsonWriter
from memoryd.model import Memory
from memoryd.recall_text import NOTICE

Arguments = dict[str, Any]
MAX_CHARS = 8_000_000  # of the memories in one export of a selection
FILES = {  # by format: the name of its file, and its media type
    "jsonl": ("memories.jsonl", "application/jsonl"),
    "json": ("memories.json", "application/json"),
    "md": ("memories.md", "text/markdown"),
    "claude-md": ("CLAUDE.md", "text/markdown"),
}


async def _tag_memories(engine: Engine, given: Arguments) -> Arguments:
    return _changed(await engine.bulk.tag(given.pop("memory_ids", None), **given), given)


async def _set_memories(engine: Engine, given: Arguments) -> Arguments:
    return _changed(await engine.bulk.set(given.pop("memory_ids", None), **given), given)


async def _forget_by_ids(engine: Engine, given: Arguments) -> Arguments:
    done = await engine.bulk.forget(given.pop("memory_ids", None), **given)
    found = [one.memory for one in done if one.memory]
    counts = Counter(one.outcome for one in done)
    return {
        "matched": len(found),
        "forgotten": counts[FORGOTTEN],
        MISSING: counts[MISSING],
        "types": dict(Counter(str(memory.type) for memory in found)),
        "outcomes": [_outcome(one) for one in done],
        "dry_run": given.get("dry_run", False),
    }


def _changed(done: Sequence[BulkOutcome], given: Arguments) -> Arguments:
    counts = Counter(one.outcome for one in done)
    return {outcome: counts[outcome] for outcome in (CHANGED, UNCHANGED, MISSING, REFUSED)} | {
        "outcomes": [_outcome(one) for one in done],
        "dry_run": given.get("dry_run", False),
    }


def _outcome(one: BulkOutcome) -> Arguments:
    error = {"error": render.error(one.error)} if one.error else {}
    return {"id": one.id, "outcome": one.outcome} | error


async def _read_memories(engine: Engine, given: Arguments) -> Arguments:
    """The memories as in a list, in the order of their ids."""
    read = await engine.bulk.read(given.get("memory_ids"))
    return {
        "notice": NOTICE,
        "memories": [render.memory(one.memory, engine.zone) for one in read if one.memory],
        "missing": [one.id for one in read if one.outcome == MISSING],
    }


async def _export_selection(engine: Engine, given: Arguments) -> Arguments:
    """The memories as text in one of the formats of `memoryd export`."""
    format = given.get("format", FORMATS[0])
    if format not in FORMATS:
        raise InvalidInput(
            f"There is no format {str(format)[:50]!r}.",
            code="format_unknown",
            hint=f"Use {', '.join(FORMATS)}.",
        )
    read = await engine.bulk.read(given.get("memory_ids"))
    memories = [one.memory for one in read if one.outcome == MATCHED and one.memory]
    if sum(len(memory.content) for memory in memories) > MAX_CHARS:
        raise InvalidInput(
            f"These memories have more than {MAX_CHARS} characters together.",
            code="selection_too_large",
            hint="Select fewer, or run: memoryd export",
        )
    text, count = await in_thread(_written, format, memories)
    name, media_type = FILES[format]
    return {
        "format": format,
        "file_name": name,
        "media_type": media_type,
        "text": text,
        "memories": count,
        "missing": [one.id for one in read if one.outcome == MISSING],
    }


def _written(format: str, memories: Sequence[Memory]) -> tuple[str, int]:
    """The text, and how many memories are in it. Runs on a thread."""
    found = [fields_of(memory) for memory in memories]
    if format == "claude-md":
        return claude_md.block(found)
    file = io.BytesIO()
    if format == "md":
        count = markdown.write(found, file)
        return file.getvalue().decode(), count
    header = Header(count=len(found))
    writer = Writer(file, header) if format == "jsonl" else JsonWriter(file, header)
    for fields in found:
        writer.memory(fields)
    writer.end()
    return file.getvalue().decode(), writer.count


CALLS: dict[str, Callable[[Engine, Arguments], Awaitable[Arguments]]] = {
    "read_memories": _read_memories,
    "tag_memories": _tag_memories,
    "set_memories": _set_memories,
    "forget_by_ids": _forget_by_ids,
    "export_selection": _export_selection,
}
ARGUMENTS = {
    "read_memories": {"memory_ids"},
    "tag_memories": {"memory_ids", "add", "remove", "dry_run"},
    "set_memories": {
        *("memory_ids", "memory_type", "kind", "project", "pinned", "clear", "dry_run"),
    },
    "forget_by_ids": {"memory_ids", "dry_run"},
    "export_selection": {"memory_ids", "format"},
}
