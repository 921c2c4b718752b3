"""Runs an engine: loads its index, starts its jobs, and ends them in order."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import anyio

from memoryd.engine.clock_guard import NoRecord
from memoryd.engine.engine import Engine
from memoryd.engine.index.index import Index
from memoryd.engine.index.snapshot import NoSnapshotFile, Snapshots
from memoryd.engine.models.embedding import Embedding
from memoryd.engine.models.language import Language
from memoryd.engine.offline.queue import OfflineQueue
from memoryd.engine.parts import Parts, lifetimes_of, now_in_zone
from memoryd.index_files import SnapshotFile
from memoryd.logs import stage
from memoryd.ports import (
    BlockFiles,
    ChangeFeed,
    ClockRecord,
    Encoder,
    FileHistory,
    LanguageModel,
    MirrorFiles,
    PromptFn,
    Store,
    Watch,
)
from memoryd.settings import Config, StoreSettings
from memoryd.tasks import task_group


@asynccontextmanager
async def run_engine(
    config: Config,
    store: Store,
    encoder: Encoder | None,
    dimension: int,
    clock: Callable[[], float] = time.time,
    snapshot_file: SnapshotFile | None = None,
    model: str = "",
    watch: Watch | None = None,
    clock_record: ClockRecord | None = None,
    monotonic: Callable[[], float] = time.monotonic,
    history: FileHistory | None = None,
    language: LanguageModel | None = None,
    prompt: PromptFn | None = None,
    mirror_files: MirrorFiles | None = None,
    block_files: BlockFiles | None = None,
    feed: ChangeFeed | None = None,
    queue: OfflineQueue | None = None,
) -> AsyncIterator[Engine]:
    """Load the index from the store, then run the engine inside the block.

    `snapshot_file` keeps a snapshot of the index between starts, valid for the vectors of `model`.
    `watch` gets the progress of loading. `clock_record` keeps the last time that was seen.
    `history` knows which files of a project have changed. `language` writes summaries; `prompt` in
    its place, for a program that has its own. `mirror_files`: the folder of the mirror. `feed`:
    what other daemons do to the store, if they share it; `queue`: of writes for it.
    """
    embedding = Embedding(config.embedding, encoder)
    index, snapshots = _empty_index(config, dimension, model, snapshot_file or NoSnapshotFile())
    with stage("load") as facts:
        facts["from_snapshot"] = await snapshots.load(store, watch)
        facts["memories"] = len(index)
    rules = (lifetimes_of(config.memory), config.memory, config.search)
    ticks = partial(now_in_zone, clock, not config.memory.timezone)
    time_kept = (monotonic, clock_record or NoRecord())
    kept = (snapshots, config.backup, config.lifecycle)
    parts = Parts(store, index, embedding, ticks, *rules, *kept, config.sessions, *time_kept)
    parts.hooks, parts.phases = config.hooks, config.phases
    parts.language = Language(config.llm, language, prompt)
    parts.mirror_files = mirror_files
    parts.block_files, parts.block_tokens = block_files, config.mirror.block_tokens
    engine = Engine(parts, history)
    if feed is not None:
        engine.follow(feed, config.store, queue)
    try:
        async with task_group() as tasks:
            for job in engine.jobs():
                tasks.start_soon(job)
            yield engine
            await engine.pushes.write_at_end()
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await engine.note_clock()
            await engine.write_uses_at_end()
            await snapshots.save_at_end(store, parts.gate)


def _empty_index(
    config: Config, dimension: int, model: str, file: SnapshotFile
) -> tuple[Index, Snapshots]:
    """An index for the configured store, and its snapshots."""
    is_local = config.store.mode == "embedded"  # else a Chroma server has the vectors
    index = Index(dimension, keep_vectors=is_local, exact_limit=config.search.exact_limit)
    about: dict[str, object] = {"model": model, "dimension": dimension}
    if not is_local:
        about["server"] = _seen_of_server(config.store)
    return index, Snapshots(index, file, about, for_outages=not is_local)


def _seen_of_server(settings: StoreSettings) -> list[object]:
    """The collection on a Chroma server, and who looks at it. Without the server nobody can say
    whether a snapshot of another one, or of what another user sees, may be shown."""
    where = (settings.host, settings.port, settings.tenant, settings.database, settings.collection)
    return [*where, settings.owner, *settings.projects]
