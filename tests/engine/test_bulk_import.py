"""Imports in bulk: the same as one after another, in fewer steps, and never half."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine import bulk_import
from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.engine.transfer import Arrival, Outcome
from memoryd.errors import InvalidInput, StoreError
from memoryd.fair import BULK
from memoryd.fields import SUPERSEDES
from memoryd.model import Memory, MemoryType
from memoryd.ports import Record
from memoryd.settings import Config
from tests.engine.conftest import Clock, Start
from tests.processes import until
from tests.ramstore import RamStore

CREATED = 1_700_000_000.0
SECRET = "The key is sk-ant-api03-" + "A1b2C3d4" * 12


def fact(number: int, content: str = "", **changes: Any) -> Memory:
    text = content or f"Fact number {number}."
    return replace(Memory(f"{number:020x}", MemoryType.FACT, text, CREATED + number), **changes)


def facts(count: int, first: int = 0) -> list[Memory]:
    return [fact(first + number) for number in range(count)]


def kept(store: RamStore) -> dict[str, Memory]:
    return {id: record.memory for id, record in store.records.items()}


async def bulk(
    engine: Engine, memories: Sequence[Memory], **options: Any
) -> list[Arrival | InvalidInput]:
    return await engine.import_memories([Record(memory) for memory in memories], **options)


# Few ids, texts and names, so that many of the memories conflict or are related.
arriving = st.lists(
    st.builds(
        fact,
        st.integers(0, 11),
        content=st.sampled_from(["Tea is at four.", "Tea is at five.", "The dock is red.", SECRET]),
        type=st.sampled_from(MemoryType),
        name=st.sampled_from([None, None, "tea", "dock"]),
        session_id=st.sampled_from([None, None, "s1"]),
        expires_at=st.sampled_from([None, None, CREATED, 9e9]),
        metadata=st.sampled_from([{}, {}, {"n": 1}, {SUPERSEDES: [f"{1:020x}"]}]),
    ),
    max_size=24,
)


async def one_by_one(engine: Engine, memories: Sequence[Memory], overwrite: bool) -> list[Arrival]:
    return [await engine.import_memory(memory, overwrite=overwrite) for memory in memories]


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=40,
    deadline=None,
)
@given(memories=arriving, size=st.integers(1, 24), overwrite=st.booleans())
async def test_a_batch_ends_as_if_its_memories_had_come_one_after_another(
    config: Config, clock: Clock, memories: list[Memory], size: int, overwrite: bool
) -> None:
    """Also where several batches of a caller overlap."""
    stores = RamStore(), RamStore()
    async with (
        run_engine(config, stores[0], HashEncoder(), 384, clock) as single,
        run_engine(config, stores[1], HashEncoder(), 384, clock) as engine,
    ):
        expected = await one_by_one(single, memories, overwrite)
        parts = [list(part) for part in cut(memories, size)]
        found: list[list[Arrival | InvalidInput]] = [[] for _ in parts]

        async def take(place: int) -> None:
            found[place] = await bulk(engine, parts[place], overwrite=overwrite)

        async with anyio.create_task_group() as tasks:
            for place in range(len(parts)):
                tasks.start_soon(take, place)
        assert [one for part in found for one in part] == expected
    assert kept(stores[1]) == kept(stores[0])


def cut(memories: Sequence[Memory], size: int) -> Iterator[Sequence[Memory]]:
    for start in range(0, len(memories), size):
        yield memories[start : start + size]


class Slow(RamStore):
    """A store whose commits of several memories wait until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = anyio.Event()
        self.commits: list[list[str]] = []

    async def put_all(self, records: Sequence[Record], *, new: bool = False) -> None:
        assert BULK.get()
        self.commits.append([record.memory.id for record in records])
        await self.go.wait()
        await super().put_all(records, new=new)


class Waiting(HashEncoder):
    """Waits before it encodes the eighth fact."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Any:
        if any(fact(8).content in text for text in texts):
            self.go.wait(60)
        return super().encode(texts, query=query)


class Counting(HashEncoder):
    """Counts the texts that it has encoded."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Any:
        with self._lock:
            self.count += len(texts)
        return super().encode(texts, query=query)


