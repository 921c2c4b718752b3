"""Models beside the one that makes the vectors: the former one, and the one that reads again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskStatus

from memoryd.engine.engine import Engine
from memoryd.engine.former import Former, Stock
from memoryd.errors import EmbedError
from memoryd.ports import Encoder, Shelf, Snapshot
from memoryd.settings import Config
from memoryd.tasks import task_group

log = structlog.get_logger()
Load = Callable[..., Encoder | None]


async def serve_former(
    engine: Engine,
    config: Config,
    shelf: Shelf,
    load: Load,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Search by the model before while this one makes its vectors, if that can still be loaded."""
    found = await anyio.to_thread.run_sync(shelf.load)
    if found is None or not engine.state()["pending_vectors"]:
        shelf.clear()
        task_status.started()
        return
    model = str(found.about["model"])
    encoder = await anyio.to_thread.run_sync(_load, config, model, load, abandon_on_cancel=True)
    if encoder is None:
        log.warning("former_model_missing", model=model)
        task_status.started()
        return
    former = Former(encoder, config.embedding)
    await engine.lend(former, await anyio.to_thread.run_sync(_stock, found))
    del found  # in the former's own table now
    log.info("former_model_searches", model=model)
    async with task_group() as tasks:
        tasks.start_soon(former.run)
        task_status.started()
        await engine.cover(former)


def _load(config: Config, model: str, load: Load) -> Encoder | None:
    """The encoder that a store says its vectors are from; None if it cannot be had by that name."""
    backends: list[Any] = (
        ["hash"] if model.startswith("hash-") else [config.embedding.backend, "onnx"]
    )
    for name in (model, model.partition(":")[0]):
        for backend in backends:
            asked = replace(
                config,
                memory=replace(config.memory, embedding_model=name),
                embedding=replace(config.embedding, backend=backend),
            )
            with contextlib.suppress(EmbedError):
                encoder = load(asked, download=False)
                if encoder is not None and encoder.model == model:
                    return encoder
    return None


def _stock(found: Snapshot) -> Stock:
    arrays, stock, begin = found.arrays, {}, 0
    for key, count in zip(found.keys, arrays["rows"].tolist(), strict=True):
        stock[key] = list(arrays["vector"][begin : begin + count])
        begin += count
    return stock


async def serve_reranker(engine: Engine, folder: str) -> None:
    """Load the cross-encoder beside everything else; every answer says so until it serves."""
    from memoryd.adapters.rerank_onnx import load

    engine.attach_reranker(None, "The rerank model is being loaded.")
    try:
        engine.attach_reranker(await anyio.to_thread.run_sync(load, folder))
    except EmbedError as exc:
        log.warning("rerank_model_unusable", code=exc.code)
        engine.attach_reranker(None, f"{exc.message} {exc.hint}".strip())
