"""Asks a daemon of an older version to end if nobody else uses it, so that an upgrade takes effect
by itself: the shim that asks then starts a daemon of its own version.

Only a daemon that a client has started is asked: one in a terminal or of a service manager is
ended by whoever started it. A daemon decides itself whether it is idle, as only it knows who is
connected.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path

from memoryd import __version__, daemon_record
from memoryd.daemon_record import JOURNAL, LISTENING

METHOD = "memoryd/upgrade"
ANSWER_TIMEOUT = 1.0  # seconds for the daemon to decide
END_TIMEOUT = 12.0  # seconds for it to end
MAX_ANSWER = 4096  # bytes


class Upgrade:
    """The question, asked once in the life of a process."""

    def __init__(self, version: str = __version__) -> None:
        self._version = version
        self._was_asked = False
        self._link: socket.socket | None = None
        self._heard = b""
        self._until = 0.0

    def ask(self, data_dir: Path | None, path: Path, link: socket.socket, now: float) -> bool:
        """Ask the daemon at the other end, if it is older; whether it was. Then the connection is
        ours, and `waits` says how long to wait."""
        if self._was_asked:
            return False
        self._was_asked = True
        known = daemon_record.read(data_dir) if data_dir else None
        if known is None or known.state != LISTENING or known.socket != str(path):
            return False
        by_client = known.log not in ("", JOURNAL)
        if not by_client or not daemon_record.is_newer(self._version, known.version):
            return False
        call = {"jsonrpc": "2.0", "id": 1, "method": METHOD, "params": {"version": self._version}}
        try:
            link.sendall(json.dumps(call).encode() + b"\n")
        except OSError:  # it has ended just now
            return False
        self._link, self._until = link, now + ANSWER_TIMEOUT
        return True

    def waits(self, now: float) -> bool:
        """Whether the daemon that was asked has not answered yet, or is ending."""
        if self._link is None:
            return False
        try:
            data = self._link.recv(MAX_ANSWER)
        except BlockingIOError:
            if now < self._until:
                return True
            data = b""
        except OSError:
            data = b""
        self._heard += data
        if data and _is_ending(self._heard):
            self._until = now + END_TIMEOUT
            return True
        self._link.close()
        self._link = None
        return False


def _is_ending(answer: bytes) -> bool:
    """Whether the daemon says that it ends. An older one may not know the question."""
    try:
        return json.loads(answer)["result"]["ending"] is True
    except (ValueError, KeyError, TypeError):
        return False
