"""Uses: counted in RAM, written by the upkeep, and nothing is lost or disturbed by it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import anyio
import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.lifecycle import jobs
from memoryd.engine.lifecycle.rewrite import AT_ONCE
from memoryd.engine.lock_keys import id_key
from memoryd.engine.run import run_engine
from memoryd.errors import InvalidInput, StoreError
from memoryd.model import DAY
from memoryd.ports import Record
from memoryd.settings import Config
from tests.engine.conftest import Clock, Start
from tests.engine.lifecycle.conftest import Pass
from tests.ramstore import RamStore


class Counting(RamStore):
    """Counts the writes."""

    writes = 0

    async def put(self, record: Record, *, new: bool = False) -> None:
        self.writes += 1
        await super().put(record, new=new)


@pytest.fixture
def store() -> RamStore:
    return Counting()


async def stored(engine: Engine, content: str = "the dock", **metadata: Any) -> str:
    return (await engine.store(content, metadata=metadata)).memory.id


async def field(engine: Engine, id: str, key: str) -> Any:
    found = await engine.get(id)
    assert found is not None
    return found.metadata.get(key)


async def test_no_search_writes_and_the_upkeep_writes_each_memory_once(
    engine: Engine, store: Counting, clock: Clock, passing: Pass
) -> None:
    ids = [await stored(engine, f"the dock number {n}", kind="gotcha") for n in range(50)]
    before, vectors = store.writes, [store.records[id].passages for id in ids]
    for _ in range(20):
        clock.now += 1
        page = await engine.search("dock number", limit=50, min_score=0)
        engine.count_uses(hit.memory.id for hit in page.hits)
    assert store.writes == before
    assert await field(engine, ids[0], "uses") is None
    await passing()
    assert store.writes == before + 50
    for id, passages in zip(ids, vectors, strict=True):
        kept = store.records[id]
        assert kept.memory.metadata["uses"] == 20
        assert kept.memory.metadata["last_used_at"] == clock.now
        assert kept.memory.updated_at is None
        assert all(
            (a.vector == b.vector).all() for a, b in zip(kept.passages, passages, strict=True)
        )
    await passing()
    assert store.writes == before + 50  # nothing is written twice


async def test_most_used_sees_what_is_not_written_yet(
    engine: Engine, passing: Pass, clock: Clock
) -> None:
    first, second, third = [await stored(engine, f"dock {n}") for n in range(3)]
    engine.count_uses([first, first, first, second])
    await passing()
    engine.count_uses([second, second, second, third])
    page = await engine.list_memories(order="most_used")
    assert [memory.id for memory in page.memories] == [second, first, third]
    page = await engine.list_memories(order="most_used", limit=1)
    rest = await engine.list_memories(order="most_used", limit=2, cursor=page.cursor)
    assert [memory.id for memory in (*page.memories, *rest.memories)] == [second, first, third]


async def test_a_crash_loses_the_last_interval_and_a_stop_nothing(
    start: Start, store: RamStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start() as engine:
        id = await stored(engine)
        engine.count_uses([id, id])
    assert store.records[id].memory.metadata["uses"] == 2
    async with start() as engine:
        engine.count_uses([id])
        await engine._upkeep.tick()
        engine.count_uses([id])
        monkeypatch.setattr(engine, "write_uses_at_end", anyio.lowlevel.checkpoint)
    assert store.records[id].memory.metadata["uses"] == 3


async def test_uses_counted_while_others_are_written_wait_for_the_next_sweep(
    engine: Engine, store: RamStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await stored(engine)
    put_one = store.put

    async def put(record: Record, *, new: bool = False) -> None:
        engine.count_uses([id])
        await put_one(record, new=new)

    engine.count_uses([id, id])
    monkeypatch.setattr(store, "put", put)
    await engine._upkeep.tick()
    assert await field(engine, id, "uses") == 2
    monkeypatch.undo()
    await engine._upkeep.tick()
    assert await field(engine, id, "uses") == 3


async def test_a_caller_and_the_upkeep_both_win(
    engine: Engine, store: RamStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two changes of one memory at the same time: what each wrote stays."""
    ids = [await stored(engine, f"dock {n}", n=n) for n in range(40)]
    put_all = store.put_all

    async def slow(records: Sequence[Record]) -> None:
        await anyio.lowlevel.checkpoint()
        await put_all(records)

    monkeypatch.setattr(store, "put_all", slow)
    engine.count_uses([*ids, *ids])
    async with anyio.create_task_group() as tasks:
        for id in ids:
            tasks.start_soon(partial(engine.update_memory, id, metadata={"seen": True}))
        tasks.start_soon(engine._upkeep.tick)
        for id in ids:
            tasks.start_soon(partial(engine.update_memory, id, metadata={"n": -1}))
    for id in ids:
        found = await engine.get(id)
        assert found is not None
        assert {"seen": True, "n": -1, "uses": 2}.items() <= found.metadata.items()


