"""The client with the calls of whoever owns the machine: backup, rescue, sweep, purge."""

from __future__ import annotations

from typing import TypedDict, cast

from memoryd.client.client import Client


class BackedUp(TypedDict):
    """A backup that was made and verified."""

    path: str
    memories: int
    bytes: int
    created_at: str


class AdminClient(Client):
    """What agents are not shown."""

    async def backup(self) -> BackedUp:
        """Have the daemon make a backup now."""
        return cast(BackedUp, await self._tool("backup", {}))

    async def rescue(self, folder: str | None = None) -> BackedUp:
        """Have the daemon write all that it holds in RAM to a backup, in `folder` if one is named,
        and to a new store: for one whose files are gone."""
        return cast(BackedUp, await self._tool("rescue", {"folder": folder}))

    async def sweep(self, *, clock_is_right: bool = False) -> int:
        """Delete what has expired; how many memories that were."""
        answer = await self._tool("sweep", {"clock_is_right": clock_is_right})
        return cast(int, answer["deleted"])

    async def audit(self) -> dict[str, int]:
        """How many memories the index and the store hold."""
        return await self._tool("audit", {})

    async def purge(self) -> None:
        """Have no byte of what was forgotten in any file but backups."""
        await self._tool("purge", {})
