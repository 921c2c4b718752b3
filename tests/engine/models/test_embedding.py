"""The lanes: shared batches, a bounded cache, turns for everybody, no bad vector passes."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import numpy as np
import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.models.embedding import Embedding
from memoryd.engine.models.lanes import RUNNERS, VectorCache
from memoryd.errors import BadVector, EmbedError
from memoryd.settings import EmbeddingSettings
from tests.engine.conftest import Start
from tests.processes import until
from tests.ramstore import RamStore


class Recorder(HashEncoder):
    """An encoder that records its calls, and can be blocked or made to fail."""

    def __init__(self) -> None:
        super().__init__(max_words=20)
        self.calls: list[list[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.bend: Callable[[Any], Any] = lambda vectors: vectors

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Any:
        self.calls.append(list(texts))
        if not query:
            self.gate.wait(60)
        return self.bend(super().encode(texts))


@asynccontextmanager
async def running(encoder: Recorder, **settings: Any) -> AsyncIterator[Embedding]:
    embedding = Embedding(EmbeddingSettings(**settings), encoder)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(embedding.run)
        yield embedding
        encoder.gate.set()
        tasks.cancel_scope.cancel()


async def test_concurrent_callers_share_batches() -> None:
    encoder = Recorder()
    results: dict[str, Any] = {}
    async with running(encoder) as embedding:

        async def embed(text: str) -> None:
            (results[text],) = [p.vector for p in await embedding.document(text)]

        async with anyio.create_task_group() as tasks:
            for n in range(100):
                tasks.start_soon(embed, f"text {n}")
    assert len(encoder.calls) < 20
    assert sum(map(len, encoder.calls)) == 100
    for text, vector in results.items():
        np.testing.assert_allclose(vector, HashEncoder().encode([text])[0], atol=1e-6)


async def test_recent_texts_come_from_the_cache_and_it_is_bounded() -> None:
    encoder = Recorder()
    async with running(encoder, cache_size=3) as embedding:
        for _ in range(2):
            await embedding.document("a")
        assert len(encoder.calls) == 1
        for text in "bcd":
            await embedding.document(text)
        await embedding.document("a")
        assert len(encoder.calls) == 5
    cache = VectorCache(3)
    for n in range(10):
        cache.put(str(n), np.zeros(2, dtype=np.float32))
    assert len(cache) == 3
    assert cache.get("9") is not None
    assert cache.get("0") is None


async def test_a_query_does_not_wait_for_documents() -> None:
    encoder = Recorder()
    async with running(encoder) as embedding, anyio.create_task_group() as tasks:
        encoder.gate.clear()
        for n in range(200):
            tasks.start_soon(embedding.document, f"text {n}")
        await until(lambda: len(encoder.calls) >= 2)
        with anyio.fail_after(60):
            assert await embedding.query("quick question") is not None
        encoder.gate.set()


async def test_a_very_long_text_does_not_hold_up_a_short_one() -> None:
    encoder = Recorder()
    done: list[str] = []
    async with running(encoder, batch_size=8) as embedding:

        async def embed(text: str, name: str) -> None:
            await embedding.document(text)
            done.append(name)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(embed, "word number " * 2000, "long")
            await until(lambda: bool(encoder.calls))
            tasks.start_soon(embed, "short", "short")
    assert done == ["short", "long"]


@pytest.mark.parametrize(
    "bend",
    [
        lambda v: np.full_like(v, np.nan),
        lambda v: np.full_like(v, np.inf),
        lambda v: v * 0,
        lambda v: v[:, :10],
        lambda v: v[:0],
    ],
)
async def test_bad_vectors_are_refused_and_nothing_is_stored(
    start: Start, store: RamStore, bend: Any
) -> None:
    encoder = Recorder()
    async with start(encoder) as engine:
        encoder.bend = bend
        with pytest.raises(BadVector):
            await engine.store("text")
        assert store.records == {}
        encoder.bend = lambda vectors: vectors
        assert (await engine.store("text")).memory.content == "text"


async def test_vectors_are_made_unit(start: Start) -> None:
    encoder = Recorder()
    encoder.bend = lambda vectors: vectors * 3
    async with start(encoder) as engine:
        await engine.store("some text here")
        (hit,) = (await engine.search("some text here", explain=True)).hits
        assert hit.why is not None
        assert hit.why.dense == pytest.approx(1.0, abs=1e-5)


async def test_a_failing_model_fails_the_call_and_not_the_lane(
    start: Start,
) -> None:
    encoder = Recorder()

    def fail(vectors: Any) -> Any:
        raise RuntimeError("native trouble")

    async with start(encoder) as other:
        encoder.bend = fail
        with pytest.raises(EmbedError) as refused:
            await other.store("text")
        assert refused.value.code == "embed_failed"
        encoder.bend = lambda vectors: vectors
        await other.store("text")


async def test_in_bulk_every_text_gets_its_own_vector() -> None:
    """They are sorted by length, in windows and in batches; the answer is in their order."""
    encoder = Recorder()
    texts = [f"text {n} " + "and more " * (n % 7) + "words " * (n % 40) for n in range(400)]
    async with running(encoder) as embedding, anyio.create_task_group() as tasks:
        found: dict[int, Any] = {}

        async def embed(start: int) -> None:
            some = texts[start : start + 100]
            found[start] = await embedding.documents(some, [f"lead {start}: "] * len(some))

        for start in range(0, 400, 100):
            tasks.start_soon(embed, start)
    for start, several in found.items():
        for text, passages in zip(texts[start : start + 100], several, strict=True):
            for passage in passages:
                first, last = passage.span
                expected = HashEncoder().encode([f"lead {start}: {text[first:last]}"])[0]
                np.testing.assert_allclose(passage.vector, expected, atol=1e-6)
        assert all(several)
    assert len(encoder.calls) < 400


async def test_single_texts_go_ahead_of_bulk_work_that_waits() -> None:
    encoder = Recorder()
    texts = [f"bulk {n}" for n in range(300)]
    async with running(encoder) as embedding, anyio.create_task_group() as tasks:
        encoder.gate.clear()
        tasks.start_soon(embedding.documents, texts, [""] * len(texts))
        await until(lambda: len(encoder.calls) == RUNNERS)
        tasks.start_soon(embedding.document, "one")
        await until(lambda: len(encoder.calls) == RUNNERS + 1)
        with anyio.fail_after(60):
            await embedding.query("question")
        encoder.gate.set()
    order = [call for call in encoder.calls if "bulk" not in call[0]]
    assert order == encoder.calls[RUNNERS : RUNNERS + 2] == [["one"], ["question"]]
    assert len(encoder.calls) > RUNNERS + 2


class Large(Recorder):
    """A model that makes batches of its own, and notes how many calls run at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.running = self.most = 0
        self._lock = threading.Lock()

    @property
    def prefers_large_calls(self) -> bool:
        return True

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Any:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
        try:
            return super().encode(texts, query=query)
        finally:
            with self._lock:
                self.running -= 1


