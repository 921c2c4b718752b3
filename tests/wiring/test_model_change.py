"""A change of model on real parts: ChromaDB in its workers, two real models, real files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from memoryd.adapters.chroma.swap import NEXT
from memoryd.engine.engine import Engine
from memoryd.engine.models import lanes, model_change
from memoryd.errors import EmbedError, ModelMissing
from memoryd.ports import Encoder
from memoryd.settings import Config
from memoryd.wiring import engine as wiring
from memoryd.wiring import model as wiring_model
from memoryd.wiring.engine import open_engine, restore_backup
from tests.adapters.chroma.test_rewrite import CANARY, holds
from tests.daemons import Daemon
from tests.engine.test_engine_real import configured, sentences
from tests.processes import until

pytestmark = pytest.mark.slow

DOCK = "The charging dock is behind the kitchen door."
BATTERY = "where can it refill its energy?"  # no word of it
MINILM, BGE, HASH = "all-MiniLM-L6-v2", "bge-small-en-v1.5", "hash-384"
COUNT = 32  # memories that `fill` stores


class Held:
    """A model that makes no vector of the dock until it is let go; at the end it fails."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.has_begun, self.go, self.is_over = (threading.Event() for _ in range(3))
        self.documents: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def encode(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        if not query and DOCK in texts:
            self.has_begun.set()
            self.go.wait()
            if self.is_over.is_set():
                raise EmbedError("The test is over.")
        if not query:
            self.documents += texts
        return self._encoder.encode(texts, query=query)


@asynccontextmanager
async def changing(folder: Path) -> AsyncIterator[tuple[Engine, Held]]:
    """An engine whose new model is held back."""
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
        # Few memories wait for the dock: those of its batch.
        patch.setattr(model_change, "BATCH", 2)
        patch.setattr(lanes, "LARGE_CHARS", 1)
        async with open_engine(using(folder, BGE)) as engine:
            (model,) = models
            try:
                # What is stored from now on is not in the batch that is held back.
                await until(model.has_begun.is_set)
                yield engine, model
            finally:
                if not model.go.is_set():
                    model.is_over.set()
                    model.go.set()


def using(folder: Path, model: str) -> Config:
    config = configured(folder)
    return replace(config, memory=replace(config.memory, embedding_model=model))


def without(model: str) -> Callable[..., Any]:
    """`load_encoder` without this model."""
    load = wiring.load_encoder

    def load_others(config: Config, **options: Any) -> Any:
        if config.memory.embedding_model == model and config.embedding.backend != "hash":
            raise ModelMissing("No source has it.")
        return load(config, **options)

    return load_others


async def fill(config: Config) -> None:
    async with open_engine(config) as engine:
        for text in [DOCK, *sentences(COUNT - 2)]:
            await engine.store(text, metadata={"kept": True}, session_id="s")
        await engine.store("a long story about the harbour " * 100, name="long")


async def best(engine: Engine, query: str = BATTERY) -> str:
    page = await engine.search(query, min_score=0.1)
    assert page.warnings == ()
    return page.hits[0].memory.content


async def changed(engine: Engine, model: str = BGE) -> None:
    """Wait for the switch; nothing waits for a vector then."""
    await until(lambda: engine.state()["model_change"] is None)
    assert (engine.state()["model"], engine.state()["pending_vectors"]) == (model, 0)
    assert (await engine.store_status())["model"] == model
    assert (await engine.audit())["store"] == engine.count


async def test_the_old_model_searches_until_the_new_one_is_done(tmp_path: Path) -> None:
    await fill(using(tmp_path, MINILM))
    async with changing(tmp_path) as (engine, model):
        assert engine.count == COUNT
        assert (engine.state()["model"], engine.state()["pending_vectors"]) == (MINILM, 0)
        assert engine.state()["model_change"]["to"] == BGE
        assert engine.state()["model_change"]["total"] == COUNT
        assert (await engine.store_status())["model"] == MINILM
        assert await best(engine) == DOCK
        model.go.set()
        await changed(engine)
        assert await best(engine) == DOCK
        page = await engine.search(BATTERY, min_score=0.1)
        assert page.hits[0].memory.metadata == {"kept": True}
        assert (await engine.store_status())["since_by"] == "model"
        assert not (tmp_path / NEXT).exists()
    async with open_engine(using(tmp_path, BGE)) as engine:
        assert engine.state()["pending_vectors"] == 0
        assert await best(engine) == DOCK


async def test_no_call_waits_for_a_rewrite_at_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is served as it is before the new model is even loaded."""
    await fill(using(tmp_path, MINILM))
    load, go = wiring.load_encoder, threading.Event()

    def late(config: Config, **options: Any) -> Any:
        if config.memory.embedding_model == BGE:
            go.wait()
        return load(config, **options)

    monkeypatch.setattr(wiring, "load_encoder", late)
    inode = (tmp_path / "store" / "chroma.sqlite3").stat().st_ino
    async with open_engine(using(tmp_path, BGE), wait=False) as engine:
        await until(lambda: engine.model is not None)
        assert await best(engine) == DOCK
        await engine.store("The spare key hangs in the garage.")
        assert "being loaded" in engine.state()["model_change"]["trouble"]
        assert (tmp_path / "store" / "chroma.sqlite3").stat().st_ino == inode
        assert not (tmp_path / NEXT).exists()
        go.set()
        await changed(engine)
        assert await best(engine, "how do I get into the house?")


async def test_what_is_written_meanwhile_is_found_by_meaning_before_and_after(
    tmp_path: Path,
) -> None:
    await fill(using(tmp_path, MINILM))
    async with changing(tmp_path) as (engine, model):
        stored = await engine.store("Grandmother's recipe needs three eggs and some vanilla.")
        assert await best(engine, "what do I bake the cake with?") == stored.memory.content
        rates = "Interest rates rose in March."
        await engine.update_memory(stored.memory.id, content=rates)
        assert await best(engine, "how expensive are loans?") == rates
        gone = await engine.store("Mozart was born in Salzburg.")
        await engine.forget(gone.memory.id)
        assert await best(engine) == DOCK
        model.go.set()
        await changed(engine)
        assert await best(engine, "how expensive are loans?") == rates
        found = await engine.search("composer from Austria", min_score=0.0, limit=50)
        assert gone.memory.id not in {hit.memory.id for hit in found.hits}
    async with open_engine(using(tmp_path, BGE)) as engine:
        assert engine.count == COUNT + 1
        assert await best(engine, "how expensive are loans?") == rates


async def test_stopped_halfway_it_goes_on_without_embedding_anything_twice(tmp_path: Path) -> None:
    await fill(using(tmp_path, MINILM))
    async with changing(tmp_path) as (engine, model):
        await until(lambda: engine.state()["model_change"]["done"] >= 16)
        done = engine.state()["model_change"]["done"]
        assert await best(engine) == DOCK
    async with changing(tmp_path) as (engine, model):
        assert await best(engine) == DOCK
        model.go.set()
        await changed(engine)
        short = [text for text in model.documents if "harbour" not in text]
        assert len(set(short)) == len(short) <= COUNT - done


async def test_a_second_change_before_the_first_is_done(tmp_path: Path) -> None:
    """The store keeps its model until the one that is configured now is done."""
    await fill(using(tmp_path, MINILM))
    async with changing(tmp_path) as (engine, _):
        await until(lambda: engine.state()["model_change"]["done"] > 0)
    async with open_engine(configured(tmp_path, "hash")) as engine:
        await changed(engine, HASH)
        assert (await engine.search("charging dock")).hits[0].memory.content == DOCK


async def test_a_change_that_is_called_off_leaves_nothing(tmp_path: Path) -> None:
    await fill(using(tmp_path, MINILM))
    async with changing(tmp_path) as (engine, _):
        await until(lambda: engine.state()["model_change"]["done"] > 0)
    assert (tmp_path / NEXT).exists()
    async with open_engine(using(tmp_path, MINILM)) as engine:
        assert await best(engine) == DOCK
        assert not (tmp_path / NEXT).exists()


async def test_an_old_model_that_is_gone_leaves_the_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(using(tmp_path, MINILM))
    monkeypatch.setattr(wiring, "load_encoder", without(MINILM))
    async with changing(tmp_path) as (engine, model):
        assert engine.state()["model"] is None
        page = await engine.search("charging dock")
        assert page.hits[0].memory.content == DOCK
        assert "not complete yet. Results are by words only." in page.warnings[0]
        stored = await engine.store("Mozart was born in Salzburg.")
        assert stored.warnings
        model.go.set()
        await changed(engine)
        assert await best(engine) == DOCK
        assert await best(engine, "composer from Austria") == stored.memory.content


async def test_a_new_model_that_is_missing_changes_nothing_until_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old model serves on without a warning, `status` says why, and no restart is needed."""
    await fill(using(tmp_path, MINILM))
    monkeypatch.setattr(wiring_model, "RETRY", 0.05)
    load, load_others, is_there = wiring.load_encoder, without(BGE), threading.Event()

    def load_late(config: Config, **options: Any) -> Any:
        return (load if is_there.is_set() else load_others)(config, **options)

    monkeypatch.setattr(wiring, "load_encoder", load_late)
    async with open_engine(using(tmp_path, BGE)) as engine:
        assert await best(engine) == DOCK
        await engine.store("Mozart was born in Salzburg.")
        assert await best(engine, "composer from Austria") == "Mozart was born in Salzburg."
        assert "No source has it." in engine.state()["model_change"]["trouble"]
        assert (await engine.store_status())["model"] == MINILM
        is_there.set()
        await changed(engine)
        assert await best(engine, "composer from Austria") == "Mozart was born in Salzburg."


async def test_a_purge_leaves_no_byte_of_what_is_gone_in_the_next_store(tmp_path: Path) -> None:
    await fill(using(tmp_path, MINILM))
    async with open_engine(using(tmp_path, MINILM)) as engine:
        gone = (await engine.store(f"said {CANARY}")).memory.id
        await engine.store(f"was {CANARY}", name="changed")
    async with changing(tmp_path) as (engine, model):
        await until(lambda: len(holds(tmp_path / NEXT, CANARY)) > 0)
        await engine.forget(gone)
        await engine.store("is harmless", name="changed")
        await engine.purge()
        assert holds(tmp_path, CANARY) == []
        model.go.set()
        await changed(engine)
        assert engine.count == COUNT + 1
        assert await best(engine) == DOCK
    assert holds(tmp_path, CANARY) == []


async def test_backup_compaction_and_sweep_during_a_change(tmp_path: Path) -> None:
    await fill(using(tmp_path, MINILM))
    async with changing(tmp_path) as (engine, model):
        assert (await engine.backup()).memories == COUNT
        await engine._parts.store.purge()  # what a compaction does
        await engine._upkeep.tick()
        assert await best(engine) == DOCK
        model.go.set()
        await changed(engine)
        made = await engine.backup()
        assert made.memories == COUNT
    await restore_backup(using(tmp_path, BGE), Path(made.path), replace=True)
    async with open_engine(using(tmp_path, BGE)) as engine:
        assert (engine.state()["pending_vectors"], engine.state()["model_change"]) == (0, None)


async def test_a_rescue_during_a_change(tmp_path: Path) -> None:
    """The rescued store has the old model, and the change goes on."""
    await fill(using(tmp_path, MINILM))
    async with changing(tmp_path) as (engine, model):
        shutil.rmtree(tmp_path / "store")
        assert (await engine.rescue()).memories == COUNT
        assert (await engine.store_status())["model"] == MINILM
        assert await best(engine) == DOCK
        model.go.set()
        await changed(engine)
        assert await best(engine) == DOCK
    async with open_engine(using(tmp_path, BGE)) as engine:
        assert engine.count == COUNT
        assert await best(engine) == DOCK


async def test_a_restore_throws_the_next_store_away(tmp_path: Path) -> None:
    await fill(using(tmp_path, MINILM))
    async with changing(tmp_path) as (engine, _):
        made = await engine.backup()
        await until(lambda: engine.state()["model_change"]["done"] > 0)
    await restore_backup(using(tmp_path, BGE), Path(made.path), replace=True)
    assert not (tmp_path / NEXT).exists()


async def test_a_worker_killed_during_a_change_is_not_noticed(tmp_path: Path) -> None:
    await fill(using(tmp_path, MINILM))
    async with changing(tmp_path) as (engine, model):
        for folder in (tmp_path, tmp_path / NEXT):
            os.kill(json.loads((folder / "lock").read_text())["worker"], signal.SIGKILL)
        model.go.set()
        await changed(engine)
        assert await best(engine) == DOCK


def test_a_daemon_killed_in_the_middle_goes_on_where_it_was(tmp_path: Path) -> None:
    """kill -9 of the daemon: what the next store had is not embedded again."""
    count = 300
    daemon = Daemon(tmp_path / "data").start()
    for n, text in enumerate(sentences(count)):
        daemon.tool("store_memory", content=f"{text} number {n}")
    daemon.stop()
    new = Daemon(tmp_path / "data", MEMORYD_EMBEDDING_BACKEND="onnx").start()
    done = 0
    while done < count // 10:
        change = new.status()["model_change"]
        assert change is not None
        done = change["done"]
        found = new.tool("search_memories", query="number 7")
        assert found["results"]
    new.stop(signal.SIGKILL)
    new.start()
    try:
        while (status := new.status())["model_change"]:
            pass
        assert (status["model"], status["memories"]["fact"]) == (MINILM, count)
        assert status["store"]["model"] == MINILM
        (told,) = [line for line in new.log.read_text().splitlines() if "model_changed" in line]
        assert 0 < json.loads(told)["embedded"] <= count - done
    finally:
        assert new.stop() == 0
