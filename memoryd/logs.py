"""Logging: events with keys, to stderr. stdout is the wire, and memory text is never logged."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

import structlog
from structlog.typing import Processor

from memoryd import files
from memoryd.errors import UnsafeFiles

LOG_BYTES, LOG_FILES = 5_000_000, 3


def log_to_stderr(level: int = logging.INFO) -> None:
    """Call before anything else runs: people's colours on a terminal, JSON otherwise."""
    on_terminal = sys.stderr.isatty()
    render = structlog.dev.ConsoleRenderer() if on_terminal else structlog.processors.JSONRenderer()
    _configure(render, structlog.PrintLoggerFactory(sys.stderr), level)
    _foreign()


def log_to_file(path: Path, level: int = logging.INFO) -> None:
    """The same as JSON into a file that only its owner reads, and that does not only grow.
    UnsafeFiles if it cannot be such a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handler = _LogFile(path, maxBytes=LOG_BYTES, backupCount=LOG_FILES)
    except OSError as exc:
        raise UnsafeFiles(
            f"The log {path} cannot be written: {exc.strerror}.",
            code="log_unwritable",
            hint="Look at what lies there and remove it, or choose another --log-file.",
        ) from exc
    own = logging.Logger("memoryd", level)
    own.addHandler(handler)
    _configure(structlog.processors.JSONRenderer(), lambda *names: own, level)
    _foreign()


class _LogFile(RotatingFileHandler):
    """A log that is opened only if it is a file of ours, also after each rotation."""

    def _open(self) -> io.TextIOWrapper:
        handle = files.open_file(Path(self.baseFilename), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        return io.TextIOWrapper(os.fdopen(handle, "ab"), encoding="utf-8", errors="replace")


def _configure(render: Processor, factory: Callable[..., Any], level: int) -> None:
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=False),
            structlog.processors.format_exc_info,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=factory,
        cache_logger_on_first_use=False,
    )


def _foreign() -> None:
    """Libraries log through the standard logger, and may log what they were sent: warnings
    only, and of these the name of the logger and no message."""
    root = logging.getLogger()
    root.handlers[:] = [_NoText()]
    root.setLevel(logging.WARNING)


class _NoText(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        structlog.get_logger().warning("library", logger=record.name, level_of=record.levelname)
