"""A model on a server may fail for a while, and no call should find that out by waiting.

After the first failure every call gets the error at once. Meanwhile the model is tried in the
background, less and less often, until it answers. Letting a call through now and then was rejected:
that call would wait for the whole timeout, and nothing would be tried while nobody calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import anyio
import anyio.to_thread
import structlog

from memoryd.errors import ModelUnavailable

log = structlog.get_logger()
FIRST, LONGEST = 1.0, 60.0  # seconds until the first attempt, and between two at most
CALM = 60.0  # seconds: a failure sooner after the last one goes on with its pauses


def backoff(first: float, longest: float) -> Iterator[float]:
    """Pauses between attempts, each twice as long as the one before."""
    while True:
        yield min(first, longest)
        first = min(2 * first, longest)


class Outage:
    """Whether one model fails at present. `error`: how; None while it works."""

    def __init__(self, model: str, on_end: Callable[[], None] = lambda: None) -> None:
        self._model = model  # its name in the log
        self._on_end = on_end
        self._began = anyio.Event()
        self.error: ModelUnavailable | None = None

    def check(self) -> None:
        """Raise the error if the model fails at present."""
        if self.error is not None:
            raise ModelUnavailable(self.error.message, code=self.error.code, hint=self.error.hint)

    def begin(self, error: ModelUnavailable) -> None:
        """The model failed with this error."""
        if self.error is None:
            log.warning("model_lost", model=self._model, error=error.message)
            self._began.set()
        self.error = error

    async def watch(self, probe: Callable[[], object]) -> None:
        """After each failure, call `probe` on a thread until it succeeds. Runs until cancelled."""
        pauses, ended_at = backoff(FIRST, LONGEST), -math.inf
        while True:
            await self._began.wait()
            if anyio.current_time() - ended_at > CALM:
                pauses = backoff(FIRST, LONGEST)
            while self.error is not None:
                await anyio.sleep(next(pauses))
                await self._try(probe)
            ended_at = anyio.current_time()

    async def _try(self, probe: Callable[[], object]) -> None:
        try:
            await anyio.to_thread.run_sync(probe, abandon_on_cancel=True)
        except Exception as exc:  # whatever it is, the model does not work yet
            if isinstance(exc, ModelUnavailable):
                self.error = exc
            return
        log.info("model_returned", model=self._model)
        self.error, self._began = None, anyio.Event()
        self._on_end()
