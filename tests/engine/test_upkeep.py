"""The sweep: at start, at intervals, in bounded batches, and never what was renewed."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.errors import StoreError
from memoryd.model import Memory, MemoryType
from memoryd.ports import Passage, Record
from memoryd.settings import Config
from tests.engine.conftest import Clock, Start
from tests.processes import until
from tests.ramstore import RamStore


async def test_cleanup_deletes_what_is_due_and_counts_it(
    engine: Engine, store: RamStore, clock: Clock
) -> None:
    for n in range(10):
        await engine.store(f"a{n}", "conversation", expires_at=clock.now + 1 + n)
    await engine.store("kept")
    clock.now += 5
    assert await engine.cleanup_expired() == 5
    assert await engine.cleanup_expired() == 0
    assert {r.memory.content for r in store.records.values()} == {
        "kept",
        *(f"a{n}" for n in range(5, 10)),
    }
    assert engine.count == 6


async def test_the_sweep_goes_in_bounded_batches(
    config: Config, store: RamStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(config, memory=replace(config.memory, cleanup_batch=7))
    sizes: list[int] = []
    delete = store.delete

    async def counted(ids: list[str]) -> set[str]:
        sizes.append(len(ids))
        return await delete(ids)

    monkeypatch.setattr(store, "delete", counted)
    async with run_engine(config, store, HashEncoder(), 384, clock) as engine:
        for n in range(20):
            await engine.store(f"a{n}", "conversation", expires_at=clock.now + 1)
        clock.now += 2
        assert await engine.cleanup_expired() == 20
    assert sizes == [7, 7, 6]


async def test_the_sweep_runs_at_start(start: Start, store: RamStore, clock: Clock) -> None:
    async with start() as engine:
        await engine.set_context("k", "v")
        await engine.store("kept")
    clock.now += 86_400
    async with start():
        await until(lambda: len(store.records) == 1)


async def test_the_sweep_runs_every_interval_and_survives_failures(
    config: Config, store: RamStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(config, memory=replace(config.memory, cleanup_interval=0.1))
    delete = store.delete
    failures: list[str] = []

    async def fails_first(ids: list[str]) -> set[str]:
        if not failures:
            failures.append(ids[0])
            raise StoreError("not now")
        return await delete(ids)

    monkeypatch.setattr(store, "delete", fails_first)
    async with run_engine(config, store, HashEncoder(), 384, clock) as engine:
        await engine.store("a", expires_at=clock.now + 1)
        clock.now += 2
        await until(lambda: not store.records)
        await engine.store("b", expires_at=clock.now + 1)
        clock.now += 2
        await until(lambda: not store.records)
    assert failures


async def test_a_memory_renewed_during_the_sweep_is_kept(
    engine: Engine, store: RamStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep asks the store who is due; an update that comes before the delete wins."""
    id = (await engine.store("a", "conversation", expires_at=clock.now + 10)).memory.id
    expired = store.expired

    async def late(now: float, limit: int) -> list[str]:
        due = await expired(now + 100, limit)
        if due:
            await engine.update_memory(id, expires_at=clock.now + 1000)
        return due

    monkeypatch.setattr(store, "expired", late)
    with anyio.fail_after(60):
        assert await engine.cleanup_expired() == 0
    assert await engine.get(id) is not None
    assert id in store.records


def odd(number: int) -> Record:
    """Pinned, and its time is over: no call of ours makes it."""
    memory = Memory(f"{number:020x}", MemoryType.FACT, f"odd {number}", 1.0, 5.0, pinned=True)
    return Record(memory, (Passage((0, 5), HashEncoder().encode([memory.content])[0]),), 7)


async def test_rows_that_stay_do_not_stop_the_sweep(
    config: Config, store: RamStore, clock: Clock
) -> None:
    config = replace(config, memory=replace(config.memory, cleanup_batch=2))
    for n in range(5):
        await store.put(odd(n))
    async with run_engine(config, store, HashEncoder(), 384, clock) as engine:
        for n in range(5):
            await engine.store(f"a{n}", expires_at=clock.now + 1)
        clock.now += 2
        with anyio.fail_after(60):
            assert await engine.cleanup_expired() == 5
        assert len((await engine.search("odd")).hits) == 5
    assert store.records.keys() == {odd(n).memory.id for n in range(5)}


