"""Search: exact filters, nothing expired, honest scores."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import numpy as np
import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.errors import EmbedError, InvalidInput
from memoryd.model import DAY, MemoryType, Page
from tests.engine.conftest import Clock, Start


def contents(page: Page) -> list[str]:
    return [hit.memory.content for hit in page.hits]


async def test_the_nearest_comes_first_and_scores_are_in_range(engine: Engine) -> None:
    await engine.store("the cat sat on the mat")
    await engine.store("a cat on a mat")
    await engine.store("quarterly revenue figures")
    page = await engine.search("the cat sat on the mat", min_score=0.0)
    assert contents(page)[0] == "the cat sat on the mat"
    scores = [hit.score for hit in page.hits]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > 0.99
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert page.warnings == ()


async def test_min_score_cuts_and_its_default_is_the_settings(engine: Engine) -> None:
    await engine.store("the cat sat on the mat")
    await engine.store("quarterly revenue figures")
    assert contents(await engine.search("the cat sat on the mat")) == ["the cat sat on the mat"]
    assert len((await engine.search("the cat sat", min_score=0.0)).hits) == 2
    assert (await engine.search("the cat", min_score=1.0)).hits == ()


async def test_limit_cuts_and_defaults_to_five(engine: Engine) -> None:
    for n in range(8):
        await engine.store(f"note number {n}")
    assert len((await engine.search("note number", min_score=0.0)).hits) == 5
    assert len((await engine.search("note number", limit=7, min_score=0.0)).hits) == 7
    assert len((await engine.search("note number", limit=1000, min_score=0.0)).hits) == 8


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"query": ""}, "query_empty"),
        ({"query": " \n"}, "query_empty"),
        ({"query": None}, "query_not_text"),
        ({"query": "\ud800"}, "query_has_surrogate"),
        ({"limit": 0}, "limit_invalid"),
        ({"limit": -3}, "limit_invalid"),
        ({"limit": 1001}, "limit_invalid"),
        ({"limit": 2.5}, "limit_invalid"),
        ({"limit": True}, "limit_invalid"),
        ({"limit": "5"}, "limit_invalid"),
        ({"min_score": 1.1}, "min_score_invalid"),
        ({"min_score": -0.1}, "min_score_invalid"),
        ({"min_score": float("nan")}, "min_score_invalid"),
        ({"min_score": "high"}, "min_score_invalid"),
        ({"memory_type": "rumour"}, "type_unknown"),
        ({"since": "yesterday"}, "since_invalid"),
        ({"until": [1]}, "until_invalid"),
        ({"since": 10, "until": 10}, "since_invalid"),
        ({"metadata": "a=1"}, "metadata_invalid"),
        ({"session_id": 5}, "session_id_invalid"),
    ],
)
async def test_bad_searches_are_refused(engine: Engine, options: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await engine.search(**{"query": "x", **options})
    assert refused.value.code == code


async def test_expired_memories_never_come_back_even_before_a_sweep(
    engine: Engine, clock: Clock
) -> None:
    await engine.store("meeting at noon", "conversation", expires_at=clock.now + 10)
    await engine.store("meeting at one", "conversation", expires_at=clock.now + 20)
    assert len((await engine.search("meeting at")).hits) == 2
    clock.now += 10
    assert contents(await engine.search("meeting at")) == ["meeting at one"]
    assert engine.count == 2


async def test_filters_are_exact(engine: Engine, clock: Clock) -> None:
    start = clock.now
    plan: list[tuple[str, str, str | None, dict[str, Any]]] = [
        ("fact", "fact one", None, {"n": 1}),
        ("conversation", "said two", "s1", {"n": 1, "tags": ["a", "b"]}),
        ("conversation", "said three", "s2", {"n": 1.0, "deep": {"x": None}}),
        ("context", "context four", "s1", {"n": True}),
        ("context", "context five", None, {"n": "1", "tags": ["b", "a"]}),
    ]
    for type, text, session, metadata in plan:
        await engine.store(f"note {text}", type, session_id=session, metadata=metadata)
        clock.now += 60

    async def found(**options: Any) -> set[str]:
        page = await engine.search("note", limit=50, min_score=0.0, **options)
        return {hit.memory.content.split()[-1] for hit in page.hits}

    everything = {"one", "two", "three", "four", "five"}
    assert await found() == everything
    assert await found(memory_type="") == everything
    assert await found(memory_type="conversation") == {"two", "three"}
    assert await found(memory_type="observation") == {"two", "three"}
    assert await found(session_id="s1") == {"two", "four"}
    assert await found(session_id="nobody") == set()
    assert await found(metadata={"n": 1}) == {"one", "two", "three"}
    assert await found(metadata={"n": True}) == {"four"}
    assert await found(metadata={"n": "1"}) == {"five"}
    assert await found(metadata={"tags": ["a", "b"]}) == {"two"}
    assert await found(metadata={"deep": {"x": None}}) == {"three"}
    assert await found(metadata={"n": 1, "tags": ["a", "b"]}) == {"two"}
    assert await found(metadata={"unknown": None}) == set()
    assert await found(since=start + 60) == {"two", "three", "four", "five"}
    assert await found(until=start + 60) == {"one"}
    assert await found(since=start + 60, until=start + 180) == {"two", "three"}
    assert await found(since="2026-07-01T12:02:00+02:00") == {"three", "four", "five"}
    assert await found(since="2026-07-02") == set()
    assert await found(memory_type="context", session_id="s1", metadata={"n": True}) == {"four"}


async def test_a_rare_match_is_found_among_many_better_ones(engine: Engine) -> None:
    """Filters come before ranking: the only match is found though 300 others score higher."""
    for n in range(300):
        await engine.store(f"alpha beta {n}", "conversation")
    await engine.store("gamma", "fact", metadata={"rare": True})
    page = await engine.search("alpha beta", limit=1, min_score=0.0, metadata={"rare": True})
    assert contents(page) == ["gamma"]


async def test_a_long_memory_comes_back_once_with_the_passage(engine: Engine) -> None:
    filler = "lorem ipsum dolor sit amet consectetur " * 60
    text = f"{filler} the password hint is a purple elephant {filler}"
    stored = await engine.store(text, "conversation")
    await engine.store("short one about an elephant")
    page = await engine.search("purple elephant password hint", limit=5, min_score=0.0)
    assert [hit.memory.id for hit in page.hits].count(stored.memory.id) == 1
    (hit,) = [hit for hit in page.hits if hit.memory.id == stored.memory.id]
    assert hit.passage is not None
    assert "purple elephant" in hit.passage
    assert hit.passage in text
    assert len(hit.passage) < len(text)
    assert hit.memory.content == text


async def test_many_passages_do_not_crowd_out_other_memories(engine: Engine) -> None:
    await engine.store("apple banana cherry " * 500, "conversation")
    for n in range(3):
        await engine.store(f"apple tree {n}")
    page = await engine.search("apple banana cherry", limit=4, min_score=0.0)
    assert len(page.hits) == 4


async def test_without_a_model_words_are_searched_and_the_answer_says_so(
    start: Start, clock: Clock
) -> None:
    async with start(None) as engine:
        stored = await engine.store("Der Schlüssel liegt unter der Matte", session_id="s")
        await engine.store("unrelated words entirely")
        await engine.store("東京は大きい", "conversation", expires_at=clock.now + 5)
        assert "model" in stored.warnings[0]
        page = await engine.search("SCHLÜSSEL matte")
        assert contents(page) == ["Der Schlüssel liegt unter der Matte"]
        assert page.hits[0].score > 0.9
        assert any("words" in warning for warning in page.warnings)
        assert len((await engine.search("東京")).hits) == 1
        assert (await engine.search("schlüssel", session_id="other")).hits == ()
        clock.now += 5
        assert (await engine.search("東京")).hits == ()
        assert (await engine.search('"AND (* OR')).hits == ()
        await engine.forget(stored.memory.id)
        assert (await engine.search("schlüssel matte")).hits == ()


async def test_what_was_stored_without_a_model_gets_vectors_later(start: Start) -> None:
    async with start(None) as engine:
        stored = await engine.store("the cat sat on the mat")
    async with start() as engine:
        while engine._parts.index.pending:
            await anyio.lowlevel.checkpoint()
        page = await engine.search("the cat sat on the mat")
        assert page.hits[0].memory == stored.memory
        assert page.warnings == ()


class BrokenEncoder(HashEncoder):
    """A model that fails on queries in the way it is told to."""

    def __init__(self, answer: Any) -> None:
        super().__init__()
        self._answer = answer

    def encode(self, texts: Any, *, query: bool = False) -> Any:
        if not query:
            return super().encode(texts)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    "answer",
    [
        EmbedError("The model is on strike."),
        RuntimeError("native trouble"),
        np.full((1, 384), np.nan, dtype=np.float32),
        np.zeros((1, 384), dtype=np.float32),
        np.ones((1, 3), dtype=np.float32),
    ],
)
async def test_a_model_that_fails_is_said_in_the_answer(start: Start, answer: Any) -> None:
    async with start(BrokenEncoder(answer)) as engine:
        await engine.store("something else")
        page = await engine.search("something")
        assert contents(page) == ["something else"]
        assert any("words only" in warning for warning in page.warnings)


async def test_results_carry_everything(engine: Engine, clock: Clock) -> None:
    await engine.store("x y z", "conversation", metadata={"a": 1}, session_id="s", name="n")
    (hit,) = (await engine.search("x y z")).hits
    memory = hit.memory
    assert (memory.type, memory.created_at) == (MemoryType.CONVERSATION, clock.now)
    assert memory.expires_at == clock.now + 30 * DAY
    assert (memory.metadata, memory.session_id, memory.name) == ({"a": 1}, "s", "n")


async def test_a_search_overtaken_by_writes_is_still_right(engine: Engine) -> None:
    """Updates and forgets while searches scan: no error, nothing stale, nothing twice."""
    ids = [(await engine.store(f"common words {n}", "conversation")).memory.id for n in range(50)]
    done = anyio.Event()

    async def write() -> None:
        for n, id in enumerate(ids):
            if n % 2:
                await engine.forget(id)
            else:
                await engine.update_memory(id, content=f"common words changed {n}")
        done.set()

    async def search() -> None:
        while not done.is_set():
            page = await engine.search("common words", limit=100, min_score=0.0)
            found = [hit.memory.id for hit in page.hits]
            assert len(found) == len(set(found))
            assert set(ids[::2]) <= set(found)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        for _ in range(4):
            tasks.start_soon(search)
    page = await engine.search("common words", limit=100, min_score=0.0)
    assert {hit.memory.id for hit in page.hits} == set(ids[::2])
    assert all("changed" in hit.memory.content for hit in page.hits)
