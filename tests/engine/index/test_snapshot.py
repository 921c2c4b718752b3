"""Starting from a snapshot gives the same index as reading everything."""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.adapters.snapshot_file import LocalSnapshotFile
from memoryd.engine.engine import Engine
from memoryd.engine.index import snapshot
from memoryd.engine.memories import Memories
from memoryd.engine.run import run_engine
from memoryd.engine.updates import Updates
from memoryd.errors import StoreUnavailable
from memoryd.ports import Record
from memoryd.settings import Config
from tests.engine.conftest import Clock
from tests.processes import until
from tests.ramstore import RamStore

if TYPE_CHECKING:
    from memoryd.index_files import Piece, Snapshot


@pytest.fixture(autouse=True)
def from_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MIN_MEMORIES", 1)


class Place:
    """The same store and file, started again and again."""

    def __init__(self, config: Config, store: RamStore, clock: Clock, file: Path) -> None:
        self.config, self.store, self.clock, self.file = config, store, clock, file

    def start(
        self, *, snapshot_file: bool | LocalSnapshotFile = True, model: str = "m"
    ) -> AbstractAsyncContextManager[Engine]:
        kept = LocalSnapshotFile(self.file) if snapshot_file is True else snapshot_file or None
        return run_engine(self.config, self.store, HashEncoder(), 384, self.clock, kept, model)


@pytest.fixture
def place(config: Config, store: RamStore, clock: Clock, tmp_path: Path) -> Place:
    return Place(config, store, clock, tmp_path / "index.snapshot")


async def answers(engine: Engine) -> list[list[tuple[str, float]]]:
    queries = ["robot hall", "tea", "what did Anna say", "who", "long words here"]
    pages = [await engine.search(query, limit=50, min_score=0.0) for query in queries]
    return [[(hit.memory.id, round(hit.score, 5)) for hit in page.hits] for page in pages]


async def fill(engine: Engine) -> list[str]:
    ids = [
        (await engine.store(f"robot {n} in the hall", metadata={"n": n})).memory.id
        for n in range(6)
    ]
    for n in range(5):
        turn = await engine.add_turn("user", f"tea number {n}, canary-{n}", "s", "Anna")
        ids.append(turn.memory.id)
    ids.append((await engine.store("many words here " * 200, name="long")).memory.id)
    return ids


async def test_a_start_from_a_snapshot_is_like_one_without(place: Place) -> None:
    async with place.start() as engine:
        await fill(engine)
        expected = await answers(engine)
    assert place.file.exists()
    scans = place.store.scans
    async with place.start() as engine:
        assert await answers(engine) == expected
        assert (await engine.get("long")) is not None
        assert len((await engine.context_window("s")).messages) == 5
        for id in [memory.id for memory in engine._parts.index]:
            await engine.forget(id)
        assert engine._parts.index.tables[1].vocabulary == 0
    assert place.store.scans == scans  # the store was not read as a whole


async def test_what_changed_since_is_read_from_the_store(place: Place) -> None:
    async with place.start() as engine:
        ids = await fill(engine)
    async with place.start(snapshot_file=False) as engine:  # as if killed before it could save
        await engine.forget(ids[0])
        await engine.update_memory(ids[1], content="robot 1 in the attic")
        updates, said = Updates(engine._parts, Memories(engine._parts)), await engine.get(ids[6])
        assert said is not None
        await updates.mark(said, {"role": "user", "order": 0, "speaker": "Tom"})
        await engine.store("robot 9 in the hall, new")
        await engine.update_memory("long", content="short now")
        expected = await answers(engine)
    async with place.start() as engine:
        assert await answers(engine) == expected
        assert await engine.get(ids[0]) is None


