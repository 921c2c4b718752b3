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


class TooManyConnections(MemorydError):
    """The door has as many connections as it may."""

    code = "too_many_connections"
    hint = "Close some, or raise doors.max_connections."


class Rate:
    """So many a second, and as many at once after a pause; 0: no limit."""

    def __init__(self, most: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._left = most
        self._at = clock()

    def allows(self) -> bool:
        """Whether one more may pass now; if so it is counted."""
        if not self._most:
            return True
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at) * self._most)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def too_fast(most: float) -> RateLimited:
    return RateLimited(f"More than {most:g} calls a second; this one was not made.")


def too_many(most: int) -> TooManyConnections:
    return TooManyConnections(f"There are {most} connections already; this one is closed.")


def refusal(number: int, exc: MemorydError, id: str | int | None = None) -> types.JSONRPCError:
    """The JSON-RPC error that says it: words for people, the parts of them for programs."""
    data = {"memoryd/error": render.error(exc)}
    error = types.ErrorData(code=number, message=render.error_text(exc), data=data)
    return types.JSONRPCError(jsonrpc="2.0", id=id, error=error)