async def test_a_row_that_cannot_be_deleted_does_not_stop_the_sweep(
    engine: Engine, store: RamStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [(await engine.store(f"a{n}", expires_at=clock.now + 1)).memory.id for n in range(5)]
    delete = store.delete

    async def refuse(doomed: list[str]) -> set[str]:
        if ids[1] in doomed:
            raise StoreError("The store still has what it was told to delete.")
        return await delete(doomed)

    monkeypatch.setattr(store, "delete", refuse)
    clock.now += 2
    assert await engine.cleanup_expired() == 4
    assert store.records.keys() == {ids[1]}


async def test_a_clock_that_leaps_kills_nothing(
    engine: Engine, store: RamStore, clock: Clock
) -> None:
    """Ahead for a while, behind for a while, then right again: no memory is lost."""
    id = (await engine.store("said", "conversation")).memory.id
    clock.now += 1000 * 86_400
    await engine._upkeep.tick()
    assert id in store.records
    assert await engine.get(id) is None
    clock.now -= 1000 * 86_400
    await engine._upkeep.tick()
    assert await engine.get(id) is not None
    clock.now -= 50 * 86_400
    await engine._upkeep.tick()
    assert await engine.get(id) is not None
    clock.now += 52 * 86_400
    await engine._upkeep.tick()
    assert await engine.get(id) is not None


async def test_the_state_counts_what_is_alive(engine: Engine, clock: Clock) -> None:
    await engine.store("a")
    await engine.store("b", "conversation", expires_at=clock.now + 5)
    await engine.store("c", "conversation", expires_at=clock.now + 9)
    assert engine.state()["next_expiry"] == clock.now + 5
    clock.now += 5
    state = engine.state()
    assert state["memories"] == {"conversation": 1, "fact": 1, "context": 0}
    assert state["next_expiry"] == clock.now + 4


async def test_backups_are_made_when_they_are_due(
    engine: Engine, store: RamStore, clock: Clock, config: Config
) -> None:
    await engine.store("a")
    await engine._upkeep.tick()
    assert store.backups == [], "not of the first memory alone"
    clock.now += 601
    await engine._upkeep.tick()
    made = len(store.backups)
    assert made == 1
    store.backups[-1] = replace(store.backups[-1], created_at=clock.now)
    await engine._upkeep.tick()
    assert len(store.backups) == made
    clock.now += config.backup.every_hours * 3600
    await engine._upkeep.tick()
    assert len(store.backups) == made + 1


async def test_a_backup_dated_in_the_future_does_not_make_every_sweep_back_up(
    engine: Engine, store: RamStore, clock: Clock
) -> None:
    """The clock was 40 days ahead for one backup: the next comes a day after the one before it."""
    await engine.store("a")
    clock.now += 601
    await engine._upkeep.tick()
    clock.now += 40 * 86_400
    await engine._upkeep.tick()
    clock.now -= 40 * 86_400
    made = len(store.backups)
    assert made == 2
    for _ in range(3):
        await engine._upkeep.tick()
    assert len(store.backups) == made, "a negative age is not due"
    clock.now += 86_400
    for _ in range(3):
        await engine._upkeep.tick()
    assert len(store.backups) == made + 1, "and does not stop the daily ones"


async def test_backups_that_are_all_dated_in_the_future_are_not_due_at_once(
    engine: Engine, store: RamStore, clock: Clock
) -> None:
    await engine.store("a")
    clock.now += 40 * 86_400
    await engine._upkeep.tick()
    clock.now -= 39 * 86_400
    await engine._upkeep.tick()
    assert len(store.backups) == 1


async def test_no_backup_is_made_by_itself_if_so_configured(
    config: Config, store: RamStore, clock: Clock
) -> None:
    config = replace(config, backup=replace(config.backup, every_hours=0.0))
    async with run_engine(config, store, HashEncoder(), 384, clock) as engine:
        await engine.store("a")
        await engine._upkeep.tick()
        assert store.backups == []
        assert (await engine.backup()).memories == 1
        assert store.backups[-1].path == str(config.memory.path / "backups")


async def test_a_purge_takes_what_has_expired_with_it(
    engine: Engine, store: RamStore, clock: Clock
) -> None:
    await engine.store("a", expires_at=clock.now + 1)
    clock.now += 2
    await engine.purge()
    assert (store.records, store.purges) == ({}, 1)


async def test_a_store_that_fails_while_memories_get_their_vectors_does_not_end_the_engine(
    start: Start, store: RamStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several fail at the same time, which was one error too many for the loop."""
    async with start(None) as engine:
        for n in range(5):
            await engine.store(f"stored without a model {n}")
    together, failed = anyio.Event(), 0

    async def fail(*given: object, **options: object) -> None:
        nonlocal failed
        failed += 1
        if failed == 2:
            together.set()
        await together.wait()
        raise StoreError("The database is damaged.")

    with anyio.fail_after(60):
        with monkeypatch.context() as patched:
            patched.setattr(store, "put", fail)
            async with start() as engine:
                await together.wait()
                await anyio.wait_all_tasks_blocked()
                assert len((await engine.search("stored without a model")).hits) == 5
        async with start() as engine:
            await until(lambda: engine.state()["pending_vectors"] == 0)