async def test_a_batch_is_embedded_while_the_one_before_it_is_written(
    config: Config, clock: Clock
) -> None:
    """And written after it, whole."""
    store, encoder = Slow(), Counting()
    done: list[int] = []

    async def take(number: int) -> None:
        found = await bulk(engine, facts(8, 100 * number))
        assert {one.outcome for one in found if isinstance(one, Arrival)} == {Outcome.ADDED}
        done.append(number)

    async with run_engine(config, store, encoder, 384, clock) as engine:
        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(take, number)
                await checkpoint()
            await until(lambda: encoder.count == 24)
            await until(lambda: bool(store.commits))
            assert store.commits[0][0] == fact(0).id
            assert store.records == {}
            assert done == []
            store.go.set()
    assert done == [0, 1, 2]
    written = [id for commit in store.commits for id in commit]
    assert written == [memory.id for number in range(3) for memory in facts(8, 100 * number)]


def ready(engine: Engine) -> int:
    """How many batches are written or wait for it."""
    imports: bulk_import.BulkImports = engine.import_memories.__self__  # type: ignore[attr-defined]
    return sum(place.is_ready for line in imports._order._lines.values() for place in line.places)


async def test_batches_that_wait_are_written_together(config: Config, clock: Clock) -> None:
    """And in order; one whose call is cancelled does not take the others along."""
    store = Slow()
    async with run_engine(config, store, HashEncoder(), 384, clock) as engine:
        parts = [facts(3, first) for first in (0, 3, 6, 9)]
        calls = [anyio.CancelScope() for _ in parts]
        found: dict[int, list[Arrival | InvalidInput]] = {}

        async def take(place: int) -> None:
            with calls[place]:
                found[place] = await bulk(engine, parts[place])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take, 0)
            await until(lambda: len(store.commits) == 1)
            for place in (1, 2, 3):
                tasks.start_soon(take, place)
            await until(lambda: ready(engine) == 4)
            calls[2].cancel()
            store.go.set()
        assert [len(ids) for ids in store.commits] == [3, 6]
        assert store.commits[1] == [m.id for place in (1, 3) for m in parts[place]]
        assert sorted(found) == [0, 1, 3]
        assert all(one == Arrival(Outcome.ADDED) for part in found.values() for one in part)
        assert not engine._parts.locks._locks