async def test_an_update_that_repeats_all_metadata_takes_no_use_back(engine: Engine) -> None:
    """A client sends back what it read; meanwhile the upkeep has counted on."""
    id = await stored(engine, topic="docks")
    engine.count_uses([id])
    await engine._upkeep.tick()
    read = await engine.get(id)
    assert read is not None
    engine.count_uses([id])
    async with anyio.create_task_group() as tasks:
        async with engine._parts.locks.hold([id_key(id)]):
            tasks.start_soon(engine._upkeep._lifecycle.write_uses)
            await anyio.wait_all_tasks_blocked()
            changed = {**read.metadata, "topic": "piers"}
            tasks.start_soon(lambda: engine.update_memory(id, metadata=changed))
            await anyio.wait_all_tasks_blocked()
    assert await field(engine, id, "uses") == 2
    assert await field(engine, id, "topic") == "piers"
    await engine.update_memory(id, metadata=changed)  # older than the last use, and no error
    assert await field(engine, id, "uses") == 2
    with pytest.raises(InvalidInput) as refused:
        await engine.update_memory(id, metadata={"uses": 100})
    assert refused.value.code == "metadata_reserved"


async def test_a_memory_that_cannot_be_written_does_not_block_the_others(
    engine: Engine, store: RamStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [await stored(engine, f"dock {n}") for n in range(40)]
    put_one = store.put

    async def put(record: Record, *, new: bool = False) -> None:
        if record.memory.id == ids[3]:
            raise StoreError("not this one")
        await put_one(record, new=new)

    monkeypatch.setattr(store, "put", put)
    engine.count_uses(ids)
    await engine._upkeep.tick()
    found = [await field(engine, id, "uses") for id in ids]
    assert [n for n, uses in enumerate(found) if uses != 1] == [3]
    monkeypatch.undo()
    await engine._upkeep.tick()
    assert await field(engine, ids[3], "uses") == 1
    assert await field(engine, ids[4], "uses") == 1


async def test_a_store_that_takes_nothing_is_not_asked_for_every_memory(
    engine: Engine, store: RamStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [await stored(engine, f"dock {n}") for n in range(100)]
    tries = 0

    async def refuse(*given: object, **more: object) -> None:
        nonlocal tries
        tries += 1
        raise StoreError("The disk is full.", code="store_full")

    engine.count_uses(ids)
    with monkeypatch.context() as patch:
        patch.setattr(store, "put", refuse)
        patch.setattr(store, "put_all", refuse)
        await engine._upkeep.tick()
    assert tries < 40
    await engine._upkeep.tick()  # nothing that was counted is lost
    assert [await field(engine, id, "uses") for id in ids] == [1] * 100


async def test_uses_of_what_is_gone_or_unknown_are_dropped(engine: Engine) -> None:
    id = await stored(engine)
    engine.count_uses([id, "nobody"])
    await engine.forget(id)
    await engine._upkeep.tick()
    assert engine.count == 0
    assert engine.state()["memories"]["fact"] == 0


async def test_a_memory_without_a_vector_still_waits_for_it(
    config: Config, store: RamStore, clock: Clock
) -> None:
    async with run_engine(config, store, None, 384, clock) as engine:
        id = await stored(engine)
        engine.count_uses([id])
        await engine._upkeep.tick()
        assert await field(engine, id, "uses") == 1
        assert engine.state()["pending_vectors"] == 1
        engine.attach(HashEncoder())
        await engine.embed_all_pending()
        assert engine.state()["pending_vectors"] == 0
        assert await field(engine, id, "uses") == 1


async def test_an_export_that_differs_in_uses_alone_is_known(engine: Engine, clock: Clock) -> None:
    id = await stored(engine)
    exported = (await engine.export_page()).records[0].memory
    engine.count_uses([id])
    clock.now += DAY
    await engine._upkeep.tick()
    assert (await engine.import_memory(exported)).outcome == "known"
    assert await field(engine, id, "uses") == 1


class Gradual(RamStore):
    """Needs a moment for each commit."""

    commits = 0

    async def put_all(self, records: Sequence[Record], *, new: bool = False) -> None:
        self.commits += 1
        await anyio.sleep(0.01)
        await super().put_all(records, new=new)


async def test_a_stop_does_not_wait_until_all_uses_are_written(
    config: Config, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits cannot be cancelled, so the time is up between two of them."""
    monkeypatch.setattr(jobs, "STOP_SECONDS", 0.02)
    store, encoder = Gradual(), HashEncoder()
    async with run_engine(config, store, encoder, encoder.dimension, clock) as engine:
        ids = [await stored(engine, f"the dock number {n}") for n in range(20 * AT_ONCE)]
        before = store.commits
        engine.count_uses(ids)
    assert 1 <= store.commits - before < 20
