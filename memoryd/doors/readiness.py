"""Whether the engine is open: the doors listen before it is, and also if it cannot be opened.

A call that comes early waits, for less than the usual timeout of a client, and then gets an error
that says what is missing. A call that comes after a failed opening gets the reason, and triggers
another attempt, because the cause may be gone.
"""

from __future__ import annotations

import time

import anyio

from memoryd.engine.engine import Engine
from memoryd.errors import MemorydError
from memoryd.ports import Progress

MAX_WAIT = 20.0  # seconds; the usual timeout of a client is 60
RETRY_AFTER = 2.0  # seconds after a failed opening until a call may trigger the next


class Warming(MemorydError):
    """The daemon listens, but the memories are not open yet."""

    code = "warming"
    hint = "Try again in a few seconds."


class Readiness:
    """Hands the engine to the doors once it is open, or the reason why it is not."""

    def __init__(self, max_wait: float = MAX_WAIT) -> None:
        self._max_wait = max_wait
        self._settled = anyio.Event()  # opened, or failed
        self._retry_wanted = anyio.Event()  # a call came after a failure
        self._engine: Engine | None = None
        self._opening_since = time.monotonic()
        self._retry_at = 0.0
        self.stage = "starting"
        self.error: MemorydError | None = None  # why the last opening failed
        self._progress: Progress | None = None
        self._progress_since = 0.0

    def watch(self, so_far: Progress | None) -> None:
        """Take the progress of an opening or a repair; None: it has ended."""
        if so_far is None or self._progress is None or so_far.what != self._progress.what:
            self._progress_since = time.monotonic()
        self._progress = so_far

    @property
    def progress(self) -> tuple[Progress, float] | None:
        """The progress of a long task and its seconds so far; None if there is none."""
        if self._progress is None:
            return None
        return self._progress, time.monotonic() - self._progress_since

    def open(self, engine: Engine) -> None:
        self._engine, self.error, self.stage = engine, None, "ready"
        self._settled.set()

    def close(self, stage: str) -> None:
        """The engine is closed for a while: calls wait for the next one. `stage` says why."""
        self._engine, self.stage = None, stage
        self._settled = anyio.Event()

    def fail(self, error: MemorydError) -> None:
        """Answer calls with this error: the engine cannot be opened."""
        now = time.monotonic()
        # At most half of the time goes into opening a store that stays broken.
        self._retry_at = now + max(RETRY_AFTER, now - self._opening_since)
        self.error, self.stage = error, "failed"
        self._retry_wanted = anyio.Event()
        self._settled.set()

    async def retry_wanted(self) -> None:
        """After a failure: wait until a call triggers the next attempt."""
        await self._retry_wanted.wait()
        self._opening_since = time.monotonic()

    @property
    def opened(self) -> Engine | None:
        """The engine; None if it is not open."""
        return self._engine

    async def engine(self) -> Engine:
        """Wait for the engine. Raises Warming after `max_wait`, or why it cannot be opened."""
        if self.error is not None and self._engine is None and time.monotonic() >= self._retry_at:
            self.error, self.stage = None, "starting"
            self._settled = anyio.Event()
            self._retry_wanted.set()
        with anyio.move_on_after(self._max_wait):
            await self._settled.wait()
        if self._engine is not None:
            return self._engine
        if self.error is not None:
            raise type(self.error)(self.error.message, code=self.error.code, hint=self.error.hint)
        now = self._progress.what if self._progress else self.stage
        raise Warming(f"The memories are not open yet ({now}).")
