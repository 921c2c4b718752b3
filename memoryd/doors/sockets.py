"""The Unix socket and the TCP port: accept connections, check them, serve their lines."""

from __future__ import annotations

import errno
import os
import secrets
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import structlog
from anyio.abc import SocketAttribute, SocketListener
from mcp.server.lowlevel import Server

from memoryd import places
from memoryd.doors.limits import TOO_MANY, refusal, too_many
from memoryd.doors.lines import Connection, Limits, Retire, never, text_of
from memoryd.doors.rights import ALL, Rights, Tokens
from memoryd.errors import MemorydError
from memoryd.permissions import directory_faults, refuse
from memoryd.places import peer_uid

log = structlog.get_logger()
BACKLOG = 1024
TOKEN_BYTES = 512  # longest token line
TOKEN_SECONDS = 10.0
LINGER_SECONDS = 1.0  # for a refused client to read the reason
MAX_REFUSALS = 100  # at a time; further connections are closed without a reason


class CannotListen(MemorydError):
    """The socket or port cannot be opened."""

    code = "cannot_listen"


def bind_first(paths: Iterator[Path]) -> tuple[socket.socket, str, Path]:
    """Listen at the first path that works; the socket, its token and the path. Raises the error of
    the last path."""
    failure: CannotListen | None = None
    for path in paths:
        try:
            return *bind_local(path), path
        except CannotListen as exc:
            failure = exc
    raise failure or CannotListen("There is no path to listen at.")


def bind_local(path: Path) -> tuple[socket.socket, str]:
    """The local door and its token; a Unix socket needs none."""
    if places.HAS_UNIX_SOCKETS:
        return bind_unix(path), ""
    listening, token = bind_tcp(places.LOOPBACK, 0), secrets.token_urlsafe(32)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(f"{listening.getsockname()[1]} {token}\n")
    return listening, token


def bind_unix(path: Path) -> socket.socket:
    """A listening socket that only its owner can reach."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        refuse(directory_faults(path.parent, "socket directory"))
        if path.exists() and not stat.S_ISSOCK(path.lstat().st_mode):
            raise CannotListen(f"{path} is in the way: it is not a socket.")
        # The lock covers the data directory; the daemon of another one may use this socket.
        if places.is_listened_on(path):
            raise CannotListen(
                f"Another program listens on {path}.", hint="Choose another --socket."
            )
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen(BACKLOG)
    except OSError as exc:
        too_long = "AF_UNIX path too long" in str(exc) or exc.errno == errno.ENAMETOOLONG
        hint = "Choose a shorter path with --socket." if too_long else "Choose another --socket."
        raise CannotListen(f"Cannot listen on {path}: {exc}.", hint=hint) from exc
    return listener


def bind_tcp(host: str, port: int) -> socket.socket:
    """A listening TCP socket."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
        # Inherited by every connection: the second part of an answer must not wait 40 ms for the
        # acknowledgement of the first.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as exc:
        raise CannotListen(
            f"Cannot listen on {host}:{port}: {exc.strerror or exc}.", hint="Choose another port."
        ) from exc


class LineDoor:
    """Serves the connections of one listening socket. With tokens, the first line must be one.
    Connections that have not sent it are counted separately; above `max_unauthenticated` a new one
    replaces the oldest, so that clients without a token cannot keep out those with one.
    `data_dir`, `retire`: set at the local door only, where the owner has more rights; the latter
    ends the daemon if it is idle and older than the version that is asked for."""

    def __init__(
        self,
        server: Server[Any],
        limits: Limits,
        max_connections: int,
        tokens: Tokens | None = None,
        *,
        data_dir: Path | None = None,
        max_unauthenticated: int = 64,
        retire: Retire = never,
    ) -> None:
        self._server = server
        self._limits = limits
        self._max_connections = max_connections
        self._tokens = tokens or Tokens()
        self._data_dir = data_dir
        self._retire = retire
        self.connections = 0
        self._refused = 0
        self._max_unauthenticated = max_unauthenticated
        self._unauthenticated: dict[anyio.CancelScope, None] = {}  # the oldest first

    async def serve(
        self,
        listening: socket.socket,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        listening.setblocking(False)
        listener = await SocketListener.from_socket(listening)
        async with listener:
            task_status.started()
            await listener.serve(self._handle)

    async def _handle(self, stream: anyio.abc.SocketStream) -> None:
        """Serve one client; an error ends only its own connection."""
        try:
            async with stream:
                rights = (
                    await self._admit(stream) if self.connections < self._max_connections else ALL
                )
                if rights is None:
                    return
                if self.connections >= self._max_connections:  # now, or since the token was awaited
                    await self._refuse(stream)
                    return
                self.connections += 1
                log.debug("connection_opened", connections=self.connections)
                try:
                    await self._connection(stream, rights).serve(self._server)
                finally:
                    self.connections -= 1
                    log.debug("connection_closed", connections=self.connections)
        except* (
            OSError,
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
            anyio.EndOfStream,
            anyio.IncompleteRead,
        ):
            pass  # the client disconnected
        except* Exception as group:
            log.error("connection_failed", error=[type(e).__name__ for e in group.exceptions])

    async def _refuse(self, stream: anyio.abc.SocketStream) -> None:
        """Send the error that the door is full, then wait a moment for the client to close: closing
        at once, with unread input, could discard the error."""
        log.warning("connection_refused", reason="too many", most=self._max_connections)
        if self._refused >= MAX_REFUSALS:
            return
        self._refused += 1
        try:
            with anyio.move_on_after(LINGER_SECONDS):
                line = text_of(refusal(TOO_MANY, too_many(self._max_connections)))
                await stream.send(line.encode() + b"\n")
                await stream.send_eof()
                while True:
                    await stream.receive()
        except anyio.EndOfStream:
            pass
        finally:
            self._refused -= 1

    def _connection(self, stream: anyio.abc.SocketStream, rights: Rights) -> Connection:
        return Connection(stream, self._limits, self._data_dir, rights, self._retire)

    async def _admit(self, stream: anyio.abc.SocketStream) -> Rights | None:
        """The rights of the client; None if it is refused."""
        if not self._tokens:
            uid = peer_uid(stream.extra(SocketAttribute.raw_socket))
            if uid is not None and uid != os.getuid():
                log.warning("connection_refused", reason="another user")
                return None
            return ALL
        if len(self._unauthenticated) >= self._max_unauthenticated:
            oldest = next(iter(self._unauthenticated))
            del self._unauthenticated[oldest]
            oldest.cancel()
        given = b""
        with anyio.move_on_after(TOKEN_SECONDS) as waiting:
            self._unauthenticated[waiting] = None
            try:
                while not given.endswith(b"\n") and len(given) < TOKEN_BYTES:
                    given += await stream.receive(
                        1
                    )  # byte by byte: the rest belongs to the connection
            finally:
                self._unauthenticated.pop(waiting, None)
        rights = self._tokens.rights(given.strip())
        if rights is None:
            log.warning("connection_refused", reason="token")
        return rights
