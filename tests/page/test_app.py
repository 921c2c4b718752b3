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
    """And it does not use up the link; where the system does not tell the user, any is let in."""
    readiness = Readiness()
    logins = Logins()
    page = Page(McpServer(readiness, Status(readiness, Path())), logins)
    origin = "http://127.0.0.1:1"
    ticket = {"ticket": logins.new_ticket()}
    other, own = os.getuid() + 1, os.getuid()
    for uid, expected in ((other, 401), (own, 200), (own, 401), (None, 200)):
        monkeypatch.setattr("memoryd.doors.page.app.uid_of", lambda *_, uid=uid: uid)
        if uid is None:
            ticket = {"ticket": logins.new_ticket()}
        transport = httpx.ASGITransport(page.app)
        async with httpx.AsyncClient(transport=transport, base_url=origin) as client:
            answer = await client.post("/login", json=ticket, headers={"Origin": origin})
        assert answer.status_code == expected
