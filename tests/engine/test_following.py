"""Polls of a shared store that fails, hangs or is large. With real daemons: `test_cluster.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace

import anyio
import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine import following
from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.errors import StoreOffline
from memoryd.model import Memory, MemoryType
from memoryd.ports import Changes, Record
from memoryd.settings import Config
from tests.engine.conftest import Clock
from tests.one_task import in_one_task
from tests.ramstore import RamStore

AWAY = StoreOffline("The Chroma server cannot be reached.")


class Feed:
    """What another daemon wrote, from a server that can be stopped in every way."""

    def __init__(self, store: RamStore) -> None:
        self.store = store
        self.error: StoreOffline | None = None
        self.hangs = self.listing_hangs = False
        self.polls = 0
        self.listed_clock: int | None = 0
        self.go_on = anyio.Event()

    async def clock(self) -> int:
        return 0

    async def changes(self, since: int) -> Changes:
        self.polls += 1
        if self.hangs:
            await self.go_on.wait()
        if self.error is not None:
            raise self.error
        known = {id: record.revision for id, record in self.store.records.items()}
        return Changes(known, frozenset(), since)

    async def listing(self, offset: int) -> Mapping[str, int] | None:
        if self.listing_hangs:
            await anyio.sleep(0.02)
            return {f"unknown{offset}": 1}  # one page after another
        return None

    async def check(self) -> None:
        if self.hangs:
            raise AWAY

    async def sweep_notes(self) -> None: ...


@pytest.fixture
def feed(store: RamStore) -> Feed:
    return Feed(store)


@pytest.fixture
async def engine(
    feed: Feed, config: Config, store: RamStore, clock: Clock
) -> AsyncIterator[Engine]:
    quick = replace(config, store=replace(config.store, mode="http", poll_seconds=0.05))
    running = run_engine(quick, store, HashEncoder(), 384, clock, feed=feed)
    async with in_one_task(running) as engine:
        yield engine


def written_by_another(store: RamStore, letter: str) -> str:
    memory = Memory(letter * 20, MemoryType.FACT, f"text {letter}", 1.0, None, {})
    store.records[memory.id] = Record(memory, (), revision=7)
    return memory.id


async def until(holds: Callable[[], object]) -> None:
    with anyio.fail_after(30):
        while not holds():  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def test_a_comparison_does_not_hold_up_what_others_write(
    engine: Engine, feed: Feed, store: RamStore
) -> None:
    feed.listing_hangs = True
    engine._following._next_comparison = 0.0  # type: ignore[union-attr]
    before = feed.polls
    await until(lambda: feed.polls > before + 1)
    id = written_by_another(store, "a")
    await until(lambda: engine.has(id))


async def test_all_who_wait_for_a_poll_that_fails_fail_with_it(engine: Engine, feed: Feed) -> None:
    """Else each would wait for the time limit of the server, one after the other."""
    feed.hangs = True
    catch_up = engine._parts.catch_up
    await until(lambda: engine.store_trouble())
    feed.hangs, before = False, feed.polls
    feed.error, failures = AWAY, 0

    async def call() -> None:
        nonlocal failures
        with pytest.raises(StoreOffline):
            await catch_up()
        failures += 1

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(call)
    assert failures == 20
    assert feed.polls < before + 10
    feed.error = None
    await until(lambda: not engine.store_trouble())


async def test_a_server_that_hangs_is_noticed_and_its_news_are_read_when_it_goes_on(
    engine: Engine, feed: Feed, store: RamStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PATIENCE", 0.05)
    feed.hangs = True
    await until(lambda: engine.store_trouble())
    before = feed.polls
    await anyio.sleep(0.3)
    assert feed.polls == before  # nothing waits for it: heartbeats come first
    feed.hangs = False
    id = written_by_another(store, "a")
    await until(lambda: engine.has(id) and not engine.store_trouble())
