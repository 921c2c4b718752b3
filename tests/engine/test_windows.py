"""The window of a session: what stays cleared, and order under pressure."""

from __future__ import annotations

from dataclasses import replace

import anyio
import anyio.lowlevel

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.settings import Config
from tests.engine.conftest import Clock, Start
from tests.ramstore import RamStore


async def said(engine: Engine, session: str = "s") -> list[str]:
    return [memory.content for memory in (await engine.context_window(session)).messages]


async def test_a_cleared_window_stays_cleared_whatever_is_forgotten(start: Start) -> None:
    async with start() as engine:
        for n in range(4):
            last = await engine.add_turn("user", f"message {n}", "s")
        assert await engine.clear_window("s") == 4
        await engine.forget(last.memory.id)
    async with start() as engine:
        assert await said(engine) == []
        await engine.add_turn("user", "fresh", "s")
        assert await said(engine) == ["fresh"]


async def test_a_window_of_expired_messages_can_be_cleared(engine: Engine, clock: Clock) -> None:
    await engine.add_turn("user", "long ago", "s")
    clock.now += 31 * 86_400
    assert await engine.clear_window("s") == 0
    assert await said(engine) == []


async def test_orders_are_distinct_though_windows_leave_ram(
    config: Config, store: RamStore, clock: Clock
) -> None:
    config = replace(config, memory=replace(config.memory, max_sessions=1))
    async with run_engine(config, store, HashEncoder(), 384, clock) as engine:
        done = anyio.Event()

        async def look_elsewhere() -> None:
            n = 0
            while not done.is_set():
                await said(engine, f"other {n % 7}")
                await said(engine)
                await anyio.lowlevel.checkpoint()
                n += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look_elsewhere)
            orders = [
                (await engine.add_turn("user", f"m{n}", "s")).memory.metadata["order"]
                for n in range(8)
            ]
            done.set()
        assert orders == list(range(8))
        assert await said(engine) == [f"m{n}" for n in range(8)]
