"""Logging: events with keys, to stderr or a file. stdout is for the protocol; memory text is never
logged."""

from __future__ import annotations

import io
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path

import structlog
from structlog.typing import Processor

from memoryd import files
from memoryd.errors import MemorydError, UnsafeFiles
from memoryd.settings import LogSettings


def log_to_stderr(settings: LogSettings) -> None:
    """Log to stderr, with colours on a terminal, else as JSON. Call before anything else runs."""
    on_terminal = sys.stderr.isatty()
    render = structlog.dev.ConsoleRenderer() if on_terminal else structlog.processors.JSONRenderer()
    _configure(logging.StreamHandler(sys.stderr), render, settings)


def log_to_file(path: Path, settings: LogSettings) -> None:
    """Log as JSON to a private file that is rotated. UnsafeFiles if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handler = RotatingLog(path, maxBytes=settings.max_bytes, backupCount=settings.keep)
    except OSError as exc:
        raise UnsafeFiles(
            f"The log {path} cannot be written: {exc.strerror}.",
            code="log_unwritable",
            hint="Check what is at that path and remove it, or choose another --log-file.",
        ) from exc
    _configure(handler, structlog.processors.JSONRenderer(), settings)


@contextmanager
def stage(name: str) -> Iterator[dict[str, object]]:
    """Log how long the block, a stage of the start, takes. What the block puts into the dictionary
    is logged with it."""
    facts: dict[str, object] = {}
    started = time.perf_counter()
    try:
        yield facts
    except BaseException as exc:
        facts["error"] = exc.code if isinstance(exc, MemorydError) else type(exc).__name__
        raise
    finally:
        log_stage(name, time.perf_counter() - started, **facts)


def log_stage(name: str, seconds: float, **facts: object) -> None:
    """Log a stage of the start that was measured elsewhere."""
    structlog.get_logger().info("stage", stage=name, ms=round(1000 * seconds, 1), **facts)


class RotatingLog(RotatingFileHandler):
    """Opens the log safely (see `files`), also after each rotation."""

    def _open(self) -> io.TextIOWrapper:
        handle = files.open_file(Path(self.baseFilename), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        return io.TextIOWrapper(os.fdopen(handle, "ab"), encoding="utf-8", errors="replace")


def _configure(handler: logging.Handler, render: Processor, settings: LogSettings) -> None:
    """Through a handler of the standard library, which never raises: a full disk or a terminal that
    is gone must not fail a call."""
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    own = logging.Logger("memoryd", level)
    own.addHandler(handler)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=False),
            structlog.processors.format_exc_info,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *names: own,
        cache_logger_on_first_use=False,
    )
    _quiet_libraries()


def _quiet_libraries() -> None:
    """Libraries use the standard logger, and their messages may contain memory text. So log only
    their warnings, and of these only the name of the logger."""
    root = logging.getLogger()
    root.handlers[:] = [_NamesOnly()]
    root.setLevel(logging.WARNING)


class _NamesOnly(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger().warning("library", logger=record.name, level_of=record.levelname)
