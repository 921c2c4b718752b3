"""The wiring: engine, store and model put together. With the daemon, the one place that
knows engine and adapters alike."""

from __future__ import annotations

import importlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskStatus

from memoryd.adapters.chroma import open_chroma
from memoryd.adapters.chroma_open import NO_MODEL
from memoryd.engine.engine import Engine, run_engine
from memoryd.errors import EmbedError, MemorydError
from memoryd.places import cache_dir
from memoryd.ports import Encoder, Identity
from memoryd.settings import Config
from memoryd.tasks import task_group

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


@asynccontextmanager
async def open_engine(
    config: Config, clock: Callable[[], float] = time.time, *, wait: bool = True
) -> AsyncIterator[Engine]:
    """The whole engine on the configured store and model, inside a block.

    Without a model it opens all the same and searches by words, saying so in every answer.
    `wait` False: do not wait for a model that is still being loaded.
    """
    async with task_group() as tasks:
        model = Model(config) if config.embedding.backend != "none" else None
        if model is not None:
            tasks.start_soon(model.load)
        identity = await model.identity() if model else Identity(NO_MODEL, NO_MODEL_DIMENSION)
        async with (
            open_chroma(config.store, config.memory.path, identity) as store,
            run_engine(config, store, None, identity.dimension, clock) as engine,
        ):
            if model is not None:
                if wait:
                    await model.tried()
                await tasks.start(model.serve, engine)
            yield engine
            tasks.cancel_scope.cancel()


def look_at_store(config: Config) -> list[tuple[str, str, str]]:
    """Faults of the embedded store's files, each a code, a sentence and a hint."""
    from memoryd.adapters.chroma_look import look

    return look(config.memory.path) if config.store.mode == "embedded" else []
