"""A change of model beside an engine that does not know of it, on stores in RAM."""

from __future__ import annotations

import random
import secrets
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import numpy as np
import pytest
from numpy.typing import NDArray

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.adapters.snapshot_file import LocalSnapshotFile
from memoryd.engine.engine import Engine
from memoryd.engine.index import entries, snapshot
from memoryd.engine.models import model_change
from memoryd.engine.models.model_change import ModelChange
from memoryd.engine.run import run_engine
from memoryd.errors import EmbedError, ModelUnavailable, TextRefused
from memoryd.lead import DEFAULT, lead_of
from memoryd.ports import Identity, Record
from memoryd.settings import Config
from tests.engine.conftest import Clock
from tests.one_task import in_one_task
from tests.processes import until
from tests.ramstore import RamNextStore, RamStore

OLD = HashEncoder(dimension=48, max_words=20)
NEW = HashEncoder(dimension=64, max_words=12)  # other vectors, and other passages
SECRET = "kumquat"


@pytest.fixture
def next_store(store: RamStore) -> RamNextStore:
    return RamNextStore(store)


@pytest.fixture
async def engine(config: Config, store: RamStore, clock: Clock) -> AsyncIterator[Engine]:
    """An engine on the old model with some memories, short and long."""
    opened = run_engine(config, store, OLD, OLD.dimension, clock)
    async with in_one_task(opened) as running:
        for n in range(60):
            await running.store(f"robot {n} drinks tea in the hall " * (1 + n % 4))
        yield running


@asynccontextmanager
async def changing(engine: Engine, next_store: RamNextStore) -> AsyncIterator[ModelChange]:
    async with engine.changing_model(next_store, "new", str) as change:
        yield change


def assert_all_by(encoder: HashEncoder, engine: Engine, store: RamStore) -> None:
    """Index and store have the same memories, each with the vectors of this model."""
    index = engine._parts.index
    assert {memory.id for memory in index} == set(store.records)
    for memory in index:
        lead, kept = lead_of(memory, DEFAULT), index.record(memory.id)
        spans = encoder.split(memory.content, lead)
        wanted = encoder.encode([lead + memory.content[a:b] for a, b in spans])
        for record in (kept, store.records[memory.id]):
            assert record is not None
            assert record.memory == memory
            assert [passage.span for passage in record.passages] == spans
            assert np.allclose([passage.vector for passage in record.passages], wanted, atol=1e-6)


