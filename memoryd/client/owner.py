"""The client with the calls that are for the owner of the memories alone, on the local socket."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict, cast

from memoryd.client.client import Client
from memoryd.client.types import Memory


class Culled(TypedDict):
    """What a forget by filter matched, what of it is gone now, and the first few of it."""

    matched: int
    forgotten: int
    types: dict[str, int]
    first: list[Memory]


class ExportPage(TypedDict):
    """Memories as an export writes them; `after` asks for the next page, None after the last."""

    memories: list[dict[str, Any]]
    after: str | None
    total: int
    model: str | None
    dimension: int | None


class Arrived(TypedDict):
    """What became of one memory: added, replaced, known, kept, expired or refused."""

    outcome: str
    rival: NotRequired[str | None]
    masked: NotRequired[bool]
    error: NotRequired[dict[str, str]]


class BackedUp(TypedDict):
    """A backup that was made and verified."""

    path: str
    memories: int
    bytes: int
    created_at: str


class OwnerClient(Client):
    """`Client` and what agents are not shown."""

    async def forget_where(self, **options: Any) -> Culled:
        """Delete what matches, so many at a time; `dry_run` only counts."""
        return cast(Culled, await self._tool("forget_where", options))

    async def export_page(self, after: str | None, *, embeddings: bool = False) -> ExportPage:
        """The memories that follow an id, from the first one on if it is None."""
        given = {"after": after, "embeddings": embeddings}
        return cast(ExportPage, await self._tool("export_memories", given))

    async def import_batch(
        self,
        memories: list[dict[str, Any]],
        *,
        model: str | None = None,
        overwrite: bool = False,
        trust_vectors: bool = False,
    ) -> list[Arrived]:
        """Keep each of a batch as it is; in order, what became of it. With `trust_vectors` the
        vectors that come with them are used if they are of `model`, and that serves there."""
        given: dict[str, Any] = {"memories": memories, "model": model, "overwrite": overwrite}
        if trust_vectors:  # which a daemon of an older version does not know
            given["trust_vectors"] = True
        answer = await self._tool("import_memories", given)
        return cast(list[Arrived], answer["outcomes"])

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
