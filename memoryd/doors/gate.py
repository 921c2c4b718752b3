"""The engine as the doors see it: listening begins before it is open.

A call that comes early waits for it, up to a bound below every client's patience, and then
says what is missing instead of leaving the client to guess.
"""

from __future__ import annotations

import anyio

from memoryd.engine.engine import Engine
from memoryd.errors import MemorydError

PATIENCE = 20.0  # clients give a call about 60 seconds


class Warming(MemorydError):
    """The daemon is up but the memories are not open yet."""

    code = "warming"
    hint = "Try again in a few seconds."


class Gate:
    """Opened once, when the engine is there; or failed for good, with the reason."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._settled = anyio.Event()
        self._engine: Engine | None = None
        self._failure: MemorydError | None = None
        self.stage = "starting"

    def open(self, engine: Engine) -> None:
        self._engine, self.stage = engine, "ready"
        self._settled.set()

    def fail(self, failure: MemorydError) -> None:
        """Every call gets this error from now on."""
        self._failure, self.stage = failure, "failed"
        self._settled.set()

    @property
    def now(self) -> Engine | None:
        """The engine if it is open."""
        return self._engine

    async def engine(self) -> Engine:
        """The engine, waited for; Warming, or why it could not be opened."""
        with anyio.move_on_after(self._patience):
            await self._settled.wait()
        if self._failure is not None:
            raise self._failure
        if self._engine is None:
            raise Warming(f"The memories are not open yet ({self.stage}).")
        return self._engine
