"""A model server that comes, goes and comes back, under the engine and under a real daemon."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memoryd.engine.models import model_change, outage
from memoryd.ports import Identity
from memoryd.settings import Config, SearchSettings
from memoryd.wiring import engine as wiring
from memoryd.wiring import model as wiring_model
from memoryd.wiring.engine import open_engine, restore_backup
from memoryd.wiring.further_models import load_stored
from tests.daemons import Daemon
from tests.engine.test_engine_real import configured
from tests.model_server import ModelServer, model_server, replying, silent
from tests.processes import until

DOCK = "The charging dock is behind the kitchen door."
LAMP = "The blue lamp stands on the landing."


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server(96) as running:
        yield running


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "FIRST", 0.05)
    monkeypatch.setattr(outage, "LONGEST", 0.1)
    monkeypatch.setattr(wiring_model, "FIRST", 0.05)
    monkeypatch.setattr(wiring_model, "RETRY", 0.1)


def served_by(server: ModelServer, folder: Path, **settings: Any) -> Config:
    config = configured(folder, "http")
    given: dict[str, Any] = {"url": server.url, "timeout": 5.0, "retries": 0} | settings
    return replace(
        config,
        memory=replace(config.memory, embedding_model="tiny"),
        embedding=replace(config.embedding, **given),
    )


async def test_a_store_records_the_model_of_the_server(server: ModelServer, tmp_path: Path) -> None:
    async with open_engine(served_by(server, tmp_path)) as engine:
        assert (await engine.store(DOCK)).warnings == ()
        assert engine.model == ("http/tiny", 96)
        facts = await engine.store_status()
        assert (facts["model"], facts["dimension"]) == ("http/tiny", 96)


@pytest.mark.parametrize("known", ["from the store", "from the configuration"])
@pytest.mark.slow
async def test_a_model_that_comes_after_the_start_is_attached(
    server: ModelServer, tmp_path: Path, known: str
) -> None:
    settings = {"dimensions": 96} if known == "from the configuration" else {}
    config = served_by(server, tmp_path, **settings)
    if known == "from the store":
        async with open_engine(config) as engine:
            await engine.store(LAMP)
    server.stop()
    async with open_engine(config) as engine:
        stored = await engine.store(DOCK)
        assert "refuses connections" in stored.warnings[0]
        page = await engine.search("kitchen dock")
        assert page.hits[0].memory.content == DOCK
        assert "refuses connections" in page.warnings[0]
        server.start()
        await until(lambda: engine.model is not None and not engine.state()["pending_vectors"])
        assert (await engine.search("kitchen dock")).warnings == ()


async def test_a_server_that_dies_and_comes_back(server: ModelServer, tmp_path: Path) -> None:
    async with open_engine(served_by(server, tmp_path)) as engine:
        await engine.store(LAMP)
        server.stop()
        assert (await engine.store(DOCK)).warnings
        page = await engine.search("kitchen dock")
        assert page.hits[0].memory.content == DOCK
        assert "by words only" in page.warnings[0]
        server.start()
        await until(lambda: not engine.state()["pending_vectors"])
        assert (await engine.search("kitchen dock")).warnings == ()


@pytest.mark.slow
async def test_a_slow_server_delays_one_search_by_its_timeout(
    server: ModelServer, tmp_path: Path
) -> None:
    async with open_engine(served_by(server, tmp_path, timeout=0.5)) as engine:
        await engine.store(DOCK)
        server.rude = silent
        for _ in range(20):
            page = await engine.search("kitchen dock")
            assert page.hits[0].memory.content == DOCK
            assert "in time" in page.warnings[0]
        asked = len(server.bodies)
        server.rude = None
        server.released.set()
        await until(lambda: engine.state()["model_trouble"] is None)
        assert asked < 20  # not once for each search


@pytest.mark.slow
async def test_a_backup_is_restored_while_the_server_is_down(
    server: ModelServer, tmp_path: Path
) -> None:
    """As it is: the vectors of its own model are kept for when the server is back."""
    config = served_by(server, tmp_path)
    async with open_engine(config) as engine:
        await engine.store(DOCK)
        made = await engine.backup()
        await engine.store(LAMP)
    server.stop()
    assert await restore_backup(config, Path(made.path), replace=True) == 1
    server.start()
    async with open_engine(config) as engine:
        assert engine.model == ("http/tiny", 96)
        assert (engine.count, engine.state()["pending_vectors"]) == (1, 0)


@pytest.mark.slow
async def test_another_model_on_the_same_server_takes_over(
    server: ModelServer, tmp_path: Path
) -> None:
    async with open_engine(served_by(server, tmp_path)) as engine:
        await engine.store(DOCK)
    config = served_by(server, tmp_path)
    config = replace(config, memory=replace(config.memory, embedding_model="other"))
    async with open_engine(config) as engine:
        await until(lambda: engine.model == ("http/other", 96))
        assert not engine.state()["pending_vectors"]
        assert (await engine.search("kitchen dock")).hits[0].memory.content == DOCK


@pytest.mark.slow
async def test_both_models_are_on_a_server_that_was_down_at_the_start(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it answers, the old model searches until the vectors of the new one are complete."""
    async with open_engine(served_by(server, tmp_path)) as engine:
        await engine.store(DOCK)
    server.stop()
    monkeypatch.setattr(model_change, "RETRY", 0.1)
    config = served_by(server, tmp_path)
    config = replace(config, memory=replace(config.memory, embedding_model="other"))
    async with open_engine(config) as engine:
        assert "refuses connections" in engine.state()["model_change"]["trouble"]
        assert "refuses connections" in (await engine.search("kitchen dock")).warnings[0]
        server.refuses = lambda texts: DOCK in texts and server.bodies[-1]["model"] == "other"
        monkeypatch.setattr(model_change, "MAX_REFUSED", 0)
        server.start()
        await until(lambda: engine.model == ("http/tiny", 96))
        assert (await engine.search("kitchen dock")).warnings == ()
        server.refuses = lambda texts: False
        await until(lambda: engine.model == ("http/other", 96))
        assert (await engine.search("kitchen dock")).warnings == ()


