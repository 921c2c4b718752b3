"""Opens the configured store: one on this machine; or with a Chroma server two as one, the private
memories here and the others there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import NamedTuple

import structlog

from memoryd.adapters.chroma.both_queries import BothQueries
from memoryd.adapters.chroma.heartbeat import answers
from memoryd.adapters.chroma.open import ANY_MODEL
from memoryd.adapters.chroma.private_and_shared import PrivateAndShared, open_private_and_shared
from memoryd.adapters.chroma.store import ChromaStore, open_chroma
from memoryd.adapters.offline_file import LocalQueueFile
from memoryd.audience import Viewer
from memoryd.engine.offline.queue import OfflineQueue
from memoryd.engine.offline.store import QueueingStore
from memoryd.errors import StoreError
from memoryd.logs import stage
from memoryd.offline import QUEUE, SharedStore
from memoryd.ports import ChangeFeed, Identity, Store, Watch
from memoryd.queries import Queries
from memoryd.settings import Config
from memoryd.wiring.local_store import local_store

log = structlog.get_logger()


class Opened(NamedTuple):
    """The store; what others do to it, if it is shared; the part on this machine; the model of its
    vectors; the queue of writes for a server, if there is one; and how memories are found without
    an index, if there is none."""

    store: Store
    feed: ChangeFeed | None
    local: ChromaStore
    made_for: Identity
    queue: OfflineQueue | None = None
    queries: Queries | None = None


@asynccontextmanager
async def open_store(
    config: Config, identity: Identity, watch: Watch | None
) -> AsyncIterator[Opened]:
    """The configured store. An embedded store of another model is opened as it is."""
    opened = _open_embedded(config, identity, watch)
    async with AsyncExitStack() as stack:
        with stage("store"):
            if config.store.mode == "embedded":
                local = await stack.enter_async_context(opened)
                found = Opened(local, None, local, _identity_of(local, config))
            else:
                both = await stack.enter_async_context(_open_both(config, identity, opened))
                made_for = _identity_of(both.private, config)
                queue = _queue_of(config, both)
                store = both if queue is None else QueueingStore(both, queue, both.keeps_here)
                queries = BothQueries(both) if config.search.index == "remote" else None
                found = Opened(store, both, both.private, made_for, queue, queries)
        yield found


def _identity_of(store: ChromaStore, config: Config) -> Identity:
    """The model of its vectors. Also tells of other collections, which are not served."""
    if others := store.facts.other_collections:
        log.warning("other_collections", serving=config.store.collection, others=others)
    return store.facts.identity


def _open_embedded(
    config: Config, identity: Identity, watch: Watch | None
) -> AbstractAsyncContextManager[ChromaStore]:
    """The store on this machine: the only one, or that of the private memories."""
    folder = config.memory.path
    settings, how = local_store(config)
    return open_chroma(
        settings,
        folder,
        identity,
        progress=watch,
        backups=config.backup.folder(folder),
        **how,
    )


@asynccontextmanager
async def _open_both(
    config: Config, identity: Identity, private: AbstractAsyncContextManager[ChromaStore]
) -> AsyncIterator[PrivateAndShared]:
    """The private memories on this machine, and the others on a Chroma server."""
    settings = config.store
    async with private as local:
        # The model may not be known: then it is the one of the vectors that are there.
        made_for = await local.read_identity() if identity == ANY_MODEL else identity
        shared = partial(open_chroma, settings, config.memory.path, made_for)
        viewer = Viewer(settings.owner, settings.projects)
        alive = partial(answers, settings)
        async with open_private_and_shared(local, shared, viewer, alive) as store:
            yield store


def _queue_of(config: Config, store: SharedStore) -> OfflineQueue | None:
    """The queue for a Chroma server, if writes may be queued, or some are left from when they
    were. Raises StoreError."""
    settings, file = config.store, LocalQueueFile(config.memory.path)
    try:
        accepts = settings.offline == QUEUE
        if not accepts and not file.size():
            return None
        if config.search.index == "remote":
            raise StoreError(
                "Writes wait for the Chroma server, and a daemon without an index sends none.",
                code="offline_queue_left",
                hint="Start once with search.index: memory, until memoryd status shows none.",
            )
        limits = (settings.offline_limit, settings.offline_bytes)
        return OfflineQueue(store, file, *limits, accepts=accepts)
    except OSError as exc:
        raise StoreError(
            f"The queue of writes cannot be read: {exc.strerror or exc}.",
            code="offline_queue_unreadable",
        ) from exc
