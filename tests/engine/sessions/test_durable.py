"""Durable facts: which ones every prompt has, in which order, and how they follow every change."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.engine.sessions.durable import LINE, Durable
from memoryd.fields import NEEDS_REVIEW, USER_VERIFIED, USES
from memoryd.model import DAY, Memory, MemoryType
from memoryd.ports import Passage, Record
from memoryd.settings import Config, EmbeddingSettings, MemorySettings, SessionSettings
from tests.engine.conftest import Clock
from tests.engine.sessions.recalling import Mind, open_mind
from tests.one_task import in_one_task
from tests.ramstore import RamStore

pytestmark = pytest.mark.usefixtures("forked_worker")


@pytest.fixture
async def mind_(config: Config, clock: Clock) -> AsyncIterator[Mind]:
    async with in_one_task(open_mind(config, clock)) as opened:
        yield opened


def texts(mind_: Mind, clock: Clock, project: str | None = None) -> list[str]:
    return [memory.content for memory in mind_.durable.facts(project, clock.now)]


async def test_a_few_facts_are_all_durable_and_the_surest_come_first(
    mind_: Mind, clock: Clock
) -> None:
    store = mind_.engine.store
    await store("plain")
    await store("inferred", metadata={"source": "observer_inferred", "confidence": 0.6})
    await store("taught", metadata={"source": "user_taught"})
    await store("decided", metadata={"kind": "decision"})
    await store("pinned and unsure", pinned=True, metadata={"confidence": 0.3})
    assert texts(mind_, clock) == ["pinned and unsure", "taught", "decided", "plain", "inferred"]


async def test_uses_and_verification_raise_a_fact_and_the_newer_of_equals_comes_first(
    mind_: Mind, clock: Clock
) -> None:
    for text in ("older", "newer"):
        await mind_.engine.store(text)
        clock.now += 10
    assert texts(mind_, clock) == ["newer", "older"]
    put(mind_, "used", clock.now - DAY, {USES: 40})
    put(mind_, "verified", clock.now - DAY, {USER_VERIFIED: True})
    assert texts(mind_, clock) == ["verified", "used", "newer", "older"]


async def test_what_is_no_lasting_fact_is_not_durable(mind_: Mind, clock: Clock) -> None:
    store = mind_.engine.store
    await store("kept")
    await store("said", "conversation", session_id="s")
    await store("today", "context")
    await mind_.engine.set_context("key", "value")
    await store("of one piece of work", metadata={"scope": "work_unit"})
    await mind_.working_memories.set("working memory")
    await mind_.archive("s", "an archive", "[2026] archived", None)
    old = (await store("superseded")).memory
    await store("kept too", metadata={"supersedes": [old.id]})
    await store("expires", expires_at=clock.now + 100)
    put(mind_, "unsure and flagged", clock.now, {NEEDS_REVIEW: True, "confidence": 0.4})
    put(mind_, "sure and flagged", clock.now, {NEEDS_REVIEW: True, "confidence": 0.7})
    await store("decays", metadata={"kind": "work_state"})
    await mind_.engine.notes.add_note("a note", "a note is a fact")
    always = {"kept", "kept too", "sure and flagged", "a note is a fact"}
    assert set(texts(mind_, clock)) == {*always, "expires", "decays"}
    clock.now += 200
    assert set(texts(mind_, clock)) == {*always, "decays"}
    clock.now += 22 * DAY
    assert set(texts(mind_, clock)) == always, "three half-lives are over"


async def test_only_facts_of_the_project_and_shared_ones(mind_: Mind, clock: Clock) -> None:
    for project in ("ours", "theirs"):
        await mind_.engine.store(f"of {project}", metadata={"project": project})
    clock.now += 1
    await mind_.engine.store("shared")
    put(mind_, "of no known project", clock.now, {"project": ["ours"]})
    assert texts(mind_, clock, "ours") == ["shared", "of ours"]
    assert texts(mind_, clock) == ["shared"]
    assert texts(mind_, clock, "theirs") == ["shared", "of theirs"]


async def test_of_many_facts_only_the_best_fit(mind_: Mind, clock: Clock) -> None:
    pick = random.Random(1)
    for n in range(5000):
        more = {"confidence": round(pick.random(), 3)}
        put(mind_, f"The fact number {n} has something to say about it.", clock.now - n, more)
    found = mind_.durable.facts(None, clock.now)
    sure = [memory.metadata["confidence"] for memory in found]
    assert sure == sorted(sure, reverse=True)
    assert sure[-1] > 0.95
    assert 8192 * 0.95 < sum(len(m.content.encode()) + LINE for m in found) <= 8192
    assert len(mind_.parts.index) == 5000, "nothing is deleted"


async def test_long_facts_come_last_and_a_shorter_one_takes_the_room_that_is_left(
    mind_: Mind, clock: Clock
) -> None:
    put(mind_, "a" * 6000, clock.now, {"source": "user_taught", "confidence": 1.0})
    put(mind_, "b" * 4000, clock.now, {"source": "user_taught", "confidence": 0.9})
    put(mind_, "short", clock.now, {"confidence": 0.2})
    put(mind_, "c" * 1500, clock.now, {"confidence": 0.3})
    assert [text[:5] for text in texts(mind_, clock)] == ["short", "aaaaa", "ccccc"]


async def test_the_size_is_a_setting(config: Config, clock: Clock) -> None:
    for size, count in ((0, 0), (30, 3), (1_000_000, 50)):
        sized = replace(config, sessions=SessionSettings(max_memory_size=size))
        async with run_engine(sized, RamStore(), HashEncoder(), 384, clock) as engine:
            for n in range(50):
                await engine.store(f"fact {n:02}")
            assert len(Durable(engine._parts).facts(None, clock.now)) == count


async def test_the_first_look_at_many_is_on_a_thread(
    mind_: Mind, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `prepare` nothing is left to read."""
    for n in range(3000):
        put(mind_, f"fact {n}", clock.now)
    await mind_.durable.prepare()
    seen: list[int] = []
    real = mind_.durable._ranks.changed

    def changed(versions: Any) -> Any:
        seen.append(len(real(versions)))
        return real(versions)

    monkeypatch.setattr(mind_.durable._ranks, "changed", changed)
    assert mind_.durable.facts(None, clock.now)
    assert seen == [0]


