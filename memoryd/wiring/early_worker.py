"""Starts the store worker before the daemon is imported. A module of its own, because it must not
import what the daemon needs."""

from __future__ import annotations

from memoryd.adapters.chroma.early_worker import opening_of, start_early
from memoryd.settings import Config
from memoryd.wiring.local_store import known_identity, local_store, with_owner


def start_worker(config: Config) -> None:
    """Start the worker that `memoryd.wiring.store` will ask for."""
    config, identity = with_owner(config), known_identity(config)
    opening = None
    if identity is not None:
        settings, how = local_store(config)
        opening = opening_of(settings, config.memory.path, identity, **how)
    start_early(config.memory.path, opening)
