"""Models beside the configured one: the one that the store was made with, and the rerank model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskStatus

from memoryd.adapters.chroma.open import NO_MODEL
from memoryd.engine.engine import Engine
from memoryd.errors import MemorydError
from memoryd.logs import stage
from memoryd.ports import Encoder, Identity, NextStore, Reranker
from memoryd.settings import Config, SearchSettings
from memoryd.wiring.model import Load, Model, embed_pending, guarded, reason_of

log = structlog.get_logger()


async def serve_change(
    engine: Engine,
    model: Model,
    stored: Identity,
    next_store: NextStore,
    load: Callable[[], Encoder | None],
    wait: bool,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve a store by the model that it was made with, `stored`, and change to the configured one
    in the background, as soon as that is loaded. `load` loads the stored model; `wait`: do not
    start before that was tried."""

    def trouble() -> str:
        return model.trouble or f"The vectors of {model.name} are not complete yet."

    async with engine.changing_model(next_store, model.name, lambda: model.trouble) as change:
        engine.without_model(trouble)
        if not wait:
            task_status.started()
        await _attach_stored(engine, load)
        if wait:
            task_status.started()
        await embed_pending(engine)
        encoder = await model.loaded()
        if Identity(encoder.model, encoder.dimension) != stored:
            if engine.model is None:  # both may be on a server that is back now
                await _attach_stored(engine, load)
            log.info("model_change", to=encoder.model)
            await change.run(encoder)
        elif engine.model is None:
            engine.attach(encoder)
    await embed_pending(engine)


async def _attach_stored(engine: Engine, load: Callable[[], Encoder | None]) -> None:
    with stage("stored_model"):
        encoder = await anyio.to_thread.run_sync(load, abandon_on_cancel=True)
    if encoder is not None:
        engine.attach(encoder)


def load_stored(config: Config, stored: Identity, load: Load) -> Encoder | None:
    """The encoder that a store says its vectors are from; None if it cannot be had by that name."""
    if stored.model == NO_MODEL:
        return None
    for name, backend in _places(config, stored.model):
        asked = replace(
            config,
            memory=replace(config.memory, embedding_model=name),
            embedding=replace(config.embedding, backend=backend, dimensions=stored.dimension),
        )
        with contextlib.suppress(MemorydError):
            encoder = guarded(partial(load, asked, download=False))
            if encoder is not None and Identity(encoder.model, encoder.dimension) == stored:
                return encoder
    log.warning("stored_model_missing", model=stored.model)
    return None


def _places(config: Config, model: str) -> list[tuple[str, Any]]:
    """The names and backends that a model may be loaded by, from the name of its vectors."""
    from memoryd.adapters.embed.http_encoder import PREFIX  # late, as every encoder

    backend: Any = config.embedding.backend
    if model.startswith(PREFIX):  # without the backend no text may be sent to a server
        name = model.removeprefix(PREFIX).partition("#")[0]
        return [(name, backend)] if backend == "http" else []
    if model.startswith("hash-"):
        return [(model, "hash")]
    backends = dict.fromkeys(["onnx" if backend == "http" else backend, "onnx"])
    names = dict.fromkeys([model, model.partition(":")[0]])
    return [(name, backend) for name in names for backend in backends]


async def serve_reranker(engine: Engine, settings: SearchSettings) -> None:
    """Load the reranker beside everything else; every answer says so until it serves."""
    engine.attach_reranker(None, "The rerank model is being loaded.")
    try:
        load = partial(guarded, partial(_load_reranker, settings), "The rerank model")
        with stage("rerank_model"):
            reranker = await anyio.to_thread.run_sync(load, abandon_on_cancel=True)
        engine.attach_reranker(reranker)
    except MemorydError as exc:
        log.warning("rerank_model_unusable", code=exc.code, error=reason_of(exc))
        engine.attach_reranker(None, f"{exc.message} {exc.hint}".strip())


def _load_reranker(settings: SearchSettings) -> Reranker:
    # Late: the library that one of them brings may not load.
    if settings.rerank_url:
        from memoryd.adapters.embed import http_rerank

        return http_rerank.load(settings)
    from memoryd.adapters.embed.rerank import load

    return load(settings.rerank_model)