async def test_what_a_large_store_wrote_since_is_kept_until_the_next_start(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then nothing is read from the store, and the file is gone."""
    async with place.start() as engine:
        ids = await fill(engine)
    monkeypatch.setattr(snapshot, "MAX_AT_END", 0)
    recent = place.file.with_name("index-recent.snapshot")
    async with place.start() as engine:
        await engine.forget(ids[0])
        await engine.update_memory(ids[1], content="robot 1 in the attic")
        await engine.update_memory("long", content="longer words there " * 300)
        await engine.store("canary in the recent file")
        expected = await answers(engine)
    assert b"canary in the recent file" in recent.read_bytes()
    assert b"robot 0" not in recent.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(place.store, "get", None)  # nothing asks for it
        start = place.start()
        engine = await start.__aenter__()
        assert not recent.exists()
        assert await answers(engine) == expected
    assert await engine.get(ids[0]) is None
    await engine.update_memory(ids[1], content="robot 1 in the cellar")
    expected = await answers(engine)
    await start.__aexit__(None, None, None)
    async with place.start() as engine:
        assert await answers(engine) == expected


async def test_a_store_that_knows_the_saved_index_lists_no_revisions(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a start does not take longer for that the larger the store is."""
    async with place.start() as engine:
        ids = await fill(engine)
    monkeypatch.setattr(snapshot, "MAX_AT_END", 0)
    async with place.start() as engine:
        await engine.forget(ids[0])
        await engine.update_memory(ids[1], content="robot 1 in the attic")
        await engine.store("new in the hall")
        expected = await answers(engine)
    for _ in range(2):  # the second time nothing was written in between
        assert place.store.saved_index
        with monkeypatch.context() as patch:
            patch.setattr(place.store, "revisions", None)
            async with place.start() as engine:
                assert await answers(engine) == expected
                assert await engine.get(ids[0]) is None
    async with place.start() as engine:
        await engine.forget(ids[2])
        expected = await answers(engine)
        place.store.saved_index = ""  # as if killed
    async with place.start() as engine:
        assert await answers(engine) == expected


@pytest.mark.parametrize("fault", ["another", "text", "recent text", "lost erasure", "no file"])
async def test_a_saved_index_that_is_not_whole_is_not_used(
    place: Place, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    async with place.start() as engine:
        ids = await fill(engine)
    kept = place.file.read_bytes()
    monkeypatch.setattr(snapshot, "MAX_AT_END", 0)
    async with place.start() as engine:
        await engine.forget(ids[0])
        await engine.store("robot 11 in the hall, later")
        expected = list(map(sorted, await answers(engine)))
    recent = place.file.with_name("index-recent.snapshot")
    if fault == "another":
        place.store.saved_index = "another"
    elif fault == "text":
        overwrite(place.file, b"robot 3", b"robot X")
    elif fault == "recent text":
        overwrite(recent, b"robot 11", b"robot XX")
    elif fault == "lost erasure":  # as after a power cut: what was forgotten must not come back
        place.file.write_bytes(kept)
    else:
        recent.unlink()
    async with place.start() as engine:
        assert list(map(sorted, await answers(engine))) == expected
        assert await engine.get(ids[0]) is None


def overwrite(path: Path, old: bytes, new: bytes) -> None:
    data = path.read_bytes()
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))


