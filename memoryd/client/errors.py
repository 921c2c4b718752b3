"""Errors of a client's connection, and the daemon's errors as exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoryd import errors
from memoryd.errors import DaemonUnavailable, InvalidInput, MemorydError, StoreError


class HandshakeLost(DaemonUnavailable):
    """The connection ended before the handshake was answered, as when a daemon is stopping."""


class DaemonLost(MemorydError):
    """The connection ended, or no answer came in time; the call may or may not have been done."""

    code = "daemon_lost"
    hint = "Check whether it was done, then call again; the next call reconnects."


class MemoryToolError(InvalidInput):
    """A command of the memory tool failed; the message is what the model should read."""

    code = "memory_tool"


KINDS: dict[str, type[MemorydError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, MemorydError)
}
for _code in ("warming", "rate_limited", "too_many_connections"):
    KINDS[_code] = MemorydError  # errors of the doors, which a client does not import


def error_from_wire(error: Mapping[str, Any]) -> MemorydError:
    """The exception for an error that the daemon answered, with its code, message and hint.

    A code without a class of its own is taken for one of the many that refuse input.
    """
    code, message = str(error.get("code", "")), str(error.get("message", ""))
    if not code:  # not an error of memoryd: one of the protocol library, or of another server
        return MemorydError(message or "The daemon refused the call without a reason.")
    kind = KINDS.get(code) or (StoreError if code.startswith("store_") else InvalidInput)
    return kind(message, code=code, hint=str(error.get("hint", "")))
