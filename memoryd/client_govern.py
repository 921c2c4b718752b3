"""A client that governs: what the command line does with many memories at once."""

from __future__ import annotations

from typing import Any, TypedDict, cast

from memoryd.client import Client
from memoryd.client_answers import Memory


class Culled(TypedDict):
    """What a forget by filter matched, what of it is gone now, and the first few of it."""

    matched: int
    forgotten: int
    types: dict[str, int]
    first: list[Memory]


class Governor(Client):
    """`Client` and the operations that are for the owner of the memories alone."""

    async def forget_where(self, **options: Any) -> Culled:
        """Delete what matches, so many at a time; `dry_run` only counts."""
        return cast(Culled, await self._tool("forget_where", options))
