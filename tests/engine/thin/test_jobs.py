"""Names that were given away twice, in a daemon without an index."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from memoryd.engine.thin.jobs import ThinJobs
from memoryd.model import Memory, MemoryType
from memoryd.ports import Record


def named(id: str, clock: int, audience: str, project: str | None = None) -> Record:
    metadata = {"audience": audience, **({"project": project} if project else {})}
    memory = Memory(id, MemoryType.FACT, id, 1.0, None, metadata=metadata, name="it")
    return Record(memory, revision=1, clock=clock)


class Stored:
    """What the jobs use of queries, working set and memories."""

    def __init__(self, *records: Record) -> None:
        self.records = {record.memory.id: record for record in records}

    async def find(self, *asked: object, limit: int) -> list[str]:
        return list(self.records)

    async def get(self, ids: list[str]) -> list[Record]:
        return [self.records[id] for id in ids]

    @asynccontextmanager
    async def operation(self) -> AsyncIterator[None]:
        yield

    async def drop_if(self, ids: list[str], still: Any) -> set[str]:
        gone = {id for id in ids if still(self.records[id].memory)}
        for id in gone:
            del self.records[id]
        return gone


async def test_of_memories_with_one_name_the_last_of_each_audience_is_kept() -> None:
    stored = Stored(
        *(named("team 1", 1, "team"), named("team 2", 3, "team"), named("mine", 2, "private")),
        *(named("old mine", 1, "private"), named("bees 1", 5, "project", "bees")),
        *(named("bees 2", 4, "project", "bees"), named("rye", 1, "project", "rye")),
    )
    jobs = ThinJobs(*cast(Any, (None, stored, stored, stored, None)))
    await jobs._keep_last("it")
    # Private memories are written by nobody else.
    assert sorted(stored.records) == ["bees 1", "mine", "old mine", "rye", "team 2"]
