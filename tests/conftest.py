"""Fixtures for every test: a home of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.homes import Home

settings.register_profile("untimed", deadline=None)  # a busy machine is no fault
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own MEMORYD_* must not change what is tested."""
    for name in [name for name in os.environ if name.startswith("MEMORYD_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def home() -> Iterator[Home]:
    """A home directory for real daemons and their clients; what runs in it is ended afterwards."""
    made = Home()
    yield made
    made.close()
