"""The routes of the page, without a network."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest

from memoryd.doors.page.app import Page
from memoryd.doors.page.logins import Logins
from memoryd.doors.readiness import Readiness
from memoryd.doors.server import McpServer
from memoryd.doors.status import Status


async def test_a_browser_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    readiness = Readiness()
    logins = Logins()
    page = Page(McpServer(readiness, Status(readiness, Path())), logins)
    origin = "http://127.0.0.1:1"
    for uid, expected in ((os.getuid() + 1, 401), (os.getuid(), 200), (None, 200)):
        monkeypatch.setattr("memoryd.doors.page.app.uid_of", lambda *_, uid=uid: uid)
        transport = httpx.ASGITransport(page.app)
        async with httpx.AsyncClient(transport=transport, base_url=origin) as client:
            ticket = {"ticket": logins.new_ticket()}
            answer = await client.post("/login", json=ticket, headers={"Origin": origin})
        assert answer.status_code == expected
