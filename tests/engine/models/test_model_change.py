"""A change of model, on real parts: the previous model searches until the new one has made the last
vector, whatever happens meanwhile."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from memoryd.adapters.chroma.remodel import _PreviousVectors
from memoryd.adapters.chroma.store import open_chroma
from memoryd.adapters.snapshot_file import PREVIOUS_VECTORS, LocalSnapshotFile
from memoryd.engine.engine import Engine
from memoryd.errors import EmbedError, ModelMissing
from memoryd.model import Memory, MemoryType
from memoryd.ports import Encoder, Identity, Passage, Record
from memoryd.settings import Config
from memoryd.wiring import engine as wiring
from memoryd.wiring.engine import open_engine
from tests.engine.test_engine_real import configured, sentences
from tests.processes import until

pytestmark = pytest.mark.slow

DOCK = "The charging dock is behind the kitchen door."
BATTERY = "where can it refill its energy?"  # no word of it
MINILM, BGE = "all-MiniLM-L6-v2", "bge-small-en-v1.5"


class Held:
    """A model that makes no vector of the dock until it is let go; at the end it fails."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.has_begun, self.go, self.is_over = (threading.Event() for _ in range(3))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def encode(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        if not query and DOCK in texts:
            self.has_begun.set()
            self.go.wait()
            if self.is_over.is_set():
                raise EmbedError("The test is over.")
        return self._encoder.encode(texts, query=query)


@asynccontextmanager
async def changing(folder: Path) -> AsyncIterator[tuple[Engine, threading.Event]]:
    """An engine whose new model is held back; the event lets it go."""
    models: list[Held] = []
    load_encoder = wiring.load_encoder

    def load(config: Config, **options: Any) -> Any:
        encoder = load_encoder(config, **options)
        if encoder is None or encoder.model != BGE:
            return encoder
        models.append(Held(encoder))
        return models[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wiring, "load_encoder", load)
        async with open_engine(using(folder, BGE)) as engine:
            (model,) = models
            try:
                # What is stored from now on is not in the batch that is held back.
                await until(model.has_begun.is_set)
                yield engine, model.go
            finally:
                if not model.go.is_set():
                    model.is_over.set()
                    model.go.set()


def using(folder: Path, model: str) -> Config:
    config = configured(folder)
    return replace(config, memory=replace(config.memory, embedding_model=model))


async def fill(config: Config) -> None:
    async with open_engine(config) as engine:
        for text in [DOCK, *sentences(30)]:
            await engine.store(text, metadata={"kept": True}, session_id="s")
        await engine.store("a long story about the harbour " * 100, name="long")


async def best(engine: Engine, query: str = BATTERY) -> str:
    page = await engine.search(query, min_score=0.1)
    assert page.warnings == ()
    return page.hits[0].memory.content


async def test_the_previous_model_searches_until_the_new_one_is_done(tmp_path: Path) -> None:
    await fill(using(tmp_path, MINILM))
    async with changing(tmp_path) as (engine, go):
        assert engine.count == 32
        assert engine.state()["pending_vectors"] > 0
        assert engine.state()["previous_model"] == MINILM
        assert engine.state()["model"] == BGE
        assert await best(engine) == DOCK
        go.set()
        await until(lambda: engine.state()["previous_model"] is None)
        assert engine.state()["pending_vectors"] == 0
        assert await best(engine) == DOCK
        page = await engine.search(BATTERY, min_score=0.1)
        assert page.hits[0].memory.metadata == {"kept": True}
        assert (await engine.store_status())["model"] == BGE
        assert not (tmp_path / PREVIOUS_VECTORS).exists()
    async with open_engine(using(tmp_path, BGE)) as engine:
        assert engine.state()["pending_vectors"] == 0
        assert await best(engine) == DOCK


async def test_what_is_written_meanwhile_is_found_by_meaning_too(tmp_path: Path) -> None:
    await fill(using(tmp_path, MINILM))
    async with changing(tmp_path) as (engine, _):
        stored = await engine.store("Grandmother's recipe needs three eggs and some vanilla.")
        assert await best(engine, "what do I bake the cake with?") == stored.memory.content
        await engine.update_memory(stored.memory.id, content="Interest rates rose in March.")
        assert await best(engine, "how expensive are loans?") == "Interest rates rose in March."
        await engine.forget(stored.memory.id)
        found = await engine.search("how expensive are loans?", min_score=0.0, limit=50)
        assert stored.memory.id not in {hit.memory.id for hit in found.hits}
        assert await best(engine) == DOCK
        assert engine.state()["previous_model"] == MINILM


