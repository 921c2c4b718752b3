"""Models beside the one that makes the vectors: the previous one, and the one that reads again."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskStatus

from memoryd.engine.engine import Engine
from memoryd.engine.models.previous_model import PreviousModel, SavedVectors
from memoryd.errors import MemorydError
from memoryd.logs import stage
from memoryd.ports import Encoder, Reranker, Snapshot, SnapshotFile
from memoryd.settings import Config
from memoryd.tasks import task_group
from memoryd.wiring.model import Load, guarded, reason_of

log = structlog.get_logger()


async def serve_previous_model(
    engine: Engine,
    config: Config,
    snapshot_file: SnapshotFile,
    load: Load,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Search by the model before while this one makes its vectors, if that can still be loaded."""
    try:
        previous = await _previous_model(engine, config, snapshot_file, load)
    except Exception as exc:  # memories are found by words until they have their vectors
        log.warning("previous_model_failed", error=type(exc).__name__)
        previous = None
    if previous is None:
        task_status.started()
        return
    log.info("previous_model_searches", model=previous.model)
    async with task_group() as tasks:
        tasks.start_soon(previous.run)
        task_status.started()
        await engine.complete_previous_model(previous)


async def _previous_model(
    engine: Engine, config: Config, snapshot_file: SnapshotFile, load: Load
) -> PreviousModel | None:
    """The previous model with its vectors, lent to the engine; None if there is nothing to lend."""
    snapshot = await anyio.to_thread.run_sync(snapshot_file.load)
    if snapshot is None or not engine.state()["pending_vectors"]:
        snapshot_file.clear()
        return None
    model = str(snapshot.about["model"])
    with stage("previous_model"):
        encoder = await anyio.to_thread.run_sync(_load, config, model, load, abandon_on_cancel=True)
    if encoder is None:
        log.warning("previous_model_missing", model=model)
        return None
    previous = PreviousModel(encoder, config.embedding, config.search.lead_fields)
    await engine.use_previous_model(
        previous, await anyio.to_thread.run_sync(_saved_vectors, snapshot)
    )
    return previous


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
            with contextlib.suppress(MemorydError):
                encoder = guarded(partial(load, asked, download=False))
                if encoder is not None and encoder.model == model:
                    return encoder
    return None


def _saved_vectors(snapshot: Snapshot) -> SavedVectors:
    arrays, saved, begin = snapshot.arrays, {}, 0
    for key, count in zip(snapshot.keys, arrays["rows"].tolist(), strict=True):
        saved[key] = list(arrays["vector"][begin : begin + count])
        begin += count
    return saved


async def serve_reranker(engine: Engine, folder: str) -> None:
    """Load the cross-encoder beside everything else; every answer says so until it serves."""
    engine.attach_reranker(None, "The rerank model is being loaded.")
    try:
        load = partial(guarded, partial(_load_reranker, folder), "The rerank model")
        with stage("rerank_model"):
            reranker = await anyio.to_thread.run_sync(load, abandon_on_cancel=True)
        engine.attach_reranker(reranker)
    except MemorydError as exc:
        log.warning("rerank_model_unusable", code=exc.code, error=reason_of(exc))
        engine.attach_reranker(None, f"{exc.message} {exc.hint}".strip())


def _load_reranker(folder: str) -> Reranker:
    from memoryd.adapters.embed.rerank import load  # late: the library it brings may not load

    return load(folder)