@pytest.mark.parametrize("is_full", [False, True])
async def test_a_batch_waits_for_those_behind_it_until_a_commit_is_full(
    config: Config, clock: Clock, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    """While nobody else is active, and only for batches that are on their way."""
    monkeypatch.setattr(bulk_import, "GATHER", 60.0)
    monkeypatch.setattr(bulk_import, "MAX_COMMIT", 6 if is_full else 1000)
    store, encoder = Slow(), Waiting()
    store.go.set()
    config = replace(config, embedding=replace(config.embedding, batch_size=3))
    async with run_engine(config, store, encoder, 384, clock) as engine:
        async with anyio.create_task_group() as tasks:
            for first in (0, 3, 6):
                tasks.start_soon(bulk, engine, facts(3, first))
                await checkpoint()
            await until(lambda: ready(engine) == (0 if is_full else 2))
            await until(lambda: [len(ids) for ids in store.commits] == ([6] if is_full else []))
            encoder.go.set()
        assert [len(ids) for ids in store.commits] == ([6, 3] if is_full else [9])


async def test_a_commit_lets_calls_of_others_ahead(config: Config, clock: Clock) -> None:
    """Those that have begun, for a while."""
    store = Slow()
    store.go.set()
    async with run_engine(config, store, HashEncoder(), 384, clock) as engine:
        gate = engine._parts.gate
        async with anyio.create_task_group() as tasks:
            async with gate.passing():
                tasks.start_soon(gate.let_ahead, 60.0)
                await anyio.wait_all_tasks_blocked()
                with anyio.fail_after(60):
                    await bulk(engine, facts(3))
        assert [len(ids) for ids in store.commits] == [3]


async def test_one_that_fails_leaves_the_others_to_themselves(
    config: Config, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Slow()
    async with run_engine(config, store, HashEncoder(), 384, clock) as engine:
        parts = [facts(3, first) for first in (0, 3, 6)]
        found: dict[int, object] = {}

        async def take(place: int) -> None:
            try:
                found[place] = await bulk(engine, parts[place])
            except RuntimeError as exc:
                found[place] = exc

        write, writes = bulk_import.BulkImports._write, list[int]()

        async def failing(
            self: bulk_import.BulkImports, batch: list[bulk_import._Arriving], *how: bool
        ) -> None:
            writes.append(len(batch))
            if len(writes) == 2:
                raise RuntimeError("gone")
            await write(self, batch, *how)

        monkeypatch.setattr(bulk_import.BulkImports, "_write", failing)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take, 0)
            await until(lambda: len(store.commits) == 1)
            for place in (1, 2):
                tasks.start_soon(take, place)
            await until(lambda: ready(engine) == 3)
            store.go.set()
        assert writes == [3, 6, 3]
        assert isinstance(found[1], RuntimeError)
        assert found[0] == found[2] == [Arrival(Outcome.ADDED)] * 3
        assert len(store.records) == 6


async def test_many_memories_need_few_commits(engine: Engine, store: RamStore) -> None:
    """Each has at least a few, and none is cut in two."""
    calls: list[int] = []
    put_all = store.put_all

    async def counted(records: Sequence[Record], *, new: bool = False) -> None:
        calls.append(len(records))
        await put_all(records, new=new)

    store.put_all = counted  # type: ignore[method-assign]
    await bulk(engine, facts(64))
    assert sum(calls) == 64
    assert len(calls) <= 64 / bulk_import.MIN_COMMIT
    assert len((await engine.search("Fact number 7.")).hits) > 0


async def test_what_is_known_is_not_embedded_again(start: Start) -> None:
    encoder = Counting()
    async with start(encoder) as engine:
        await bulk(engine, facts(20))
        assert encoder.count == 20
        found = await bulk(engine, facts(20))
        assert [str(one.outcome) for one in found if isinstance(one, Arrival)] == ["known"] * 20
        assert encoder.count == 20


async def test_one_that_the_store_refuses_does_not_stop_the_others(
    engine: Engine, store: RamStore
) -> None:
    """The commit of all of them fails, so each is written alone."""
    put, bad = store.put, fact(3).id

    async def refuse(record: Record, *, new: bool = False) -> None:
        if record.memory.id == bad:
            raise InvalidInput("It is refused.")
        await put(record, new=new)

    store.put = refuse  # type: ignore[method-assign]
    found = await bulk(engine, facts(6))
    assert [isinstance(one, InvalidInput) for one in found] == [n == 3 for n in range(6)]
    assert kept(store).keys() == {fact(n).id for n in range(6) if n != 3}


class Ending(RamStore):
    """A store that fails after so many commits: a kill in the middle."""

    left: int | None = None

    async def put_all(self, records: Sequence[Record], *, new: bool = False) -> None:
        self._count()
        for record in records:
            await super().put(record, new=new)

    async def put(self, record: Record, *, new: bool = False) -> None:
        self._count()
        await super().put(record, new=new)

    def _count(self) -> None:
        if self.left is not None:
            if self.left <= 0:
                raise StoreError("The store is gone.")
            self.left -= 1


@pytest.mark.parametrize("commits", range(4))
async def test_an_import_that_was_killed_is_continued(
    config: Config, clock: Clock, commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second run, after a restart, ends with the same memories as one that was not killed."""
    monkeypatch.setattr(bulk_import, "MAX_COMMIT", 8)
    store, memories = Ending(), [*facts(30), fact(40, name="tea"), fact(41, name="tea")]
    async with run_engine(config, store, HashEncoder(), 384, clock) as engine:
        store.left = commits
        with pytest.raises(StoreError):
            await bulk(engine, memories)
        there = {
            record.memory.id for page in [await engine.export_page()] for record in page.records
        }
        assert there == store.records.keys()  # index and store agree
        store.left = None
    async with run_engine(config, store, HashEncoder(), 384, clock) as again:
        await bulk(again, memories)
        expected = {memory.id: memory for memory in memories[:-1]}  # the last has another's name
        assert kept(store) == expected
        assert all(record.passages for record in store.records.values())


async def test_without_a_model_they_wait_for_their_vectors(start: Start, store: RamStore) -> None:
    async with start(None) as engine:
        found = await bulk(engine, facts(20))
        assert len(found) == len(store.records) == 20
        assert not any(record.passages for record in store.records.values())
    async with start() as engine:
        await engine.embed_all_pending()
        assert all(record.passages for record in store.records.values())