async def test_stopped_halfway_it_goes_on_with_the_previous_model(tmp_path: Path) -> None:
    await fill(using(tmp_path, MINILM))
    for late in ("The spare key hangs in the garage.", "Mozart was born in Salzburg."):
        async with changing(tmp_path) as (engine, _):
            assert await best(engine) == DOCK
            await engine.store(late)
    async with changing(tmp_path) as (engine, _):
        previous = engine._parts.embedding.previous_model
        assert previous is not None
        await until(lambda: previous.waiting(engine._parts.index) == 0)
        assert await best(engine, "composer from Austria") == "Mozart was born in Salzburg."
    async with open_engine(using(tmp_path, BGE)) as engine:
        await until(lambda: engine.state()["previous_model"] is None)
        assert engine.count == 34
        assert engine.state()["pending_vectors"] == 0


async def test_a_second_change_before_the_first_is_done_keeps_the_one_that_searches(
    tmp_path: Path,
) -> None:
    await fill(using(tmp_path, MINILM))
    settings = configured(tmp_path).store
    async with open_chroma(settings, tmp_path, Identity(BGE, 384), remodelling=True) as store:
        assert await store.count() == 32
    async with open_engine(configured(tmp_path, "hash")) as engine:
        assert await best(engine) == DOCK
        await until(lambda: engine.state()["previous_model"] is None)
        assert engine.state()["model"] == "hash-384"


async def test_a_previous_model_that_is_gone_leaves_the_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(using(tmp_path, MINILM))
    load = wiring.load_encoder

    def without_minilm(config: Config, **options: Any) -> Any:
        if config.memory.embedding_model == MINILM:
            raise ModelMissing("No source has it.")
        return load(config, **options)

    monkeypatch.setattr(wiring, "load_encoder", without_minilm)
    async with changing(tmp_path) as (engine, go):
        assert engine.state()["previous_model"] is None
        page = await engine.search("charging dock")
        assert page.hits[0].memory.content == DOCK
        assert "memories have no vector yet: found by words only." in page.warnings[0]
        assert (tmp_path / PREVIOUS_VECTORS).exists()  # it may come back
        await engine.purge()
        assert not (tmp_path / PREVIOUS_VECTORS).exists()
        go.set()
        await until(lambda: not engine.state()["pending_vectors"])
        assert await best(engine) == DOCK


async def test_a_purge_leaves_no_vector_of_the_previous_model_in_a_file(tmp_path: Path) -> None:
    await fill(using(tmp_path, MINILM))
    async with changing(tmp_path) as (engine, _):
        assert (tmp_path / PREVIOUS_VECTORS).stat().st_mode & 0o777 == 0o600
        await engine.purge()
        assert not (tmp_path / PREVIOUS_VECTORS).exists()
        assert await best(engine) == DOCK


def test_more_vectors_than_fit_twice_into_ram_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vector = np.eye(1, 4, dtype=np.float32)[0]
    memory = Memory("a", MemoryType.FACT, "text", 1.0)
    records = [Record(replace(memory, id=str(n)), (Passage((0, 4), vector),)) for n in range(5)]
    for most, is_kept in ((5, True), (4, False)):
        monkeypatch.setattr("memoryd.adapters.chroma.remodel.MAX_PASSAGES", most)
        vectors, snapshot_file = _PreviousVectors(), LocalSnapshotFile(tmp_path / str(most))
        for record in records:
            vectors.add([record])
        vectors.save(snapshot_file, Identity("m", 4))
        assert (snapshot_file.load() is not None) == is_kept


async def test_a_model_that_is_not_there_takes_over_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_engine(configured(tmp_path, "hash")) as engine:
        await engine.store("x")

    def missing(*_: object, **__: object) -> None:
        raise ModelMissing("No source has it.")

    with monkeypatch.context() as patch:
        patch.setattr(wiring, "load_encoder", missing)
        async with open_engine(configured(tmp_path)) as engine:
            page = await engine.search("x")
            assert len(page.hits) == 1
            assert "No source has it." in page.warnings[0]
            assert (await engine.store_status())["model"] == "hash-384"
            await engine.store("y z")
    async with open_engine(configured(tmp_path, "hash")) as engine:
        assert len((await engine.search("x")).hits) == 1
        await until(lambda: not engine.state()["pending_vectors"])
        assert (await engine.search("z")).warnings == ()
