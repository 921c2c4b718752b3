"""The previous model's vectors follow the memories, through every write."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import numpy as np
import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.memories import Memories
from memoryd.engine.models.previous_model import PreviousModel
from memoryd.engine.updates import Updates
from memoryd.lead import DEFAULT, lead_of, said_key
from memoryd.settings import EmbeddingSettings
from tests.engine.conftest import Start
from tests.one_task import in_one_task

QUERIES = ("robot hall", "green tea", "harbour story")
BEFORE = HashEncoder(dimension=48, max_words=20)  # another model than the one to come


@asynccontextmanager
async def change(start: Start) -> AsyncIterator[tuple[Engine, PreviousModel]]:
    """An engine whose memories all wait, with the vectors of the previous model for most."""
    async with start(None) as engine, anyio.create_task_group() as tasks:
        saved = {}
        for n in range(12):
            text = " ".join([f"robot {n} drinks tea in the hall"] * (1 + n % 4))
            stored = await engine.store(text)
            if n > 2:
                vectors = BEFORE.encode([text[a:b] for a, b in BEFORE.split(text)])
                saved[said_key(stored.memory)] = list(vectors)
        previous = PreviousModel(BEFORE, EmbeddingSettings(), DEFAULT)
        tasks.start_soon(previous.run)
        await engine.use_previous_model(previous, saved)
        assert previous.waiting(engine._parts.index) == 3
        await engine.complete_previous_model(previous)
        yield engine, previous
        tasks.cancel_scope.cancel()


@pytest.fixture
async def changing(start: Start) -> AsyncIterator[tuple[Engine, PreviousModel]]:
    async with in_one_task(change(start)) as opened:
        yield opened


def check(engine: Engine, previous: PreviousModel) -> None:
    """Every memory has the cosine of its own text; free slots have 0."""
    index = engine._parts.index
    assert previous.waiting(index) == 0
    entries = index.entries()
    allowed = np.array([entry is not None for entry in entries])
    for query in QUERIES:
        vector = BEFORE.encode([query], query=True)[0]
        found = previous.cosines(vector, previous.owners(), allowed)
        for slot, entry in enumerate(entries):
            near = 0.0
            if entry is not None:
                text, lead = entry.memory.content, lead_of(entry.memory, DEFAULT)
                parts = BEFORE.encode([lead + text[a:b] for a, b in BEFORE.split(text, lead)])
                near = max(0.0, float((parts @ vector).max()))
            assert found[slot] == pytest.approx(near, abs=1e-5)


async def test_vectors_follow_every_write(changing: tuple[Engine, PreviousModel]) -> None:
    engine, previous = changing
    check(engine, previous)
    pick = random.Random(3)
    ids = [memory.id for memory in engine._parts.index]
    for n in range(60):
        what = pick.choice(("store", "forget", "update", "tag"))
        id = pick.choice(ids)
        if what == "store" or len(ids) < 4:
            text = f"a story of harbour {n} " * pick.choice((1, 1, 9))
            ids.append((await engine.store(text)).memory.id)
        elif what == "forget":
            await engine.forget(id)
            ids.remove(id)
        elif what == "update":
            await engine.update_memory(id, content=f"green robot {n} " * pick.choice((1, 9)))
        else:
            await engine.update_memory(id, metadata={"n": n})
        check(engine, previous)


async def test_the_same_text_twice_at_once(changing: tuple[Engine, PreviousModel]) -> None:
    engine, previous = changing
    async with anyio.create_task_group() as tasks:
        for session in ("a", "b", "c"):
            tasks.start_soon(engine.add_turn, "user", "tea in the hall", session)
        for name in ("Anna", "Tom"):
            tasks.start_soon(engine.add_turn, "user", "tea in the hall", "d", name)
    check(engine, previous)
    said = [m for m in engine._parts.index if m.metadata.get("speaker") == "Tom"]
    updates = Updates(engine._parts, Memories(engine._parts))
    await updates.mark(said[0], {"speaker": "Caroline"})
    check(engine, previous)


async def test_a_memory_forgotten_while_vectors_are_loaded_leaves_none(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryd.engine.models.previous_model.PACE", 1)
    async with start(None) as engine, anyio.create_task_group() as tasks:
        stored = [(await engine.store(f"robot {n} in the hall")).memory for n in range(20)]
        saved = {said_key(m): list(BEFORE.encode([m.content])) for m in stored}
        previous = PreviousModel(BEFORE, EmbeddingSettings(), DEFAULT)
        tasks.start_soon(previous.run)

        async def forget_some() -> None:
            for memory in stored[::3]:
                await engine.forget(memory.id)
                await engine.store(f"green tea instead of {memory.id}")

        async with anyio.create_task_group() as both:
            both.start_soon(engine.use_previous_model, previous, saved)
            both.start_soon(forget_some)
        check(engine, previous)
        tasks.cancel_scope.cancel()


async def test_a_search_uses_the_previous_model_until_every_memory_has_a_vector(
    changing: tuple[Engine, PreviousModel],
) -> None:
    engine, _ = changing
    page = await engine.search("harbour", min_score=0.0)
    assert page.warnings == ()
    assert engine.state()["previous_model"] == "hash-48"
    engine.attach(HashEncoder())
    await engine.embed_all_pending()
    assert engine.state()["previous_model"] is None
    assert engine._parts.embedding.previous_model is None
    assert (await engine.search("robot")).warnings == ()


async def test_a_running_call_ends_before_the_previous_model_is_dropped(
    changing: tuple[Engine, PreviousModel],
) -> None:
    _, previous = changing
    found = []

    async def ask(query: str) -> None:
        found.append(await previous.query(query))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for n in range(20):
                tasks.start_soon(ask, f"robot {n}")
            await anyio.lowlevel.checkpoint()
            assert found == []  # all are under way
            previous.retire()
    assert len(found) == 20
