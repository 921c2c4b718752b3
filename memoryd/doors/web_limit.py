"""A limit on the connections of the HTTP door, idle ones included.

uvicorn's own limit looks only at requests, so connections that send none could use up every
descriptor. One too many is told 503 as soon as it asks for something, and soon closed if not.
"""

from __future__ import annotations

import asyncio
import json

from uvicorn.protocols.http.h11_impl import H11Protocol

from memoryd.doors import render
from memoryd.doors.rate import too_many

LINGER = 1.0  # seconds for a refused connection to ask something


def limited(most: int) -> type[asyncio.Protocol]:
    """The protocol of a door that serves at most so many connections at a time."""
    body = json.dumps({"error": render.error(too_many(most))}).encode()
    head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
    answer = f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body

    class Limited(H11Protocol):
        _refused: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            if len(self.connections) < most:
                super().connection_made(transport)
                return
            self.transport = transport
            self._refused = asyncio.get_running_loop().call_later(LINGER, transport.close)

        def data_received(self, data: bytes) -> None:
            if self._refused is None:
                super().data_received(data)
            elif not self.transport.is_closing():
                self.transport.write(answer)
                self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._refused is None:
                super().connection_lost(exc)
            else:
                self._refused.cancel()

    return Limited
