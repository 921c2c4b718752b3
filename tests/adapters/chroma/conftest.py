"""Fixtures for tests of the store worker."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from memoryd.adapters.chroma import early_worker
from tests.adapters.chroma import odd_worker


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of files that control how workers behave from now on."""
    made = tmp_path / "control"
    made.mkdir()
    command = [sys.executable, "-P", odd_worker.__file__, str(made)]
    monkeypatch.setattr(early_worker, "WORKER", command)
    return made
