"""What the worker of one store finds for `memoryd.queries.Queries`: the daemon's side."""

from __future__ import annotations

from memoryd.adapters.chroma.store import ChromaStore
from memoryd.ports import Record
from memoryd.queries import Candidates, CandidatesWanted, Conditions, Place


class StoreQueries:
    """See `memoryd.queries.Queries`, of which this is a part."""

    def __init__(self, store: ChromaStore) -> None:
        self._store = store

    async def find(self, *asked: Conditions, limit: int) -> list[str]:
        found: list[str] = await self._store.query("find", asked, limit)
        return found

    async def newest(
        self, conditions: Conditions, now: float, after: Place | None, limit: int
    ) -> list[Place]:
        found: list[Place] = await self._store.query("newest", conditions, now, after, limit)
        return found

    async def candidates(self, wanted: CandidatesWanted) -> Candidates:
        found: Candidates = await self._store.query("candidates", wanted)
        return found

    async def sample(self, count: int) -> tuple[list[Record], int]:
        found: tuple[list[Record], int] = await self._store.query("sample", count)
        return found
