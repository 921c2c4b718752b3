"""The bodies of HTTP requests, checked before the protocol library parses them on the event loop:
the same limits as those of a line, see `lines`, and a limit on the time that a body takes."""

from __future__ import annotations

import anyio
import mcp.types as types
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memoryd.doors.lines import MAX_VALUES, TOO_MANY_VALUES, BadLine, text_of, values_in

BODY_SECONDS = 60.0  # for all of a body
LATE = f"The body of a request must come within {BODY_SECONDS:g} seconds."


class Bodies:
    """Reads the whole body of a request, and passes the request on if it is within the limits."""

    def __init__(self, app: ASGIApp, most: int, seconds: float = BODY_SECONDS) -> None:
        self._app = app
        self._most = most
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        messages: list[Message] = []
        with anyio.move_on_after(self._seconds):
            messages = await self._whole(receive)
        if refusal := self._refusal(messages):
            await refusal(scope, receive, send)
            return

        async def again() -> Message:
            return messages.pop(0) if messages else await receive()

        await self._app(scope, again, send)

    async def _whole(self, receive: Receive) -> list[Message]:
        """The messages that make up the body, or as many as are too long already."""
        messages, size = [await receive()], 0
        while messages[-1]["type"] == "http.request":
            size += len(messages[-1].get("body", b""))
            if size > self._most or not messages[-1].get("more_body", False):
                break
            messages.append(await receive())
        return messages

    def _refusal(self, messages: list[Message]) -> Response | None:
        if not messages:
            return _no(408, LATE)
        body = b"".join(message.get("body", b"") for message in messages)
        if len(body) > self._most:
            return _no(413, f"A message may have at most {self._most} bytes.")
        if values_in(body) > MAX_VALUES:
            return _no(400, TOO_MANY_VALUES)
        return None


def _no(status: int, text: str) -> Response:
    """A JSON-RPC error. The rest of the body may still be coming, so the connection ends."""
    answer = text_of(BadLine(types.INVALID_REQUEST, text).answer)
    return Response(answer, status, {"Connection": "close"}, "application/json")
