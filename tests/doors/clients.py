"""Clients of every door: the official MCP client, and plain HTTP requests."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.daemons import INITIALIZE, Daemon, unix_transport
from tests.processes import environment

HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}


@asynccontextmanager
async def connected(
    daemon: Daemon, door: str, era: str, token: str, tools: str | None = None
) -> AsyncIterator[Client]:
    """The MCP client at a door: unix, stdio (by the shim) or http. It may ask for toolsets."""
    if door == "unix":
        async with Client(unix_transport(daemon.socket, tools), mode=era) as client:
            yield client
    elif door == "stdio":
        flags = ["--data-dir", str(daemon.folder), "--socket", str(daemon.socket)]
        flags += ["--tools", tools] if tools else []
        shim = StdioServerParameters(
            command=sys.executable, args=["-m", "memoryd", *flags, "mcp"], env=environment()
        )
        async with Client(shim, mode=era) as client:
            yield client
    else:
        path = f"/mcp?tools={tools}" if tools else "/mcp"
        async with over_http(daemon, token, era, path) as client:
            yield client


@asynccontextmanager
async def over_http(
    daemon: Daemon, token: str, era: str, path: str = "/mcp", **headers: str
) -> AsyncIterator[Client]:
    """The MCP client at the HTTP door, with headers of its own."""
    headers |= {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http:
        transport = streamable_http_client(address(daemon) + path, http_client=http)
        async with Client(transport, mode=era) as client:
            yield client


def post(daemon: Daemon, path: str = "/mcp", **headers: str) -> httpx.Response:
    """A greeting by a plain request."""
    given = {"Accept": "application/json, text/event-stream", **headers}
    with httpx.Client(trust_env=False, timeout=60) as client:
        return client.post(address(daemon) + path, json=HELLO, headers=given)


def get(daemon: Daemon, path: str, **headers: str) -> httpx.Response:
    with httpx.Client(trust_env=False, timeout=60) as client:
        return client.get(address(daemon) + path, headers=headers)


def address(daemon: Daemon) -> str:
    """Of its HTTP door."""
    return f"http://127.0.0.1:{daemon.settings['MEMORYD_DOORS_HTTP_PORT']}"
