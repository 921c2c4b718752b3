"""A limit on the connections of the HTTP door, idle ones included.

uvicorn's own limit looks only at requests, so connections that send none could use up every
descriptor. One too many is told 503 as soon as it asks for something, and soon closed if not.
Nor has uvicorn a limit on the time for a request's headers: a connection whose headers are not
whole in time is closed.
"""

from __future__ import annotations

import asyncio
import json

from uvicorn.protocols.http.h11_impl import H11Protocol

from memoryd.doors import render
from memoryd.doors.rate import too_many

HEADER_SECONDS = (
    10.0  # from the first byte of a request, or from connecting, to the end of its headers
)
LINGER = 1.0  # seconds for a refused connection to ask something


def limited(most: int) -> type[asyncio.Protocol]:
    """The protocol of a door that serves at most so many connections at a time."""
    body = json.dumps({"error": render.error(too_many(most))}).encode()
    head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
    answer = f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body

    class Limited(H11Protocol):
        _refused: asyncio.TimerHandle | None = None
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            if len(self.connections) < most:
                super().connection_made(transport)
                self._watch()
                return
            self.transport = transport
            self._refused = asyncio.get_running_loop().call_later(LINGER, transport.close)

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
            if self._deadline is not None:
                self._deadline.cancel()
            if self._refused is None:
                super().connection_lost(exc)
            else:
                self._refused.cancel()

    return Limited
