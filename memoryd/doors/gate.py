"""The engine as the doors see it: listening begins before it is open.

A call that comes early waits for it, up to a bound below every client's patience, and then
says what is missing instead of leaving the client to guess.
"""

from __future__ import annotations

import anyio

from memoryd.engine.engine import Engine
from memoryd.errors import MemorydError
from memoryd.ports import Progress

PATIENCE = 20.0  # clients give a call about 60 seconds


class Warming(MemorydError):
    """The daemon is up but the memories are not open yet."""

    code = "warming"
    hint = "Try again in a few seconds."


class Gate:
    """Opened once, when the engine is there."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._opened = anyio.Event()
        self._engine: Engine | None = None
        self.stage = "starting"
        self.progress: Progress | None = None  # of what takes its time, now or later

    def watch(self, so_far: Progress | None) -> None:
        """Be told how far an opening or a repair is."""
        self.progress = so_far

    def open(self, engine: Engine) -> None:
        self._engine, self.stage = engine, "ready"
        self._opened.set()

    @property
    def now(self) -> Engine | None:
        """The engine if it is open."""
        return self._engine

    async def engine(self) -> Engine:
        """The engine, waited for; Warming if that takes too long."""
        with anyio.move_on_after(self._patience):
            await self._opened.wait()
        if self._engine is None:
            now = self.progress.what if self.progress else self.stage
            raise Warming(f"The memories are not open yet ({now}).")
        return self._engine
