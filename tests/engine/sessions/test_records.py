"""Records of sessions: what is known of a session outlives its messages."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import anyio.lowlevel

from memoryd.engine.engine import Engine
from memoryd.engine.memories import Memories
from memoryd.engine.parts import Parts
from memoryd.engine.sessions.records import (
    MAX_MARKERS,
    Records,
    facts_of,
    last_consolidated,
    markers_of,
    replay_after,
)
from memoryd.engine.updates import Updates
from memoryd.fields import SESSION_RECORD
from memoryd.model import DAY
from tests.engine.conftest import Clock, Start


def records_of(engine: Engine) -> Records:
    parts: Parts = engine._parts
    memories = Memories(parts)
    return Records(parts, memories, Updates(parts, memories))


async def test_the_time_of_a_session_stays_when_its_messages_are_gone(
    start: Start, clock: Clock
) -> None:
    began = clock.now
    async with start() as engine:
        turn = await engine.add_turn("user", "hello", "s")
        clock.now += DAY
        await records_of(engine).change("s", last_consolidated=0)
        await engine.forget(turn.memory.id)
    async with start() as engine:
        record = records_of(engine).find("s")
        assert record is not None
        assert record.created_at == began
        assert last_consolidated(record) == 0
        turn = await engine.add_turn("user", "again", "s")
        assert turn.memory.metadata["order"] == 1  # not counted among the archived ones


async def test_a_session_has_one_record_however_many_ask(engine: Engine) -> None:
    records = records_of(engine)
    async with anyio.create_task_group() as tasks:
        for n in range(8):
            fields: dict[str, Any] = {f"field {n}": n}
            tasks.start_soon(partial(records.change, "s", **fields))
    found = records.find("s")
    assert len(engine._parts.index.session_records()) == 1
    assert facts_of(found) == {"last_consolidated": -1} | {f"field {n}": n for n in range(8)}


async def test_markers_are_added_once_and_bounded(engine: Engine) -> None:
    records = records_of(engine)
    for n in range(MAX_MARKERS + 5):
        record = await records.change("s", marker={"upto": n, "archive_name": str(n)})
    record = await records.change("s", marker={"upto": n, "archive_name": "again"})
    assert len(markers_of(record)) == MAX_MARKERS
    assert markers_of(record)[-1] == {"upto": n, "archive_name": "again"}
    assert replay_after(record) == n
    assert replay_after(None) == last_consolidated(None) == -1


async def test_searches_and_lists_leave_records_out(engine: Engine) -> None:
    records = records_of(engine)
    await records.change("talk", title="the blue boat")
    await engine.store("The boat is blue.", "fact", session_id="talk")
    assert [hit.memory.content for hit in (await engine.search("blue boat")).hits] == [
        "The boat is blue."
    ]
    newest = await engine.search(memory_type="fact", session_id="talk")
    assert len(newest.hits) == 1
    assert (await engine.list_memories()).total == 1
    assert engine.state()["memories"]["fact"] == 1
    shown = await engine.list_memories(metadata={SESSION_RECORD: {"$exists": True}})
    assert [memory.content for memory in shown.memories] == ["Session talk: the blue boat"]


async def test_forgetting_a_session_forgets_its_record(engine: Engine) -> None:
    await records_of(engine).change("s", title="x")
    await engine.add_turn("user", "hello", "s")
    await records_of(engine).change("other", title="y")
    assert (await engine.forget_where(engine.selection(memory_type="fact"))).matched == 0
    done = await engine.forget_where(engine.selection(session_id="s"))
    assert done.forgotten == 2
    await engine.forget_where(engine.selection(), everything=True)
    assert engine.count == 0


async def test_a_session_that_nobody_opened_keeps_its_time_too(start: Start, clock: Clock) -> None:
    """It lasts for days, and its first message goes before the last one comes."""
    began = clock.now
    async with start() as engine:
        first = await engine.add_turn("user", "hello", "s")
        clock.now += DAY / 2
        await engine.add_turn("user", "still here", "s")
        await settled(engine)
        assert engine.records.find("s") is None  # most sessions need none
        clock.now += DAY
        await engine.add_turn("user", "and again", "s")
        await settled(engine)
        await engine.forget(first.memory.id)
        read = await engine.sessions.read_session("s")
        assert (read.facts.created_at, read.facts.markers) == (began, ())


async def settled(engine: Engine) -> None:
    """Until nothing is left to do in the background."""
    while engine.compaction._busy:
        await anyio.lowlevel.checkpoint()
