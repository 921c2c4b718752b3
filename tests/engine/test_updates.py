"""Updates: what is given changes, all else stays; or it is refused and nothing changes."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.errors import MemorydError, NotFound
from memoryd.model import DAY
from memoryd.ports import Record
from tests.engine.conftest import Clock, Start
from tests.ramstore import RamStore


async def test_an_update_changes_what_is_given_and_leaves_the_rest(
    engine: Engine, clock: Clock
) -> None:
    before = (
        await engine.store("old text", "conversation", metadata={"a": 1}, session_id="s", name="n")
    ).memory
    clock.now += 5
    done = await engine.update_memory("n", content="new text", metadata={"b": 2})
    after = done.memory
    assert (done.changed, done.warnings) == (True, ())
    assert (after.id, after.created_at, after.expires_at, after.updated_at) == (
        before.id,
        before.created_at,
        before.expires_at,
        clock.now,
    )
    assert (after.content, after.metadata) == ("new text", {"a": 1, "b": 2})
    assert (after.name, after.session_id) == ("n", "s")
    assert await engine.get(before.id) == after
    assert (await engine.search("new text")).hits[0].score > 0.99
    renamed = (await engine.update_memory(before.id, name="m")).memory
    assert renamed.name == "m"
    assert await engine.get("n") is None
    nameless = (await engine.update_memory("m", clear=["name"])).memory
    assert nameless.name is None
    assert await engine.get("m") is None
    assert await engine.get(before.id) == nameless


async def test_metadata_is_merged_replaced_or_removed_by_key(engine: Engine) -> None:
    id = (await engine.store("x", metadata={"a": 1, "b": {"c": 2}})).memory.id
    steps: list[tuple[dict[str, Any], bool, dict[str, Any]]] = [
        ({"d": 3}, False, {"a": 1, "b": {"c": 2}, "d": 3}),
        ({"b": {"e": 4}}, False, {"a": 1, "b": {"e": 4}, "d": 3}),
        ({"a": None, "nobody": None}, False, {"b": {"e": 4}, "d": 3}),
        ({"f": None}, True, {"f": None}),
        ({}, True, {}),
    ]
    for given, replace, left in steps:
        done = await engine.update_memory(id, metadata=given, replace_metadata=replace)
        assert done.memory.metadata == left
        assert (await engine.get(id)).metadata == left  # type: ignore[union-attr]


async def test_what_changes_nothing_is_not_written(
    engine: Engine, store: RamStore, clock: Clock
) -> None:
    before = (await engine.store("x", name="n", metadata={"a": 1}, pinned=True)).memory
    records = dict(store.records)
    clock.now += 5
    same: dict[str, Any] = {"content": "x", "name": "n", "metadata": {"a": 1}, "pinned": True}
    done = await engine.update_memory("n", memory_type="fact", **same)
    assert (done.changed, done.memory) == (False, before)
    assert store.records == records
    done = await engine.update_memory("n", metadata={"a": True})  # equal in Python, not in JSON
    assert done.changed
    assert (await engine.get("n")).metadata["a"] is True  # type: ignore[union-attr]


async def test_an_update_of_the_end(engine: Engine, clock: Clock) -> None:
    id = (await engine.store("x", "conversation", expires_at=clock.now + 50)).memory.id

    async def end(**change: Any) -> float | None:
        return (await engine.update_memory(id, **change)).memory.expires_at

    assert await end(content="y") == clock.now + 50
    assert await end(pinned=True) is None
    assert await end(pinned=False) == clock.now + 30 * DAY
    assert await end(expires_at=clock.now + 9) == clock.now + 9
    assert await end(clear=["expires_at"]) == clock.now + 30 * DAY
    assert await end(memory_type="fact") is None


async def test_the_types_own_end_is_never_over_already(engine: Engine, clock: Clock) -> None:
    """Counted from the creation it could be, and clearing an expiry would delete the memory."""
    later = clock.now + 100 * DAY
    id = (await engine.store("x", "conversation", expires_at=later)).memory.id
    clock.now += 40 * DAY
    done = await engine.update_memory(id, clear=["expires_at"])
    assert done.memory.expires_at == clock.now + 30 * DAY


async def test_what_is_not_there_or_not_allowed_is_refused(engine: Engine, store: RamStore) -> None:
    with pytest.raises(NotFound):
        await engine.update_memory("nobody", content="x")
    one = (await engine.store("one", name="one")).memory
    await engine.store("two", name="two")
    before = dict(store.records)
    for change, code in [
        ({}, "update_empty"),
        ({"replace_metadata": True}, "update_empty"),
        ({"name": "two"}, "name_taken"),
        ({"content": " "}, "content_empty"),
        ({"memory_type": "rumour"}, "type_unknown"),
        ({"expires_at": 1.0}, "expires_at_invalid"),
        ({"metadata": {"a": object()}}, "metadata_invalid"),
        ({"metadata": {"memoryd:a": 1}}, "metadata_reserved"),
        ({"metadata": {"a": 1}, "replace_metadata": "yes"}, "replace_metadata_invalid"),
        ({"pinned": "yes"}, "pinned_invalid"),
        ({"clear": ["content"]}, "clear_invalid"),
        ({"clear": "pinned"}, "clear_invalid"),
        ({"clear": [["name"]]}, "clear_invalid"),
        ({"clear": ["name"], "name": "three"}, "clear_invalid"),
    ]:
        with pytest.raises(MemorydError) as refused:
            await engine.update_memory(one.id, **change)  # type: ignore[arg-type]
        assert refused.value.code == code
    assert store.records == before


async def test_updates_of_different_keys_at_the_same_time_all_stay(engine: Engine) -> None:
    id = (await engine.store("x")).memory.id
    async with anyio.create_task_group() as tasks:
        for n in range(20):
            update = {"metadata": {f"k{n}": n}} if n else {"content": "changed"}
            tasks.start_soon(lambda change: engine.update_memory(id, **change), update)
    found = await engine.get(id)
    assert found is not None
    assert found.content == "changed"
    assert found.metadata == {f"k{n}": n for n in range(1, 20)}


async def test_metadata_that_grew_meanwhile_is_still_bounded(engine: Engine) -> None:
    id = (await engine.store("x", metadata={"a": "x" * 10_000})).memory.id
    with pytest.raises(MemorydError) as refused:
        await engine.update_memory(id, metadata={"b": "x" * 10_000})
    assert refused.value.code == "metadata_invalid"


async def test_a_text_is_embedded_again_only_if_it_changes(start: Start) -> None:
    seen: list[str] = []

    class Listening(HashEncoder):
        def encode(self, texts: Any, *, query: bool = False) -> Any:
            seen.extend(texts)
            return super().encode(texts, query=query)

    async with start(Listening()) as engine:
        id = (await engine.store("one")).memory.id
        await engine.update_memory(id, pinned=True, metadata={"a": 1})
        await engine.update_memory(id, content="two")
        assert seen == ["one", "two"]
        assert (await engine.search("two")).hits[0].score > 0.99


async def test_a_time_of_change_survives_a_restart(start: Start, clock: Clock) -> None:
    async with start() as engine:
        await engine.store("x", name="n")
        clock.now += 5.5
        changed = (await engine.update_memory("n", content="y")).memory
    async with start() as engine:
        assert await engine.get("n") == changed


async def test_a_failed_commit_changes_nothing(
    engine: Engine, store: RamStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (await engine.store("kept", name="n")).memory

    async def refuse(record: Record, *, new: bool) -> None:
        raise MemorydError("no space", code="store_failed")

    monkeypatch.setattr(store, "put", refuse)
    with pytest.raises(MemorydError):
        await engine.update_memory("n", content="changed")
    assert await engine.get("n") == before
