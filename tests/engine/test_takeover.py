"""Rows of another program become memories: what is kept, what is changed, and what is said."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import anyio
import numpy as np
import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.takeover import ForeignRow, Taken
from memoryd.engine.upkeep import Upkeep
from memoryd.errors import InvalidInput
from tests.engine.conftest import VIENNA, Clock, Start

UUID = "0b7e7a4e-4ba0-4a52-a3f4-6e8a4a5c9f11"
CREATED = "2026-06-20T10:00:00"


def row(id: str = UUID, text: str = "Tea is green.", /, **metadata: Any) -> ForeignRow:
    given = {"type": "fact", "created_at": CREATED} | metadata
    known = {key: value for key, value in given.items() if value is not None}
    return ForeignRow(id, text, known, HashEncoder().encode([text])[0])


async def take(engine: Engine, *rows: ForeignRow, embed: bool = False) -> list[Taken]:
    return await engine.import_rows(rows, embed=embed)


async def test_id_text_metadata_and_time_are_kept(engine: Engine) -> None:
    (taken,) = await take(engine, row(category="drinks", importance=0.5, n=3, ok=True))
    memory = await engine.get(UUID)
    assert memory is not None
    assert taken == Taken(UUID, "added", reused_vector=True)
    assert (memory.type, memory.content, memory.expires_at) == ("fact", "Tea is green.", None)
    assert memory.created_at == datetime(2026, 6, 20, 10, tzinfo=VIENNA).timestamp()
    assert memory.metadata == {"category": "drinks", "importance": 0.5, "n": 3, "ok": True}
    assert (await engine.forget(UUID)).success


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2026-06-20T10:00:00", "2026-06-20T10:00:00+02:00"),
        ("2026-06-20T10:00:00.25+00:00", "2026-06-20T10:00:00.25+00:00"),
        ("2026-06-20T10:00:00Z", "2026-06-20T10:00:00+00:00"),
        (1_781_949_600, "2026-06-20T10:00:00+00:00"),
        (1_781_949_600_250, "2026-06-20T10:00:00.25+00:00"),
        ("1781949600.25", "2026-06-20T10:00:00.25+00:00"),
    ],
)
async def test_times_of_any_form_are_understood(engine: Engine, given: Any, expected: str) -> None:
    await take(engine, row(created_at=given))
    memory = await engine.get(UUID)
    assert memory is not None
    assert memory.created_at == datetime.fromisoformat(expected).timestamp()


async def test_a_time_that_is_missing_or_wrong_is_now_and_counted(
    engine: Engine, clock: Clock
) -> None:
    rows = (row("a1", "One.", created_at=None), row("a2", "Two.", created_at="in May"))
    assert [one.notes for one in await take(engine, *rows)] == [("no_time",), ("no_time",)]
    memory = await engine.get("a2")
    assert memory is not None
    assert (memory.created_at, memory.metadata) == (clock.now, {"original_created_at": "in May"})
    clock.now += 60
    assert [one.outcome for one in await take(engine, *rows)] == ["known", "known"]
    dated = row("a3", "Three.", created_at=None, timestamp=CREATED)
    assert (await take(engine, dated))[0].notes == ()


@pytest.mark.parametrize(
    ("given", "type", "metadata"),
    [
        ("conversation", "conversation", {}),
        ("observation", "conversation", {"original_type": "observation"}),
        ("preference", "fact", {"original_type": "preference"}),
        ("goal", "fact", {"original_type": "goal"}),
        (None, "fact", {}),
    ],
)
async def test_types_are_mapped(
    engine: Engine, given: str | None, type: str, metadata: dict[str, str]
) -> None:
    await take(engine, row(type=given))
    memory = await engine.get(UUID)
    assert memory is not None
    assert (memory.type, memory.metadata) == (type, metadata)


async def test_what_has_expired_is_left_out(engine: Engine) -> None:
    rows = (
        row("old", "Said long ago.", type="conversation", created_at="2026-01-01T00:00:00"),
        row("day", "Of yesterday.", type="event", created_at="2026-06-30T23:00:00"),
        row("own", "It says so.", expires_at="2026-06-30T00:00:00"),
        row("new", "Said lately.", type="conversation"),
        row("later", "Ends later.", expires_at="2026-08-01T00:00:00", type="context"),
    )
    outcomes = [one.outcome for one in await take(engine, *rows)]
    assert outcomes == ["expired", "expired", "expired", "added", "added"]
    memory = await engine.get("later")
    assert memory is not None
    assert memory.expires_at == datetime(2026, 8, 1, tzinfo=VIENNA).timestamp()


async def test_reserved_metadata_is_renamed_and_nothing_is_lost(engine: Engine) -> None:
    given = {"memoryd:type": "x", "order": -1, "role": "robot", "a\x00b": 1}
    taken = await take(engine, row(**given))
    memory = await engine.get(UUID)
    assert memory is not None
    assert taken[0].notes == ("renamed_metadata",)
    assert memory.metadata == {
        "original_memoryd:type": "x",
        "original_order": -1,
        "original_role": "robot",
        "original_metadata": '{"a\\u0000b": 1}',
    }


@pytest.mark.parametrize("id", ["two words", "a#1", "ü", "x" * 129, "-a", "context:place", "here"])
async def test_an_id_that_cannot_be_one_is_kept_in_the_metadata(engine: Engine, id: str) -> None:
    await engine.store("It has a name.", name="here")
    (taken,) = await take(engine, row(id))
    assert (taken.id, taken.outcome, taken.notes) == (id, "added", ("new_id",))
    (listed,) = (await engine.list_memories(metadata={"original_id": id})).memories
    assert len(listed.id) == 20
    assert [one.outcome for one in await take(engine, row(id))] == ["known"]


async def test_a_name_cannot_hide_a_memory_with_that_id(engine: Engine) -> None:
    await take(engine, row("mem-1"))
    stored = await engine.store("Another one.")
    with pytest.raises(InvalidInput, match="A memory has the id 'mem-1'"):
        await engine.store("Named.", name="mem-1")
    with pytest.raises(InvalidInput, match="A memory has the id 'mem-1'"):
        await engine.update_memory(stored.memory.id, name="mem-1")


async def test_every_row_keeps_its_id_even_if_two_say_the_same(engine: Engine) -> None:
    await engine.store("Tea is green.")
    outcomes = [one.outcome for one in await take(engine, row("a1"), row("a2", n=1))]
    assert (outcomes, engine.count) == (["added", "added"], 3)


async def test_taking_over_twice_adds_nothing_and_keeps_changes(engine: Engine) -> None:
    rows = [row("a1", "One."), row("a2", "Two.")]
    await take(engine, *rows)
    await engine.update_memory("a2", content="Two, corrected.")
    assert [one.outcome for one in await take(engine, *rows)] == ["known", "kept"]
    memory = await engine.get("a2")
    assert memory is not None
    assert memory.content == "Two, corrected."


async def test_a_row_that_cannot_be_a_memory_is_named_and_stops_no_other(engine: Engine) -> None:
    rows = [ForeignRow("none", None, {}), row("empty", " "), row("good", "Good.")]
    taken = await take(engine, *rows)
    assert [one.outcome for one in taken] == ["refused", "refused", "added"]
    assert [one.error.code for one in taken if one.error] == ["content_not_text", "content_empty"]


async def test_secrets_are_masked_as_in_a_store(engine: Engine) -> None:
    (taken,) = await take(engine, row("s1", "my password is " + "hunter2-" + "Xy9"), embed=True)
    memory = await engine.get("s1")
    assert memory is not None
    assert taken.masked
    assert not taken.reused_vector
    assert "hunter2" not in memory.content


@pytest.fixture
def no_upkeep(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first sweep of the engine would give vectors to what waits for them."""
    monkeypatch.setattr(Upkeep, "run", lambda _: anyio.sleep_forever())


