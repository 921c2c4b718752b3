"""The whole engine on real parts: ChromaDB in its worker, MiniLM, real files, real kills."""

from __future__ import annotations

import os
import random
import signal
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import partial
from pathlib import Path

import anyio
import anyio.abc
import pytest

from memoryd.adapters.chroma.store import open_chroma
from memoryd.adapters.chroma.worker_client import WorkerClient, WorkerDied
from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.errors import StoreBusy, StoreUnavailable
from memoryd.model import Memory, MemoryType
from memoryd.ports import Identity, Passage, Record
from memoryd.settings import Config, EmbeddingSettings, MemorySettings
from memoryd.wiring import engine as wiring
from memoryd.wiring import model
from memoryd.wiring.engine import open_engine
from tests.one_task import in_one_task
from tests.processes import until

pytestmark = pytest.mark.usefixtures("forked_worker")

SUBJECTS = ["the gardener", "my sister", "our landlord", "the robot", "a neighbour", "the doctor"]
VERBS = ["repaired", "painted", "forgot", "borrowed", "described", "photographed", "sold"]
OBJECTS = ["the bicycle", "a violin", "two lamps", "the old map", "a blue coat", "the engine"]
PLACES = ["in the cellar", "near the station", "at school", "on the roof", "in Lisbon", "at dawn"]


def sentences(count: int, seed: int = 0) -> list[str]:
    """Distinct short sentences."""
    pick = random.Random(seed).choice
    return [
        f"{pick(SUBJECTS)} {pick(VERBS)} {pick(OBJECTS)} {pick(PLACES)}, entry {seed}-{n}"
        for n in range(count)
    ]


def configured(folder: Path, backend: str = "onnx") -> Config:
    return Config(
        memory=MemorySettings(path=folder),
        embedding=EmbeddingSettings(backend=backend),  # type: ignore[arg-type]
    )


async def in_parallel(jobs: Sequence[Callable[[], Awaitable[object]]], tasks: int) -> None:
    """Run all jobs, `tasks` at a time."""
    waiting = iter(jobs)

    async def work() -> None:
        for job in waiting:
            await job()

    async with anyio.create_task_group() as group:
        for _ in range(tasks):
            group.start_soon(work)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with in_one_task(open_engine(configured(tmp_path))) as opened:
        yield opened


@pytest.mark.slow
async def test_forget_tells_the_truth_if_the_worker_dies_before_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, call_process = [0], WorkerClient._call_process

    async def silenced(
        self: WorkerClient, process: anyio.abc.Process, name: str, args: tuple[object, ...]
    ) -> object:
        """The worker does what it is told; its first answers to a deletion never arrive."""
        answer = await call_process(self, process, name, args)
        if name == "write" and args[2] and answered[0] > 0:
            answered[0] -= 1
            process.kill()
            raise WorkerDied
        return answer

    monkeypatch.setattr(WorkerClient, "_call_process", silenced)
    async with open_engine(configured(tmp_path, "hash")) as engine:
        once = (await engine.store("dies once")).memory.id
        twice = (await engine.store("dies twice")).memory.id
        many = [(await engine.store(f"one of many {n}")).memory.id for n in range(3)]
        answered[0] = 1
        assert (await engine.forget(once)).success
        assert not (await engine.forget(once)).success
        answered[0] = 2
        with pytest.raises(StoreUnavailable):
            await engine.forget(twice)
        assert (await engine.forget(twice)).success
        answered[0] = 1
        result = await engine.forget_where(engine.selection(memory_type="fact"))
        assert (result.matched, result.forgotten) == (len(many), len(many))


async def test_meaning_is_found_without_a_common_word(engine: Engine) -> None:
    await engine.store("The robot's charging dock is behind the kitchen door.")
    await engine.store("Interest rates rose by half a percent in March.")
    await engine.store("Grandmother's recipe needs three eggs and some vanilla.")
    for question, word in [
        ("what do I need to bake the cake?", "recipe"),
        ("where can it refill its battery?", "charging"),
        ("what did the central bank do?", "Interest"),
    ]:
        page = await engine.search(question, limit=1, min_score=0.1)
        assert word in page.hits[0].memory.content
        assert page.warnings == ()


async def test_a_needle_in_a_long_memory_is_found_with_its_passage(engine: Engine) -> None:
    """MiniLM reads 256 tokens; what comes later must be found all the same."""
    filler = " ".join(sentences(120))
    needle = "The spare key for the boat house hangs behind the barometer."
    stored = await engine.store(f"{filler} {needle} {filler}", "conversation")
    page = await engine.search("where is the boat house key?", limit=3)
    assert page.hits[0].memory.id == stored.memory.id
    assert needle in (page.hits[0].passage or "")
    assert len(page.hits) == 1


