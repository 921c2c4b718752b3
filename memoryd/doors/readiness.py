"""The engine as the doors see it: listening begins before it is open, and goes on if it cannot be
opened.

A call that comes early waits for it, up to a bound below every client's patience, and then
says what is missing instead of leaving the client to guess. A call that comes after the opening
failed gets the reason, and has it tried again: the cause may be gone by now.
"""

from __future__ import annotations

import time

import anyio

from memoryd.engine.engine import Engine
from memoryd.errors import MemorydError
from memoryd.ports import Progress

PATIENCE = 20.0  # clients give a call about 60 seconds
AGAIN = 2.0  # seconds after a failed opening until a call may cause the next


class Warming(MemorydError):
    """The daemon is up but the memories are not open yet."""

    code = "warming"
    hint = "Try again in a few seconds."


class Readiness:
    """Opened when the engine is there; knows why if it cannot be."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._settled = anyio.Event()  # opened, or failed
        self._wanted = anyio.Event()  # after a failure: somebody calls
        self._engine: Engine | None = None
        self._began = time.monotonic()
        self._retry_at = 0.0
        self.stage = "starting"
        self.error: MemorydError | None = None  # why the last opening failed
        self._progress: Progress | None = None
        self._progress_since = 0.0

    def watch(self, so_far: Progress | None) -> None:
        """Be told how far an opening or a repair is."""
        if so_far is None or self._progress is None or so_far.what != self._progress.what:
            self._progress_since = time.monotonic()
        self._progress = so_far

    @property
    def progress(self) -> tuple[Progress, float] | None:
        """What takes its time, now or later, and for how many seconds it has."""
        if self._progress is None:
            return None
        return self._progress, time.monotonic() - self._progress_since

    def open(self, engine: Engine) -> None:
        self._engine, self.error, self.stage = engine, None, "ready"
        self._settled.set()

    def fail(self, error: MemorydError) -> None:
        """It cannot be opened: calls get this error."""
        now = time.monotonic()
        # At most half of the time is spent on a store that stays broken.
        self._retry_at = now + max(AGAIN, now - self._began)
        self.error, self.stage = error, "failed"
        self._wanted = anyio.Event()
        self._settled.set()

    async def wanted(self) -> None:
        """After a failure: wait until the next opening is worth a try."""
        await self._wanted.wait()
        self._began = time.monotonic()

    @property
    def now(self) -> Engine | None:
        """The engine if it is open."""
        return self._engine

    async def engine(self) -> Engine:
        """The engine, waited for; Warming if that takes too long, or why it cannot be opened."""
        if self.error is not None and self._engine is None and time.monotonic() >= self._retry_at:
            self.error, self.stage = None, "starting"
            self._settled = anyio.Event()
            self._wanted.set()
        with anyio.move_on_after(self._patience):
            await self._settled.wait()
        if self._engine is not None:
            return self._engine
        if self.error is not None:
            raise type(self.error)(self.error.message, code=self.error.code, hint=self.error.hint)
        now = self._progress.what if self._progress else self.stage
        raise Warming(f"The memories are not open yet ({now}).")
