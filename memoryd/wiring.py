"""The wiring: engine, store and model put together. With the daemon, the one place that
knows engine and adapters alike."""

from __future__ import annotations

import importlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskStatus

from memoryd.adapters import backup_file
from memoryd.adapters.chroma import ChromaStore, open_chroma
from memoryd.adapters.chroma_backup import Restore
from memoryd.adapters.chroma_open import NO_MODEL, OTHER_MODEL
from memoryd.adapters.shelf import FORMER, FileShelf
from memoryd.engine.engine import Engine, run_engine
from memoryd.errors import EmbedError, MemorydError, StoreError, StoreMismatch
from memoryd.places import cache_dir
from memoryd.ports import Encoder, Identity, Watch
from memoryd.settings import Config
from memoryd.tasks import task_group
from memoryd.wiring_beside import serve_former, serve_reranker

if TYPE_CHECKING:
    from memoryd.adapters.embed_source import Prepared

log = structlog.get_logger()
RETRY = 60.0  # seconds between two looks for a model that is missing
NO_MODEL_DIMENSION = 384  # of placeholders: MiniLM's, so that it can take the store over

# By name, imported late: each brings a library that the others do not need.
ENCODERS = {
    "onnx": "memoryd.adapters.embed_onnx:load",
    "sentence-transformers": "memoryd.adapters.embed_sbert:load",
    "hash": "memoryd.adapters.embed_hash:load",
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


def prepare_model(config: Config, progress: Callable[[str], None] | None = None) -> Prepared:
    """Find, check and prepare the configured model, so that no call ever waits for it."""
    from memoryd.adapters.embed_source import resolve

    settings = config.embedding
    folder = Path(settings.models_dir).expanduser() if settings.models_dir else None
    return resolve(
        config.memory.embedding_model,
        models_cache(),
        models_dir=folder,
        allow_download=settings.download,
        progress=progress,
    )


class Model:
    """The model as it comes up beside the store: looked for, loaded, handed over.

    A store must know whose vectors it holds before the first one is made. For a model of the
    catalogue that is known without its files, so the daemon serves while they are fetched.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._encoder: Encoder | None = None
        self._trouble = EmbedError("The embedding model is being loaded.")
        self._tried = anyio.Event()
        self._ready = anyio.Event()

    async def load(self) -> None:
        """Try with downloads once, then without: somebody may run `memoryd setup`."""
        load = load_encoder
        while self._encoder is None:
            try:
                self._encoder = await anyio.to_thread.run_sync(
                    load, self._config, abandon_on_cancel=True
                )
                self._ready.set()
            except EmbedError as exc:
                log.warning("model_missing", code=exc.code)
                self._trouble = exc
            self._tried.set()
            await anyio.sleep(0 if self._encoder else RETRY)
            load = partial(load_encoder, download=False)

    @property
    def is_ready(self) -> bool:
        """Whether it is loaded."""
        return self._ready.is_set()

    async def tried(self) -> None:
        """Wait until the model is loaded or known to be missing."""
        await self._tried.wait()

    async def identity(self) -> Identity:
        """Whose vectors the store will hold. Raises EmbedError if nobody can tell."""
        from memoryd.adapters.embed_catalogue import known_model

        known = known_model(self._config.memory.embedding_model)
        if known is not None and self._config.embedding.backend != "hash":
            return Identity(known.name, known.dimension)
        await self._tried.wait()
        if self._encoder is None:
            raise self._trouble
        return Identity(self._encoder.model, self._encoder.dimension)

    async def serve(
        self, engine: Engine, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Hand the model over: at once if it is there, else when it comes. Until then the
        engine says what is missing."""
        engine.without_model(lambda: f"{self._trouble.message} {self._trouble.hint}".strip())
        if not self._ready.is_set():
            task_status.started()
            task_status = anyio.TASK_STATUS_IGNORED
        await self._ready.wait()
        assert self._encoder is not None
        engine.attach(self._encoder)
        task_status.started()
        try:
            await engine.embed_all_pending()
        except MemorydError as exc:  # the upkeep tries again
            log.warning("embed_pending_failed", code=exc.code)


def check_backup(path: Path) -> int:
    """How many memories a backup holds; StoreError if it is damaged, or not one of ours."""
    backup_file.head(path)
    return backup_file.verify(path)


async def restore_backup(config: Config, path: Path, *, replace: bool = False) -> int:
    """Make the configured store from a backup; how many memories it holds now. Raises
    StoreError, and then nothing was changed."""
    if config.store.mode != "embedded":
        raise StoreError("A Chroma server cannot be restored from here.", code="not_embedded")
    async with task_group() as tasks:
        model = Model(config) if config.embedding.backend != "none" else None
        if model is not None:
            tasks.start_soon(model.load)
        identity = await model.identity() if model else Identity(NO_MODEL, NO_MODEL_DIMENSION)
        asked = Restore(path, replace)
        async with open_chroma(config.store, config.memory.path, identity, asked) as store:
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
) -> AsyncIterator[Engine]:
    """The whole engine on the configured store and model, inside a block.

    Without a model it opens all the same and searches by words, saying so in every answer.
    `wait` False: do not wait for a model that is still being loaded. `watch` is told how far
    the opening is.
    """
    async with task_group() as tasks:
        model = Model(config) if config.embedding.backend != "none" else None
        if model is not None:
            tasks.start_soon(model.load)
        identity = await model.identity() if model else Identity(NO_MODEL, NO_MODEL_DIMENSION)
        shelf = FileShelf(config.memory.path / "index.snapshot")
        shelf.prefetch()
        async with (
            _open_store(config, identity, model, watch) as store,
            run_engine(
                config, store, None, identity.dimension, clock, shelf, identity.model, watch
            ) as engine,
        ):
            former = FileShelf(config.memory.path / FORMER)
            engine.keep_former(former)
            if model is not None:
                await tasks.start(serve_former, engine, config, former, load_encoder)
                if wait:
                    await model.tried()
                await tasks.start(model.serve, engine)
            if config.search.rerank_model:
                tasks.start_soon(serve_reranker, engine, config.search.rerank_model)
            yield engine
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def _open_store(
    config: Config, identity: Identity, model: Model | None, watch: Watch | None
) -> AsyncIterator[ChromaStore]:
    """The store; one of another model is taken over, but only once this model is there."""
    async with AsyncExitStack() as stack:
        try:
            opened = open_chroma(config.store, config.memory.path, identity, watch=watch)
            store = await stack.enter_async_context(opened)
        except StoreMismatch as exc:
            if exc.code != OTHER_MODEL or model is None or config.store.mode != "embedded":
                raise
            await model.tried()
            if not model.is_ready:
                raise
            log.warning("model_changed", to=identity.model)
            opened = open_chroma(
                config.store, config.memory.path, identity, remodelling=True, watch=watch
            )
            store = await stack.enter_async_context(opened)
        yield store


def look_at_store(config: Config) -> list[tuple[str, str, str]]:
    """Faults of the embedded store's files, each a code, a sentence and a hint."""
    from memoryd.adapters.chroma_look import look

    return look(config.memory.path) if config.store.mode == "embedded" else []
