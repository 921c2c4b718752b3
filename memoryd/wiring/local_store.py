"""What the configuration says about the store on this machine. Imports little: the store worker is
started before the daemon is imported."""

from __future__ import annotations

import getpass
import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from memoryd.adapters.chroma.early_worker import How
from memoryd.adapters.embed.catalogue import known_model
from memoryd.adapters.snapshot_contents import saved_name
from memoryd.ports import Identity
from memoryd.settings import Config, StoreSettings


def with_owner(config: Config) -> Config:
    """The configuration with the owner of new memories: the login name, if none is set."""
    owner = config.store.owner or _login_name()
    return replace(config, store=replace(config.store, owner=owner))


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no name is known, as in a container that runs as any number
        return f"user {os.getuid()}"


class LocalStore(NamedTuple):
    """The store on this machine, and how it is to be opened."""

    settings: StoreSettings
    how: How


def local_store(config: Config) -> LocalStore:
    """The store on this machine: the only one, or that of the private memories."""
    is_alone = config.store.mode == "embedded"
    snapshot = snapshot_path(config.memory.path)
    tell_first = is_alone and snapshot.exists()  # the index can be loaded without ChromaDB
    name = saved_name(snapshot) if tell_first else ""
    how = How(any_model=is_alone, tell_first=tell_first, saved_index=name)
    return LocalStore(on_this_machine(config.store), how)


def snapshot_path(data_dir: Path) -> Path:
    """The snapshot of the index."""
    return data_dir / "index.snapshot"


def on_this_machine(settings: StoreSettings) -> StoreSettings:
    """The same for the store on this machine."""
    return replace(settings, mode="embedded")


def known_identity(config: Config) -> Identity | None:
    """The identity of the vectors, if it is known without the model."""
    name, settings = config.memory.embedding_model, config.embedding
    if settings.backend == "hash":
        from memoryd.adapters.embed.hash import HashEncoder  # late: for tests only

        encoder = HashEncoder()
        return Identity(encoder.model, encoder.dimension)
    if settings.backend == "http":
        from memoryd.adapters.embed.http_encoder import identity

        dimension = settings.dimensions
        return Identity(identity(name, settings), dimension) if dimension else None
    known = known_model(name) if settings.backend != "none" else None
    return Identity(known.name, known.dimension) if known else None