@pytest.mark.slow
async def test_ten_thousand_memories_are_all_there_after_a_restart_too(tmp_path: Path) -> None:
    config, texts = configured(tmp_path, "hash"), sentences(10_000)
    ids: dict[str, str] = {}

    async def store(engine: Engine, text: str) -> None:
        ids[(await engine.store(text)).memory.id] = text

    async def check(engine: Engine) -> None:
        assert engine.count == 10_000
        for id, text in ids.items():
            memory = await engine.get(id)
            assert memory is not None
            assert memory.content == text

    async with open_engine(config) as engine:
        await in_parallel([partial(store, engine, text) for text in texts], tasks=64)
        assert len(ids) == 10_000
        await check(engine)
    async with open_engine(config) as engine:
        await check(engine)
        assert await engine._parts.store.count() == 10_000
        page = await engine.search(texts[1234], limit=1)
        assert page.hits[0].memory.content == texts[1234]


async def test_forgotten_is_gone_from_the_collection_too(tmp_path: Path) -> None:
    config = configured(tmp_path)
    async with open_engine(config) as engine:
        long = await engine.store(" ".join(sentences(100)), "conversation")
        short = await engine.store("kept")
        assert await engine.forget(long.memory.id)
        assert await engine._parts.store.get([long.memory.id]) == []
        assert (await engine._parts.store.status())["rows"] == 1
    async with open_engine(config) as engine:
        assert await engine.get(long.memory.id) is None
        assert await engine.get(short.memory.id) == short.memory
        assert not await engine.forget(long.memory.id)


async def test_a_name_stored_again_leaves_no_row_of_the_old_text(tmp_path: Path) -> None:
    config = configured(tmp_path, "hash")
    async with open_engine(config) as engine:
        await engine.set_context("draft", " ".join(sentences(100)))
        await engine.set_context("draft", "short now")
        assert (await engine._parts.store.status())["rows"] == 1
    async with open_engine(config) as engine:
        assert await engine.get_context("draft") == "short now"


async def test_expired_while_the_engine_was_down_is_swept_at_start(tmp_path: Path) -> None:
    config, now = configured(tmp_path, "hash"), time.time()
    async with open_engine(config) as engine:
        for text in sentences(30):
            await engine.store(text, "conversation", expires_at=now + 86_400)
        await engine.store("kept")
    async with open_engine(config, clock=lambda: now + 2 * 86_400) as engine:
        await until(lambda: engine.count == 1)
        assert await engine._parts.store.count() == 1


@pytest.mark.slow
async def test_the_worker_is_killed_under_load_and_nothing_is_lost(tmp_path: Path) -> None:
    config, texts = configured(tmp_path, "hash"), sentences(400)
    stored: list[str] = []

    async def store(engine: Engine, text: str) -> None:
        stored.append((await engine.store(text)).memory.id)

    async with open_engine(config) as engine:
        async with anyio.create_task_group() as group:
            jobs = [partial(store, engine, text) for text in texts]
            group.start_soon(in_parallel, jobs, 16)
            for _ in range(2):
                before = len(stored)
                await until(lambda before=before: len(stored) >= before + 50)  # type: ignore[misc]
                pid = (await engine._parts.store.status())["pid"]
                os.kill(pid, signal.SIGKILL)  # type: ignore[arg-type]
        assert len(stored) == 400
    async with open_engine(config) as engine:
        assert {memory.id for memory in engine._parts.index} == set(stored)


async def test_a_cancelled_engine_ends_with_writes_in_flight(tmp_path: Path) -> None:
    config = configured(tmp_path, "hash")
    with anyio.fail_after(60):
        with anyio.move_on_after(60) as scope:
            async with open_engine(config) as engine, anyio.create_task_group() as group:
                jobs = [partial(engine.store, text) for text in sentences(2000)]
                group.start_soon(in_parallel, jobs, 8)
                await until(lambda: engine.count > 100)
                scope.cancel()
    async with open_engine(config) as engine:
        assert engine.count >= 100


async def test_types_of_a_callers_own_are_kept_as_plain_ones(tmp_path: Path) -> None:
    """They cannot be read in another process, and one of them must not stop the others."""

    class Text(str):
        __slots__ = ()

    class Level(IntEnum):
        HIGH = 3

    async with open_engine(configured(tmp_path, "hash")) as engine:
        with anyio.fail_after(60):
            stored = await engine.store(
                Text("own"), metadata={"l": Level.HIGH, Text("t"): Text("x")}
            )
    async with open_engine(configured(tmp_path, "hash")) as engine:
        memory = await engine.get(stored.memory.id)
        assert memory is not None
        assert (memory.content, memory.metadata) == ("own", {"l": 3, "t": "x"})


async def test_a_second_engine_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    config = configured(tmp_path, "hash")
    async with open_engine(config) as engine:
        with pytest.raises(StoreBusy):
            async with open_engine(config):
                pass
        assert (await engine.store("still here")).memory.id


