"""The verbs that list and change memories: list, chain, update, pin and unpin."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from memoryd.cli.memories import INDENT, connect, excerpt, heading, kept_until, notes, stdin_text
from memoryd.cli.options import selection
from memoryd.cli.output import complain, counted, error_facts, say, say_fitted, say_json
from memoryd.client.types import Chain, Listed, Memory, Updated, UpdateOptions
from memoryd.errors import NotFound


def list_memories(options: argparse.Namespace) -> int:
    """Show the memories that match, in an order, one page at a time."""
    page = asyncio.run(_list(options))
    if options.json:
        say_json(page)
        return 0
    _show(page["memories"])
    shown, total = len(page["memories"]), page["total"]
    say(f"{shown} of {counted(total)}." if shown < total else f"{counted(total).capitalize()}.")
    if page["cursor"]:
        say(f"For more, repeat this with --cursor {page['cursor']}")
    return 0


def chain(options: argparse.Namespace) -> int:
    """Show the memories that supersede each other, oldest first."""
    found = asyncio.run(_chain(options))
    if options.json:
        say_json(found)
    else:
        _show(found["memories"])
    return 0


def _show(memories: Iterable[Memory]) -> None:
    now = datetime.now(UTC)
    for memory in memories:
        say_fitted(heading(memory, now))
        for line in excerpt(memory["content"]):
            say(INDENT + line)


def update(options: argparse.Namespace) -> int:
    """Change what is given; say whether anything changed."""
    content = stdin_text() if options.content == "-" else options.content
    change: UpdateOptions = {
        "content": content,
        "memory_type": options.type,
        "name": options.name,
        "metadata": dict(options.metadata) if options.metadata is not None else None,
        "replace_metadata": options.replace_metadata,
        "pinned": options.pinned,
        "expires_at": options.expires_at,
        "clear": options.clear,
        "audience": options.audience,
    }
    if options.replace_metadata and change["metadata"] is None:
        change["metadata"] = {}
    return asyncio.run(_update_each(options, [options.memory], change))


def pin(options: argparse.Namespace) -> int:
    """Keep memories for ever; exit code 1 if one was not found."""
    return asyncio.run(_update_each(options, options.memories, {"pinned": True}))


def unpin(options: argparse.Namespace) -> int:
    """Let memories expire as their type says; exit code 1 if one was not found."""
    return asyncio.run(_update_each(options, options.memories, {"pinned": False}))


async def _list(options: argparse.Namespace) -> Listed:
    chosen: Any = selection(options)
    async with connect(options) as memory:
        return await memory.list_memories(
            **chosen, order=options.order, limit=options.limit, cursor=options.cursor
        )


async def _chain(options: argparse.Namespace) -> Chain:
    async with connect(options) as memory:
        return await memory.chain(options.memory)


async def _update_each(
    options: argparse.Namespace, memories: Iterable[str], change: UpdateOptions
) -> int:
    code = 0
    async with connect(options) as daemon:
        for wanted in memories:
            try:
                updated = await daemon.update_memory(wanted, **change)
            except NotFound as exc:
                code = 1
                say_json({"error": error_facts(exc)}) if options.json else complain(exc)
            else:
                tell_update(updated, as_json=options.json)
    return code


def tell_update(updated: Updated, *, as_json: bool) -> None:
    """Say what an update did."""
    if as_json:
        say_json(updated)
        return
    notes(updated["warnings"])
    how = "Updated" if updated["changed"] else "Unchanged:"
    say(f"{how} {updated['type']} {updated['id']}, {kept_until(updated)}")
