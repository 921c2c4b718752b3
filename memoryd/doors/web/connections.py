"""Limits on the connections of the HTTP door, idle ones included.

uvicorn's own limit looks only at requests, so connections that send none could use up every
descriptor. One too many is told 503 as soon as it asks for something, and soon closed if not.
Nor has uvicorn a limit on the time for a request's headers: a connection whose headers are not
whole in time is closed.

A connection counts once a request on it has shown the token. Those that have not are counted
apart, and the oldest gives way to a new one: whoever has no token cannot keep out who has.
"""

from __future__ import annotations

import asyncio
import json

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from memoryd.doors import render
from memoryd.doors.limits import too_many

HEADER_SECONDS = (
    10.0  # from the first byte of a request, or from connecting, to the end of its headers
)
LINGER = 1.0  # seconds for a refused connection to ask something
PROVE = "memoryd.prove"  # in a scope: to be called when the token was shown; false: no room for it


class Room:
    """How many connections a door may have, and which there are."""

    def __init__(self, most: int, most_unproven: int) -> None:
        self.most = most
        self.most_unproven = most_unproven
        self.proven: set[Limited] = set()
        self.unproven: dict[Limited, None] = {}  # the oldest first
        body = json.dumps({"error": render.error(too_many(most))}).encode()
        head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
        length = f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        self.refusal = head.encode() + length.encode() + body

    @property
    def is_full(self) -> bool:
        return len(self.proven) >= self.most

    def admit(self, connection: Limited) -> None:
        """Until it has shown the token, in the place of the oldest that has not."""
        if len(self.unproven) >= self.most_unproven:
            oldest = next(iter(self.unproven))
            del self.unproven[oldest]
            oldest.transport.abort()
        self.unproven[connection] = None

    def prove(self, connection: Limited) -> bool:
        """It has shown the token; false if there is no room for it."""
        if connection in self.unproven and not self.is_full:
            del self.unproven[connection]
            self.proven.add(connection)
        return connection in self.proven

    def leave(self, connection: Limited) -> None:
        self.unproven.pop(connection, None)
        self.proven.discard(connection)


class Limited(H11Protocol):
    """One connection."""

    room: Room
    _refused: asyncio.TimerHandle | None = None
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if self.room.is_full:
            self.transport = transport
            self._refused = asyncio.get_running_loop().call_later(LINGER, transport.close)
            return
        super().connection_made(transport)
        self.room.admit(self)
        served = self.app

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            scope[PROVE] = lambda: self.room.prove(self)
            await served(scope, receive, send)

        self.app = app
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self._refused is None:
            super().data_received(data)
            self._watch()
        elif not self.transport.is_closing():
            self.transport.write(self.room.refusal)
            self.transport.close()

    def _watch(self) -> None:
        """Bound the time for headers; a request that is being served has none to send."""
        served = self.cycle is not None and not self.cycle.response_complete
        if served and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        elif not served and self._deadline is None:
            later = asyncio.get_running_loop().call_later
            self._deadline = later(HEADER_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self.room.leave(self)
        if self._deadline is not None:
            self._deadline.cancel()
        if self._refused is None:
            super().connection_lost(exc)
        else:
            self._refused.cancel()


def limited(most: int, most_unproven: int) -> type[asyncio.Protocol]:
    """The protocol of a door that serves at most so many connections at a time, and so many that
    have not shown the token."""
    return type("LimitedDoor", (Limited,), {"room": Room(most, most_unproven)})
