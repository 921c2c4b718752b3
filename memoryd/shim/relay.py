"""The shim's loop: bytes between a client on stdin and stdout and the daemon on its socket.

It reads lines only to hide a daemon's death from its client: calls in flight get an error, and
the next message goes to a new connection on which the handshake was repeated. Splicing bytes
blindly would be smaller, but a client whose server went away does not come back by itself.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections import deque

from memoryd.errors import DaemonUnavailable
from memoryd.launch.start import Finder
from memoryd.shim.lines import (
    Conversation,
    Lines,
    Outbox,
    Piece,
    error_line,
    parse,
    request_id,
)

STDIN, STDOUT, STDERR = 0, 1, 2
CHUNK = 65_536
ROOM = 2**20  # a side that has so much waiting is not read from
PATIENCE = 5.0  # for answers, once the client has said its last word
PAUSE = 2.0  # between a failure and the next attempt
BARREN = 3  # so many connections in a row may end without a single line
UNAVAILABLE, RESTARTED = -32000, -32001
LOST = (
    "The memory daemon was restarted while this call was running; it may or may not have been done."
)

Ends = list[socket.socket | int]


class Relay:
    """One client, at most one connection, and the bytes between them."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._talk = Conversation()
        self._daemon: socket.socket | None = None
        self._deaf = False  # the connection takes no more
        self._seeking = True  # at once: a daemon that has to start does so while the client thinks
        self._refusal: DaemonUnavailable | None = None
        self._retry_at = 0.0
        self._barren = 0
        self._from_client, self._from_daemon = Lines(), Lines()
        self._held: deque[Piece] = deque()  # from the client, not yet begun to be sent
        self._held_bytes = 0
        self._preface = b""  # what we say ourselves on a new connection
        self._sending: Piece | None = None
        self._sent = 0
        self._mid_line = False  # a piece of an over-long line was sent, its end was not
        self._skipping = False  # the rest of such a line is worthless
        self._down = Outbox()  # for the client
        self._torn = False  # it was sent the beginning of an over-long line, but not the end
        self._leave_at: float | None = None

    def run(self) -> None:
        """Until the client leaves. Raises ConnectionError when it no longer listens."""
        self._finder.begin(time.monotonic())
        while True:
            now = time.monotonic()
            self._advance(now)
            if self._may_leave(now):
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
        if self._leave_at is None and self._held_bytes < ROOM:
            reads.append(STDIN)
        if self._down.size:
            writes.append(STDOUT)
        if self._daemon is not None:
            if self._down.size < ROOM:
                reads.append(self._daemon)
            if not self._deaf and self._has_more():
                writes.append(self._daemon)
        ends = [self._finder.next_try] if self._seeking else []
        ends += [] if self._leave_at is None else [self._leave_at]
        timeout = max(0.0, min(ends) - now) if ends else None
        ready = select.select(reads, writes, [], timeout)
        return ready[0], ready[1]

    def _may_leave(self, now: float) -> bool:
        if self._leave_at is None:
            return False
        unsent = self._held or self._sending or self._preface
        busy = unsent or self._talk.open or self._down.size
        return not busy or now >= self._leave_at

    # The daemon's side.

    def _advance(self, now: float) -> None:
        """Without a connection: look for one if anybody needs it, or say that there is none."""
        if self._daemon is not None:
            return
        if self._refusal is not None and now < self._retry_at:
            self._refuse(self._refusal)
            return
        if not self._seeking and (self._held or self._talk.must_greet()):
            self._seeking = True
            self._finder.begin(now + 0.1 * self._barren)
        if not self._seeking or now < self._finder.next_try:
            return
        try:
            self._daemon = self._finder.attempt(now)
        except DaemonUnavailable as exc:
            self._give_up(exc, now)
            return
        if self._daemon is not None:
            self._seeking, self._refusal = False, None
            self._deaf, self._from_daemon = False, Lines()
            self._preface = self._talk.greeting(self._finder.target.expected)

    def _give_up(self, why: DaemonUnavailable, now: float) -> None:
        if self._refusal is None or self._refusal.message != why.message:
            with contextlib.suppress(OSError):
                os.write(STDERR, f"{_sentence(why)}\n".encode())
        self._seeking, self._refusal, self._retry_at = False, why, now + PAUSE
        self._barren = 0
        for key in self._talk.lost(for_good=True):
            self._fail(key, why)
        self._refuse(why)

    def _refuse(self, why: DaemonUnavailable) -> None:
        """Answer what is held with the error; a client that does not read stops this too."""
        while self._held and self._down.size < ROOM:
            data, whole = self._held.popleft()
            self._held_bytes -= len(data)
            self._skipping = not data.endswith(b"\n")
            if whole and (key := request_id(parse(data))):
                self._fail(key, why)

    def _fail(self, key: str, why: DaemonUnavailable) -> None:
        data = {"code": why.code, "log": str(self._finder.target.log)}
        self._down.put(error_line(key, UNAVAILABLE, _sentence(why), data))

    def _has_more(self) -> bool:
        """Whether something can be sent; takes up the next line when the last one is through."""
        if self._sending is None and self._held and not self._preface and not self._talk.awaited:
            self._sending, self._sent = self._held.popleft(), 0
        return bool(self._preface or self._sending)

    def _write_daemon(self) -> None:
        assert self._daemon is not None
        try:
            if self._preface:
                self._preface = self._preface[self._daemon.send(self._preface) :]
            elif self._sending:
                self._send_on(self._daemon, *self._sending)
        except BlockingIOError:
            pass
        except OSError:  # it is gone, but what it said before can still be read
            self._deaf = True

    def _send_on(self, daemon: socket.socket, data: bytes, whole: bool) -> None:
        self._sent += daemon.send(memoryview(data)[self._sent :])
        if self._sent < len(data):
            return
        # Only now: a line that was never whole cannot have been done, and is sent again.
        if whole:
            self._talk.asked(data)
        self._mid_line = not data.endswith(b"\n")
        self._held_bytes -= len(data)
        self._sending = None

    def _read_daemon(self, daemon: socket.socket) -> None:
        try:
            data = daemon.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        for piece, whole in self._from_daemon.feed(data):
            self._barren = 0
            replaying = bool(self._talk.awaited)
            if self._torn or self._talk.answered(piece):
                self._down.put(piece)
            if replaying and not self._talk.awaited:
                self._preface += self._talk.greeted()
            self._torn = not whole and not piece.endswith(b"\n")
        if not data:
            self._lost(daemon)

    def _lost(self, daemon: socket.socket) -> None:
        """Tell those who wait; keep what the daemon cannot have seen for the next one."""
        daemon.close()
        self._daemon, self._preface = None, b""
        if self._torn:
            self._down.put(b"\n")  # beyond repair, but what follows is not
            self._torn = False
        for key in self._talk.lost(for_good=False):
            self._down.put(error_line(key, RESTARTED, LOST, {"code": "daemon_restarted"}))
        kept = [self._sending] if self._sending else []
        kept += self._held
        self._skipping = self._mid_line or (self._sending is not None and not self._sending[1])
        self._held.clear()
        self._held_bytes, self._sending, self._mid_line = 0, None, False
        self._hold(kept)
        self._barren += 1
        if self._barren >= BARREN:
            why = self._finder.unavailable("closes every connection at once")
            self._give_up(why, time.monotonic())

    # The client's side.

    def _read_client(self) -> None:
        try:
            data = os.read(STDIN, CHUNK)
        except BlockingIOError:
            return
        except OSError:  # a socket or a terminal that went away
            data = b""
        if data:
            self._hold(self._from_client.feed(data))
        else:
            self._hold(self._from_client.end())
            self._leave_at = time.monotonic() + PATIENCE

    def _hold(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            if self._skipping:
                self._skipping = not piece[0].endswith(b"\n")
                continue
            self._held.append(piece)
            self._held_bytes += len(piece[0])

    def _write_client(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._down.take(os.write(STDOUT, self._down.first(CHUNK)))


def _sentence(why: DaemonUnavailable) -> str:
    """The reason and what to do, for a client that shows nothing but a message."""
    return f"{why.message} {why.hint}".strip()
