"""Uncaught exceptions are reported by type and place only: their messages can quote a memory.

By default Python writes them in full to stderr, which for a daemon in the background is a file.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

Tell = Callable[[str, str], None]  # the type's name, and file:line


def tell_only_types(tell: Tell) -> None:
    """Pass type and place of each uncaught exception (on any thread and in finalizers) and of each
    warning to `tell`."""

    def uncaught(
        kind: type[BaseException] | None, exc: object, trace: TracebackType | None
    ) -> None:
        tell(kind.__name__ if kind else "exception", _place(trace))

    def warned(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        tell(category.__name__, f"{filename}:{lineno}")

    sys.excepthook = uncaught
    threading.excepthook = lambda it: uncaught(it.exc_type, it.exc_value, it.exc_traceback)
    sys.unraisablehook = lambda it: uncaught(it.exc_type, it.exc_value, it.exc_traceback)
    warnings.showwarning = warned


def _place(trace: TracebackType | None) -> str:
    """`file:line` where it was raised."""
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
