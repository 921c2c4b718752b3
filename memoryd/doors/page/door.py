"""Opens the HTTP door for the page when it is first asked for, and makes links to it.

The page is served on loopback only: where the configured HTTP door is for other machines, or there
is none, it gets a door of its own on a free port.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import anyio

from memoryd.doors.page.app import PATH
from memoryd.doors.page.logins import Logins
from memoryd.hosts import is_loopback
from memoryd.settings import DoorSettings

LOOPBACK = "127.0.0.1"


class PageDoor:
    """`open_door` opens an HTTP door with these settings, and says its port."""

    def __init__(
        self,
        doors: DoorSettings,
        logins: Logins,
        open_door: Callable[[DoorSettings], Awaitable[int]],
    ) -> None:
        self._doors = doors
        self._logins = logins
        self._open_door = open_door
        self._opening = anyio.Lock()
        self._address = ""
        if doors.http_port and is_loopback(doors.http_host):
            host = doors.http_host.strip("[]")
            self._address = f"[{host}]:{doors.http_port}" if ":" in host else _at(doors)

    async def open_page(self, given: dict[str, Any]) -> dict[str, Any]:
        """A link that logs one browser in. The ticket is in the part of an address that browsers do
        not send, so it is in no log. Raises CannotListen."""
        async with self._opening:
            if not self._address:
                port = await self._open_door(replace(self._doors, http_host=LOOPBACK, http_port=0))
                self._address = f"{LOOPBACK}:{port}"
        return {"url": f"http://{self._address}{PATH}/#ticket={self._logins.new_ticket()}"}


def _at(doors: DoorSettings) -> str:
    return f"{doors.http_host}:{doors.http_port}"
