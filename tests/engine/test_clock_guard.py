"""A clock that is wrong hides memories while it is wrong, and deletes none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from memoryd.adapters.clock_file import NAME, ClockFile
from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.errors import MemorydError
from memoryd.ports import Seen
from memoryd.settings import Config
from tests.engine.conftest import Clock
from tests.ramstore import RamStore

DAY, HOUR = 86_400.0, 3600.0


@dataclass
class Times:
    """The wall clock and the time that really passes."""

    clock: Clock
    ticks: float = 0.0

    def pass_by(self, seconds: float) -> None:
        self.clock.now += seconds
        self.ticks += seconds

    def monotonic(self) -> float:
        return self.ticks


Starts = Callable[[], AbstractAsyncContextManager[Engine]]


@pytest.fixture
def times(clock: Clock) -> Times:
    return Times(clock)


@pytest.fixture
def starts(config: Config, store: RamStore, times: Times, tmp_path: Path) -> Starts:
    @asynccontextmanager
    async def started() -> AsyncIterator[Engine]:
        record = ClockFile(tmp_path)
        async with run_engine(
            config,
            store,
            HashEncoder(),
            384,
            times.clock,
            clock_record=record,
            monotonic=times.monotonic,
        ) as engine:
            await engine._upkeep.tick()
            yield engine

    return started


async def told(starts: Starts) -> str:
    """A conversation memory of an engine that then ended."""
    async with starts() as engine:
        return (await engine.store("said", "conversation")).memory.id


async def test_a_start_while_the_clock_is_ahead_deletes_nothing(
    starts: Starts, store: RamStore, times: Times
) -> None:
    id = await told(starts)
    times.clock.now += 40 * DAY
    for _ in range(3):  # a second start must not take the time of the first for right
        async with starts() as engine:
            assert await engine.get(id) is None, "expired by that clock, so not shown"
            assert id in store.records
            await engine.purge()
            assert id in store.records, "nor by a purge"
            assert engine.state()["clock_doubt"] is not None
    times.clock.now -= 40 * DAY
    async with starts() as engine:
        assert engine.state()["clock_doubt"] is None
        assert await engine.get(id) is not None


async def test_a_clock_put_right_under_a_running_engine_ends_the_doubt(
    starts: Starts, times: Times
) -> None:
    id = await told(starts)
    times.clock.now += 40 * DAY
    async with starts() as engine:
        times.clock.now -= 40 * DAY
        assert engine.state()["clock_doubt"] is None
        await engine._upkeep.tick()
        assert await engine.get(id) is not None


async def test_a_clock_that_stays_is_believed_after_a_while_of_running(
    starts: Starts, store: RamStore, times: Times
) -> None:
    """A long holiday: the hours of several short runs count together."""
    id = await told(starts)
    times.clock.now += 40 * DAY
    for _ in range(2):
        async with starts() as engine:
            for _ in range(2):
                times.pass_by(HOUR)
                await engine._upkeep.tick()
            assert id in store.records
        times.clock.now += 10 * HOUR  # not running
    async with starts() as engine:
        doubt = engine.state()["clock_doubt"]
        assert doubt["seconds_left"] == pytest.approx(2 * HOUR)
        times.pass_by(2 * HOUR)
        await engine._upkeep.tick()
        assert store.records == {}
        assert engine.state()["clock_doubt"] is None


async def test_another_leap_begins_the_watch_anew(
    starts: Starts, store: RamStore, times: Times
) -> None:
    id = await told(starts)
    times.clock.now += 40 * DAY
    async with starts() as engine:
        times.pass_by(5 * HOUR)
        await engine._upkeep.tick()
        times.clock.now += 100 * DAY
        times.pass_by(2 * HOUR)
        await engine._upkeep.tick()
        assert id in store.records
        assert engine.state()["clock_doubt"]["seconds_left"] == 6 * HOUR


async def test_a_leap_under_a_running_engine_is_doubted_too(
    starts: Starts, store: RamStore, times: Times
) -> None:
    async with starts() as engine:
        id = (await engine.store("said", "conversation")).memory.id
        times.clock.now += 40 * DAY
        for _ in range(5):
            await engine._upkeep.tick()
        assert id in store.records


async def test_the_user_can_say_that_the_clock_is_right(
    starts: Starts, store: RamStore, times: Times
) -> None:
    await told(starts)
    times.clock.now += 40 * DAY
    async with starts() as engine:
        with pytest.raises(MemorydError) as refused:
            await engine.sweep()
        assert refused.value.code == "clock_doubted"
        assert len(store.records) == 1
        assert await engine.sweep(clock_is_right=True) == 1
        assert engine.state()["clock_doubt"] is None
    async with starts() as engine:
        assert await engine.sweep() == 0


async def test_an_engine_that_runs_without_a_pause_is_never_in_doubt(
    starts: Starts, store: RamStore, times: Times
) -> None:
    """Also where sweeps are further apart than the gap."""
    async with starts() as engine:
        await engine.store("said", "conversation")
        for _ in range(4):
            times.pass_by(10 * DAY)
            assert engine.state()["clock_doubt"] is None
            await engine._upkeep.tick()
        assert store.records == {}


async def test_a_short_pause_is_not_doubted(starts: Starts, store: RamStore, times: Times) -> None:
    async with starts() as engine:
        await engine.set_context("k", "v")
    times.clock.now += 2 * DAY
    async with starts():
        assert store.records == {}


@pytest.mark.parametrize("left", [None, b"", b"{", b'{"believed": "x"}', b"[1]"])
async def test_without_a_record_the_newest_memory_tells(
    starts: Starts, store: RamStore, times: Times, tmp_path: Path, left: bytes | None
) -> None:
    id = await told(starts)
    (tmp_path / NAME).unlink()
    if left is not None:
        (tmp_path / NAME).write_bytes(left)
    times.clock.now += 40 * DAY
    async with starts() as engine:
        assert id in store.records
        assert engine.state()["clock_doubt"] is not None


async def test_a_clock_behind_sweeps_and_does_not_become_the_measure_at_once(
    starts: Starts, store: RamStore, times: Times
) -> None:
    """A machine that boots in 1970 and is put right a minute later."""
    id = await told(starts)
    right = times.clock.now
    times.clock.now = 60.0
    async with starts() as engine:
        assert engine.state()["clock_doubt"] is None
        assert await engine.get(id) is not None
        times.clock.now = right + HOUR
        await engine._upkeep.tick()
        assert engine.state()["clock_doubt"] is None


async def test_no_watch_if_so_configured(config: Config, store: RamStore, times: Times) -> None:
    config = replace(config, memory=replace(config.memory, clock_steady_hours=0.0))
    run = (config, store, HashEncoder(), 384, times.clock)
    async with run_engine(*run) as engine:
        await engine.store("said", "conversation")
    times.clock.now += 40 * DAY
    async with run_engine(*run) as engine:
        await engine._upkeep.tick()
        assert store.records == {}


def test_the_record_is_private_and_comes_back(tmp_path: Path) -> None:
    seen = Seen(1.5, 2.5, 3.5)
    ClockFile(tmp_path).save(seen)
    assert ClockFile(tmp_path).load() == seen
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o600
