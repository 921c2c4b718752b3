"""The store worker's events for the daemon's log.

The worker has no log of its own: its events travel over the pipe between the answers, and the
daemon writes them. They hold names, numbers, types and places in the code, never memory text. Not
structlog, which the daemon uses: importing it would make every start of a worker slower.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

Level = Literal["info", "warning", "error"]
Fact = str | int | float | list[str]


@dataclass(frozen=True, slots=True)
class Event:
    """One event on its way to the daemon's log."""

    level: Level
    name: str
    facts: Mapping[str, Fact]


Send = Callable[[Event], None]
_send: Send = lambda event: None  # noqa: E731 (a store that is used without a worker logs nothing)


def send_events(send: Send) -> None:
    """Pass every event to `send` from now on, also one for each warning of a library: its logger's
    name, not its message, which may contain memory text."""
    global _send
    _send = send
    root = logging.getLogger()
    root.handlers[:] = [_LibraryWarnings()]
    root.setLevel(logging.WARNING)


def send_event(level: Level, name: str, **facts: Fact) -> None:
    _send(Event(level, name, facts))


def send_failure(name: str, exc: BaseException) -> None:
    """Send the type of a foreign exception and where it was raised."""
    frames = traceback.extract_tb(exc.__traceback__)
    trace = [f"{frame.filename}:{frame.lineno}" for frame in frames]
    send_event("error", name, error=type(exc).__name__, trace=trace)


@contextmanager
def stage(name: str) -> Iterator[dict[str, Fact]]:
    """Send how long the block, a stage of the start, takes. What the block puts into the dictionary
    is sent with it."""
    facts: dict[str, Fact] = {}
    began = time.perf_counter()
    try:
        yield facts
    except BaseException as exc:
        facts["error"] = type(exc).__name__
        raise
    finally:
        send_event("info", "stage", stage=name, ms=milliseconds(began), **facts)


def milliseconds(began: float) -> float:
    """Since `began`, by `time.perf_counter`."""
    return round(1000 * (time.perf_counter() - began), 1)


class _LibraryWarnings(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        send_event("warning", "library", logger=record.name, level_of=record.levelname)
