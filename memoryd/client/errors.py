"""What can go wrong while a client talks to the daemon, and the daemon's own errors as ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoryd import errors
from memoryd.errors import DaemonUnavailable, InvalidInput, MemorydError, StoreError


class GreetingLost(DaemonUnavailable):
    """The connection ended before the greeting was answered: a daemon on its way out does so."""


class DaemonLost(MemorydError):
    """The answer will not come: the call may or may not have been done."""

    code = "daemon_lost"
    hint = "Look whether it was done, then call again; the next call reconnects."


KINDS: dict[str, type[MemorydError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, MemorydError)
}
for _code in ("warming", "rate_limited", "too_many_connections"):
    KINDS[_code] = MemorydError  # of the doors, which a client does not have


def told(error: Mapping[str, Any]) -> MemorydError:
    """The daemon's error as one of ours: code, sentence and hint are kept.

    A code without a class of its own is one of the many that refuse input.
    """
    code, message = str(error.get("code", "")), str(error.get("message", ""))
    if not code:  # not one of the daemon's own: of the protocol library, or of a stranger
        return MemorydError(message or "The daemon refused the call without a reason.")
    kind = KINDS.get(code) or (StoreError if code.startswith("store_") else InvalidInput)
    return kind(message, code=code, hint=str(error.get("hint", "")))
