"""One contract for every store: embedded ChromaDB, a real Chroma server, and the twin in RAM."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

from memoryd.adapters.chroma.store import ChromaStore, open_chroma
from memoryd.errors import MemorydError, StoreMismatch, StoreUnavailable
from memoryd.model import Memory, MemoryType
from memoryd.ports import Identity, Passage, Record, Store
from memoryd.settings import StoreSettings
from tests.one_task import in_one_task
from tests.ramstore import RamStore

pytestmark = pytest.mark.usefixtures("forked_worker")

DIMENSION = 8
IDENTITY = Identity("test-model", DIMENSION)


class Place:
    """A store that can be opened again and again."""

    def __init__(self, settings: StoreSettings, folder: Path) -> None:
        self.settings, self.folder = settings, folder

    def open(self, identity: Identity = IDENTITY) -> AbstractAsyncContextManager[ChromaStore]:
        return open_chroma(self.settings, self.folder, identity)


def make_place(kind: str, request: pytest.FixtureRequest, folder: Path) -> Place:
    if kind == "embedded":
        return Place(StoreSettings(sync_threshold=10), folder)
    port: int = request.getfixturevalue("chroma_server")
    name = f"test-{blake2b(request.node.nodeid.encode(), digest_size=8).hexdigest()}"
    return Place(StoreSettings(mode="http", port=port, collection=name), folder)


@pytest.fixture(params=["embedded", "http"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return make_place(request.param, request, tmp_path)


@pytest.fixture(params=["embedded", "http", "ram"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "ram":
        yield RamStore()
        return
    async with in_one_task(make_place(request.param, request, tmp_path).open()) as opened:
        yield opened


def vector(seed: int) -> Any:
    made = np.random.default_rng(seed).normal(size=DIMENSION).astype(np.float32)
    return made / np.linalg.norm(made)


def record(id: str, passages: int = 1, **fields: Any) -> Record:
    content = fields.pop("content", f"content of {id}")
    fields = {"type": MemoryType.FACT, "created_at": 1000.25, **fields}
    spans = [(n, n + 3) for n in range(passages)] if passages > 1 else [(0, len(content))]
    parts = [Passage(span, vector(n)) for n, span in enumerate(spans)] if passages else []
    return Record(Memory(id=id, content=content, **fields), tuple(parts))


def assert_same(found: Record, expected: Record) -> None:
    assert found.memory == expected.memory
    kinds = [(key, type(value)) for key, value in sorted(found.memory.metadata.items())]
    assert kinds == [(k, type(v)) for k, v in sorted(expected.memory.metadata.items())]
    assert [p.span for p in found.passages] == [p.span for p in expected.passages]
    for mine, other in zip(found.passages, expected.passages, strict=True):
        np.testing.assert_allclose(mine.vector, other.vector, atol=1e-6)


async def all_of(store: Store) -> dict[str, Record]:
    return {r.memory.id: r async for page in store.scan() for r in page}


FAITHFUL = {
    "text": "grüße 你好 🎉",
    "empty": "",
    "one": 1,
    "one_as_float": 1.0,
    "true": True,
    "negative_zero": -0.0,
    "tiny": 5e-324,
    "exact": 99513278.91026211,
    "list_of_exact": [123456789.12345679, -0.0],
    "large": 1.7e308,
    "big": 2**62,
    "bigger": 2**80,
    "nothing": None,
    "list": ["a", "b"],
    "numbers": [1, 2],
    "mixed": [1, "a", None],
    "bools": [True, False],
    "no_items": [],
    "nested": {"a": {"b": [1.5]}},
    "nul": "a\0b",
    "chroma:like": "kept",
    "$dollar": 1,
    "#hash": 2,
    "": "empty key",
    "a.b c": "odd key",
}


async def test_what_is_put_comes_back_whole(store: Store) -> None:
    put = record(
        "a",
        type=MemoryType.CONTEXT,
        content="first line\nsecond \u2028 line  ",
        expires_at=2000.125,
        metadata=FAITHFUL,
        name="a name",
        session_id="s-1",
        pinned=True,
        updated_at=3000.25,
    )
    await store.put(put)
    assert_same((await store.get(["a"]))[0], put)


async def test_each_kind_of_metadata_survives_alone(store: Store) -> None:
    """Alone: a row whose only key Chroma would drop must not lose it."""
    wanted = {f"m{n}": {key: FAITHFUL[key]} for n, key in enumerate(FAITHFUL)}
    for id, metadata in wanted.items():
        await store.put(record(id, metadata=metadata))
    for found in await store.get(list(wanted)):
        assert_same(found, record(found.memory.id, metadata=wanted[found.memory.id]))


async def test_putting_again_replaces_everything(store: Store) -> None:
    await store.put(
        record("a", metadata={"old": 1, "both": 1, "none": None}, name="n", pinned=True)
    )
    after = record("a", metadata={"both": 2}, content="new", type=MemoryType.CONVERSATION)
    await store.put(after)
    assert_same((await store.get(["a"]))[0], after)
    assert await store.count() == 1


@pytest.mark.parametrize(("before", "after"), [(1, 4), (4, 2), (4, 1), (3, 3), (0, 2), (2, 0)])
@pytest.mark.slow
async def test_passages_follow_their_memory(place: Place, before: int, after: int) -> None:
    async with place.open() as store:
        await store.put(record("a", before))
        await store.put(record("b", 2))
        await store.put(record("a", after))
        assert_same((await store.get(["a"]))[0], record("a", after))
        rows = (await store.status())["rows"]
        assert rows == max(after, 1) + 2
        assert await store.count() == 2
    async with place.open() as store:
        found = await all_of(store)
        assert_same(found["a"], record("a", after))
        assert_same(found["b"], record("b", 2))
        assert await store.delete(["a"]) == {"a"}
        assert (await store.status())["rows"] == 2


async def test_delete_reports_only_what_was_there(store: Store) -> None:
    await store.put(record("a"))
    assert await store.delete(["a", "ghost"]) == {"a"}
    assert await store.delete(["a", "ghost"]) == set()
    assert await store.get(["a"]) == []
    assert await store.count() == 0


async def test_get_returns_what_exists(store: Store) -> None:
    await store.put(record("a"))
    assert [r.memory.id for r in await store.get(["ghost", "a"])] == ["a"]
    assert await store.get([]) == []


async def test_expired_finds_what_is_due_and_nothing_else(store: Store) -> None:
    for id, end in [("past", 10.0), ("now", 20.0), ("future", 20.5), ("never", None)]:
        await store.put(record(id, passages=2, expires_at=end))
    assert set(await store.expired(20.0, limit=10)) == {"past", "now"}
    assert len(await store.expired(20.0, limit=1)) == 1
    await store.put(record("past"))  # loses its end
    assert await store.expired(20.0, limit=10) == ["now"]


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.slow
async def test_concurrent_puts_are_all_kept_after_reopening(place: Place, new: bool) -> None:
    async with place.open() as store, anyio.create_task_group() as tasks:
        for n in range(300):
            put = partial(store.put, record(f"m{n}", passages=1 + n % 3), new=new)
            tasks.start_soon(put)
    async with place.open() as store:
        found = await all_of(store)
        assert set(found) == {f"m{n}" for n in range(300)}
        assert await store.count() == 300
        assert_same(found["m17"], record("m17", passages=3))
        many = await store.get([f"m{n}" for n in range(300)])
        assert len(many) == 300


async def test_concurrent_puts_share_commits(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async with place.open() as store:
        calls: list[int] = []
        call = store._worker.call

        async def counted(name: str, *args: Any) -> Any:
            calls.append(len(args[1]))
            return await call(name, *args)

        with monkeypatch.context() as patch:
            patch.setattr(store._worker, "call", counted)
            async with anyio.create_task_group() as tasks:
                for n in range(64):
                    tasks.start_soon(store.put, record(f"m{n}"))
        assert sum(calls) == 64
        assert len(calls) < 10


async def test_one_bad_record_fails_alone(place: Place) -> None:
    """A record that Chroma refuses does not take its neighbours in the commit with it."""
    bad = replace(record("bad"), passages=(Passage((0, 3), np.ones(3, dtype=np.float32)),))
    async with place.open() as store:
        outcome: dict[str, str] = {}

        async def put(item: Record) -> None:
            try:
                await store.put(item)
                outcome[item.memory.id] = "kept"
            except Exception as exc:
                outcome[item.memory.id] = getattr(exc, "code", repr(exc))

        async with anyio.create_task_group() as tasks:
            for item in [record("a"), bad, record("b")]:
                tasks.start_soon(put, item)
        assert outcome == {"a": "kept", "bad": "store_failed", "b": "kept"}
        assert {r.memory.id for r in await store.get(["a", "bad", "b"])} == {"a", "b"}


@pytest.mark.parametrize(
    "other", [Identity("other-model", DIMENSION), Identity("test-model", DIMENSION + 1)]
)
@pytest.mark.slow
async def test_another_model_is_refused_with_both_names(place: Place, other: Identity) -> None:
    async with place.open() as store:
        await store.put(record("a"))
    with pytest.raises(StoreMismatch) as refused:
        async with place.open(other):
            pass
    assert "test-model" in refused.value.message
    assert other.model in refused.value.message
    async with place.open() as store:
        assert await store.count() == 1


async def test_a_store_without_a_model_can_be_taken_over(place: Place) -> None:
    async with place.open(Identity("none", DIMENSION)) as store:
        await store.put(record("a", passages=0))
        assert (await store.get(["a"]))[0].passages == ()
    async with place.open() as store:
        assert (await store.get(["a"]))[0].passages == ()
        await store.put(record("a"))
        assert_same((await store.get(["a"]))[0], record("a"))
    with pytest.raises(StoreMismatch):
        async with place.open(Identity("other-model", DIMENSION)):
            pass


async def test_closed_is_closed(place: Place) -> None:
    async with place.open() as store:
        pass
    with pytest.raises(StoreUnavailable):
        await store.put(record("a"))
    with pytest.raises(StoreUnavailable):
        await store.get(["a"])


async def test_the_nearest_memories_are_found_each_once(store: Store) -> None:
    for n in range(12):
        await store.put(record(f"m{n}", passages=3 if n == 4 else 1), new=True)
    await store.put(record("waiting", passages=0), new=True)
    # Passages have the vectors 0, 1, 2; memories of one passage have vector 0.
    found = await store.nearest(vector(2), 20)
    assert found[0][0] == "m4"
    assert found[0][1] == pytest.approx(1.0, abs=1e-5)
    assert len({id for id, _ in found}) == len(found)
    assert "waiting" not in dict(found)
    only = await store.nearest(vector(2), 5, ["m3", "m4", "gone"])
    assert [id for id, _ in only] == ["m4", "m3"]
    assert await store.nearest(vector(2), 5, ["gone"]) == []


async def test_revisions_are_told_as_of_the_opening(tmp_path: Path) -> None:
    place = Place(StoreSettings(sync_threshold=10), tmp_path)
    async with place.open() as store:
        assert await store.revisions() is None  # nothing is there yet
        for n in range(30):
            await store.put(replace(record(f"m{n}", passages=1 + n % 3), revision=n + 1), new=True)
        await store.put(replace(record("m3"), revision=100))
        await store.delete(["m5"])
    async with place.open() as store:
        known = await store.revisions()
        assert known is not None
        assert known.by_id == {f"m{n}": n + 1 for n in range(30) if n != 5} | {"m3": 100}
        (found,) = await store.get(["m3"])
        assert found.revision == 100
        await store.put(record("older"), new=True)  # as one that never had a revision
    async with place.open() as store:
        assert await store.revisions() is None


async def test_several_memories_are_written_together(store: Store) -> None:
    await store.put(record("a" * 20, passages=3, metadata={"old": 1}))
    changed = [record("a" * 20, metadata={"new": 2}), record("b" * 20, passages=2)]
    await store.put_all(changed)
    found = {one.memory.id: one for one in await store.get(["a" * 20, "b" * 20])}
    assert {id: one.memory for id, one in found.items()} == {r.memory.id: r.memory for r in changed}
    assert [len(found[r.memory.id].passages) for r in changed] == [1, 2]


async def test_of_several_memories_all_or_none_are_written(tmp_path: Path) -> None:
    """One that Chroma refuses keeps the others out."""
    async with open_chroma(StoreSettings(), tmp_path, IDENTITY) as store:
        bad = replace(record("b" * 20), passages=(Passage((0, 1), np.zeros(3, np.float32)),))
        with pytest.raises(MemorydError):
            await store.put_all([record("a" * 20), bad])
        assert await store.count() == 0
