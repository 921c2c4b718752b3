"""Deprecated memories: marked, found, lowered within a bound, lifted, and at last deleted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.engine.search import pipeline
from memoryd.model import DAY
from memoryd.settings import Config
from tests.engine.conftest import Clock
from tests.engine.lifecycle.conftest import Pass
from tests.engine.lifecycle.test_uses import field, stored
from tests.ramstore import RamStore

MACHINE = {"kind": "work_state", "source": "mcp_auto"}  # a half-life of 7 days


async def test_a_deprecated_memory_is_found_and_marked(
    engine: Engine, clock: Clock, passing: Pass
) -> None:
    old = await stored(engine, "the crane of the dock is broken", **MACHINE)
    clock.now += 22 * DAY
    page = await engine.search("crane of the dock")
    assert [(hit.memory.id, hit.deprecated) for hit in page.hits] == [(old, True)]  # no sweep yet
    page = await engine.search(metadata={"kind": "work_state"})
    assert [hit.deprecated for hit in page.hits] == [True]
    assert await field(engine, old, "deprecated_at") is None
    await passing()
    assert await field(engine, old, "deprecated_at") == clock.now


async def test_a_use_lifts_the_deprecation(engine: Engine, clock: Clock, passing: Pass) -> None:
    id = await stored(engine, **MACHINE)
    await passing(25)
    assert await field(engine, id, "deprecated_at") is not None
    engine.count_uses([id])
    await passing()
    assert await field(engine, id, "deprecated_at") is None
    assert not (await engine.search("the dock")).hits[0].deprecated
    await passing(100)
    assert engine.count == 0  # a machine's, and never used again


async def test_storing_it_again_lifts_the_deprecation(engine: Engine, passing: Pass) -> None:
    id = await stored(engine, **MACHINE)
    await passing(25)
    again = await engine.store("the dock", metadata=MACHINE)
    assert (again.duplicate, again.memory.id, again.memory.updated_at) == (True, id, None)
    assert "deprecated_at" not in again.memory.metadata
    assert not (await engine.search("the dock")).hits[0].deprecated


@pytest.mark.parametrize(
    ("how", "kept"),
    [
        ({}, False),
        ({"source": "qa_auto"}, False),
        ({"source": "user_taught"}, True),
        ({"source": "agent_explicit"}, True),
        ({"source": None}, True),
        ({"kind": "decision"}, True),
        ({"kind": None}, True),
    ],
)
async def test_what_a_machine_stored_is_deleted_after_thirty_days(
    engine: Engine, passing: Pass, how: dict[str, Any], kept: bool
) -> None:
    metadata = {key: value for key, value in (MACHINE | how).items() if value is not None}
    id = await stored(engine, **metadata)
    await passing(21 + 30)
    assert await engine.get(id) is not None
    await passing(3)
    assert (await engine.get(id) is not None) is kept
    if kept and metadata.get("kind") == "work_state":
        assert await field(engine, id, "deprecated_at") is not None


async def test_what_is_pinned_or_verified_is_never_deleted(engine: Engine, passing: Pass) -> None:
    pinned = (await engine.store("the pier", metadata=MACHINE, pinned=True)).memory.id
    verified = await stored(engine, **MACHINE)
    await engine.review(verified, "confirm")
    await passing(90)
    assert engine.count == 2
    assert await field(engine, pinned, "deprecated_at") is not None
    assert await field(engine, verified, "deprecated_at") is not None


async def test_a_use_that_is_not_written_yet_saves_a_memory(
    engine: Engine, clock: Clock, passing: Pass
) -> None:
    id = await stored(engine, **MACHINE)
    await passing(22)
    clock.now += 31 * DAY
    engine.count_uses([id])
    assert await engine._upkeep._lifecycle.drop_deprecated(clock.now) == 0
    assert await engine.get(id) is not None


async def test_nothing_is_marked_or_deleted_while_the_clock_is_doubted(
    config: Config, store: RamStore, clock: Clock
) -> None:
    async with run_engine(config, store, HashEncoder(), 384, clock, monotonic=lambda: 0.0) as one:
        id = await stored(one, **MACHINE)
        await one._upkeep.tick()
        clock.now += 400 * DAY  # the other clock did not move
        for _ in range(3):
            await one._upkeep.tick()
        assert await field(one, id, "deprecated_at") is None


async def test_the_limits_can_be_set(config: Config, store: RamStore, clock: Clock) -> None:
    rules = replace(config.lifecycle, deprecated_below=0.79, deprecated_days=1.0)
    config = replace(config, lifecycle=rules)
    async with run_engine(config, store, HashEncoder(), 384, clock, monotonic=clock) as engine:
        await stored(engine, **MACHINE)
        for _ in range(3):
            clock.now += DAY
            await engine._upkeep.tick()
        assert engine.count == 0


# Ranking


async def scores(engine: Engine, query: str = "the crane of the dock") -> list[tuple[str, float]]:
    page = await engine.search(query, min_score=0, limit=50, explain=True)
    return [(hit.memory.content, hit.score) for hit in page.hits]


async def test_plain_memories_rank_bit_by_bit_as_without_a_lifecycle(
    engine: Engine, clock: Clock, passing: Pass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither kind, source nor confidence: uses, reviews and time change nothing."""
    ids = []
    for n in range(30):
        clock.now += DAY
        ids.append(await stored(engine, f"the crane {n} of the dock {n % 7}", topic=n))
    engine.count_uses(ids[::2] * 7)
    await passing()
    await engine.review(ids[4], "flag", reason="odd")
    page = await engine.search("the crane of the dock", min_score=0, limit=50, explain=True)
    assert all(hit.why is not None and hit.why.trust == 0.0 for hit in page.hits)
    found = await scores(engine)
    monkeypatch.setattr(pipeline, "certainty", lambda *_: 0.0)
    assert await scores(engine) == found


async def test_confidence_and_source_move_a_memory_by_at_most_the_nudge(engine: Engine) -> None:
    weight = engine._parts.search.nudge_weight
    text = "the crane of the dock"
    given: list[dict[str, Any]] = [
        {"source": "user_taught", "confidence": 1.0},
        {"source": "user_taught"},
        {"source": "import"},
        {"source": "observer_inferred"},
        {"confidence": 0.2},
        {"kind": "work_state", "confidence": 0.01},
    ]
    for n, metadata in enumerate(given):
        await engine.store(text, "conversation", metadata=metadata | {"n": n})
    page = await engine.search(text, min_score=0, limit=50, explain=True)
    assert [hit.memory.metadata["n"] for hit in page.hits] == [0, 1, 2, 3, 4, 5]
    trust = [hit.why.trust for hit in page.hits if hit.why]
    assert trust[2] == 0.0
    assert trust == sorted(trust, reverse=True)
    assert trust[-1] == pytest.approx(-weight)
    assert all(-weight <= part <= weight for part in trust)
    assert [hit.deprecated for hit in page.hits] == [False] * 5 + [True]


async def test_least_sure_lists_by_the_confidence_of_today(engine: Engine, clock: Clock) -> None:
    low = await stored(engine, "one", confidence=0.5)
    decays = await stored(engine, "two", kind="work_state", confidence=0.9)
    plain = await stored(engine, "three")
    page = await engine.list_memories(order="least_sure")
    assert [memory.id for memory in page.memories] == [low, plain, decays]
    clock.now += 8 * DAY
    page = await engine.list_memories(order="least_sure")
    assert [memory.id for memory in page.memories] == [decays, low, plain]