@pytest.mark.parametrize("fault", ["old", "damaged", "too many"])
async def test_a_recent_file_counts_only_if_the_store_agrees(
    place: Place, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    async with place.start() as engine:
        ids = await fill(engine)
    monkeypatch.setattr(snapshot, "MAX_AT_END", 0)
    if fault == "too many":
        monkeypatch.setattr(snapshot, "MAX_RECENT", 0)
    recent = place.file.with_name("index-recent.snapshot")
    async with place.start() as engine:
        await engine.update_memory(ids[1], content="robot 1 in the attic")
        expected = await answers(engine)
    assert recent.exists() == (fault != "too many")
    if fault == "old":
        async with place.start(snapshot_file=False) as engine:
            await engine.update_memory(ids[1], content="robot 1 in the cellar")
            expected = await answers(engine)
    elif fault == "damaged":
        recent.write_bytes(recent.read_bytes()[:-20])
    async with place.start() as engine:
        assert await answers(engine) == expected
        assert not recent.exists()


async def test_forgotten_and_changed_texts_leave_the_file_at_once(place: Place) -> None:
    async with place.start() as engine:
        await fill(engine)
    assert b"canary-1" in place.file.read_bytes()
    async with place.start() as engine:
        found = (await engine.search("canary-1")).hits[0].memory
        await engine.forget(found.id)
        assert b"canary-1" not in place.file.read_bytes()
        found = (await engine.search("canary-2")).hits[0].memory
        await engine.update_memory(found.id, content="something else")
        assert b"canary-2" not in place.file.read_bytes()
        assert b"canary-3" in place.file.read_bytes()


async def test_another_model_or_a_damaged_file_starts_from_the_store(place: Place) -> None:
    async with place.start() as engine:
        await fill(engine)
        expected = await answers(engine)
    scans = place.store.scans
    async with place.start(model="another") as engine:
        assert await answers(engine) == expected
    place.file.write_bytes(place.file.read_bytes()[:-5000])
    async with place.start() as engine:
        assert await answers(engine) == expected
    assert place.store.scans == scans + 2


async def test_a_snapshot_without_vectors_is_not_used_where_they_are_needed(place: Place) -> None:
    """As after a change of store.mode from http to embedded, in the same data directory."""
    local = place.config
    place.config = replace(local, store=replace(local.store, mode="http"))
    async with place.start() as engine:
        await fill(engine)
    place.config = local
    async with place.start(snapshot_file=False) as engine:
        expected = await answers(engine)
    async with place.start() as engine:
        assert await answers(engine) == expected


async def test_a_small_store_has_no_snapshot(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async with place.start() as engine:
        await fill(engine)
    monkeypatch.setattr(snapshot, "MIN_MEMORIES", 1000)
    async with place.start() as engine:
        await engine.store("one more")
    assert not place.file.exists()


async def test_pending_vectors_stay_pending(place: Place) -> None:
    kept = LocalSnapshotFile(place.file)
    async with run_engine(place.config, place.store, None, 384, place.clock, kept, "m") as engine:
        await engine.store("stored without a model")
    async with run_engine(place.config, place.store, None, 384, place.clock, kept, "m") as engine:
        assert engine._parts.index.pending == 1
    async with place.start() as engine:
        assert await engine.embed_all_pending() in (0, 1)
        assert engine._parts.index.pending == 0
        assert len((await engine.search("stored without a model")).hits) == 1


class PausedSnapshotFile(LocalSnapshotFile):
    """A file that pauses before the pieces of one name, until `go_on` is set."""

    def __init__(self, path: Path, before: str) -> None:
        super().__init__(path)
        self._before = before
        self.reached, self.go_on = threading.Event(), threading.Event()

    def save(
        self, about: Mapping[str, object], pieces: Iterable[Piece], keep: Collection[str] = ()
    ) -> Snapshot:
        return super().save(about, self._paused(pieces), keep)

    def _paused(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        if self._before == "all":
            self._pause()
        for name, piece in pieces:
            if name == self._before:
                self._pause()
            yield name, piece
        if self._before == "end":
            self._pause()

    def _pause(self) -> None:
        self.reached.set()
        assert self.go_on.wait(60)

    async def wait(self) -> None:
        assert await anyio.to_thread.run_sync(self.reached.wait, 60)


async def test_it_is_saved_while_the_engine_runs(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a load without one, after many writes; the end adds nothing to a large one."""
    monkeypatch.setattr(snapshot, "CHECK_INTERVAL", 0.05)
    monkeypatch.setattr(snapshot, "MAX_AT_END", 0)
    async with place.start(snapshot_file=False) as engine:
        await fill(engine)
    async with place.start() as engine:
        await until(place.file.exists)
        assert b"canary-1" in place.file.read_bytes()
        await engine.store("canary-new")
        await until(lambda: b"canary-new" in place.file.read_bytes())
        expected = await answers(engine)
    scans, before = place.store.scans, place.file.read_bytes()
    async with place.start() as engine:
        assert await answers(engine) == expected
        assert place.store.scans == scans
    assert place.file.read_bytes() == before


class PagedStore(RamStore):
    """A store that is read in small pages; reading may fail after so many memories."""

    fails_after: float = math.inf

    async def scan(self) -> AsyncIterator[list[Record]]:
        self.scans += 1
        records = list(self.records.values())
        for start in range(0, len(records), 2):
            if start >= self.fails_after:
                raise StoreUnavailable("The store worker ended.")
            yield deepcopy(records[start : start + 2])


async def test_a_long_start_without_one_saves_on_the_way(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts leave RAM during the start, and the next one goes on where it was interrupted."""
    monkeypatch.setattr(snapshot, "FIRST_SAVE", 3)
    async with place.start(snapshot_file=False) as engine:
        await fill(engine)
        expected = await answers(engine)
    paged = PagedStore()
    paged.records, paged.fails_after = place.store.records, 8
    place.store = paged
    with pytest.raises(StoreUnavailable):
        async with place.start():
            pass
    assert b"robot 1" in place.file.read_bytes()
    assert b"canary-4" not in place.file.read_bytes()
    async with place.start() as engine:
        assert await answers(engine) == expected
    assert paged.scans == 1, "the second start read only what was missing"
    place.file.unlink()
    paged.fails_after = math.inf
    async with place.start() as engine:
        assert await answers(engine) == expected
    assert paged.scans == 2


async def test_an_end_does_not_save_a_large_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MAX_AT_END", 11)
    async with place.start() as engine:
        await fill(engine)
    assert not place.file.exists()


@pytest.mark.parametrize("before", ["all", "rounded", "text", "end"])
async def test_what_is_forgotten_while_it_is_written_is_not_in_it(
    place: Place, before: str
) -> None:
    async with place.start(snapshot_file=False) as engine:
        await fill(engine)
    snapshot_file = PausedSnapshotFile(place.file, before)
    async with place.start(snapshot_file=snapshot_file) as engine:
        await snapshot_file.wait()
        aside = place.file.with_suffix(".new")
        assert (b"canary-1" in aside.read_bytes()) is (before == "end")
        found = (await engine.search("canary-1")).hits[0].memory
        await engine.forget(found.id)
        assert b"canary-1" not in aside.read_bytes(), "at once"
        changed = (await engine.search("canary-2")).hits[0].memory
        await engine.update_memory(changed.id, content="something else")
        await engine.store("robot 7 in the hall")  # may get the rows that were freed
        expected = await answers(engine)
        snapshot_file.go_on.set()
        await until(place.file.exists)
        kept = place.file.read_bytes()
        assert b"canary-1" not in kept
        assert b"canary-2" not in kept
        assert b"canary-3" in kept
        engine._parts.snapshots._saved = engine._parts.index.changes  # this one stays
    async with place.start() as engine:
        assert await answers(engine) == expected


async def test_a_purge_ends_the_snapshot_that_is_being_written(place: Place) -> None:
    async with place.start(snapshot_file=False) as engine:
        await fill(engine)
    snapshot_file = PausedSnapshotFile(place.file, "text")
    async with place.start(snapshot_file=snapshot_file) as engine:
        await snapshot_file.wait()
        found = (await engine.search("canary-1")).hits[0].memory
        await engine.forget(found.id)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(engine.purge)
            await until(lambda: not place.file.with_suffix(".new").exists())
            snapshot_file.go_on.set()
        assert b"canary-1" not in place.file.read_bytes()
        assert b"canary-2" in place.file.read_bytes()


async def test_a_text_that_the_store_no_longer_has_is_erased_at_the_start(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with place.start() as engine:
        ids = await fill(engine)
    async with place.start(snapshot_file=False) as engine:  # killed before it could erase
        await engine.forget(ids[6])
    assert b"canary-0" in place.file.read_bytes()
    inode = place.file.stat().st_ino
    async with place.start() as engine:
        assert b"canary-0" not in place.file.read_bytes()
        assert place.file.stat().st_ino == inode, "erased, not written anew"


async def test_a_disk_that_refuses_ends_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(self: LocalSnapshotFile, *given: object) -> None:
        raise OSError(28, "No space left on device")

    async with place.start() as engine:
        await fill(engine)
    place.file.unlink()
    monkeypatch.setattr(LocalSnapshotFile, "save", refuse)
    async with place.start() as engine:
        await engine.store("one more")
        assert await engine._parts.snapshots.save() is False
        assert (await engine.search("one more")).hits
