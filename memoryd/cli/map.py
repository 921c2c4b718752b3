"""The verb `map`: what memory is about as a table, or all memories as a drawing."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from memoryd.cli.map_svg import drawing
from memoryd.cli.output import DIM, clean, counted, paint, say, say_json
from memoryd.cli.progress import Progress
from memoryd.cli.target import where
from memoryd.client.insight import InsightClient, MemoryMap
from memoryd.errors import MemorydError

POLL = 0.2  # seconds between two questions for the map
BAR = 24  # columns of the longest bar


def map(options: argparse.Namespace) -> int:
    """Show the groups of memories, or draw them into a file."""
    found = asyncio.run(_made(options))
    if options.svg is not None:
        return _draw(found, options)
    if options.json:
        say_json(found)
        return 0
    if not found["count"]:
        say("There is nothing to draw yet.")
    most = max((label["count"] for label in found["labels"]), default=1)
    for label in sorted(found["labels"], key=lambda label: -label["count"]):
        bar = "\u2588" * max(1, round(BAR * label["count"] / most))
        say(f"{label['count']:>7}  {paint(f'{bar:<{BAR}}', DIM)}  {clean(label['text'])}")
    say(_summary(found))
    return 0


def _summary(found: MemoryMap) -> str:
    groups = len(found["labels"])
    text = (
        f"{counted(found['count']).capitalize()} in {groups} {'group' if groups == 1 else 'groups'}"
    )
    if found["left_out"]:
        text += f"; {found['left_out']} without a vector yet"
    return f"{text}."


def _draw(found: MemoryMap, options: argparse.Namespace) -> int:
    text = drawing(found, options.colour)
    if options.svg == "-":
        say(text)
        return 0
    try:
        Path(options.svg).write_text(text + "\n", encoding="utf-8")
    except OSError as exc:
        raise MemorydError(
            f"{options.svg} cannot be written: {exc.strerror}.", code="file_unwritable"
        ) from exc
    if options.json:
        say_json({"file": options.svg, "count": found["count"], "revision": found["revision"]})
        return 0
    say(f"Drew {counted(found['count'])} into {clean(options.svg)}")
    return 0


async def _made(options: argparse.Namespace) -> MemoryMap:
    """The map of all that was there when this was called."""
    wants_points = options.svg is not None
    async with InsightClient(**where(options), start=True) as daemon:
        found = await daemon.map(points=wants_points, renew=options.renew)
        first = found.get("revision")
        with Progress("Drawing the map", 100) as progress:
            while _is_old(found, first):
                progress.at(round(100 * found.get("progress", 0.0)))
                await asyncio.sleep(POLL)
                found = await daemon.map(points=wants_points)
    return found


def _is_old(found: MemoryMap, first: str | None) -> bool:
    """Whether to wait for a newer one. Only for the next: there may be writes all the time."""
    return found["state"] != "ready" or (found["updating"] and found["revision"] == first)
