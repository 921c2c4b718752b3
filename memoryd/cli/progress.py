"""A progress bar on stderr; nothing if stderr is not a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

WIDTH = 30
REDRAW_INTERVAL = 0.1  # seconds


class Progress:
    """`with Progress("Exporting", 1200) as progress: progress.at(40)`"""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = max(total, 1)
        self._shown = sys.stderr.isatty()
        self._drawn = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def at(self, count: int) -> None:
        """Set how many are done; draws at most once per REDRAW_INTERVAL."""
        now = time.monotonic()
        if not self._shown or now - self._drawn < REDRAW_INTERVAL:
            return
        self._drawn = now
        part = min(count / self._total, 1.0)
        bar = "#" * round(part * WIDTH)
        text = f"\r{self._what} [{bar:<{WIDTH}}] {count}/{self._total} {part:4.0%}"
        sys.stderr.write(text)
        sys.stderr.flush()
