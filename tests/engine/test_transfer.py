"""Export and import: every field comes back exactly, and nothing is imported twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryd.doors.render import moment
from memoryd.engine import commits
from memoryd.engine import transfer as exports
from memoryd.engine.checks import EARLIEST, LATEST
from memoryd.engine.engine import Engine
from memoryd.engine.transfer import Outcome, memory_from
from memoryd.errors import InvalidInput, StoreError
from memoryd.export_file import fields_of
from memoryd.model import DAY, Memory, MemoryType
from tests.engine.conftest import Clock, Start
from tests.ramstore import RamStore

ID = "0123456789abcdef0123"


def made(**changes: Any) -> Memory:
    memory = Memory(ID, MemoryType.FACT, "Tea is at four.", 1_700_000_000.123456)
    return replace(memory, **changes)


async def exported(engine: Engine) -> list[Memory]:
    found, after = [], None
    while True:
        page = await engine.export_page(after)
        found += [record.memory for record in page.records]
        if (after := page.after) is None:
            return found


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abcäя", max_size=5), inner)
    ),
    max_leaves=5,
)
times = st.floats(min_value=EARLIEST, max_value=LATEST, allow_nan=False).map(lambda t: round(t, 6))
memories = st.builds(
    Memory,
    id=st.text("0123456789abcdef", min_size=20, max_size=20),
    type=st.sampled_from(MemoryType),
    content=st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).map(
        lambda text: f"x{text}"
    ),
    created_at=times,
    expires_at=st.none() | times,
    metadata=st.dictionaries(st.text("abc", min_size=1), json_values, max_size=4),
    name=st.none() | st.just("a name"),
    session_id=st.none() | st.just("s1"),
    pinned=st.booleans(),
)


@given(memories)
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_the_fields_of_a_memory_are_the_memory(memory: Memory) -> None:
    expected = replace(memory, expires_at=None) if memory.pinned else memory
    assert memory_from(fields_of(memory), 1_000_000) == expected


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"id": "two words"}, "The id must be 1 to 128 letters"),
        ({"id": f"{ID}#1"}, "The id must be 1 to 128 letters"),
        ({"id": 7}, "The id must be 1 to 128 letters"),
        ({"created_at": "2020-01-01"}, "created_at is not a number"),
        ({"created_at": None}, "created_at is missing"),
        ({"created_at": float("nan")}, "created_at is not between the years"),
        ({"created_at": 10**400}, "created_at is not between the years"),
        ({"created_at": -2e11}, "created_at is not between the years"),
        ({"expires_at": -2e11}, "expires_at is not between the years"),
        ({"expires_at": 1e15}, "expires_at is not between the years"),
        ({"expires_at": 1e15, "pinned": True}, "expires_at is not between the years"),
        ({"expires_at": True}, "expires_at is not a number"),
        ({"type": "gossip"}, "There is no memory type"),
        ({"content": ""}, "Content is empty"),
        ({"content": "x" * 101}, "Content has 101 bytes"),
        ({"metadata": []}, "Metadata must be a mapping"),
        ({"pinned": 1}, "pinned must be true or false"),
        ({"colour": "red"}, "A memory has no field 'colour'"),
    ],
)
def test_what_could_not_be_kept_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        memory_from(fields_of(made()) | changes, 100)
    assert caught.value.message.startswith(sentence)


@pytest.mark.parametrize("value", [None, [], "text", {"id": ID}])
def test_what_is_no_memory_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput):
        memory_from(value, 100)


async def test_an_export_pages_through_everything_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "PAGE", 3)
    stored = {(await engine.store(f"fact {n}")).memory.id for n in range(10)}
    found = [memory.id for memory in await exported(engine)]
    assert found == sorted(stored)
    first = await engine.export_page()
    assert len(first.records) == 3
    assert first.total == 10
    await engine.forget(found[4])
    assert [r.memory.id for r in (await engine.export_page(first.after)).records] == [
        found[3],
        *found[5:7],
    ]


async def test_a_page_is_bounded_in_bytes(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "PAGE_BYTES", 10)
    for n in range(3):
        await engine.store(f"a fact of some length {n}")
    assert len((await engine.export_page()).records) == 1
    assert len(await exported(engine)) == 3


async def test_the_expired_are_not_exported(engine: Engine, clock: Clock) -> None:
    await engine.store("today only", "context")
    clock.now += 2 * DAY
    assert await exported(engine) == []


async def test_a_memory_comes_in_as_it_was(engine: Engine, start: Start) -> None:
    memory = made(
        expires_at=9e9, metadata={"n": 1.0, "deep": [{"a": None}]}, name="tea", session_id="s1"
    )
    assert (await engine.import_memory(memory)).outcome is Outcome.ADDED
    assert await engine.get("tea") == memory
    assert (await engine.search("tea is at four")).hits[0].memory == memory
    async with start() as again:
        assert await exported(again) == [memory]


async def test_importing_twice_changes_nothing(engine: Engine, store: RamStore) -> None:
    memories = [made(), made(id="f" * 20, content="Other.", type=MemoryType.CONVERSATION)]
    for memory in memories:
        await engine.import_memory(memory)
    before = dict(store.records)
    for memory in memories:
        assert (await engine.import_memory(memory)).outcome is Outcome.KNOWN
    assert store.records.keys() == before.keys()
    assert all(store.records[id] is before[id] for id in before)


@pytest.mark.parametrize(
    "there",
    [
        made(metadata={"n": True}),
        made(metadata={"n": 1.0}),
        made(content="Tea is at five."),
        made(pinned=True),
        made(updated_at=5.0),
        made(id="f" * 20, content="Another text.", name="tea"),
        made(id="f" * 20, metadata={"more": 1}, name="tea"),
    ],
)
async def test_what_differs_stays_unless_it_is_overwritten(
    engine: Engine, store: RamStore, there: Memory
) -> None:
    memory = made(metadata={"n": 1}, name="tea" if there.name else None)
    await engine.import_memory(there)
    kept = await engine.import_memory(memory)
    assert (kept.outcome, kept.rival) == (Outcome.KEPT, there.id)
    assert await exported(engine) == [there]
    assert (await engine.import_memory(memory, overwrite=True)).outcome is Outcome.REPLACED
    assert await exported(engine) == [memory]
    assert store.records.keys() == {memory.id}


async def test_a_call_that_is_given_up_between_old_and_new_loses_neither(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.import_memory(made(id="f" * 20, content="Another text.", name="tea"))
    drop = commits.drop

    async def drop_and_give_up(*given: Any) -> set[str]:
        gone = await drop(*given)
        scope.cancel()
        return gone

    monkeypatch.setattr(commits, "drop", drop_and_give_up)
    with anyio.CancelScope() as scope:
        await engine.import_memory(made(content="Tea. " * 2000, name="tea"), overwrite=True)
    found = await engine.get("tea")
    assert found is not None
    assert found.content.startswith("Tea.")


@pytest.mark.parametrize("failing", ["put", "delete"])
async def test_a_store_that_fails_while_a_memory_is_replaced_loses_none(
    engine: Engine, start: Start, store: RamStore, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """And the same import, repeated, ends what it began, also after a restart."""
    old, new = made(id="f" * 20, content="Another text.", name="tea"), made(name="tea")
    await engine.import_memory(old)

    async def fail(*given: Any, **options: Any) -> Any:
        raise StoreError("The disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr(store, failing, fail)
        with pytest.raises(StoreError):
            await engine.import_memory(new, overwrite=True)
    assert old in await exported(engine)
    async with start() as again:
        assert old in await exported(again)
        assert (await again.import_memory(new, overwrite=True)).outcome is Outcome.REPLACED
        assert await exported(again) == [new]
        assert await again.get("tea") == new
    assert store.records.keys() == {new.id}


async def test_the_same_fact_under_another_id_is_known(engine: Engine) -> None:
    stored = (await engine.store("Tea is at four.")).memory
    assert (await engine.import_memory(made())).outcome is Outcome.KNOWN
    assert await exported(engine) == [stored]
    assert (await engine.import_memory(made(name="tea"))).outcome is Outcome.ADDED


async def test_expired_memories_are_not_imported_and_do_not_conflict(
    engine: Engine, clock: Clock
) -> None:
    assert (await engine.import_memory(made(expires_at=clock.now))).outcome is Outcome.EXPIRED
    assert (await engine.import_memory(made(expires_at=1.0, pinned=True))).outcome is Outcome.ADDED
    await engine.import_memory(made(id="e" * 20, name="short", expires_at=clock.now + 5))
    clock.now += 10
    assert (await engine.import_memory(made(id="d" * 20, name="short"))).outcome is Outcome.ADDED


async def test_imported_turns_join_the_window(engine: Engine) -> None:
    assert (await engine.context_window("s1")).messages == ()
    turn = made(
        type=MemoryType.CONVERSATION,
        session_id="s1",
        metadata={"role": "user", "order": 0},
    )
    await engine.import_memory(turn)
    assert (await engine.context_window("s1")).messages == (turn,)


@pytest.mark.parametrize("at", [EARLIEST, LATEST])
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Manila"])
def test_every_time_that_is_taken_in_can_be_shown(at: float, zone: str) -> None:
    assert moment(at, ZoneInfo(zone))


async def test_a_pin_has_no_end_however_it_came(engine: Engine, clock: Clock) -> None:
    fields = fields_of(made(pinned=True)) | {"expires_at": 5.0}
    memory = memory_from(fields, 1_000_000)
    assert (await engine.import_memory(memory)).outcome is Outcome.ADDED
    assert (await engine.import_memory(memory_from(fields, 1_000_000))).outcome is Outcome.KNOWN
    assert [hit.memory for hit in (await engine.search("tea at four")).hits] == [made(pinned=True)]
    assert await engine.cleanup_expired() == 0
