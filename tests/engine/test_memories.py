"""Store, get, update, forget: each whole, or refused with nothing changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import anyio
import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.engine.run import run_engine
from memoryd.errors import InvalidInput, MemorydError
from memoryd.model import DAY, MemoryType, end_of_day
from memoryd.ports import Record
from memoryd.settings import Config
from tests.engine.conftest import Clock, Start
from tests.ramstore import RamStore


async def test_what_is_stored_is_found_by_id(engine: Engine, clock: Clock) -> None:
    stored = await engine.store("Tea is in the left cupboard", metadata={"room": "kitchen"})
    memory = await engine.get(stored.memory.id)
    assert memory == stored.memory
    assert (memory.type, memory.created_at, memory.expires_at) == (MemoryType.FACT, clock.now, None)
    assert memory.metadata == {"room": "kitchen"}
    assert not stored.duplicate
    assert not stored.replaced


async def test_content_is_kept_to_the_letter(engine: Engine) -> None:
    text = "  Zeile eins\r\n\tZeile zwei \u200d 🎉 e\u0301  "
    assert (await engine.store(text)).memory.content == text


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("", "content_empty"),
        (" \n\t\u2003", "content_empty"),
        ("\u200b\u200d\ufeff", "content_empty"),
        ("a\0b", "content_has_nul"),
        ("half \ud83d", "content_has_surrogate"),
        ("x" * 102_401, "content_too_long"),
        ("é" * 51_201, "content_too_long"),
        (None, "content_not_text"),
        (7, "content_not_text"),
        (b"bytes", "content_not_text"),
        (["a"], "content_not_text"),
    ],
)
async def test_bad_content_is_refused_and_nothing_is_stored(
    engine: Engine, store: RamStore, content: Any, code: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await engine.store(content)
    assert refused.value.code == code
    assert refused.value.message.endswith(".")
    assert store.records == {}
    assert engine.count == 0


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"memory_type": "rumour"}, "type_unknown"),
        ({"metadata": {"a": float("nan")}}, "metadata_invalid"),
        ({"metadata": {"memoryd:x": 1}}, "metadata_reserved"),
        ({"name": "two\nlines"}, "name_invalid"),
        ({"name": "n" * 201}, "name_invalid"),
        ({"name": 5}, "name_invalid"),
        ({"session_id": "\ud800"}, "session_id_invalid"),
        ({"expires_at": "tomorrow"}, "expires_at_invalid"),
        ({"expires_at": 5.0}, "expires_at_invalid"),
        ({"expires_at": float("inf")}, "expires_at_invalid"),
        ({"expires_at": 10**400}, "expires_at_invalid"),
        ({"pinned": "yes"}, "pinned_invalid"),
    ],
)
async def test_bad_options_are_refused_and_nothing_is_stored(
    engine: Engine, store: RamStore, options: dict[str, Any], code: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        await engine.store("content", **options)
    assert refused.value.code == code
    assert store.records == {}


async def test_the_longest_content_is_kept(engine: Engine) -> None:
    text = "word " * 20_480
    stored = await engine.store(text)
    assert (await engine.get(stored.memory.id)) == stored.memory


async def test_types_live_as_long_as_they_should(engine: Engine, clock: Clock) -> None:
    now = clock.now
    fact = await engine.remember_fact("a")
    said = await engine.remember_conversation("b")
    today = await engine.set_context("c", "d")
    assert fact.memory.expires_at is None
    assert said.memory.expires_at == now + 30 * DAY
    assert today.memory.expires_at == now + 12 * 3600  # stored at noon in Vienna
    clock.now = now + 12 * 3600
    assert await engine.get_context("c") is None
    assert await engine.get(said.memory.id) is not None
    clock.now = now + 30 * DAY
    assert await engine.get(said.memory.id) is None
    assert await engine.get(fact.memory.id) is not None


@pytest.mark.parametrize(
    "moment", [1_800_000_000.0, 1_800_000_000, "2027-01-15T08:00:00Z", "2027-01-15 09:00:00"]
)
async def test_an_end_can_be_given_in_several_ways(engine: Engine, moment: object) -> None:
    """Epoch seconds, ISO 8601 with a zone, and without one in the configured zone."""
    stored = await engine.store("x", "conversation", expires_at=moment)
    assert stored.memory.expires_at == 1_800_000_000.0


async def test_a_pinned_memory_never_expires(engine: Engine, clock: Clock) -> None:
    pinned = await engine.store("x", "context", pinned=True, expires_at=clock.now + 1)
    assert pinned.memory.expires_at is None
    clock.now += 1000 * DAY
    assert await engine.cleanup_expired() == 0
    assert await engine.get(pinned.memory.id) is not None


async def test_a_name_addresses_and_replaces(engine: Engine, store: RamStore) -> None:
    first = await engine.store("old words", name="plan", metadata={"a": 1}, pinned=True)
    second = await engine.store("new words", "context", name=" plan ")
    assert second.replaced
    assert not first.replaced
    assert (await engine.get("plan")) == second.memory
    assert (second.memory.metadata, second.memory.pinned) == ({"a": 1}, False)
    assert [r.memory.content for r in store.records.values()] == ["new words"]
    assert (await engine.search("old words", min_score=0.0)).hits[0].memory.content == "new words"


async def test_storing_under_a_name_again_keeps_when_and_what_was_not_given(
    engine: Engine, clock: Clock
) -> None:
    first = await engine.store("old", name="plan", metadata={"a": 1, "b": 1, "c": True})
    assert first.memory.updated_at is None
    clock.now += 5
    second = (await engine.store("new", name="plan", metadata={"b": 2, "c": 1})).memory
    assert (second.created_at, second.updated_at) == (clock.now - 5, clock.now)
    assert second.metadata == {"a": 1, "b": 2, "c": 1}
    assert second.metadata["c"] is not True
    clock.now += 5
    again = await engine.store("new", name="plan", metadata={"d": 4})
    assert again.duplicate
    assert (again.memory.created_at, again.memory.updated_at) == (clock.now - 10, clock.now)
    assert again.memory.metadata == {"a": 1, "b": 2, "c": 1, "d": 4}
    clock.now += 5
    assert (await engine.store("new", name="plan")).memory == again.memory  # nothing new


async def test_what_took_the_place_of_an_expired_memory_is_new(
    engine: Engine, clock: Clock
) -> None:
    await engine.store("old", name="plan", metadata={"a": 1}, expires_at=clock.now + 1)
    clock.now += 5
    fresh = (await engine.store("new", name="plan", metadata={"b": 1})).memory
    assert (fresh.created_at, fresh.updated_at, fresh.metadata) == (clock.now, None, {"b": 1})


async def test_a_named_message_that_is_replaced_is_no_message_any_more(engine: Engine) -> None:
    turn = (await engine.add_turn("user", "said", "s", "Ann")).memory
    await engine.update_memory(turn.id, name="quote", metadata={"kept": 1})
    assert (await engine.store("not said", name="quote")).memory.metadata == {"kept": 1}


@pytest.mark.parametrize(
    "name",
    [
        "pl\u200ban",
        "plan\u2060",
        "\u202eplan",
        "plan\u200e",
        "pl\u00adan",
        "pl\u034fan",
        "plan\u3164x",
        "plan\U000e0041",
        "pl\u200dan",
        "plan\x07",
    ],
)
async def test_a_name_with_hidden_characters_is_refused(engine: Engine, name: str) -> None:
    """It would look like another name, and forgetting by that name could hit the wrong memory."""
    kept = (await engine.store("kept", name="plan")).memory
    for call in (
        engine.store("other", name=name),
        engine.store("other", session_id=name),
        engine.set_context(name, "other"),
        engine.update_memory("plan", name=name),
    ):
        with pytest.raises(InvalidInput, match="hidden"):
            await call
    assert not (await engine.forget(name)).success
    assert await engine.get("plan") == kept


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("caf\u00e9", "cafe\u0301"),
        ("plan", "\uff50\uff4c\uff41\uff4e"),
        ("my file", "my\u00a0\ufb01le"),
        ("heart \u2764", "heart \u2764\ufe0f"),
    ],
)
async def test_names_that_look_alike_are_one(engine: Engine, one: str, other: str) -> None:
    first = (await engine.store("first", name=one)).memory
    second = await engine.store("second", name=other)
    assert (second.replaced, second.memory.id, second.memory.name) == (True, first.id, one)
    assert await engine.get(one) == await engine.get(other) == second.memory
    assert (await engine.forget(other)).success
    assert await engine.get(one) is None


@pytest.mark.parametrize(
    "name", ["\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\U0001f469\u200d\U0001f4bb"]
)
async def test_a_joiner_that_changes_what_is_seen_is_kept(engine: Engine, name: str) -> None:
    assert (await engine.store("x", name=name)).memory.name == name


async def test_set_context_twice_leaves_one_value(engine: Engine, store: RamStore) -> None:
    await engine.store("a fact with that name", name="mood")
    await engine.set_context("mood", "grumpy")
    await engine.set_context("mood", "cheerful")
    assert await engine.get_context("mood") == "cheerful"
    assert (await engine.get("mood")).content == "a fact with that name"  # type: ignore[union-attr]
    assert not [r for r in store.records.values() if "grumpy" in r.memory.content]
    assert engine.count == 2


@pytest.mark.parametrize("key", ["", None, "a\nb", 7])
async def test_a_context_needs_a_key(engine: Engine, key: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        await engine.set_context(key, "value")
    assert refused.value.code == "key_invalid"


async def test_names_of_expired_memories_are_free(engine: Engine, clock: Clock) -> None:
    await engine.set_context("k", "yesterday")
    clock.now += DAY
    stored = await engine.set_context("k", "today")
    assert not stored.replaced
    assert await engine.get_context("k") == "today"
    assert engine.count == 1


async def test_an_identical_fact_is_one_memory_and_says_so(engine: Engine) -> None:
    first = await engine.store("Water boils at 100 °C", metadata={"a": 1, "b": 1})
    again = await engine.store("Water boils at 100 °C\n", metadata={"b": 2, "c": 3})
    assert again.duplicate
    assert not first.duplicate
    assert again.memory.id == first.memory.id
    assert again.memory.metadata == {"a": 1, "b": 2, "c": 3}
    assert (await engine.get(first.memory.id)) == again.memory
    assert engine.count == 1


async def test_a_duplicate_keeps_the_longer_life_and_gains_a_name(
    engine: Engine, clock: Clock
) -> None:
    await engine.store("same", expires_at=clock.now + 10)
    longer = await engine.store("same", expires_at=clock.now + 20, name="it")
    assert longer.memory.expires_at == clock.now + 20
    assert (await engine.store("same", expires_at=clock.now + 5)).memory == longer.memory
    assert (await engine.store("same", pinned=True)).memory.pinned
    assert (await engine.get("it")).expires_at is None  # type: ignore[union-attr]
    assert engine.count == 1


async def test_only_facts_are_folded(engine: Engine) -> None:
    for _ in range(2):
        assert not (await engine.store("same", "conversation")).duplicate
        await engine.store("same", "fact")
        await engine.store("same", "fact", session_id="s")
    assert engine.count == 4


async def test_facts_with_different_names_are_different(engine: Engine) -> None:
    one = await engine.store("same", name="one")
    two = await engine.store("same", name="two")
    assert one.memory.id != two.memory.id
    assert not two.duplicate


async def test_an_expired_fact_is_no_duplicate(engine: Engine, clock: Clock) -> None:
    await engine.store("same", expires_at=clock.now + 1)
    clock.now += 2
    assert not (await engine.store("same")).duplicate


async def test_identical_facts_at_the_same_time_are_one(engine: Engine) -> None:
    results: list[bool] = []

    async def store_it() -> None:
        results.append((await engine.store("said by everyone", name="n")).duplicate)

    async with anyio.create_task_group() as tasks:
        for _ in range(32):
            tasks.start_soon(store_it)
    assert sorted(results) == [False] + [True] * 31
    assert engine.count == 1


async def test_one_name_stored_by_many_is_one_memory(engine: Engine, store: RamStore) -> None:
    async with anyio.create_task_group() as tasks:
        for n in range(32):
            tasks.start_soon(engine.set_context, "k", f"value {n}")
    assert engine.count == len(store.records) == 1
    assert (await engine.get_context("k")) == next(iter(store.records.values())).memory.content


async def test_forget_says_whether_there_was_something(engine: Engine, store: RamStore) -> None:
    stored = await engine.store("secret plan", name="plan")
    gone = await engine.forget(stored.memory.id)
    assert (gone.success, gone.id) == (True, stored.memory.id)
    assert store.records == {}
    assert await engine.get(stored.memory.id) is None
    assert await engine.get("plan") is None
    assert (await engine.search("secret plan", min_score=0.0)).hits == ()
    again = await engine.forget(stored.memory.id)
    assert (again.success, again.id) == (False, stored.memory.id)


@pytest.mark.parametrize("unknown", ["", "nobody", "\ud800", None, 7, "x" * 10_000])
async def test_forgetting_the_unknown_is_no_exception(engine: Engine, unknown: Any) -> None:
    assert not (await engine.forget(unknown)).success


async def test_forget_by_name_returns_the_id(engine: Engine) -> None:
    stored = await engine.store("x", name="the name")
    assert await engine.forget("the name") == (await engine.forget("nope")).__class__(
        True, stored.memory.id
    )


async def test_forgetting_what_has_expired_is_no_success(engine: Engine, clock: Clock) -> None:
    stored = await engine.store("x", expires_at=clock.now + 1)
    clock.now += 2
    assert not (await engine.forget(stored.memory.id)).success
    assert engine.count == 0


async def test_only_one_of_many_forgets_succeeds(engine: Engine) -> None:
    id = (await engine.store("x")).memory.id
    results: list[bool] = []

    async def forget_it() -> None:
        results.append((await engine.forget(id)).success)

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(forget_it)
    assert sum(results) == 1


async def test_memories_survive_a_restart(start: Start) -> None:
    async with start() as engine:
        stored = await engine.store("kept", name="n", metadata={"deep": {"er": [None]}})
        await engine.set_context("k", "v")
        long = await engine.store("needle " + "hay " * 3000, "conversation")
    async with start() as engine:
        assert await engine.get("n") == stored.memory
        assert await engine.get_context("k") == "v"
        assert await engine.get(long.memory.id) == long.memory
        assert (await engine.store("kept")).duplicate


async def test_a_failed_commit_leaves_the_index_alone(
    engine: Engine, store: RamStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = (await engine.store("kept", name="n")).memory

    async def refuse(record: Record, *, new: bool) -> None:
        raise MemorydError("no space", code="store_failed")

    monkeypatch.setattr(store, "put", refuse)
    for attempt in (
        engine.store("new"),
        engine.store("other", name="n"),
        engine.update_memory("n", content="changed"),
    ):
        with pytest.raises(MemorydError):
            await attempt
    assert await engine.get("n") == kept
    assert engine.count == 1


async def test_a_caller_that_is_cancelled_leaves_store_and_index_equal(
    engine: Engine, store: RamStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = store.put
    reached = anyio.Event()

    async def slow(record: Record, *, new: bool) -> None:
        await put(record, new=new)
        reached.set()
        await anyio.sleep(0.05)

    monkeypatch.setattr(store, "put", slow)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(engine.store, "cancelled half-way")
        await reached.wait()
        tasks.cancel_scope.cancel()
    assert engine.count == len(store.records) == 1


async def test_what_a_caller_does_to_an_answer_stays_with_the_caller(engine: Engine) -> None:
    stored = await engine.store("x", metadata={"tags": ["a"]})
    for memory in (stored.memory, await engine.get(stored.memory.id)):
        memory.metadata["tags"].append("b")  # type: ignore[union-attr]
    (hit,) = (await engine.search("x", min_score=0.0)).hits
    hit.memory.metadata["tags"].append("c")
    assert (await engine.get(stored.memory.id)).metadata == {"tags": ["a"]}  # type: ignore[union-attr]


async def test_a_fact_that_outlives_its_twin_is_still_found_as_one(engine: Engine) -> None:
    await engine.store("same", name="a")
    await engine.store("same", name="b")
    await engine.forget("b")
    assert (await engine.store("same")).duplicate
    changed = (await engine.store("other")).memory
    await engine.update_memory(changed.id, content="same")
    await engine.forget(changed.id)
    assert (await engine.store("same")).duplicate
    assert engine.count == 1


async def test_a_name_cannot_pass_for_an_id(engine: Engine) -> None:
    one = (await engine.store("one")).memory
    with pytest.raises(InvalidInput) as refused:
        await engine.store("two", name=one.id)
    assert refused.value.code == "name_invalid"


@pytest.mark.parametrize(
    "options", [{"metadata": {"n": 10**5000}}, {"expires_at": 10**5000}, {"pinned": 10**5000}]
)
async def test_numbers_beyond_all_bounds_are_refused(engine: Engine, options: Any) -> None:
    with pytest.raises(InvalidInput):
        await engine.store("x", **options)


@pytest.fixture
def system_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Moves this process to another time zone, as the C library would find it when it looks."""
    with monkeypatch.context() as patch:
        yield partial(patch.setenv, "TZ")
    time.tzset()


async def test_a_changed_system_zone_is_noticed_without_a_restart(
    config: Config, store: RamStore, clock: Clock, system_zone: Callable[[str], None]
) -> None:
    config = replace(config, memory=replace(config.memory, timezone=""))
    async with run_engine(config, store, HashEncoder(), 384, clock) as engine:
        for name in ("Asia/Tokyo", "America/New_York", "Europe/Vienna"):
            system_zone(name)
            stored = await engine.set_context("k", "v")
            assert stored.memory.expires_at == end_of_day(clock.now, ZoneInfo(name))
