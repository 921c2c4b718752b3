"""An engine on a fake clock, the hash encoder and a store in RAM: the rules, quickly."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.ports import Encoder
from memoryd.settings import Config, EmbeddingSettings, MemorySettings
from tests.one_task import in_one_task
from tests.ramstore import RamStore

VIENNA = ZoneInfo("Europe/Vienna")


@dataclass
class Clock:
    now: float = field(default=datetime(2026, 7, 1, 12, tzinfo=VIENNA).timestamp())

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store() -> RamStore:
    return RamStore()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    memory = MemorySettings(path=tmp_path, timezone="Europe/Vienna", cleanup_interval=10_000)
    return Config(memory=memory, embedding=EmbeddingSettings(backend="hash"))


Start = Callable[..., AbstractAsyncContextManager[Engine]]


@pytest.fixture
def start(config: Config, store: RamStore, clock: Clock) -> Start:
    """Start an engine on the same store, again and again."""

    def _start(encoder: Encoder | None = HashEncoder()) -> AbstractAsyncContextManager[Engine]:  # noqa: B008
        return run_engine(config, store, encoder, 384, clock)

    return _start


@pytest.fixture
async def engine(start: Start) -> AsyncIterator[Engine]:
    async with in_one_task(start()) as running:
        yield running