async def test_first_without_a_model_then_with_one(tmp_path: Path) -> None:
    async with open_engine(configured(tmp_path, "none")) as engine:
        await engine.store("The charging dock is behind the kitchen door.")
        page = await engine.search("kitchen dock")
        assert len(page.hits) == 1
        assert page.warnings
    async with open_engine(configured(tmp_path)) as engine:
        await until(lambda: not engine._parts.index.pending)
        page = await engine.search("where can it refill its battery?", min_score=0.1)
        assert len(page.hits) == 1
        assert page.warnings == ()


async def test_bge_works_by_naming_it(tmp_path: Path) -> None:
    config = configured(tmp_path)
    config = replace(config, memory=replace(config.memory, embedding_model="bge-small-en-v1.5"))
    async with open_engine(config) as engine:
        await engine.store("The robot's charging dock is behind the kitchen door.")
        await engine.store("Interest rates rose by half a percent in March.")
        page = await engine.search("where can it refill its battery?", limit=1)
        assert "charging" in page.hits[0].memory.content


async def test_a_missing_model_is_reported_and_used_once_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(tmp_path / "data")
    config = replace(
        config,
        memory=replace(config.memory, embedding_model="bge-small-en-v1.5"),
        embedding=replace(config.embedding, download=False),
    )
    ready = wiring.models_cache()
    monkeypatch.setattr(model, "RETRY", 0.05)
    monkeypatch.setattr(wiring, "models_cache", lambda: tmp_path / "models")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    async with open_engine(config) as engine:
        stored = await engine.store("The charging dock is behind the kitchen door.")
        page = await engine.search("kitchen dock")
        assert len(page.hits) == 1
        for warnings in (stored.warnings, page.warnings):
            assert "bge-small-en-v1.5" in warnings[0]
            assert "memoryd setup" in warnings[0]
            assert "words only" in warnings[0]
        monkeypatch.setattr(wiring, "models_cache", lambda: ready)
        await until(lambda: not engine._parts.index.pending)
        page = await engine.search("where can it refill its battery?")
        assert len(page.hits) == 1
        assert page.warnings == ()


async def percentile(engine: Engine, queries: list[str], share: float) -> float:
    taken = []
    for query in queries:
        started = time.perf_counter()
        await engine.search(query)
        taken.append(time.perf_counter() - started)
    return statistics.quantiles(taken, n=100)[round(share * 100) - 1]


@pytest.mark.slow
async def test_a_bulk_store_blocks_neither_the_loop_nor_searches(engine: Engine) -> None:
    """Ratios, not times: to the idle engine and to the time the bulk store takes.

    What must not happen is that somebody waits for a whole batch or commit: then a stall
    would be a large part of the bulk store's time, and a search many times slower.
    """
    await engine.search("warm up")
    idle = await percentile(engine, sentences(100, seed=7), 0.9)
    stalls: list[float] = []
    busy: list[float] = []

    async def tick() -> None:
        last = time.perf_counter()
        while True:
            await anyio.sleep(0.001)
            stalls.append(time.perf_counter() - last)
            last = time.perf_counter()

    async def search() -> None:
        busy.append(await percentile(engine, sentences(60, seed=8), 0.9))

    jobs = [partial(engine.store, text, "conversation") for text in sentences(600, seed=9)]
    async with anyio.create_task_group() as background:
        background.start_soon(tick)
        started = time.perf_counter()
        async with anyio.create_task_group() as group:
            group.start_soon(in_parallel, jobs, 32)
            group.start_soon(search)
        whole = time.perf_counter() - started
        background.cancel_scope.cancel()
    assert max(stalls) < whole / 5
    assert busy[0] < idle * 12


async def test_times_come_back_as_they_were(tmp_path: Path) -> None:
    """Chroma moves the last digit of some fractions: none that we keep."""
    config, moved = configured(tmp_path, "hash"), iter(range(400))
    start = 1_794_831_907.2187119
    async with open_engine(config, lambda: start + next(moved, 0) * 0.0137) as engine:
        stored = [(await engine.store(f"note {n}")).memory for n in range(60)]
    async with open_engine(config, lambda: start) as engine:
        assert [await engine.get(memory.id) for memory in stored] == stored


async def test_a_pinned_row_with_an_end_does_not_stop_the_sweep(tmp_path: Path) -> None:
    """Rows that no call of ours makes, put into ChromaDB directly, as many as a batch holds."""
    config = configured(tmp_path, "hash")
    config = replace(config, memory=replace(config.memory, cleanup_batch=2))
    vector = HashEncoder().encode(["odd"])[0]
    async with open_chroma(config.store, tmp_path, Identity("hash-384", 384)) as store:
        for n in range(6):
            memory = Memory(
                f"{n:020x}", MemoryType.FACT, f"odd {n}", time.time(), 5.0, pinned=n < 3
            )
            await store.put(Record(memory, (Passage((0, 5), vector),), 7), new=True)
    async with open_engine(config) as engine:
        await engine.cleanup_expired()
        assert await engine._parts.store.count() == 3
        found = {hit.memory.content for hit in (await engine.search("odd")).hits}
        assert found == {"odd 0", "odd 1", "odd 2"}
