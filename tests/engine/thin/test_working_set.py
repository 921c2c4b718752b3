"""What operations that overlap have in the index, in a daemon without one."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from memoryd.engine.index.index import Index
from memoryd.engine.parts import KeyLocks
from memoryd.engine.thin.working_set import WorkingSet
from memoryd.model import Memory, MemoryType
from memoryd.ports import Record
from memoryd.queries import failures, note_failure


class Queries:
    """Has every memory that is asked for, and may fail."""

    fails = False

    async def get(self, ids: Sequence[str], *, only_here: bool = False) -> list[Record]:
        if self.fails:
            note_failure("The server is away.")
            return []
        return [Record(Memory(id, MemoryType.FACT, id, 1.0, None), revision=7) for id in ids]


class Place:
    """A working set and its index."""

    def __init__(self) -> None:
        self.queries, self.index = Queries(), Index(8, keep_vectors=False)
        parts = SimpleNamespace(index=self.index, locks=KeyLocks())
        self.working_set = WorkingSet(cast(Any, parts), cast(Any, self.queries))

    async def use(self, ends: anyio.Event, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        """Use a memory until the event."""
        async with self.working_set.operation():
            await self.working_set.load(["x"])
            task_status.started()
            await ends.wait()


@pytest.fixture
def place() -> Place:
    return Place()


async def test_a_memory_stays_while_an_operation_uses_it(place: Place) -> None:
    """Also if another one has read it before, and a third one ends that began before both."""
    oldest, second, last = anyio.Event(), anyio.Event(), anyio.Event()

    async def wait(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        async with place.working_set.operation():
            task_status.started()
            await oldest.wait()

    async with anyio.create_task_group() as tasks:
        await tasks.start(wait)
        await tasks.start(place.use, second)
        second.set()
        await anyio.wait_all_tasks_blocked()
        await tasks.start(place.use, last)
        oldest.set()
        await anyio.wait_all_tasks_blocked()
        assert "x" in place.index
        last.set()
    assert len(place.index) == 0


async def test_what_could_not_be_read_is_asked_for_again(place: Place) -> None:
    async with place.working_set.operation():
        place.queries.fails = True
        await place.working_set.load(["x"])
        assert (len(place.index), len(failures())) == (0, 1)
        place.queries.fails = False
        await place.working_set.load(["x"])
        assert "x" in place.index
    assert failures() == ()


async def test_failures_of_others_do_not_count(place: Place) -> None:
    async with place.working_set.operation():

        async def fail() -> None:
            async with place.working_set.operation():
                place.queries.fails = True
                await place.working_set.load(["y"])
                assert len(failures()) >= 1

        await fail()  # nested: the same operation
        assert len(failures()) == 1
    place.queries.fails = False
    async with place.working_set.operation():
        await place.working_set.load(["x"])
        assert failures() == ()
