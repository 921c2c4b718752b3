"""What the shim understands of the lines it passes: where they end, which calls are open, and
the handshake. Everything else of the protocol is bytes to it."""

from __future__ import annotations

import json
import os
import re
from collections import deque
from pathlib import Path
from typing import Any

# A line up to this size is kept until it is whole, so that a daemon's death can neither tear nor
# lose it unnoticed. A longer one is passed on in pieces and never understood.
LINE_LIMIT = 8 * 2**20

# How answers begin in practice. Recognised, a long one need not be decoded for the sake of its id,
# and may even be too long to be kept.
ANSWER = re.compile(rb'\{"jsonrpc": ?"2\.0", ?"id": ?(-?\d+|"[ !#-\[\]-~]*"), ?"(?:result|error)"')

# Ours, not the protocol's: the door takes it and passes it on to nobody.
SESSION = (
    b'{"jsonrpc": "2.0", "method": "notifications/memoryd/session", '
    b'"params": {"session_id": "s-%s"}}\n'
)
EXPECT = (
    b'{"jsonrpc": "2.0", "method": "notifications/memoryd/expect", "params": {"data_dir": %s}}\n'
)

Piece = tuple[bytes, bool]  # the bytes, and whether they are a whole line


class Lines:
    """Cuts a stream into lines; keeps what is not yet a line."""

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
    """Lines that wait for a reader. Never joined: a copy of a long one would stay in the heap."""

    def __init__(self) -> None:
        self.size = 0
        self._waiting: deque[bytes] = deque()
        self._taken = 0  # of the first

    def put(self, line: bytes) -> None:
        self._waiting.append(line)
        self.size += len(line)

    def first(self, most: int) -> memoryview:
        """What to write next; say with `take` how much of it was."""
        return memoryview(self._waiting[0])[self._taken : self._taken + most]

    def take(self, count: int) -> None:
        self.size -= count
        self._taken += count
        if self._taken == len(self._waiting[0]):
            self._waiting.popleft()
            self._taken = 0


class Conversation:
    """The calls that await an answer, and the handshake that a new connection has to repeat.

    Only the `initialize` era has a handshake; since 2026-07-28 every request carries its own.
    Ids are kept as JSON text: 1, 1.0, "1" and true are different ids, but Python mixes them up.
    """

    def __init__(self) -> None:
        self.open: dict[str, None] = {}
        self.awaited = ""  # the id of the handshake that a new connection still has to answer
        self._initialize = b""
        self._initialize_id = ""
        self._initialized = b""
        self._replays = 0
        self._session = SESSION % os.urandom(8).hex().encode()

    def asked(self, line: bytes) -> None:
        """The client's line has gone to the daemon."""
        message = parse(line)
        method = message.get("method")
        if key := request_id(message):
            self.open[key] = None
            if method == "initialize":
                self._initialize, self._initialize_id, self._initialized = line, key, b""
        elif method == "notifications/initialized":
            self._initialized = line
        elif method == "notifications/cancelled" and isinstance(message.get("params"), dict):
            # A cancelled call need not be answered, so nothing may wait for it.
            self.open.pop(json.dumps(message["params"].get("requestId")), None)

    def answered(self, line: bytes) -> bool:
        """The daemon sent a line, or the beginning of one; whether the client is to see it."""
        key = answer_id(line)
        self.open.pop(key, None)
        if not key or key != self.awaited:
            return True
        self.awaited = ""
        return key == self._initialize_id

    def greeting(self, data_dir: Path | None = None) -> bytes:
        """What a new connection must hear first: whose memories are meant, so that the daemon of
        others refuses; which session goes on with it, so that the client keeps its context window
        over a restart; and the handshake."""
        expect = EXPECT % json.dumps(str(data_dir)).encode() if data_dir else b""
        return expect + self._session + self._handshake()

    def _handshake(self) -> bytes:
        """The client's handshake, if it has made one."""
        if not self._initialize:
            return b""
        if self.must_greet():
            self.awaited = self._initialize_id
            return self._initialize
        self._replays += 1
        name = f"memoryd-shim-{self._replays}"
        self.awaited = json.dumps(name)
        return json.dumps(parse(self._initialize) | {"id": name}).encode() + b"\n"

    def greeted(self) -> bytes:
        """What follows the answer to a replayed handshake."""
        return self._initialized

    def must_greet(self) -> bool:
        """Whether the client itself still waits for the answer to its handshake.

        That one call is asked again rather than failed: it changes nothing, and a client whose
        handshake fails gives up.
        """
        return self._initialize_id in self.open

    def lost(self, *, for_good: bool) -> list[str]:
        """The connection is gone; the ids that must be told. `for_good` includes the handshake."""
        self.awaited = ""
        keep = self._initialize_id if self.must_greet() else ""
        told = [key for key in self.open if for_good or key != keep]
        self.open = {} if for_good or not keep else {keep: None}
        if for_good and keep:
            self._initialize, self._initialize_id = b"", ""
        return told


def parse(line: bytes) -> dict[str, Any]:
    """The message in a line; empty for whatever is not a JSON object."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):  # the daemon will say what is wrong with it
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
