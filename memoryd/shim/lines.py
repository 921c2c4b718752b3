"""What the shim parses of the lines it passes on: where they end, which calls wait for an answer,
and the handshake. Everything else of the protocol is bytes to it."""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# A line up to this size is buffered until it is whole, so that it is neither cut nor lost when a
# daemon dies. A longer one is passed on in pieces and not parsed.
LINE_LIMIT = 8 * 2**20

# How answers begin in practice. This finds the id of a long answer without parsing it all, even
# where only its first piece is buffered.
ANSWER = re.compile(rb'\{"jsonrpc": ?"2\.0", ?"id": ?(-?\d+|"[ !#-\[\]-~]*"), ?"(?:result|error)"')

# Extensions of ours to the protocol: the daemon's door handles them and passes them to no server.
SESSION = (
    b'{"jsonrpc": "2.0", "method": "notifications/memoryd/session", '
    b'"params": {"session_id": "s-%s"}}\n'
)
EXPECT = (
    b'{"jsonrpc": "2.0", "method": "notifications/memoryd/expect", "params": {"data_dir": %s}}\n'
)
TOOLS = b'{"jsonrpc": "2.0", "method": "notifications/memoryd/tools", "params": {"tools": %s}}\n'
PROJECT = b'{"jsonrpc": "2.0", "method": "notifications/memoryd/project", "params": %s}\n'

Piece = tuple[bytes, bool]  # the bytes, and whether they are a whole line


class LineSplitter:
    """Splits a stream into lines; buffers an unfinished line."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._long = False

    def feed(self, data: bytes) -> list[Piece]:
        """The whole lines, and pieces of over-long ones, that `data` completes."""
        pieces: list[Piece] = []
        start = 0
        while (end := data.find(b"\n", start) + 1) > 0:
            pieces.append((self._take(data[start:end]), not self._long))
            self._long = False
            start = end
        self._rest += data[start:]
        if self._rest and (self._long or len(self._rest) > LINE_LIMIT):
            self._long = True
            pieces.append((self._take(b""), False))
        return pieces

    def end(self) -> list[Piece]:
        """What is left when the stream ends: a line that lacks only its newline."""
        return self.feed(b"\n") if self._rest else []

    def _take(self, last: bytes) -> bytes:
        if not self._rest:
            return last
        self._rest += last
        taken = bytes(self._rest)
        self._rest = bytearray()
        return taken


class Outbox:
    """Lines that wait to be written. Never joined: a copy of a long one would stay in the heap."""

    def __init__(self) -> None:
        self.size = 0
        self._waiting: deque[bytes] = deque()
        self._taken = 0  # bytes of the first line that were written

    def put(self, line: bytes) -> None:
        self._waiting.append(line)
        self.size += len(line)

    def first(self, most: int) -> memoryview:
        """Up to `most` bytes to write next; report with `take` how many were written."""
        return memoryview(self._waiting[0])[self._taken : self._taken + most]

    def take(self, count: int) -> None:
        self.size -= count
        self._taken += count
        if self._taken == len(self._waiting[0]):
            self._waiting.popleft()
            self._taken = 0


class Conversation:
    """The calls that wait for an answer, and the handshake to repeat on a new connection.

    Protocol versions before 2026-07-28 have a handshake, `initialize`; later ones have none.
    Ids are kept as JSON text: 1, 1.0, "1" and true are different ids, but equal keys in Python.
    """

    def __init__(
        self, toolsets: Sequence[str] = (), project: tuple[str, bool] = ("", False)
    ) -> None:
        """`toolsets`: those to ask the daemon for; none: its own choice. `project`: see
        `project_folder.own_project`."""
        self.open: dict[str, None] = {}
        self.replaying_id = ""  # of the repeated handshake that is not yet answered; "" if none
        self._initialize = b""
        self._initialize_id = ""
        self._initialized = b""
        self._replays = 0
        self._session = SESSION % os.urandom(8).hex().encode()
        self._tools = TOOLS % json.dumps(list(toolsets)).encode() if toolsets else b""
        name, is_given = project
        told = {"project": name} | ({"given": True} if is_given else {})
        self._project = PROJECT % json.dumps(told).encode() if name or is_given else b""

    def asked(self, line: bytes) -> None:
        """Take note of a line that was sent to the daemon."""
        message = parse(line)
        method = message.get("method")
        if key := request_id(message):
            self.open[key] = None
            if method == "initialize":
                self._initialize, self._initialize_id, self._initialized = line, key, b""
        elif method == "notifications/initialized":
            self._initialized = line
        elif method == "notifications/cancelled" and isinstance(message.get("params"), dict):
            # A cancelled call may stay unanswered, so do not wait for it.
            self.open.pop(json.dumps(message["params"].get("requestId")), None)

    def answered(self, line: bytes) -> bool:
        """Take note of a line of the daemon, or its first piece; whether to pass it on."""
        key = answer_id(line)
        self.open.pop(key, None)
        if not key or key != self.replaying_id:
            return True
        self.replaying_id = ""
        return key == self._initialize_id

    def opening(self, data_dir: Path | None = None) -> bytes:
        """What is sent first on a new connection: the data directory, so that a daemon of another
        one refuses; the session, so that the client keeps its context window over a restart; the
        toolsets; the project; and the handshake."""
        expect = EXPECT % json.dumps(str(data_dir)).encode() if data_dir else b""
        return expect + self._session + self._tools + self._project + self._handshake()

    def _handshake(self) -> bytes:
        """The client's handshake to repeat; empty if it has made none."""
        if not self._initialize:
            return b""
        if self.awaits_handshake():
            self.replaying_id = self._initialize_id
            return self._initialize
        self._replays += 1
        name = f"memoryd-shim-{self._replays}"
        self.replaying_id = json.dumps(name)
        return json.dumps(parse(self._initialize) | {"id": name}).encode() + b"\n"

    def after_handshake(self) -> bytes:
        """What to send after the answer to a repeated handshake."""
        return self._initialized

    def awaits_handshake(self) -> bool:
        """Whether the client still waits for the answer to its handshake.

        That one call is sent again rather than failed: it changes nothing, and a client whose
        handshake fails gives up.
        """
        return self._initialize_id in self.open

    def lost(self, *, for_good: bool) -> list[str]:
        """The connection ended; the ids of the calls to fail. Includes the handshake only if
        `for_good`: no other connection will be tried."""
        self.replaying_id = ""
        keep = self._initialize_id if self.awaits_handshake() else ""
        failed = [key for key in self.open if for_good or key != keep]
        self.open = {} if for_good or not keep else {keep: None}
        if for_good and keep:
            self._initialize, self._initialize_id = b"", ""
        return failed


def parse(line: bytes) -> dict[str, Any]:
    """The message in a line; empty if it is not a JSON object."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):  # passed on all the same: the daemon answers the error
        return {}
    return message if isinstance(message, dict) else {}


def request_id(message: dict[str, Any]) -> str:
    """The id of a request as JSON text; "" for notifications and answers."""
    if "method" not in message or message.get("id") is None:
        return ""
    return json.dumps(message["id"])


def answer_id(line: bytes) -> str:
    """The id of an answer as JSON text; "" for everything else."""
    if known := ANSWER.match(line):
        return known[1].decode()
    message = parse(line)
    return "" if "method" in message or "id" not in message else json.dumps(message["id"])


def error_line(key: str, number: int, message: str, data: dict[str, str]) -> bytes:
    """A JSON-RPC error as a line."""
    error = json.dumps({"code": number, "message": message, "data": data})
    return f'{{"jsonrpc": "2.0", "id": {key}, "error": {error}}}\n'.encode()
