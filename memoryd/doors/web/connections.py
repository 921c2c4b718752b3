"""Limits on the connections of the HTTP door, idle ones included.

uvicorn limits only requests, so connections that send none could use up all descriptors. A
connection over the limit gets 503 at its first request, and is closed after a second without one.
Nor does uvicorn limit the time for a request's headers: a connection whose headers are late is
closed.

A connection is authenticated once a request on it has shown the token. The others are counted
separately, and a new one replaces the oldest: clients without a token cannot keep out those with
one.
"""

from __future__ import annotations

import asyncio
import json

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from memoryd.doors import render
from memoryd.doors.limits import too_many

# From the first byte of a request, or from connecting, to the end of its headers.
HEADER_SECONDS = 10.0
LINGER_SECONDS = 1.0  # for a refused connection to send a request
# In a scope: a function to call once the token was shown; false if the door is full.
AUTHENTICATE = "memoryd.authenticate"


class Admissions:
    """The connections of a door, and their limits."""

    def __init__(self, max_connections: int, max_unauthenticated: int) -> None:
        self.max_connections = max_connections
        self.max_unauthenticated = max_unauthenticated
        self.authenticated: set[LimitedConnection] = set()
        self.unauthenticated: dict[LimitedConnection, None] = {}  # the oldest first
        body = json.dumps({"error": render.error(too_many(max_connections))}).encode()
        head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
        length = f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        self.refusal = head.encode() + length.encode() + body

    @property
    def is_full(self) -> bool:
        return len(self.authenticated) >= self.max_connections

    def admit(self, connection: LimitedConnection) -> None:
        """Add a connection without a token; if there are too many, close the oldest of them."""
        if len(self.unauthenticated) >= self.max_unauthenticated:
            oldest = next(iter(self.unauthenticated))
            del self.unauthenticated[oldest]
            oldest.transport.abort()
        self.unauthenticated[connection] = None

    def authenticate(self, connection: LimitedConnection) -> bool:
        """The connection has shown the token; false if the door is full."""
        if connection in self.unauthenticated and not self.is_full:
            del self.unauthenticated[connection]
            self.authenticated.add(connection)
        return connection in self.authenticated

    def leave(self, connection: LimitedConnection) -> None:
        self.unauthenticated.pop(connection, None)
        self.authenticated.discard(connection)


class LimitedConnection(H11Protocol):
    """One HTTP connection with limits."""

    admissions: Admissions
    _close_timer: asyncio.TimerHandle | None = None
    _header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if self.admissions.is_full:
            self.transport = transport
            self._close_timer = asyncio.get_running_loop().call_later(
                LINGER_SECONDS, transport.close
            )
            return
        super().connection_made(transport)
        self.admissions.admit(self)
        served = self.app

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            scope[AUTHENTICATE] = lambda: self.admissions.authenticate(self)
            await served(scope, receive, send)

        self.app = app
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self._close_timer is None:
            super().data_received(data)
            self._watch()
        elif not self.transport.is_closing():
            self.transport.write(self.admissions.refusal)
            self.transport.close()

    def _watch(self) -> None:
        """Limit the time for headers, except while a request is being served."""
        served = self.cycle is not None and not self.cycle.response_complete
        if served and self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None
        elif not served and self._header_timer is None:
            later = asyncio.get_running_loop().call_later
            self._header_timer = later(HEADER_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self.admissions.leave(self)
        if self._header_timer is not None:
            self._header_timer.cancel()
        if self._close_timer is None:
            super().connection_lost(exc)
        else:
            self._close_timer.cancel()


def limited_protocol(max_connections: int, max_unauthenticated: int) -> type[asyncio.Protocol]:
    """The uvicorn protocol of a door with these limits."""
    return type(
        "LimitedDoor",
        (LimitedConnection,),
        {"admissions": Admissions(max_connections, max_unauthenticated)},
    )
