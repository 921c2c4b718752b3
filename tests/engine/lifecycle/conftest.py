"""An engine whose sweeps run when a test says so, on a clock that is trusted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.model import DAY
from memoryd.settings import Config
from tests.engine.conftest import Clock
from tests.one_task import in_one_task
from tests.ramstore import RamStore

Pass = Callable[..., Awaitable[None]]


@pytest.fixture
async def engine(config: Config, store: RamStore, clock: Clock) -> AsyncIterator[Engine]:
    running = run_engine(config, store, HashEncoder(), 384, clock, monotonic=clock)
    async with in_one_task(running) as engine:
        yield engine


@pytest.fixture
def passing(engine: Engine, clock: Clock) -> Pass:
    """Let days pass, with a sweep a day."""

    async def days(count: float = 0) -> None:
        while count > 0:
            clock.now += min(1.0, count) * DAY
            count -= 1
            await engine._upkeep.tick()
        await engine._upkeep.tick()

    return days
