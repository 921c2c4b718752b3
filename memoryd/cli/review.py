"""The verb `review`: what needs a review, and a person's judgement of it.

On a terminal the memories come one after the other, and a single key judges each.
"""

from __future__ import annotations

import argparse
import asyncio
from datetime import UTC, datetime

from memoryd.cli.memories import INDENT, connect, excerpt, heading, notes, stdin_text
from memoryd.cli.options import UsageError
from memoryd.cli.output import clean, counted, say, say_fitted, say_json
from memoryd.client.types import Listed, Reviewed

DONE = {
    "confirm": "Confirmed",
    "correct": "Corrected",
    "reject": "Rejected and forgotten:",
    "flag": "Flagged for review:",
}


def review(options: argparse.Namespace) -> int:
    """Judge a memory; without an action, show what needs a review."""
    if options.action is None:
        return _judge_all(options) if _asks(options) else _show(options)
    if options.memory is None:
        raise UsageError("ID_OR_NAME is missing.", hint="Run: memoryd review --help")
    done = asyncio.run(_review(options))
    if options.json:
        say_json(done)
        return 0
    notes(done["warnings"])
    say(f"{DONE[options.action]} {done['id']}")
    return 0


def _asks(options: argparse.Namespace) -> bool:
    """Whether somebody is there to judge with keys."""
    if options.json or options.list or options.cursor:
        return False
    from memoryd.cli.screen.keys import can_read_keys

    return can_read_keys()


def _judge_all(options: argparse.Namespace) -> int:
    from memoryd.cli.review_keys import judge_all

    return asyncio.run(judge_all(options))


def _show(options: argparse.Namespace) -> int:
    page = asyncio.run(_list(options))
    if options.json:
        say_json(page)
        return 0
    now = datetime.now(UTC)
    for memory in page["memories"]:
        say_fitted(heading(memory, now))
        for line in excerpt(memory["content"]):
            say(INDENT + line)
        say(f"{INDENT}Why: {clean(str(memory['metadata'].get('review_reason', 'not said')))}")
    needing = page["total"]
    verb = "needs" if needing == 1 else "need"
    say(f"{counted(needing).capitalize()} {verb} a review." if needing else "Nothing to review.")
    if page["cursor"]:
        say(f"For more, repeat this with --cursor {page['cursor']}")
    return 0


async def _list(options: argparse.Namespace) -> Listed:
    async with connect(options) as memory:
        return await memory.list_memories(
            metadata={"needs_review": True}, limit=options.limit, cursor=options.cursor
        )


async def _review(options: argparse.Namespace) -> Reviewed:
    content = stdin_text() if options.content == "-" else options.content
    async with connect(options) as memory:
        return await memory.review(options.memory, options.action, content, options.reason)
