"""Starting from a snapshot gives the same index as reading everything."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from memoryd.adapters.embed_hash import HashEncoder
from memoryd.adapters.shelf import FileShelf
from memoryd.engine import snapshot
from memoryd.engine.engine import Engine, run_engine
from memoryd.engine.memories import Memories
from memoryd.settings import Config
from tests.engine.conftest import Clock
from tests.ramstore import RamStore


@pytest.fixture(autouse=True)
def from_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "LEAST", 1)


class Place:
    """The same store and file, started again and again."""

    def __init__(self, config: Config, store: RamStore, clock: Clock, file: Path) -> None:
        self.config, self.store, self.clock, self.file = config, store, clock, file

    def start(self, *, shelf: bool = True, model: str = "m") -> AbstractAsyncContextManager[Engine]:
        kept = FileShelf(self.file) if shelf else None
        return run_engine(self.config, self.store, HashEncoder(), 384, self.clock, kept, model)


@pytest.fixture
def place(config: Config, store: RamStore, clock: Clock, tmp_path: Path) -> Place:
    return Place(config, store, clock, tmp_path / "index.snapshot")


async def answers(engine: Engine) -> list[list[tuple[str, float]]]:
    queries = ["robot hall", "tea", "what did Anna say", "who", "long words here"]
    pages = [await engine.search(query, limit=50, min_score=0.0) for query in queries]
    return [[(hit.memory.id, round(hit.score, 5)) for hit in page.hits] for page in pages]


async def fill(engine: Engine) -> list[str]:
    ids = [
        (await engine.store(f"robot {n} in the hall", metadata={"n": n})).memory.id
        for n in range(6)
    ]
    for n in range(5):
        turn = await engine.add_turn("user", f"tea number {n}, canary-{n}", "s", "Anna")
        ids.append(turn.memory.id)
    ids.append((await engine.store("many words here " * 200, name="long")).memory.id)
    return ids


async def test_a_start_from_a_snapshot_is_like_one_without(place: Place) -> None:
    async with place.start() as engine:
        await fill(engine)
        expected = await answers(engine)
    assert place.file.exists()
    scans = place.store.scans
    async with place.start() as engine:
        assert await answers(engine) == expected
        assert (await engine.get("long")) is not None
        assert len((await engine.context_window("s")).messages) == 5
        for id in [memory.id for memory in engine._parts.index]:
            await engine.forget(id)
        assert engine._parts.index.tables[1].vocabulary == 0
    assert place.store.scans == scans  # the store was not read as a whole


async def test_what_changed_since_is_read_from_the_store(place: Place) -> None:
    async with place.start() as engine:
        ids = await fill(engine)
    async with place.start(shelf=False) as engine:  # as if killed before it could save
        await engine.forget(ids[0])
        await engine.update(ids[1], content="robot 1 in the attic")
        await Memories(engine._parts).mark_turn(
            ids[6], {"role": "user", "order": 0, "speaker": "Tom"}
        )
        await engine.store("robot 9 in the hall, new")
        await engine.update("long", content="short now")
        expected = await answers(engine)
    async with place.start() as engine:
        assert await answers(engine) == expected
        assert await engine.get(ids[0]) is None


async def test_forgotten_and_changed_texts_leave_the_file_at_once(place: Place) -> None:
    async with place.start() as engine:
        await fill(engine)
    assert b"canary-1" in place.file.read_bytes()
    async with place.start() as engine:
        found = (await engine.search("canary-1")).hits[0].memory
        await engine.forget(found.id)
        assert b"canary-1" not in place.file.read_bytes()
        found = (await engine.search("canary-2")).hits[0].memory
        await engine.update(found.id, content="something else")
        assert b"canary-2" not in place.file.read_bytes()
        assert b"canary-3" in place.file.read_bytes()


async def test_another_model_or_a_damaged_file_starts_from_the_store(place: Place) -> None:
    async with place.start() as engine:
        await fill(engine)
        expected = await answers(engine)
    scans = place.store.scans
    async with place.start(model="another") as engine:
        assert await answers(engine) == expected
    place.file.write_bytes(place.file.read_bytes()[:-5000])
    async with place.start() as engine:
        assert await answers(engine) == expected
    assert place.store.scans == scans + 2


async def test_a_small_store_has_no_snapshot(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async with place.start() as engine:
        await fill(engine)
    monkeypatch.setattr(snapshot, "LEAST", 1000)
    async with place.start() as engine:
        await engine.store("one more")
    assert not place.file.exists()


async def test_pending_vectors_stay_pending(place: Place) -> None:
    kept = FileShelf(place.file)
    async with run_engine(place.config, place.store, None, 384, place.clock, kept, "m") as engine:
        await engine.store("stored without a model")
    async with run_engine(place.config, place.store, None, 384, place.clock, kept, "m") as engine:
        assert engine._parts.index.pending == 1
    async with place.start() as engine:
        assert await engine.embed_all_pending() in (0, 1)
        assert engine._parts.index.pending == 0
        assert len((await engine.search("stored without a model")).hits) == 1
