"""`memoryd top`: calls, latencies and sessions as they happen.

In a pipe it prints one snapshot. What was asked is not shown, because the daemon does not keep it;
texts of memories only with --text.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from memoryd.cli.output import (
    BOLD,
    DIM,
    clean,
    counted,
    long_span,
    paint,
    say,
    say_json,
    size,
    when,
)
from memoryd.cli.screen.keys import END, Keys, can_read_keys
from memoryd.cli.screen.view import Section, View
from memoryd.cli.target import where
from memoryd.client.owner import OwnerClient, RecentCall, RecentCalls
from memoryd.client.types import Status
from memoryd.errors import MemorydError

CALLS = 20  # that are shown
OK = "ok"
QUIT = ("q", "Q", "\x1b", END)


class Snapshot(NamedTuple):
    """What the daemon says at one moment."""

    taken: float  # monotonic seconds
    status: Status
    recent: RecentCalls

    @property
    def total(self) -> int:
        """All calls since the start, without those of who watches."""
        return max((call["number"] for call in self.recent["calls"]), default=0)


def top(options: argparse.Namespace) -> int:
    """Watch until q is pressed; with --once, --json or in a pipe, show one snapshot."""
    if options.once or options.json or not can_read_keys():
        snapshot = asyncio.run(_once(options))
        if options.json:
            say_json({"status": snapshot.status, **snapshot.recent})
        else:
            _print(view(snapshot, None))
        return 0
    try:
        asyncio.run(_watch(options))
    except KeyboardInterrupt:
        pass  # the usual way to leave a live view
    return 0


def connect(options: argparse.Namespace) -> OwnerClient:
    """The daemon that runs; who watches starts none."""
    return OwnerClient(**where(options), timeout=15.0)


async def _once(options: argparse.Namespace) -> Snapshot:
    async with connect(options) as daemon:
        return await _snapshot(daemon, options)


async def _snapshot(daemon: OwnerClient, options: argparse.Namespace) -> Snapshot:
    status = await daemon.status()
    recent = await daemon.recent_calls(CALLS, texts=options.text)
    return Snapshot(time.monotonic(), status, recent)


async def _watch(options: argparse.Namespace) -> None:
    from memoryd.cli.screen.live import screen

    before: Snapshot | None = None
    async with connect(options) as daemon:
        with Keys() as keys, screen() as drawn:
            while True:
                try:
                    now = await _snapshot(daemon, options)
                except MemorydError as exc:  # it restarts, perhaps
                    drawn.show(View([clean(exc.message)], (), "q quits; trying again"))
                else:
                    drawn.show(view(now, before))
                    before = now
                if await keys.next(options.interval) in QUIT:
                    return


def view(now: Snapshot, before: Snapshot | None) -> View:
    """A snapshot as lines and tables; with the one before, the rate of calls."""
    status, sessions = now.status, now.recent["total_sessions"]
    memories = status.get("memories", {})
    types = ", ".join(f"{count} {type}" for type, count in memories.items())
    ram, uptime = size(status["resident_bytes"]), long_span(status["uptime_seconds"])
    head = [
        f"memoryd {status['version']}  {status['health']}  up {uptime}",
        f"{counted(sum(memories.values()))} ({types}), {sessions} sessions, {ram} RAM, "
        f"{_rate(now, before)}",
    ]
    return View(head, [section for section in _sections(now) if section.rows], "q quits")


def _rate(now: Snapshot, before: Snapshot | None) -> str:
    if before is None:
        return f"{now.total} calls"
    seconds = max(now.taken - before.taken, 0.001)
    return f"{now.total} calls, {max(now.total - before.total, 0) / seconds:.1f}/s"


def _sections(now: Snapshot) -> Iterator[Section]:
    clock, recent = datetime.now(UTC), now.recent
    tools = [
        (
            tool,
            str(figures["calls"]),
            str(figures["errors"] or ""),
            f"{figures['p50_ms']:g}",
            f"{figures['p99_ms']:g}",
        )
        for tool, figures in now.status.get("calls", {}).items()
        if tool != "recent_calls"
    ]
    tools.sort(key=lambda row: -int(row[1]))
    yield Section("Tools", ("tool", "calls>", "failed>", "p50 ms>", "p99 ms>"), tools)
    sessions = [
        (
            clean(one["session_id"]),
            clean(one["identity"] or ""),
            str(one["messages"]),
            "open" if one["open"] else "closed",
            when(one["last_at"], clock) if one["last_at"] else "",
        )
        for one in recent["sessions"]
    ]
    yield Section("Sessions", ("session", "identity", "messages>", "", "last"), sessions)
    rows = [row for call in recent["calls"] for row in _rows(call, recent.get("texts"), clock)]
    yield Section("Latest calls", ("when>", "tool", "ms>", "outcome", "session", "memories"), rows)


def _rows(
    call: RecentCall, texts: dict[str, str] | None, clock: datetime
) -> Iterator[Sequence[str]]:
    """A call; with texts, a row more for each memory that it names."""
    count = call["counts"].get("results", call["counts"].get("memories", len(call["ids"])))
    named = "" if call["outcome"] != OK else _named(call, count)
    yield (
        when(call["at"], clock),
        call["tool"],
        f"{call['ms']:g}",
        call["outcome"],
        clean(call["session_id"] or "")[:20],
        named,
    )
    for id in call["ids"] if texts else ():
        text = " ".join(clean((texts or {}).get(id, "no longer there")).split())
        yield ("", "", "", "", "", f"  {text}")


def _named(call: RecentCall, count: int) -> str:
    if not call["ids"]:
        return f"{count} found" if "results" in call["counts"] else ""
    more = f" and {count - 1} more" if count > 1 else ""
    return f"{clean(call['ids'][0])}{more}"


def _print(found: View) -> None:
    """The view as plain, aligned text."""
    say(paint(found.head[0], BOLD))
    for line in found.head[1:]:
        say(line)
    for section in found.sections:
        say()
        say(paint(section.title, BOLD))
        table = [[name.rstrip(">") for name in section.columns], *map(list, section.rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        right = [name.endswith(">") for name in section.columns]
        for place, row in enumerate(table):
            cells = (
                cell.rjust(width) if is_right else cell.ljust(width)
                for cell, width, is_right in zip(row, widths, right, strict=True)
            )
            line = "  ".join(cells).rstrip()
            say(paint(line, DIM) if place == 0 else line)
