"""The verb `ask`: a question, the answer, and its sources."""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import textwrap
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from memoryd.cli.memories import INDENT, excerpt, notes
from memoryd.cli.options import selection
from memoryd.cli.output import BOLD, DIM, age, clean, paint, say, say_json
from memoryd.cli.target import where
from memoryd.client.insight import Answer, Citation, InsightClient

TIMEOUT = 600.0  # seconds: a language model may take its time
WIDEST = 100  # columns of the answer
CITED = re.compile(r"\[\d+\]")


def ask(options: argparse.Namespace) -> int:
    """Answer a question; the exit code is 0 whether memory knows or not."""
    found = asyncio.run(_ask(options))
    if options.json:
        say_json(found)
        return 0
    notes(found["warnings"])
    for line in _wrapped(clean(found["answer"])):
        say(CITED.sub(lambda cited: paint(cited[0], DIM), line))
    if found["known"]:
        say()
        _sources(found["citations"])
    elif closest := found.get("closest"):
        say()
        say("The closest memories:")
        _sources(closest)
    return 0


async def _ask(options: argparse.Namespace) -> Answer:
    given: dict[str, Any] = selection(options)
    if options.limit is not None:
        given["limit"] = options.limit
    if options.extract:
        given["written"] = False
    async with InsightClient(**where(options), start=True, timeout=TIMEOUT) as daemon:
        return await daemon.ask(" ".join(options.question), **given)


def _wrapped(text: str) -> Iterable[str]:
    width = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
    for line in text.splitlines() or [""]:
        yield from textwrap.wrap(line, max(width, 20), break_on_hyphens=False) or [""]


def _sources(citations: Iterable[Citation]) -> None:
    now = datetime.now(UTC)
    for one in citations:
        number = f"[{one['number']}]" if one["number"] else " - "
        facts = (
            paint(number, BOLD),
            f"{one['score']:.2f}",
            clean(one["kind"] or one["type"]),
            age(one, now),
            paint(one["memory_id"], DIM),
            f"[{clean(one['project'])}]" if one["project"] else "",
            clean(one["name"] or one["who"] or ""),
        )
        say("  ".join(fact for fact in facts if fact))
        for line in excerpt(one["passage"]):
            say(INDENT + line)
