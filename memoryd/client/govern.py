"""A client that governs: what the command line does with many memories at once."""

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


class Governor(Client):
    """`Client` and the operations that are for the owner of the memories alone."""

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
