"""Opens the configured store: one on this machine; or with a Chroma server two as one, the private
memories here and the others there."""

from __future__ import annotations

import getpass
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import structlog

from memoryd.adapters.chroma.open import ANY_MODEL
from memoryd.adapters.chroma.private_and_shared import PrivateAndShared, open_private_and_shared
from memoryd.adapters.chroma.store import ChromaStore, open_chroma
from memoryd.audience import Viewer
from memoryd.logs import stage
from memoryd.ports import ChangeFeed, Identity, Store, Watch
from memoryd.settings import Config, StoreSettings

log = structlog.get_logger()


class Opened(NamedTuple):
    """The store; what others do to it, if it is shared; the part on this machine; and the model of
    its vectors."""

    store: Store
    feed: ChangeFeed | None
    local: ChromaStore
    made_for: Identity


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
                found = Opened(local, None, local, await _identity_of(local, config))
            else:
                both = await stack.enter_async_context(_open_both(config, identity, opened))
                made_for = await _identity_of(both.private, config)
                found = Opened(both, both, both.private, made_for)
        yield found


async def _identity_of(store: ChromaStore, config: Config) -> Identity:
    """The model of its vectors. Also tells of other collections, which are not served."""
    facts = await store.status()
    if others := facts["other_collections"]:
        log.warning("other_collections", serving=config.store.collection, others=others)
    return Identity(str(facts["model"]), int(str(facts["dimension"])))


def _open_embedded(
    config: Config, identity: Identity, watch: Watch | None
) -> AbstractAsyncContextManager[ChromaStore]:
    """The store on this machine: the only one, or that of the private memories."""
    folder = config.memory.path
    return open_chroma(
        on_this_machine(config.store),
        folder,
        identity,
        any_model=config.store.mode == "embedded",
        progress=watch,
        backups=config.backup.folder(folder),
    )


def on_this_machine(settings: StoreSettings) -> StoreSettings:
    """The settings of the store on this machine."""
    return replace(settings, mode="embedded")


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
        async with open_private_and_shared(local, shared, viewer) as store:
            yield store


def with_owner(config: Config) -> Config:
    """The configuration with the owner of new memories: the login name, if none is set."""
    owner = config.store.owner or getpass.getuser()
    return replace(config, store=replace(config.store, owner=owner))
