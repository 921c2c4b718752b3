"""Forget by filter: exactly what the filter matches, counted exactly."""

from __future__ import annotations

from typing import Any

import pytest

from memoryd.engine.bulk_forget import BulkForget
from memoryd.engine.engine import Engine
from memoryd.engine.filters import Filter
from memoryd.engine.memories import Memories
from memoryd.errors import InvalidInput
from memoryd.model import DAY, MemoryType
from tests.engine.conftest import Clock
from tests.ramstore import RamStore


async def contents(engine: Engine) -> set[str]:
    return {memory.content for memory in engine._parts.index}


async def fill(engine: Engine, clock: Clock) -> None:
    await engine.store("old fact", metadata={"room": "hall", "n": 1})
    await engine.store("old talk", "conversation", session_id="s1")
    clock.now += 10 * DAY
    await engine.store("new fact", metadata={"room": "attic", "n": 1.0})
    await engine.store("new talk", "conversation", session_id="s2")
    await engine.store("here", "context", metadata={"n": True})


@pytest.mark.parametrize(
    ("chosen", "gone"),
    [
        ({"memory_type": "fact"}, {"old fact", "new fact"}),
        ({"session_id": "s1"}, {"old talk"}),
        ({"metadata": {"room": "hall"}}, {"old fact"}),
        ({"metadata": {"n": 1}}, {"old fact", "new fact"}),
        ({"metadata": {"n": True}}, {"here"}),
        ({"metadata": {"nowhere": None}}, set()),
        ({"older_than": 7 * DAY}, {"old fact", "old talk"}),
        ({"older_than": 7 * DAY, "memory_type": "fact"}, {"old fact"}),
        ({"older_than": 0, "until": 5}, set()),
        ({"since": 0}, {"old fact", "old talk", "new fact", "new talk", "here"}),
    ],
)
async def test_what_matches_is_gone_and_nothing_else(
    engine: Engine, store: RamStore, clock: Clock, chosen: dict[str, Any], gone: set[str]
) -> None:
    await fill(engine, clock)
    before = await contents(engine)
    filter = engine.selection(**chosen)
    looked = await engine.forget_where(filter, dry_run=True)
    assert (looked.matched, looked.forgotten) == (len(gone), 0)
    assert {memory.content for memory in looked.shown} == gone
    assert await contents(engine) == before
    done = await engine.forget_where(filter)
    assert (done.matched, done.forgotten, sum(done.types.values())) == (len(gone),) * 3
    assert await contents(engine) == before - gone
    assert {record.memory.content for record in store.records.values()} == before - gone


async def test_an_empty_filter_is_refused(engine: Engine, clock: Clock) -> None:
    await fill(engine, clock)
    with pytest.raises(InvalidInput) as caught:
        await engine.forget_where(engine.selection())
    assert caught.value.code == "filter_empty"
    with pytest.raises(InvalidInput) as caught:
        await engine.forget_where(Filter(type=MemoryType.FACT), everything=True)
    assert caught.value.code == "filter_with_everything"
    assert len(await contents(engine)) == 5
    assert (await engine.forget_where(Filter(), everything=True)).forgotten == 5


async def test_a_limit_bounds_one_call_and_the_count_is_of_all(engine: Engine) -> None:
    for n in range(7):
        await engine.store(f"fact {n}")
    counts = []
    for _ in range(3):
        done = await engine.forget_where(Filter(type=MemoryType.FACT), limit=3)
        counts.append((done.matched, done.forgotten))
    assert counts == [(7, 3), (4, 3), (1, 1)]


async def test_expired_memories_are_not_counted(engine: Engine, clock: Clock) -> None:
    await engine.store("gone by itself", "context")
    clock.now += 2 * DAY
    assert (await engine.forget_where(Filter(), everything=True, dry_run=True)).matched == 0


async def test_a_memory_that_changed_meanwhile_is_kept(engine: Engine, store: RamStore) -> None:
    """The second batch tests its memories again before it deletes them."""
    kept = (await engine.store("changes", metadata={"stage": 1})).memory
    filter = engine.selection(metadata={"stage": 1})
    bulk = BulkForget(engine._parts, Memories(engine._parts), engine.purge)
    found = await bulk._matching(filter)
    await engine.update_memory(kept.id, metadata={"stage": 2})
    assert await bulk._forget_in_batches([memory.id for memory in found], filter) == 0
    assert kept.id in store.records


async def test_a_purge_follows_once_all_is_forgotten(engine: Engine) -> None:
    purged: list[int] = []

    async def purge() -> None:
        purged.append(engine.count)

    bulk = BulkForget(engine._parts, Memories(engine._parts), purge)
    await engine.store("one")
    await engine.store("two")
    await bulk.forget_where(Filter(type=MemoryType.FACT), purge=True, limit=1)
    assert purged == []
    await bulk.forget_where(Filter(type=MemoryType.FACT), purge=True, limit=1)
    assert purged == [0]


@pytest.mark.parametrize(
    ("chosen", "code"),
    [
        ({"memory_type": "gossip"}, "type_unknown"),
        ({"older_than": -1}, "older_than_invalid"),
        ({"older_than": "7d"}, "older_than_invalid"),
        ({"since": "soon"}, "since_invalid"),
        ({"metadata": "x"}, "metadata_invalid"),
    ],
)
async def test_a_bad_filter_is_refused(engine: Engine, chosen: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        engine.selection(**chosen)
    assert caught.value.code == code
