"""The routes of the page: its files, the login, and one address for all calls.

The page can do what the `memoryd` command can, by the same calls: its requests count as the owner's
once the browser has logged in. Every request that reads or changes memories is a POST with the
browser's cookie, its token in a header and our own Origin, so no text is in an address and no other
page can send one.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from functools import cached_property
from typing import Any

import anyio.to_thread
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from memoryd.doors import render
from memoryd.doors.page.assets import Assets
from memoryd.doors.page.logins import Login, Logins
from memoryd.doors.page.peers import uid_of
from memoryd.doors.server import McpServer
from memoryd.doors.sessions import PEER, Peer
from memoryd.doors.web.connections import AUTHENTICATE
from memoryd.errors import InvalidInput, MemorydError

PATH = "/page"
COOKIE, TOKEN_HEADER = "memoryd_page", "Memoryd-Page-Token"
# Everything comes from this door, and nothing is run or styled that is not a file of it. No text
# can become HTML (trusted types), and no other page can embed this one.
CONTENT_SECURITY = "; ".join(
    (
        *("default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:"),
        *("connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
        *("require-trusted-types-for 'script'", "trusted-types 'none'"),
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class NotLoggedIn(MemorydError):
    """The browser has no valid login."""

    code = "not_logged_in"
    hint = "Run: memoryd dashboard"


class Page:
    """Serves the page below PATH."""

    def __init__(self, server: McpServer, logins: Logins) -> None:
        self._server = server
        self._logins = logins
        self.watching = 0  # browsers that are connected for events

    @cached_property
    def _assets(self) -> Assets:
        return Assets()

    @cached_property
    def app(self) -> ASGIApp:
        return Router(
            [
                Route("/login", self._log_in, methods=["POST"]),
                Route("/logout", self._log_out, methods=["POST"]),
                Route("/call", self._call, methods=["POST"]),
                Route("/map", self._map, methods=["POST"]),
                Route("/events", self._events, methods=["POST"]),
                Route("/static/{name:path}", self._asset),
                Route("/{view:path}", self._shell),
            ]
        )

    async def _shell(self, request: Request) -> Response:
        assets = await anyio.to_thread.run_sync(lambda: self._assets)
        html = assets.shell(request.headers.get("accept-language", ""))
        caching = {"Cache-Control": "no-store", "Vary": "Accept-Language"}
        return Response(html, headers=HEADERS | caching, media_type="text/html")

    async def _asset(self, request: Request) -> Response:
        assets = await anyio.to_thread.run_sync(lambda: self._assets)
        if (found := assets.get(request.path_params["name"])) is None:
            return Response("Not found", 404, HEADERS, "text/plain")
        caching = {"Cache-Control": "no-cache", "ETag": found.tag}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=HEADERS | caching)
        headers = HEADERS | caching | {"Content-Type": found.media_type}
        return Response(found.content, headers=headers)

    async def _log_in(self, request: Request) -> Response:
        """Exchange the ticket of a one-time link for the secrets of a browser."""
        if (refusal := _foreign(request)) is not None:
            return refusal
        ticket = (await _body(request)).get("ticket")
        uid = await anyio.to_thread.run_sync(uid_of, *(request.client or ("", 0)))
        if uid not in (None, os.getuid()):
            return _refused(401, NotLoggedIn("This link is for another user of the machine."))
        login = self._logins.redeem(ticket) if isinstance(ticket, str) else None
        if login is None:
            return _refused(401, NotLoggedIn("This link was used already, or is too old."))
        answer = _answer({"token": login.token})
        answer.headers["Set-Cookie"] = _cookie(request, login)
        return answer

    async def _log_out(self, request: Request) -> Response:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        self._logins.log_out(_cookie_of(request))
        return _answer({})

    async def _call(self, request: Request) -> Response:
        """One call of a tool or an owner's operation, as `{tool, arguments}`. A refusal of the tool
        is an answer too, as everywhere in the protocol, so that a browser reports only faults."""
        if (refusal := self._refusal(request)) is not None:
            return refusal
        given = await _body(request)
        tool, arguments = given.get("tool"), given.get("arguments", {})
        if not isinstance(tool, str) or not isinstance(arguments, dict):
            told = InvalidInput("Expected {tool, arguments}.", code="call_invalid")
            return _refused(400, told)
        PEER.set(Peer(None, local=True, tools="all"))
        try:
            return _answer({"answer": await self._server.call_as_owner(tool, arguments)})
        except MemorydError as exc:
            return _refused(200, exc)

    async def _map(self, request: Request) -> Response:
        """The points of a map as bytes, for `{revision}`; a refusal is JSON, as for a call."""
        if (refusal := self._refusal(request)) is not None:
            return refusal
        revision = (await _body(request)).get("revision")
        if not isinstance(revision, str):
            return _refused(400, InvalidInput("Expected {revision}.", code="call_invalid"))
        try:
            points = await self._server.map_as_owner(revision)
        except MemorydError as exc:
            return _refused(200, exc)
        headers = HEADERS | {"Cache-Control": "no-store"}
        return Response(points, headers=headers, media_type="application/octet-stream")

    async def _events(self, request: Request) -> Response:
        """Server-sent events: figures every few seconds, and a word when memories have changed."""
        if (refusal := self._refusal(request)) is not None:
            return refusal
        headers = HEADERS | {"Cache-Control": "no-store"}
        return StreamingResponse(self._stream(), headers=headers, media_type="text/event-stream")

    async def _stream(self) -> AsyncIterator[str]:
        self.watching += 1
        try:
            yield ": connected\n\n"
            async for event, data in self._server.operations.live.changes():
                yield f"event: {event}\ndata: {json.dumps(data)}\n\n"
        finally:
            self.watching -= 1

    def _refusal(self, request: Request) -> Response | None:
        """Why a request is not the owner's; None if it is."""
        if (refusal := _foreign(request)) is not None:
            return refusal
        token = request.headers.get(TOKEN_HEADER, "")
        if not self._logins.knows(_cookie_of(request), token):
            return _refused(401, NotLoggedIn("This browser is not logged in."))
        admit = request.scope.get(AUTHENTICATE)
        if admit is not None and not admit():
            told = MemorydError("There are too many connections.", code="too_many_connections")
            return _refused(503, told)
        return None


def _foreign(request: Request) -> Response | None:
    """A refusal unless a page of this door sent the request. A browser names the origin of every
    POST, and the guard has refused all but our own; this refuses requests without one."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    if "origin" in request.headers and site == "same-origin":
        return None
    told = MemorydError("Only the page itself may call this.", code="origin_refused")
    return _refused(403, told)


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object in a request; empty if there is none."""
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _cookie_name(headers: Headers) -> str:
    """With the port, because browsers keep one set of cookies for all ports of a host."""
    return f"{COOKIE}_{headers.get('host', '').rpartition(':')[2]}"


def _cookie_of(request: Request) -> str:
    return request.cookies.get(_cookie_name(request.headers), "")


def _cookie(request: Request, login: Login) -> str:
    name = _cookie_name(request.headers)
    return f"{name}={login.cookie}; Path={PATH}; HttpOnly; SameSite=Strict"


def _answer(found: dict[str, Any]) -> JSONResponse:
    return JSONResponse(found, headers=HEADERS | {"Cache-Control": "no-store"})


def _refused(status: int, exc: MemorydError) -> JSONResponse:
    headers = HEADERS | {"Cache-Control": "no-store"}
    return JSONResponse({"error": render.error(exc)}, status, headers)