class Slow(HashEncoder):
    """Encodes documents only when it is allowed to, and counts them."""

    def __init__(self) -> None:
        super().__init__(dimension=64, max_words=12)
        self.documents: list[str] = []
        self.fails = False

    def encode(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        if self.fails:
            raise EmbedError("The model is out of order.")
        if not query:
            self.documents += texts
        return super().encode(texts, query=query)


@pytest.fixture
def saved_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of the next store is saved again and again while it is filled."""
    for name, value in {"MIN_MEMORIES": 1, "CHECK_INTERVAL": 0.01, "BUSY_SHARE": 0}.items():
        monkeypatch.setattr(snapshot, name, value)


@pytest.mark.parametrize("is_saved", [False, True])
async def test_any_writes_during_a_change_have_the_new_vectors_after_it(
    engine: Engine,
    store: RamStore,
    is_saved: bool,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    """A model-based run: whatever is stored, changed and forgotten while the job runs."""
    next_store = RamNextStore(store, tmp_path / "index" if is_saved else None)
    if is_saved:
        request.getfixturevalue("saved_often")
    pick = random.Random(7)
    ids = [memory.id for memory in engine._parts.index]

    async def write(n: int) -> None:
        id = pick.choice(ids)
        what = pick.choice(("store", "forget", "update", "tag", "turn"))
        if what == "store" or len(ids) < 10:
            ids.append(
                (await engine.store(f"a story of harbour {n} " * pick.choice((1, 9)))).memory.id
            )
        elif what == "turn":
            await engine.add_turn("user", f"tea {n}", "session", pick.choice(("Anna", "Tom")))
        elif what == "forget":
            ids.remove(id)
            await engine.forget(id)
        elif what == "update":
            await engine.update_memory(id, content=f"green robot {n} " * pick.choice((1, 9)))
        else:
            await engine.update_memory(id, metadata={"n": n})

    before = engine._parts.index
    async with changing(engine, next_store) as change, anyio.create_task_group() as tasks:
        tasks.start_soon(change.run, NEW)
        for n in range(150):
            await write(n)
            if engine._parts.index is before:
                assert_all_by(OLD, engine, store)
                assert (await engine.search("robot")).warnings == ()
        await until(lambda: engine._parts.index is not before)
    assert engine.model == (NEW.model, NEW.dimension)
    for n in range(150, 160):
        await write(n)
    assert_all_by(NEW, engine, store)
    assert (await engine.search("robot", min_score=0.0)).warnings == ()


class Held(HashEncoder):
    """Waits at one text."""

    def __init__(self) -> None:
        super().__init__(dimension=64, max_words=12)
        self.go_on = threading.Event()

    def encode(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        if any("hold here" in text for text in texts):
            assert self.go_on.wait(60)
        return super().encode(texts, query=query)


async def test_what_is_forgotten_during_a_change_leaves_the_saved_index_of_the_next_store(
    engine: Engine,
    store: RamStore,
    saved_often: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_change, "BATCH", 8)
    file, encoder = tmp_path / "index", Held()
    canary = (await engine.store(f"the {SECRET} of the harbour")).memory.id
    for n in range(20):
        await engine.store(f"story {n}")
    await engine.store("hold here")
    async with (
        changing(engine, RamNextStore(store, file)) as change,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(change.run, encoder)
        await until(lambda: file.exists() and SECRET.encode() in file.read_bytes())
        await engine.forget(canary)
        encoder.go_on.set()
        await until(lambda: engine.model == (NEW.model, NEW.dimension))
    assert SECRET.encode() not in file.read_bytes()
    assert_all_by(NEW, engine, store)


async def test_searches_and_writes_across_the_switch_never_mix_two_models(
    engine: Engine, store: RamStore, next_store: RamNextStore
) -> None:
    """A vector of 48 numbers meets only vectors of 48, whenever the switch comes."""
    over = anyio.Event()

    async def use(number: int) -> None:
        n = 0
        while not over.is_set():
            n += 1
            text = f"caller{number} says word{n} of {secrets.token_hex(8)}"
            stored = await engine.store(text)
            page = await engine.search(text, min_score=0.0)
            assert page.hits[0].memory.id == stored.memory.id
            await engine.forget(stored.memory.id)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(use, number)
            async with changing(engine, next_store) as change:
                await change.run(NEW)
            for _ in range(100):
                await anyio.lowlevel.checkpoint()
            over.set()
    assert_all_by(NEW, engine, store)


async def test_a_stop_during_the_swap_does_not_separate_store_and_index(
    engine: Engine, store: RamStore, next_store: RamNextStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace, is_swapping = next_store.replace, anyio.Event()

    async def slow(identity: Identity) -> None:
        is_swapping.set()
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        await replace(identity)

    monkeypatch.setattr(next_store, "replace", slow)
    async with changing(engine, next_store) as change, anyio.create_task_group() as tasks:
        tasks.start_soon(change.run, NEW)
        with anyio.fail_after(60):
            await is_swapping.wait()
        tasks.cancel_scope.cancel()
    await engine.store("said after the switch")
    assert_all_by(NEW, engine, store)


async def test_what_is_done_is_not_embedded_again(
    engine: Engine, next_store: RamNextStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that ended halfway, as by a kill: the next one embeds only the rest."""
    encoder = Slow()
    put, left = next_store.store.put, [25]

    async def put_some(*args: object, **options: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            await anyio.sleep_forever()
        await put(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(model_change, "BATCH", 25)
    monkeypatch.setattr(model_change, "AT_ONCE", 1)
    monkeypatch.setattr(next_store.store, "put", put_some)
    async with anyio.create_task_group() as tasks, changing(engine, next_store) as change:
        tasks.start_soon(change.run, encoder)
        await until(lambda: change.state().done == 25)
        tasks.cancel_scope.cancel()
    monkeypatch.undo()
    changed = next(iter(next_store.store.records))
    await engine.update_memory(changed, content="changed meanwhile")
    encoder.documents.clear()
    async with changing(engine, next_store) as change:
        await change.run(encoder)
    done = {text for r in list(next_store.store.records.values()) for text in [r.memory.content]}
    assert len(done) == 60
    again = {text for text in encoder.documents if text.startswith("changed")}
    assert again == {"changed meanwhile"}
    fresh = sum(len(encoder.split(r.memory.content)) for r in next_store.store.records.values())
    assert len(encoder.documents) < fresh


async def test_a_failure_is_told_and_tried_again(
    engine: Engine, store: RamStore, next_store: RamNextStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_change, "RETRY", 0.01)
    encoder = Slow()
    encoder.fails = True
    async with changing(engine, next_store) as change, anyio.create_task_group() as tasks:
        tasks.start_soon(change.run, encoder)
        await until(lambda: "out of order" in engine.state()["model_change"]["trouble"])
        assert engine.model == (OLD.model, OLD.dimension)
        assert (await engine.search("robot")).warnings == ()
        encoder.fails = False
    assert_all_by(NEW, engine, store)


class Picky(HashEncoder):
    """Refuses a word in documents, as a model server may."""

    def __init__(self, word: str) -> None:
        super().__init__(dimension=64, max_words=12)
        self._word = word

    def encode(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        if not query and any(self._word in text for text in texts):
            raise TextRefused("The model server refuses what was sent.")
        return super().encode(texts, query=query)


async def test_a_text_that_is_refused_has_no_vector_after_the_switch(
    engine: Engine, store: RamStore, next_store: RamNextStore
) -> None:
    refused = (await engine.store(f"{SECRET} and tea")).memory
    async with changing(engine, next_store) as change:
        with anyio.fail_after(60):
            await change.run(Picky(SECRET))
    assert engine.model == (NEW.model, NEW.dimension)
    assert engine.state()["pending_vectors"] == 1
    assert store.records[refused.id] == Record(refused, (), store.records[refused.id].revision)
    await engine.forget(refused.id)
    assert_all_by(NEW, engine, store)


async def test_a_model_that_refuses_everything_does_not_take_over(
    engine: Engine, store: RamStore, next_store: RamNextStore
) -> None:
    async with changing(engine, next_store) as change, anyio.create_task_group() as tasks:
        tasks.start_soon(change.run, Picky("robot"))
        await until(lambda: "refuses" in engine.state()["model_change"]["trouble"])
        assert_all_by(OLD, engine, store)
        tasks.cancel_scope.cancel()


class Failing(HashEncoder):
    """A model on a server that is down."""

    def encode(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        raise ModelUnavailable("The old server is down.")


async def test_an_outage_of_the_old_model_ends_with_the_switch(
    engine: Engine, next_store: RamNextStore
) -> None:
    engine.attach(Failing(dimension=48, max_words=20))
    await engine.store("stored while the server is down")
    assert "is down" in engine.state()["model_trouble"]
    async with changing(engine, next_store) as change:
        await change.run(NEW)
    assert engine.state()["model_trouble"] is None
    assert engine.state()["pending_vectors"] == 0
    assert (await engine.search("robot")).warnings == ()
    assert (await engine.store("stored after the switch")).warnings == ()


@asynccontextmanager
async def held_at_the_last(
    engine: Engine, next_store: RamNextStore
) -> AsyncIterator[tuple[list[str], anyio.Event]]:
    """A change that has done all but the last memory. The ids of secrets among those done, and an
    event that lets it go on."""
    gone = [(await engine.store(f"{SECRET} {n}")).memory.id for n in range(3)]
    last = (await engine.store("the last one")).memory.id
    put, go = next_store.store.put, anyio.Event()

    async def put_until_the_last(record: Record, *, new: bool = False) -> None:
        if record.memory.id == last:
            await go.wait()
        await put(record, new=new)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_change, "AT_ONCE", 1)
        patch.setattr(model_change, "BATCH", 1)
        patch.setattr(next_store.store, "put", put_until_the_last)
        async with changing(engine, next_store) as change, anyio.create_task_group() as tasks:
            tasks.start_soon(change.run, NEW)
            await until(lambda: change.state().done == 63)
            assert set(gone) <= set(next_store.store.records)
            yield gone, go
            tasks.cancel_scope.cancel()


async def test_memories_that_are_not_in_ram_change_too(
    config: Config,
    store: RamStore,
    next_store: RamNextStore,
    clock: Clock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The index reads those of its snapshot anew each time."""
    monkeypatch.setattr(snapshot, "MIN_MEMORIES", 0)
    monkeypatch.setattr(entries, "MAX_KEPT", 1)

    def start() -> AbstractAsyncContextManager[Engine]:
        kept = LocalSnapshotFile(tmp_path / "index.snapshot")
        return run_engine(config, store, OLD, OLD.dimension, clock, kept, "old")

    async with start() as engine:
        for n in range(20):
            await engine.store(f"robot {n} drinks tea in the hall")
    async with start() as engine, changing(engine, next_store) as change:
        assert not engine._parts.index.unsaved_ids()
        with anyio.fail_after(60):
            await change.run(NEW)
        assert_all_by(NEW, engine, store)


def secrets_in(store: RamStore) -> list[str]:
    return [id for id, record in store.records.items() if SECRET in record.memory.content]


async def test_a_purge_takes_what_is_gone_from_the_next_store_too(
    engine: Engine, store: RamStore, next_store: RamNextStore
) -> None:
    async with held_at_the_last(engine, next_store) as (gone, go):
        await engine.forget(gone[0])
        await engine.forget(gone[1])
        await engine.update_memory(gone[2], content="harmless")
        assert secrets_in(next_store.store) != []  # or this test could not fail
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.purge)
            await until(lambda: store.purges == 1)
            go.set()
        assert secrets_in(next_store.store) == []
        assert next_store.store.purges == 1
        await until(lambda: engine.model == (NEW.model, NEW.dimension))
    assert_all_by(NEW, engine, store)


async def test_a_purge_throws_away_a_next_store_that_is_not_open(
    engine: Engine, next_store: RamNextStore
) -> None:
    """As while the new model cannot be loaded."""
    async with held_at_the_last(engine, next_store) as (gone, _):
        pass
    for id in gone:
        await engine.forget(id)
    async with changing(engine, next_store):
        assert secrets_in(next_store.store) == gone
        await engine.purge()
        assert next_store.store.records == {}


async def test_a_purge_that_meets_the_switch_purges_the_new_store(
    engine: Engine, store: RamStore, next_store: RamNextStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    purges: list[bool] = []

    async def purge(old: RamStore) -> None:
        purges.append(engine._change is not None)
        if len(purges) == 1:  # the switch comes after the files of the old store were rewritten
            await change.run(NEW)

    monkeypatch.setattr(store, "purge", partial(purge, store))
    async with changing(engine, next_store) as change:
        await engine.purge()
    assert len(purges) == 2


async def test_an_export_across_the_switch_has_vectors_of_one_model(
    engine: Engine, next_store: RamNextStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryd.engine.transfer.PAGE", 10)
    page = await engine.export_page()
    assert page.model == OLD.model
    assert all(len(p.vector) == OLD.dimension for r in page.records for p in r.passages)
    async with changing(engine, next_store) as change:
        await change.run(NEW)
    page = await engine.export_page(page.after)
    assert len(page.records) == 10
    assert all(record.passages == () for record in page.records)
