"""How often: a bucket that fills by the second, and the refusals of a door that is full.

A client that runs wild gets an error that it can read, not silence: its author then knows.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import mcp.types as types

from memoryd.doors import render
from memoryd.errors import MemorydError

RATE_LIMITED, TOO_MANY = -32029, -32030  # of the range that JSON-RPC leaves to servers


class RateLimited(MemorydError):
    """One connection asks for more than its share."""

    code = "rate_limited"
    hint = "Wait a second, or raise doors.max_calls_per_second."

    def __init__(self, message: str, *, hint: str | None = None, retry_after: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after  # seconds


class TooManyConnections(MemorydError):
    """The door has as many connections as it may."""

    code = "too_many_connections"
    hint = "Close some, or raise doors.max_connections."


class Rate:
    """So many in `seconds`, and as many at once after a pause; 0: no limit."""

    def __init__(
        self, most: float, clock: Callable[[], float] = time.monotonic, *, seconds: float = 1.0
    ) -> None:
        self.most = most
        self._fill = most / seconds
        self._clock = clock
        self._left = most
        self._at = clock()

    def allows(self) -> bool:
        """Whether one more may pass now; if so it is counted."""
        if not self.most:
            return True
        now = self._clock()
        self._left = min(self.most, self._left + (now - self._at) * self._fill)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def wait(self) -> float:
        """Seconds until one more may pass, after one may not."""
        return (1 - self._left) / self._fill if self._fill else 0.0


def too_fast(most: float) -> RateLimited:
    return RateLimited(f"More than {most:g} calls a second; this one was not made.")


def too_many(most: int) -> TooManyConnections:
    return TooManyConnections(f"There are {most} connections already; this one is closed.")


def refusal(number: int, exc: MemorydError, id: str | int | None = None) -> types.JSONRPCError:
    """The JSON-RPC error that says it: words for people, the parts of them for programs."""
    data = {"memoryd/error": render.error(exc)}
    error = types.ErrorData(code=number, message=render.error_text(exc), data=data)
    return types.JSONRPCError(jsonrpc="2.0", id=id, error=error)