@pytest.mark.usefixtures("no_upkeep")
async def test_vectors_of_the_model_are_reused(engine: Engine) -> None:
    long = row("long", "word " * 500)  # another program embeds only its beginning
    spoken = row("said", "Hello.", role="user")  # our vectors include who said it
    taken = await take(engine, row("a1", "One."), long, spoken)
    assert [one.reused_vector for one in taken] == [True, False, False]
    assert engine.state()["pending_vectors"] == 2
    await engine.embed_all_pending()
    assert engine.state()["pending_vectors"] == 0


@pytest.mark.usefixtures("no_upkeep")
async def test_vectors_of_another_model_are_made_again(engine: Engine) -> None:
    vectors = np.random.default_rng(1).normal(size=(9, 384)).astype(np.float32)
    rows = [ForeignRow(f"a{n}", f"Number {n}.", {}, vector) for n, vector in enumerate(vectors)]
    assert not any(one.reused_vector for one in await take(engine, *rows[:6]))
    assert engine.state()["pending_vectors"] == 6
    short = [ForeignRow("b1", "Short.", {}, vectors[0][:100]), ForeignRow("b2", "None.", {})]
    await take(engine, *rows[6:], *short, embed=True)
    assert engine.state()["pending_vectors"] == 6
    assert (await engine.search("short")).hits[0].memory.id == "b1"


