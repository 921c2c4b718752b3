"""Lists: every order, exact pages while others write, cursors that cannot be confused."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest

from memoryd.engine import listing
from memoryd.engine.engine import Engine
from memoryd.errors import InvalidInput
from memoryd.model import DAY
from tests.engine.conftest import Clock


async def names(engine: Engine, **given: Any) -> list[str | None]:
    return [memory.name for memory in (await engine.list_memories(**given)).memories]


async def fill(engine: Engine, clock: Clock) -> None:
    await engine.store("one", name="a", metadata={"confidence": 0.9, "tags": ["x"]})
    clock.now += 1
    await engine.store("two", "conversation", name="b", session_id="s")
    clock.now += 1
    await engine.store("three", "context", name="c", metadata={"confidence": 0.1})
    clock.now += 1
    await engine.store("four", "conversation", name="d", pinned=True, metadata={"tags": ["x"]})


@pytest.mark.parametrize(
    ("order", "listed"),
    [
        ("newest", "dcba"),
        ("oldest", "abcd"),
        ("expiring", "cbda"),
        ("least_sure", "cdba"),
        ("most_used", "dcba"),
    ],
)
async def test_each_order(engine: Engine, clock: Clock, order: str, listed: str) -> None:
    await fill(engine, clock)
    assert await names(engine, order=order) == list(listed)
    found: list[Any] = []
    cursor = None
    for _ in listed:
        page = await engine.list_memories(order=order, limit=1, cursor=cursor)
        assert (len(page.memories), page.total) == (1, 4)
        found += page.memories
        cursor = page.cursor
    assert cursor is None
    assert [memory.name for memory in found] == list(listed)


async def test_the_most_used_come_first(engine: Engine, clock: Clock) -> None:
    await fill(engine, clock)
    for name, count in (("b", 7), ("a", 3)):
        used = await engine.get(name)
        assert used is not None
        engine.count_uses([used.id] * count)
    assert await names(engine, order="most_used") == ["b", "a", "d", "c"]


@pytest.mark.parametrize(
    ("given", "listed"),
    [
        ({"memory_type": "conversation"}, "db"),
        ({"session_id": "s"}, "b"),
        ({"metadata": {"tags": "x"}}, "da"),
        ({"metadata": {"confidence": {"$lt": 0.5}}}, "c"),
        ({"metadata": {"confidence": {"$exists": False}}, "limit": 1}, "d"),
        ({"since": 0, "until": 1}, ""),
        ({"limit": 2}, "dc"),
    ],
)
async def test_filters_and_limit(
    engine: Engine, clock: Clock, given: dict[str, Any], listed: str
) -> None:
    await fill(engine, clock)
    assert await names(engine, **given) == list(listed)


async def test_what_has_expired_is_not_listed(engine: Engine, clock: Clock) -> None:
    await fill(engine, clock)
    clock.now += DAY
    assert await names(engine) == ["d", "b", "a"]


@pytest.mark.parametrize("order", list(listing.ORDERS))
async def test_pages_have_every_memory_once_while_others_write(
    engine: Engine, clock: Clock, order: str
) -> None:
    """Those that are there from the first page to the last, whatever else comes and goes."""
    pick = random.Random(7)
    ids = []
    for n in range(60):
        clock.now += pick.choice((0, 0, 1))  # many of the same instant
        given: dict[str, Any] = {"metadata": {"confidence": pick.choice((0.1, 0.5, 0.8))}}
        kind = pick.choice(("fact", "conversation"))
        ids.append((await engine.store(f"memory {n}", kind, **given)).memory.id)
    staying, seen, cursor = set(ids), list[str](), None
    while True:
        page = await engine.list_memories(order=order, limit=7, cursor=cursor)
        seen += [memory.id for memory in page.memories]
        if (cursor := page.cursor) is None:
            break
        gone = pick.choice(sorted(staying))
        await engine.forget(gone)
        staying.discard(gone)
        changed = pick.choice(sorted(staying))
        await engine.update_memory(changed, content=f"changed by {gone}")
        clock.now += 1
        await engine.store(f"new after {gone}", metadata={"confidence": pick.random()})
    assert sorted(id for id in seen if id in staying) == sorted(staying)
    assert len(seen) == len(set(seen))


async def test_a_long_page_is_cut_and_continues(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE_CHARS", 100)
    for n in range(5):
        await engine.store(f"{n} " + "x" * 60, "conversation")
    seen, cursor, pages = list[str](), None, 0
    while pages == 0 or cursor is not None:
        page = await engine.list_memories(order="oldest", cursor=cursor)
        seen += [memory.content[0] for memory in page.memories]
        cursor, pages = page.cursor, pages + 1
    assert (sorted(seen), pages) == (list("01234"), 5)


def forged(*parts: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


@pytest.mark.parametrize(
    "cursor",
    [
        *("x", "", "é", "*" * 8, "A" * 5000, 7, ["a"]),
        forged(1),
        forged("a", ["0x1p+0"], 3),
        forged("a", [], "id"),
        forged("a", ["nan"], "id"),
        forged("a", [1], "id"),
        forged("a", 1, "b"),
    ],
)
async def test_a_cursor_that_is_none_is_refused(engine: Engine, cursor: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        await engine.list_memories(cursor=cursor)
    assert refused.value.code == "cursor_invalid"


async def test_a_cursor_is_for_its_own_filter_and_order(engine: Engine, clock: Clock) -> None:
    await fill(engine, clock)
    cursor = (await engine.list_memories(limit=1)).cursor
    for other in ({"order": "oldest"}, {"memory_type": "fact"}, {"metadata": {"a": {"$gt": 1}}}):
        with pytest.raises(InvalidInput, match="another filter or order"):
            await engine.list_memories(limit=1, cursor=cursor, **other)
    assert await names(engine, limit=3, cursor=cursor) == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"order": "best"}, "order_unknown"),
        ({"order": 3}, "order_unknown"),
        ({"limit": 0}, "limit_invalid"),
        ({"metadata": {"a": {"$gt": None}}}, "filter_invalid"),
    ],
)
async def test_bad_arguments_are_refused(engine: Engine, given: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await engine.list_memories(**given)
    assert refused.value.code == code


async def test_a_search_without_a_query_finds_the_newest_that_match(
    engine: Engine, clock: Clock
) -> None:
    await fill(engine, clock)
    for query in ("", None, " "):
        page = await engine.search(query, metadata={"tags": "x"}, limit=5, min_score=0.9)
        assert [hit.memory.name for hit in page.hits] == ["d", "a"]
        assert {hit.score for hit in page.hits} == {1.0}
    assert len((await engine.search(memory_type="conversation", limit=1)).hits) == 1
    no_filters: list[dict[str, Any]] = [{}, {"metadata": {}}, {"limit": 3}]
    for given in no_filters:
        with pytest.raises(InvalidInput) as refused:
            await engine.search("", **given)
        assert refused.value.code == "query_empty"
        assert "filter" in refused.value.hint


async def test_a_search_without_a_query_fits_its_budget(engine: Engine) -> None:
    for n in range(5):
        await engine.store(f"{n} " + "word " * 100, "conversation")
    page = await engine.search(memory_type="conversation", max_tokens=400, explain=True)
    assert 0 < len(page.hits) < 5
    assert "max_tokens" in page.warnings[0]
    assert page.timings == {}
