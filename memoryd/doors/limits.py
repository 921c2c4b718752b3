"""Rate limits: a token bucket, and the errors of a door that is full.

A client that calls too often gets an error instead of silence, so that its author sees the cause.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import mcp.types as types

from memoryd.doors import render
from memoryd.errors import MemorydError

RATE_LIMITED, TOO_MANY = -32029, -32030  # of the range that JSON-RPC leaves to servers


class RateLimited(MemorydError):
    """A connection calls too often."""

    code = "rate_limited"
    hint = "Wait a second, or raise doors.max_calls_per_second."

    def __init__(self, message: str, *, hint: str | None = None, retry_after: int = 1) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after  # seconds


class TooManyConnections(MemorydError):
    """The door has reached its limit of connections."""

    code = "too_many_connections"
    hint = "Close some, or raise doors.max_connections."


class Rate:
    """A token bucket: `limit` calls in `seconds`, all at once after a pause; 0: no limit."""

    def __init__(
        self, limit: float, clock: Callable[[], float] = time.monotonic, *, seconds: float = 1.0
    ) -> None:
        self.limit = limit
        self._per_second = limit / seconds
        self._clock = clock
        self._left = limit
        self._at = clock()

    def allows(self, count: int = 1) -> bool:
        """Whether `count` more calls are allowed now; if so, they are counted."""
        if not self.limit:
            return True
        now = self._clock()
        self._left = min(self.limit, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < count:
            return False
        self._left -= count
        return True

    def wait(self, count: int = 1) -> float:
        """Seconds until `count` calls are allowed, after they were not."""
        return (count - self._left) / self._per_second if self._per_second else 0.0


def too_fast(limit: float) -> RateLimited:
    return RateLimited(f"More than {limit:g} calls a second; this one was not made.")


def too_many(limit: int) -> TooManyConnections:
    return TooManyConnections(f"There are {limit} connections already; this one is closed.")


def refusal(number: int, exc: MemorydError, id: str | int | None = None) -> types.JSONRPCError:
    """The JSON-RPC error: a text for people, and code, message and hint as data for programs."""
    data = {"memoryd/error": render.error(exc)}
    error = types.ErrorData(code=number, message=render.error_text(exc), data=data)
    return types.JSONRPCError(jsonrpc="2.0", id=id, error=error)
