"""Output of the command line: plain, aligned, coloured only for a terminal."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from memoryd.amounts import counted as counted
from memoryd.amounts import size as size
from memoryd.errors import MemorydError
from memoryd.sanitize import visible

BOLD, DIM, RED = "1", "2", "31"
UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


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
    sys.stderr.write(f"Error: {clean(exc.message)}\n")
    if exc.hint:
        sys.stderr.write(f"Try: {clean(exc.hint.removeprefix('Run: '))}\n")


def error_facts(exc: MemorydError) -> dict[str, str]:
    """An error as a JSON object."""
    return {"code": exc.code, "message": exc.message, "hint": exc.hint.removeprefix("Run: ")}


def paint(text: str, style: str) -> str:
    """Text in a style, if stdout is a terminal with colours."""
    plain = not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return text if plain else f"\x1b[{style}m{text}\x1b[0m"


def clean(text: str) -> str:
    """Text without control and hidden characters: a memory must not control the terminal or
    deceive its reader."""
    return visible(text)


def rows(facts: Mapping[str, str]) -> Iterable[str]:
    """Names and values, aligned."""
    width = max(map(len, facts), default=0)
    return (f"  {paint(name.ljust(width), DIM)}  {value}" for name, value in facts.items())


def span(seconds: float) -> str:
    """A length of time in its largest unit: `3 min`."""
    for length, unit in UNITS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "0 s"


def long_span(seconds: float) -> str:
    """The same in its two largest units: `3 h 12 min`."""
    units = [length for length, _ in UNITS if length <= seconds]
    rest = seconds % units[0] if units else 0
    return f"{span(seconds)} {span(rest)}" if rest >= 1 else span(seconds)


def age(memory: Mapping[str, Any], now: datetime) -> str:
    """How long ago a memory was created."""
    return f"{span((now - datetime.fromisoformat(memory['created_at'])).total_seconds())} ago"


def remaining(memory: Mapping[str, Any], now: datetime) -> str:
    """How long it will be kept."""
    if memory["expires_at"] is None:
        return "kept"
    return f"{span((datetime.fromisoformat(memory['expires_at']) - now).total_seconds())} left"


def moment(text: str) -> str:
    """An ISO 8601 time in the local zone: `2026-01-31 14:05`."""
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")
