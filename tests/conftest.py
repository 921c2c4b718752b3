"""Fixtures for every test: a home of its own."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

from memoryd.adapters.chroma import early_worker
from tests import fork_server
from tests.homes import Home

settings.register_profile("untimed", deadline=None)  # a busy machine is no fault
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own MEMORYD_*, or the checkout that tests run in, must not change what is
    tested."""
    for name in [name for name in os.environ if name.startswith("MEMORYD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MEMORYD_PROJECT", "")


@pytest.fixture(autouse=True)
def _log_of_its_own() -> Iterator[None]:
    """A verb that configures the log in this process must not change what later tests see."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(scope="session", autouse=True)
def _fork_servers_end() -> Iterator[None]:
    yield
    fork_server.close_servers()


@pytest.fixture
def forked_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Store workers that are quick to start, for tests of what a store does."""
    if fork_server.SUPPORTED:
        monkeypatch.setattr(early_worker, "WORKER", fork_server.worker_command())


@pytest.fixture
def home() -> Iterator[Home]:
    """A home directory for real daemons and their clients; what runs in it is ended afterwards."""
    made = Home()
    yield made
    made.close()
