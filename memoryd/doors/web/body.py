"""Limits on the bodies of HTTP requests, checked before the protocol library parses them on the
event loop: the same as for a line, see `lines`, and a time limit."""

from __future__ import annotations

import anyio
import mcp.types as types
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memoryd.doors.lines import MAX_VALUES, TOO_MANY_VALUES, BadLine, text_of, values_in

BODY_SECONDS = 60.0  # for a whole body
LATE = f"The body of a request must arrive within {BODY_SECONDS:g} seconds."


class Bodies:
    """Reads the whole body of a request, and passes the request on if it is within the limits."""

    def __init__(self, app: ASGIApp, max_bytes: int, seconds: float = BODY_SECONDS) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        messages: list[Message] = []
        with anyio.move_on_after(self._seconds):
            messages = await self._read_body(receive)
        if refusal := self._refusal(messages):
            await refusal(scope, receive, send)
            return

        async def again() -> Message:
            return messages.pop(0) if messages else await receive()

        await self._app(scope, again, send)

    async def _read_body(self, receive: Receive) -> list[Message]:
        """The messages of the body; stops once they are too long."""
        messages, size = [await receive()], 0
        while messages[-1]["type"] == "http.request":
            size += len(messages[-1].get("body", b""))
            if size > self._max_bytes or not messages[-1].get("more_body", False):
                break
            messages.append(await receive())
        return messages

    def _refusal(self, messages: list[Message]) -> Response | None:
        if not messages:
            return _refused(408, LATE)
        body = b"".join(message.get("body", b"") for message in messages)
        if len(body) > self._max_bytes:
            return _refused(413, f"A message may have at most {self._max_bytes} bytes.")
        if values_in(body) > MAX_VALUES:
            return _refused(400, TOO_MANY_VALUES)
        return None


def _refused(status: int, text: str) -> Response:
    """A JSON-RPC error. Closes the connection, because the rest of the body may still come."""
    answer = text_of(BadLine(types.INVALID_REQUEST, text).answer)
    return Response(answer, status, {"Connection": "close"}, "application/json")
