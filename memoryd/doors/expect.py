"""A client may say whose memories it means; the daemon of others then does nothing for it.

Said in a notification of ours before anything else, so that it costs no round trip: whatever is
asked on that connection afterwards, the handshake included, is answered with the refusal.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import mcp.types as types

from memoryd.doors.limits import refusal
from memoryd.errors import WrongDaemon

EXPECT = "notifications/memoryd/expect"
WRONG_DAEMON = -32000  # as for a daemon that cannot be reached


class Expectation:
    """What one connection expects of a daemon that serves `serves`; None: it does not tell."""

    def __init__(self, serves: Path | None) -> None:
        self._serves = serves
        self._wrong: WrongDaemon | None = None

    def take(self, params: dict[str, Any] | None) -> None:
        """The client names a data directory."""
        named = (params or {}).get("data_dir")
        if self._serves is None or not isinstance(named, str) or _same(named, self._serves):
            return
        self._wrong = WrongDaemon(
            f"The daemon that answers serves {self._serves}, not {named}; nothing was done."
        )

    def refusal(self, id: str | int) -> types.JSONRPCError | None:
        """The answer to a request, if it came to the wrong daemon."""
        return refusal(WRONG_DAEMON, self._wrong, id) if self._wrong else None


def _same(named: str, serves: Path) -> bool:
    try:
        return os.path.realpath(named) == os.path.realpath(serves)
    except ValueError:  # not a path at all
        return False
