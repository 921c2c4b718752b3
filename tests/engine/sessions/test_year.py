"""A year of days with a wake, a talk and a sleep: everything stays within its budgets."""

from __future__ import annotations

import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.engine.search.fold import tokens
from memoryd.engine.sessions.working_memory import MAX_INJECTED
from memoryd.fields import FROM_SESSION, SUPERSEDED_BY
from memoryd.model import DAY, MemoryType
from memoryd.recall_text import as_text
from memoryd.settings import Config
from tests.engine.conftest import Clock
from tests.ramstore import RamStore

DAYS, TURNS = 365, 8
TOWNS = ("Graz", "Linz", "Salzburg", "Innsbruck", "Villach", "Wels")


def said(day: int, turn: int) -> str:
    """What is said on a day; now and then something that lasts."""
    if turn == 0 and day % 60 == 0:
        return f"My address is {day + 1} Main Street, {TOWNS[day // 60 % len(TOWNS)]}."
    if turn == 2 and day % 7 == 0:
        return f"Remember that box {day} is in room {day % 13} on shelf {day % 29}."
    if turn == 4:
        return "I am tired today."
    return f"On day {day} we spoke about matter {day}-{turn}, at some length, and then went on."


async def lived(engine: Engine, clock: Clock, day: int) -> None:
    woken = await engine.sessions.wake("robot", hint=f"box {day - day % 7}")
    shown = as_text(woken.recalled.parts, [])
    assert tokens(shown) <= woken.recalled.tokens <= engine._parts.sessions.recall_tokens
    session = woken.facts.session_id
    for turn in range(TURNS):
        clock.now += 60
        role = ("user", "assistant")[turn % 2]
        await engine.add_turn(role, said(day, turn), session)
    text = f"## Day {day}\n" + "word " * day
    await engine.working_memories.set(text, "robot", f"Part {day % 30}")
    slept = await engine.sessions.sleep(session)
    assert slept.compacted.archived == TURNS


@pytest.mark.slow
async def test_a_year_of_use_stays_within_its_budgets(
    config: Config, store: RamStore, clock: Clock
) -> None:
    async with run_engine(config, store, HashEncoder(), 384, clock, monotonic=clock) as engine:
        for day in range(DAYS):
            start = clock.now
            await lived(engine, clock, day)
            clock.now = start + DAY
            await engine.sweep()
        alive = list(engine._parts.index)
        messages = [one for one in alive if one.type is MemoryType.CONVERSATION]
        assert len(messages) <= 31 * TURNS  # the rest has expired
        assert (await engine.notes.list_notes(kind="archive")).total == DAYS
        assert (await engine.sessions.list_sessions(identity="robot")).total == DAYS
        facts = [one for one in alive if FROM_SESSION in one.metadata and one.name is None]
        boxes = [one for one in facts if "is in room" in one.content]
        assert len(boxes) == len(range(0, DAYS, 7))
        assert [one.content for one in facts if "tired" in one.content] == []
        addresses = [one for one in facts if "Main Street" in one.content]
        current = [one for one in addresses if not one.metadata.get(SUPERSEDED_BY)]
        assert (len(addresses), len(current)) == (len(range(0, DAYS, 60)), 1)
        assert "361 Main Street" in current[0].content
        recalled = await engine.recall("new", "where is box 350?", identity="robot")
        parts = {part["part"]: part["text"] for part in recalled.parts}
        assert len(parts["facts"].encode()) <= config.sessions.max_memory_size
        assert len(parts["working_memory"]) <= MAX_INJECTED
        assert "361 Main Street" in parts["facts"]
        assert recalled.tokens <= config.sessions.recall_tokens
