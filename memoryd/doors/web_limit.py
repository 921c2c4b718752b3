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
from memoryd.doors.rate import too_many

HEADER_SECONDS = (
    10.0  # from the first byte of a request, or from connecting, to the end of its headers
)
LINGER = 1.0  # seconds for a refused connection to ask something
PROVE = "memoryd.prove"  # in a scope: to be called when the token was shown; false: no room for it


def limited(most: int, most_unproven: int) -> type[asyncio.Protocol]:
    """The protocol of a door that serves at most so many connections at a time, and so many that
    have not shown the token."""
    body = json.dumps({"error": render.error(too_many(most))}).encode()
    head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
    answer = f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
    proven: set[Limited] = set()
    unproven: dict[Limited, None] = {}  # the oldest first

    class Limited(H11Protocol):
        _refused: asyncio.TimerHandle | None = None
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            if len(proven) < most:
                super().connection_made(transport)
                self._admit()
                self._watch()
                return
            self.transport = transport
            self._refused = asyncio.get_running_loop().call_later(LINGER, transport.close)

        def _admit(self) -> None:
            """Until it has shown the token, in the place of the oldest that has not."""
            if len(unproven) >= most_unproven:
                oldest = next(iter(unproven))
                del unproven[oldest]
                oldest.transport.abort()
            unproven[self] = None
            served = self.app

            async def app(scope: Scope, receive: Receive, send: Send) -> None:
                scope[PROVE] = self._prove
                await served(scope, receive, send)

            self.app = app

        def _prove(self) -> bool:
            if self in unproven and len(proven) < most:
                del unproven[self]
                proven.add(self)
            return self in proven

        def data_received(self, data: bytes) -> None:
            if self._refused is None:
                super().data_received(data)
                self._watch()
            elif not self.transport.is_closing():
                self.transport.write(answer)
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
            unproven.pop(self, None)
            proven.discard(self)
            if self._deadline is not None:
                self._deadline.cancel()
            if self._refused is None:
                super().connection_lost(exc)
            else:
                self._refused.cancel()

    return Limited