def put(mind_: Mind, text: str, at: float, metadata: dict[str, Any] | None = None) -> None:
    """A fact as it comes from the store, with keys that callers cannot write."""
    memory = Memory(
        f"{abs(hash(text)):020x}"[-20:], MemoryType.FACT, text, at, None, metadata or {}
    )
    vector = HashEncoder().encode([text])[0]
    mind_.parts.index.put(Record(memory, (Passage((0, len(text)), vector),)))


CONFIG = Config(
    memory=MemorySettings(path=Path("unused"), timezone="UTC", cleanup_interval=10_000),
    embedding=EmbeddingSettings(backend="hash"),
    sessions=SessionSettings(max_memory_size=60),
)
STEP = st.tuples(
    st.sampled_from(["store", "forget", "update", "pin", "record", "supersede", "wait"]),
    st.integers(0, 9),
    st.sampled_from([{}, {"confidence": 0.2}, {"kind": "work_state"}, {"project": "ours"}]),
)


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(STEP, max_size=25))
def test_it_follows_every_change(steps: list[Any]) -> None:
    """One that saw all changes has the same facts in the same order as a new one."""

    async def check() -> None:
        clock = Clock()
        async with run_engine(CONFIG, RamStore(), HashEncoder(), 384, clock) as engine:
            watching = Durable(engine._parts)
            for step in steps:
                clock.now += 1
                await _do(engine, clock, *step)
                for project in (None, "ours"):
                    fresh = Durable(engine._parts).facts(project, clock.now)
                    assert watching.facts(project, clock.now) == fresh
                    assert sum(len(m.content) + LINE for m in fresh) <= 60

    anyio.run(check)


async def _do(engine: Engine, clock: Clock, what: str, n: int, metadata: dict[str, Any]) -> None:
    known = list(engine._parts.index)
    if what == "store" or not known:
        await engine.store(f"fact {n}", metadata=metadata)
        return
    memory = known[n % len(known)]
    if what == "forget":
        await engine.forget(memory.id)
    elif what == "update":
        await engine.update_memory(memory.id, content=f"changed {n}", metadata=metadata)
    elif what == "pin":
        await engine.update_memory(memory.id, pinned=True)
    elif what == "supersede":
        await engine.store(f"newer {n} {clock.now}", metadata={"supersedes": [memory.id]})
    elif what == "wait":
        clock.now += n * DAY
    elif what == "record":
        await engine.add_turn("user", f"said {n}", "s")
