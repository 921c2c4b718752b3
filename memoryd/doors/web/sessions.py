"""A limit on the protocol's sessions at the HTTP door, which clients open and seldom close.

When a session over the limit is opened, the least recently used one is ended; its client gets 404
and opens another, as the protocol says. Memories of the ended session stay. A new session is
refused only if every other has a running request.
"""

from __future__ import annotations

from collections import OrderedDict

import structlog
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memoryd.doors import render
from memoryd.doors.sessions import MCP_HEADER
from memoryd.errors import MemorydError

log = structlog.get_logger()
VERSION_HEADER = "Mcp-Protocol-Version"


class TooManySessions(MemorydError):
    """The limit is reached, and every session has a running request."""

    code = "too_many_sessions"
    hint = "Close some, or raise doors.http_max_sessions."


class Sessions:
    """Tracks the sessions of the application, and ends the least recently used over the limit."""

    def __init__(self, app: ASGIApp, max_sessions: int, path: str = "/mcp") -> None:
        self._app = app
        self._max_sessions = max_sessions
        self._path = path
        # Running requests by session; the most recently used session is last.
        self._running: OrderedDict[str, int] = OrderedDict()
        self._opening = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != self._path:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if session := headers.get(MCP_HEADER):
            await self._serve(session, scope, receive, send)
        elif scope["method"] == "POST" and _has_sessions(headers.get(VERSION_HEADER)):
            await self._open_session(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _serve(self, session: str, scope: Scope, receive: Receive, send: Send) -> None:
        async def watched(message: Message) -> None:
            is_gone = message.get("status") == 404 or scope["method"] == "DELETE"
            if message["type"] == "http.response.start" and is_gone:
                self._running.pop(session, None)
            if _is_last(message):  # counted before the client can react and open another
                self._count(session, -1)
            await send(message)

        self._count(session, 1)
        await self._app(scope, receive, watched)

    async def _open_session(self, scope: Scope, receive: Receive, send: Send) -> None:
        opened: str | None = None

        async def watched(message: Message) -> None:
            nonlocal opened
            if message["type"] == "http.response.start" and message["status"] < 400:
                opened = Headers(raw=message["headers"]).get(MCP_HEADER)
                if opened:
                    self._opening -= 1
                    self._running[opened] = 1
            if opened and _is_last(message):
                self._count(opened, -1)
            await send(message)

        self._opening += 1
        try:
            if await self._make_room():
                await self._app(scope, receive, watched)
            else:
                told = TooManySessions(f"There are {self._max_sessions} sessions, all in use.")
                await JSONResponse({"error": render.error(told)}, 503)(scope, receive, send)
        finally:
            self._opening -= opened is None

    def _count(self, session: str, change: int) -> None:
        if session in self._running:
            self._running[session] += change
            self._running.move_to_end(session)

    async def _make_room(self) -> bool:
        """End idle sessions until those being opened fit; false if there are too few."""
        while len(self._running) + self._opening > self._max_sessions:
            idle = next((id for id, count in self._running.items() if not count), None)
            if idle is None:
                return False
            del self._running[idle]
            await self._end(idle)
        return True

    async def _end(self, session: str) -> None:
        """End a session as its client would, by DELETE."""
        log.info("session_ended", reason="too many", most=self._max_sessions)
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "DELETE",
            "scheme": "http",
            "path": self._path,
            "raw_path": self._path.encode(),
            "query_string": b"",
            "headers": [(MCP_HEADER.lower().encode(), session.encode())],
        }

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            return

        await self._app(scope, receive, send)


def _has_sessions(version: str | None) -> bool:
    """Whether this protocol version has sessions; the newest has not."""
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS


def _is_last(message: Message) -> bool:
    return message["type"] == "http.response.body" and not message.get("more_body", False)