@pytest.mark.slow
async def test_fewer_dimensions_of_the_same_model_are_another_model(
    server: ModelServer, tmp_path: Path
) -> None:
    """The old one, which has the same name, is asked for as many numbers as the store has."""
    async with open_engine(served_by(server, tmp_path)) as engine:
        await engine.store(DOCK)
    stored = Identity("http/tiny", 96)
    config = served_by(server, tmp_path, dimensions=48)
    old = load_stored(config, stored, wiring.load_encoder)
    assert old is not None
    assert old.dimension == 96
    async with open_engine(config) as engine:
        await until(lambda: engine.model == ("http/tiny", 48))
        page = await engine.search("kitchen dock")
        assert (page.hits[0].memory.content, page.warnings) == (DOCK, ())
        assert (await engine.store_status())["dimension"] == 48


@pytest.mark.slow
async def test_without_the_backend_no_text_is_sent_to_a_server(
    server: ModelServer, tmp_path: Path
) -> None:
    """Not even for the vectors that a store has from one."""
    async with open_engine(served_by(server, tmp_path)) as engine:
        await engine.store(DOCK)
    asked = len(server.bodies)
    local = served_by(server, tmp_path, backend="hash")
    async with open_engine(local) as engine:
        await until(lambda: engine.model == ("hash-384", 384))
        await engine.search("kitchen dock")
    assert len(server.bodies) == asked


async def test_a_rerank_server_reorders_and_may_be_down(
    server: ModelServer, tmp_path: Path
) -> None:
    config = replace(
        configured(tmp_path, "hash"),
        search=SearchSettings(rerank_url=server.url, rerank_weight=1.0, rerank_timeout=5.0),
    )
    async with open_engine(config) as engine:
        await engine.store("tea kitchen")
        await engine.store("kitchen of the tea house in the old town")
        await until(lambda: not engine._parts.reranking.trouble)
        server.rude = replying(
            {
                "results": [
                    {"index": 0, "relevance_score": 0.9},
                    {"index": 1, "relevance_score": 0.9},
                ]
            }
        )
        first, second = (await engine.search("tea kitchen")).hits
        server.rude = replying(
            {
                "results": [
                    {"index": 0, "relevance_score": 0.1},
                    {"index": 1, "relevance_score": 0.9},
                ]
            }
        )
        hits = (await engine.search("tea kitchen")).hits
        assert [hit.memory for hit in hits] == [second.memory, first.memory]
        assert set(server.paths) == {"/v1/rerank"}
        server.rude = None
        server.stop()
        page = await engine.search("tea kitchen")
        assert len(page.hits) == 2
        assert "Results are not reranked." in page.warnings[0]
        server.start()
        await until(lambda: engine._parts.reranking._outage.error is None)
        assert (await engine.search("tea kitchen")).warnings == ()


def eventually(holds: Callable[[], bool], daemon: Daemon) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, daemon.log.read_text()
        time.sleep(0.02)


def daemon_of(server: ModelServer, folder: Path, **settings: str) -> Daemon:
    return Daemon(
        folder,
        MEMORYD_EMBEDDING_BACKEND="http",
        MEMORYD_EMBEDDING_URL=server.url,
        MEMORYD_MEMORY_EMBEDDING_MODEL="tiny",
        **settings,
    )


@pytest.mark.slow
@pytest.mark.parametrize("api", ["ollama", "openai"])
def test_a_daemon_that_started_before_its_server_needs_no_restart(
    server: ModelServer, tmp_path: Path, api: str
) -> None:
    """A new store, of a model whose dimension nobody knows yet: it is changed to that model."""
    server.stop()
    daemon = daemon_of(server, tmp_path / "data", MEMORYD_EMBEDDING_API=api).start()
    assert daemon.process is not None
    try:
        stored = daemon.tool("store_memory", content=DOCK)
        assert "refuses connections" in stored["warnings"][0]
        found = daemon.tool("search_memories", query="kitchen dock")
        assert [hit["content"] for hit in found["results"]] == [DOCK]
        server.start()
        eventually(lambda: daemon.status().get("model") == "http/tiny", daemon)
        eventually(lambda: daemon.status().get("pending_vectors") == 0, daemon)
        found = daemon.tool("search_memories", query="kitchen dock")
        assert [hit["content"] for hit in found["results"]] == [DOCK]
        assert found["warnings"] == []
        assert daemon.status()["store"]["dimension"] == 96
        assert DOCK not in daemon.log.read_text()
    finally:
        assert daemon.stop() == 0


@pytest.mark.slow
def test_a_daemon_stops_while_its_server_is_silent(server: ModelServer, tmp_path: Path) -> None:
    server.rude = silent
    settings = {"MEMORYD_EMBEDDING_TIMEOUT": "600", "MEMORYD_EMBEDDING_DIMENSIONS": "96"}
    daemon = daemon_of(server, tmp_path / "data", **settings).start()
    eventually(lambda: len(server.bodies) > 0, daemon)
    assert daemon.stop() == 0