async def test_bulk_work_makes_large_calls_unless_others_are_active() -> None:
    encoder = Large()
    texts = [f"bulk {n} " * 20 for n in range(100)]
    async with running(encoder, batch_size=4) as embedding:
        await embedding.documents(texts, [""] * 100)
        assert max(map(len, encoder.calls)) > 20
        await embedding.document("one of another client")
        encoder.calls.clear()
        encoder.most = 0
        await embedding.documents(texts, [""] * 100)
        assert max(map(len, encoder.calls)) <= 4
        assert encoder.most <= max(1, RUNNERS - 1), "a core is left to the others"


async def test_a_batch_of_bulk_work_begins_when_single_texts_are_done() -> None:
    encoder = Recorder()
    async with running(encoder) as embedding, anyio.create_task_group() as tasks:
        encoder.gate.clear()
        tasks.start_soon(embedding.document, "one")
        await until(lambda: len(encoder.calls) == 1)
        tasks.start_soon(embedding.documents, ["bulk"], [""])
        await until(lambda: not embedding._bulk_lanes[0]._window and bool(taken(embedding)))
        await anyio.wait_all_tasks_blocked()
        assert encoder.calls == [["one"]]
        encoder.gate.set()
    assert encoder.calls == [["one"], ["bulk"]]


def taken(embedding: Embedding) -> set[Any]:
    """The jobs of bulk work that no longer wait for a batch."""
    lane = embedding._bulk_lanes[0]
    return lane._unfinished - set(lane._jobs)


async def test_bulk_work_that_was_cancelled_is_not_embedded() -> None:
    encoder = Recorder()
    texts = [f"bulk {n}" for n in range(300)]
    async with running(encoder) as embedding:
        encoder.gate.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(embedding.documents, texts, [""] * len(texts))
            await until(lambda: len(encoder.calls) == RUNNERS)
            tasks.cancel_scope.cancel()
        encoder.gate.set()
        with anyio.fail_after(60):
            await embedding.documents(["another"], [""])
    assert encoder.calls[RUNNERS:] == [["another"]]
