"""The HTTP door: MCP at /mcp, /health, /metrics and the page. Host, Origin and token are checked
here for every path, because the protocol library checks them only for its own path and accepts any
local port. The page checks a login of its own in place of the token."""

from __future__ import annotations

import socket
from collections.abc import Container, Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import anyio
import anyio.abc
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from memoryd import __version__
from memoryd.doors.limits import Rate, RateLimited, TooManyConnections, too_fast
from memoryd.doors.page.app import PATH as PAGE
from memoryd.doors.page.app import Page
from memoryd.doors.readiness import Readiness
from memoryd.doors.rights import NONE, Tokens
from memoryd.doors.server import McpServer
from memoryd.doors.sessions import MCP_HEADER, PEER, RIGHTS, Peer
from memoryd.doors.web.body import Bodies
from memoryd.doors.web.connections import AUTHENTICATE, limited_protocol
from memoryd.doors.web.sessions import Sessions
from memoryd.fair import CALLER
from memoryd.hosts import hosts_served, is_loopback, origins_served
from memoryd.settings import DoorSettings

HOST_REFUSED = "This host is not served here. To serve it, name it in doors.http_allowed_hosts."
OPEN_PATHS = ("/health",)  # without a token: tells only state and version
TOKEN_REFUSED = "Send the token: Authorization: Bearer TOKEN."
FULL = "There are too many connections already."
PROMETHEUS = "text/plain; version=0.0.4"


class Guard:
    """Refuses requests without the token or for another host or origin."""

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens,
        hosts: Container[str],
        origins: Container[str] = (),
        rate: float = 0.0,
        *,
        serves_page: bool = False,
    ) -> None:
        self._app = app
        self._serves_page = serves_page
        self._max_calls_per_second = rate
        self._rate = Rate(
            rate
        )  # of the whole door: an HTTP client may open a connection for each request
        self._tokens = tokens
        self._hosts = hosts
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            if refusal := self._refusal(scope, headers):
                await refusal(scope, receive, send)
                return
            scope[RIGHTS] = rights = self._tokens.rights(_token(headers))
            # Each request names its session.
            PEER.set(Peer(None, rights=rights or NONE))
            CALLER.set(_caller(scope, headers))
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        path = scope["path"]
        if headers.get("host", "").lower() not in self._hosts:
            return _refused(421, "host_refused", HOST_REFUSED)
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._origins:
            return _refused(403, "origin_refused", "Pages of other sites may not call memoryd.")
        if path in OPEN_PATHS:
            return None
        if not (self._serves_page and is_page(path)):
            if self._tokens.rights(_token(headers)) is None:
                return _refused(401, "token_refused", TOKEN_REFUSED)
            if AUTHENTICATE in scope and not scope[AUTHENTICATE]():
                return _refused(503, TooManyConnections.code, FULL)
        if not self._rate.allows():
            return _refused(429, RateLimited.code, too_fast(self._max_calls_per_second).message)
        return None


def is_page(path: str) -> bool:
    return path == PAGE or path.startswith(f"{PAGE}/")


def _token(headers: Headers) -> bytes:
    """The bearer token of a request."""
    scheme, _, token = headers.get("authorization", "").encode().partition(b" ")
    return token if scheme == b"Bearer" else b""


def _caller(scope: Scope, headers: Headers) -> Hashable:
    """The caller for fair sharing: the protocol's session, else the address, because a client
    without a session may open a connection for each request."""
    address = scope.get("client") or ("", 0)
    return ("http", headers.get(MCP_HEADER) or address[0])


def _refused(status: int, code: str, message: str) -> JSONResponse:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": {"code": code, "message": message}}, status, headers)


class _Server(uvicorn.Server):
    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()  # the daemon handles signals


def web_app(
    server: McpServer,
    readiness: Readiness,
    doors: DoorSettings,
    tokens: Tokens,
    page: Page,
    port: int,
) -> ASGIApp:
    """The guarded application."""

    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"health": readiness.stage, "version": __version__})

    async def metrics(request: Request) -> PlainTextResponse:
        return PlainTextResponse(await server.status.metrics(), media_type=PROMETHEUS)

    routes: list[Any] = [Route("/health", health), Route("/metrics", metrics)]
    serves_page = is_loopback(doors.http_host)
    if serves_page:
        routes.append(Mount(PAGE, app=page.app))
    app: Starlette = server.lowlevel.streamable_http_app(
        custom_starlette_routes=routes,
        max_request_body_size=doors.max_line_bytes,
        session_idle_timeout=doors.http_session_idle,
        max_sessions=None,  # see `Sessions`
        # Guard has checked this, more strictly.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    hosts, origins = hosts_served(doors, port), origins_served(doors, port)
    bodies = Bodies(Sessions(app, doors.http_max_sessions), doors.max_line_bytes)
    rate = doors.max_calls_per_second
    return Guard(bodies, tokens, hosts, origins, rate, serves_page=serves_page)


async def serve_web(
    server: McpServer,
    readiness: Readiness,
    doors: DoorSettings,
    tokens: Tokens,
    page: Page,
    listening: socket.socket,
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; started once it listens."""
    app = web_app(server, readiness, doors, tokens, page, listening.getsockname()[1])
    config = uvicorn.Config(
        app,
        http=limited_protocol(doors.max_connections, doors.max_unauthenticated),
        timeout_keep_alive=doors.http_idle,
        ws="none",  # not used, and its connections would not be counted
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    http = _Server(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_run, http, listening)
        while not http.started:  # noqa: ASYNC110 (uvicorn has no event for it)
            await anyio.sleep(0.01)
        task_status.started()


async def _run(http: Any, listening: socket.socket) -> None:
    try:
        await http.serve(sockets=[listening])
    except anyio.get_cancelled_exc_class():
        http.should_exit = True
        with anyio.CancelScope(shield=True):
            await http.shutdown(sockets=[listening])
        raise