async def test_without_a_model_memories_are_found_by_words(start: Start) -> None:
    async with start(None) as engine:
        assert [one.reused_vector for one in await take(engine, row(), embed=True)] == [False]
        assert (await engine.search("green tea")).hits[0].memory.id == UUID


async def test_a_row_may_have_a_session_a_change_and_no_end(engine: Engine, clock: Clock) -> None:
    now = clock.now
    said = ForeignRow(
        "m-1", "Hello.", {"type": "conversation", "created_at": now - 90 * 86_400, "role": "user"},
        session_id="talk", updated_at=now - 5, lasts=True,
    )  # fmt: skip
    [taken] = await engine.import_rows([said], embed=True)
    assert taken.outcome == "added"
    memory = await engine.get("m-1")
    assert memory is not None
    assert (memory.session_id, memory.expires_at, memory.pinned) == ("talk", None, False)
    assert memory.updated_at == now - 5
    [taken] = await engine.import_rows([replace(said, id="m-2", lasts=False)], embed=True)
    assert taken.outcome == "expired"


async def test_the_time_of_a_file_stands_in_at_the_first_import_only(
    engine: Engine, clock: Clock
) -> None:
    """A file that was changed since is not a change of each of its rows."""
    dated = ForeignRow("f-1", "From a file.", {}, file_time=clock.now - 500)
    assert (await engine.import_rows([dated], embed=False))[0].notes == ()
    memory = await engine.get("f-1")
    assert memory is not None
    assert memory.created_at == clock.now - 500
    later = replace(dated, file_time=clock.now - 10)
    assert [one.outcome for one in await engine.import_rows([later], embed=False)] == ["known"]


async def test_rows_that_say_the_same_are_one_fact_if_they_are_not_kept_separate(
    engine: Engine,
) -> None:
    rows = [ForeignRow("a", "Same.", {"created_at": CREATED}), ForeignRow("b", "Same.", {})]
    one, other = await engine.import_rows(rows[:1], embed=True, separate=False), None
    [other] = await engine.import_rows(rows[1:], embed=True, separate=False)
    assert (one[0].outcome, other.twin) == ("added", "a")
    assert await engine.get("b") is None
    changed = ForeignRow("a", "Other.", {"created_at": CREATED})
    for overwrite, outcome in ((False, "kept"), (True, "replaced")):
        [done] = await engine.import_rows(
            [changed], embed=True, separate=False, overwrite=overwrite
        )
        assert (done.outcome, done.twin) == (outcome, None)
    memory = await engine.get("a")
    assert memory is not None
    assert memory.content == "Other."
