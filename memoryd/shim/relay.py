"""The shim's loop: passes bytes between a client on stdin and stdout and the daemon's socket.

It parses lines only to hide the end of a daemon from its client: running calls get an error, and
the next message goes to a new connection on which the handshake was repeated. Copying bytes
unparsed would be simpler, but clients do not reconnect when their server has gone.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections import deque
from collections.abc import Sequence

from memoryd.errors import DaemonUnavailable
from memoryd.launch.start import Finder
from memoryd.shim.lines import (
    Conversation,
    LineSplitter,
    Outbox,
    Piece,
    error_line,
    parse,
    request_id,
)

STDIN, STDOUT, STDERR = 0, 1, 2
READ_BYTES = 65_536
MAX_BUFFERED = 2**20  # bytes that wait for one side; above it the other side is not read
DRAIN_TIMEOUT = 5.0  # seconds for the last answers once the client has closed its end
RETRY_DELAY = 2.0  # seconds between a failure and the next attempt
MAX_FAILED_CONNECTIONS = 3  # connections in a row that end without a single line
UNAVAILABLE_CODE, RESTARTED_CODE = -32000, -32001
RESTARTED_MESSAGE = (
    "The memory daemon was restarted while this call was running; it may or may not have been done."
)

Ends = list[socket.socket | int]


class Relay:
    """One client, at most one connection, and the bytes between them."""

    def __init__(
        self,
        finder: Finder,
        toolsets: Sequence[str] = (),
        project: tuple[str, bool] = ("", False),
    ) -> None:
        """`toolsets`, `project`: see `Conversation`."""
        self._finder = finder
        self._conversation = Conversation(toolsets, project)
        self._daemon: socket.socket | None = None
        self._write_closed = False  # the daemon reads no more from this connection
        self._seeking = True  # at once: a daemon can start while the client is still idle
        self._failure: DaemonUnavailable | None = None
        self._retry_at = 0.0
        self._failed_connections = 0
        self._client_lines, self._daemon_lines = LineSplitter(), LineSplitter()
        self._held: deque[Piece] = deque()  # from the client, not yet sent
        self._held_bytes = 0
        self._opening = b""  # what the shim itself sends on a new connection
        self._sending: Piece | None = None
        self._sent = 0
        # Of an over-long line only the beginning was sent so far, to the daemon or to the client.
        self._daemon_mid_line = self._client_mid_line = False
        self._skipping = False  # drop the rest of a line whose connection ended
        self._to_client = Outbox()
        self._exit_at: float | None = None

    def run(self) -> None:
        """Run until the client closes its end. ConnectionError if it no longer reads."""
        self._finder.begin(time.monotonic())
        while True:
            now = time.monotonic()
            self._connect(now)
            if self._may_exit(now):
                return
            readable, writable = self._wait(now)
            if STDOUT in writable:
                self._write_client()
            if self._daemon in writable:
                self._write_daemon()
            if self._daemon is not None and self._daemon in readable:
                self._read_daemon(self._daemon)
            if STDIN in readable:
                self._read_client()

    def _wait(self, now: float) -> tuple[Ends, Ends]:
        reads: Ends = []
        writes: Ends = []
        if self._exit_at is None and self._held_bytes < MAX_BUFFERED:
            reads.append(STDIN)
        if self._to_client.size:
            writes.append(STDOUT)
        if self._daemon is not None:
            if self._to_client.size < MAX_BUFFERED:
                reads.append(self._daemon)
            if not self._write_closed and self._has_more():
                writes.append(self._daemon)
        ends = [self._finder.next_try] if self._seeking else []
        ends += [] if self._exit_at is None else [self._exit_at]
        timeout = max(0.0, min(ends) - now) if ends else None
        ready = select.select(reads, writes, [], timeout)
        return ready[0], ready[1]

    def _may_exit(self, now: float) -> bool:
        if self._exit_at is None:
            return False
        unsent = self._held or self._sending or self._opening
        busy = unsent or self._conversation.open or self._to_client.size
        return not busy or now >= self._exit_at

    # The daemon's side.

    def _connect(self, now: float) -> None:
        """Without a connection: try to get one if it is needed, or fail what waits for it."""
        if self._daemon is not None:
            return
        if self._failure is not None and now < self._retry_at:
            self._refuse(self._failure)
            return
        if not self._seeking and (self._held or self._conversation.awaits_handshake()):
            self._seeking = True
            self._finder.begin(now + 0.1 * self._failed_connections)
        if not self._seeking or now < self._finder.next_try:
            return
        try:
            self._daemon = self._finder.attempt(now)
        except DaemonUnavailable as exc:
            self._give_up(exc, now)
            return
        if self._daemon is not None:
            self._seeking, self._failure = False, None
            self._write_closed, self._daemon_lines = False, LineSplitter()
            self._opening = self._conversation.opening(self._finder.target.expected)

    def _give_up(self, why: DaemonUnavailable, now: float) -> None:
        if self._failure is None or self._failure.message != why.message:
            with contextlib.suppress(OSError):
                os.write(STDERR, f"{_sentence(why)}\n".encode())
        self._seeking, self._failure, self._retry_at = False, why, now + RETRY_DELAY
        self._failed_connections = 0
        for key in self._conversation.lost(for_good=True):
            self._fail(key, why)
        self._refuse(why)

    def _refuse(self, why: DaemonUnavailable) -> None:
        """Answer the held requests with the error, as far as the client's buffer has room."""
        while self._held and self._to_client.size < MAX_BUFFERED:
            data, whole = self._held.popleft()
            self._held_bytes -= len(data)
            self._skipping = not data.endswith(b"\n")
            if whole and (key := request_id(parse(data))):
                self._fail(key, why)

    def _fail(self, key: str, why: DaemonUnavailable) -> None:
        data = {"code": why.code, "log": str(self._finder.target.log)}
        self._to_client.put(error_line(key, UNAVAILABLE_CODE, _sentence(why), data))

    def _has_more(self) -> bool:
        """Whether there is something to send; takes the next held line if none is being sent."""
        if (
            self._sending is None
            and self._held
            and not self._opening
            and not self._conversation.replaying_id
        ):
            self._sending, self._sent = self._held.popleft(), 0
        return bool(self._opening or self._sending)

    def _write_daemon(self) -> None:
        assert self._daemon is not None
        try:
            if self._opening:
                self._opening = self._opening[self._daemon.send(self._opening) :]
            elif self._sending:
                self._send_on(self._daemon, *self._sending)
        except BlockingIOError:
            pass
        except OSError:  # it is gone, but what it sent before can still be read
            self._write_closed = True

    def _send_on(self, daemon: socket.socket, data: bytes, whole: bool) -> None:
        self._sent += daemon.send(memoryview(data)[self._sent :])
        if self._sent < len(data):
            return
        # Only now: a line that was not sent whole was not executed, and is sent again.
        if whole:
            self._conversation.asked(data)
        self._daemon_mid_line = not data.endswith(b"\n")
        self._held_bytes -= len(data)
        self._sending = None

    def _read_daemon(self, daemon: socket.socket) -> None:
        try:
            data = daemon.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        for piece, whole in self._daemon_lines.feed(data):
            self._failed_connections = 0
            replaying = bool(self._conversation.replaying_id)
            if self._client_mid_line or self._conversation.answered(piece):
                self._to_client.put(piece)
            if replaying and not self._conversation.replaying_id:
                self._opening += self._conversation.after_handshake()
            self._client_mid_line = not whole and not piece.endswith(b"\n")
        if not data:
            self._lost(daemon)

    def _lost(self, daemon: socket.socket) -> None:
        """Fail the calls that wait; keep what was not sent for the next connection."""
        daemon.close()
        self._daemon, self._opening = None, b""
        if self._client_mid_line:
            self._to_client.put(b"\n")  # ends the cut line, so that the next one is intact
            self._client_mid_line = False
        for key in self._conversation.lost(for_good=False):
            self._to_client.put(
                error_line(key, RESTARTED_CODE, RESTARTED_MESSAGE, {"code": "daemon_restarted"})
            )
        kept = [self._sending] if self._sending else []
        kept += self._held
        self._skipping = self._daemon_mid_line or (
            self._sending is not None and not self._sending[1]
        )
        self._held.clear()
        self._held_bytes, self._sending, self._daemon_mid_line = 0, None, False
        self._hold(kept)
        self._failed_connections += 1
        if self._failed_connections >= MAX_FAILED_CONNECTIONS:
            why = self._finder.unavailable("closes every connection at once")
            self._give_up(why, time.monotonic())

    # The client's side.

    def _read_client(self) -> None:
        try:
            data = os.read(STDIN, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # stdin is a socket or a terminal that was closed
            data = b""
        if data:
            self._hold(self._client_lines.feed(data))
        else:
            self._hold(self._client_lines.end())
            self._exit_at = time.monotonic() + DRAIN_TIMEOUT

    def _hold(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            if self._skipping:
                self._skipping = not piece[0].endswith(b"\n")
                continue
            self._held.append(piece)
            self._held_bytes += len(piece[0])

    def _write_client(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._to_client.take(os.write(STDOUT, self._to_client.first(READ_BYTES)))


def _sentence(why: DaemonUnavailable) -> str:
    """The message and the hint in one, for a client that shows only messages."""
    return f"{why.message} {why.hint}".strip()
