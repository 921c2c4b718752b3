"""Output of the command line: coloured, with relative times on a terminal; plain and exact in a
pipe, where a program reads it."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

from memoryd.amounts import counted as counted
from memoryd.amounts import size as size
from memoryd.errors import MemorydError
from memoryd.sanitize import visible

BOLD, DIM, RED, GREEN, YELLOW, BLUE, CYAN = "1", "2", "31", "32", "33", "34", "36"
RESET = "\x1b[0m"
TYPE_STYLES = {"fact": GREEN, "conversation": BLUE, "context": YELLOW}
UNITS = ((86_400, "day"), (3600, "h"), (60, "min"), (1, "s"))
PIPE_WIDTH = 100  # columns of an excerpt where there is no terminal


def use_any_terminal() -> None:
    """Print `?` for characters that the terminal cannot encode, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def say(text: str = "") -> None:
    """Write text and a newline to stdout."""
    sys.stdout.write(text + "\n")


def say_json(answer: object) -> None:
    """Write a value as one line of JSON to stdout."""
    say(json.dumps(answer))


def note(text: str) -> None:
    """Write to stderr what is worth knowing but not part of the answer."""
    sys.stderr.write(f"Note: {clean(text)}\n")


def complain(exc: MemorydError, *, as_json: bool = False) -> None:
    """Write an error and its hint to stderr. With `as_json` to stdout: a program that reads JSON
    there gets JSON in any case."""
    if as_json:
        say_json({"error": error_facts(exc)})
        return
    sys.stdout.flush()
    sys.stderr.write(f"{paint('Error:', RED, sys.stderr)} {clean(exc.message)}\n")
    if exc.hint:
        hint = clean(exc.hint.removeprefix("Run: "))
        sys.stderr.write(f"{paint('Try:', BOLD, sys.stderr)} {hint}\n")


def error_facts(exc: MemorydError) -> dict[str, str]:
    """An error as a JSON object."""
    return {"code": exc.code, "message": exc.message, "hint": exc.hint.removeprefix("Run: ")}


def paint(text: str, style: str, stream: TextIO | None = None) -> str:
    """Text in a style, if the stream (stdout without one) is a terminal with colours."""
    return f"\x1b[{style}m{text}{RESET}" if has_colours(stream) else text


def has_colours(stream: TextIO | None = None) -> bool:
    """Whether a stream is a terminal with colours, and nobody set NO_COLOR to a text."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return (stream or sys.stdout).isatty()


def is_terminal() -> bool:
    """Whether a person reads stdout."""
    return sys.stdout.isatty()


def terminal_width() -> int:
    """Columns of the terminal; of a pipe PIPE_WIDTH."""
    return shutil.get_terminal_size((PIPE_WIDTH, 24)).columns


def say_fitted(text: str) -> None:
    """Write a line; on a terminal it is cut to the width, so that it stays one line."""
    say(fitted(text, terminal_width()) if is_terminal() else text)


def fitted(text: str, width: int) -> str:
    """Painted text of at most so many visible characters."""
    parts = re.split("(\x1b\\[[0-9;]*m)", text)  # every second one is a style
    if sum(map(len, parts[::2])) <= width:
        return text
    left, shown = width - 1, []
    for place, part in enumerate(parts):
        is_style = place % 2 == 1
        shown.append(part if is_style else part[:left])
        left -= 0 if is_style else len(shown[-1])
        if left <= 0 and not is_style:
            break
    return "".join(shown) + "…" + (RESET if len(parts) > 1 else "")


def clean(text: str) -> str:
    """Text without control and hidden characters: a memory must not control the terminal or
    deceive its reader."""
    return visible(text)


def rows(facts: Mapping[str, str]) -> Iterable[str]:
    """Names and values, aligned."""
    width = max(map(len, facts), default=0)
    return (f"  {paint(name.ljust(width), DIM)}  {value}" for name, value in facts.items())


def span(seconds: float) -> str:
    """A length of time in its largest unit: `3 min`, `2 days`."""
    for length, unit in UNITS:
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if unit == 'day' and count > 1 else ''}"
    return "0 s"


def long_span(seconds: float) -> str:
    """The same in its two largest units: `3 h 12 min`."""
    units = [length for length, _ in UNITS if length <= seconds]
    rest = seconds % units[0] if units else 0
    return f"{span(seconds)} {span(rest)}" if rest >= 1 else span(seconds)


def relative(text: str, now: datetime) -> str:
    """How far a time is from now: `3 h ago`, `in 2 days`."""
    seconds = (datetime.fromisoformat(text) - now).total_seconds()
    return f"in {span(seconds)}" if seconds > 0 else f"{span(-seconds)} ago"


def when(text: str, now: datetime) -> str:
    """A time for a line: relative on a terminal, exact in a pipe."""
    return relative(text, now) if is_terminal() else exact(text)


def age(memory: Mapping[str, Any], now: datetime) -> str:
    """When a memory was created."""
    return when(memory["created_at"], now)


def remaining(memory: Mapping[str, Any], now: datetime) -> str:
    """Until when it will be kept."""
    end = memory["expires_at"]
    return "kept" if end is None else f"expires {when(end, now)}"


def moment(text: str) -> str:
    """An ISO 8601 time in the local zone: `2026-01-31 14:05 (3 h ago)`, exact in a pipe."""
    if not is_terminal():
        return exact(text)
    return f"{minute(text)} ({relative(text, datetime.now(UTC))})"


def minute(text: str) -> str:
    """An ISO 8601 time in the local zone, to the minute: `2026-01-31 14:05`."""
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")


def exact(text: str) -> str:
    """An ISO 8601 time in the local zone, to the second: `2026-01-31T14:05:09+01:00`."""
    return datetime.fromisoformat(text).astimezone().isoformat(timespec="seconds")
