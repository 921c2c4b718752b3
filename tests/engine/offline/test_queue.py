"""The queue on a store that fails when it is told to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from memoryd.adapters.offline_file import LocalQueueFile
from memoryd.engine.offline import queue
from memoryd.engine.offline.queue import MAX_REFUSALS, OfflineQueue
from memoryd.engine.offline.store import QueueingStore
from memoryd.errors import MemorydError, StoreError, StoreOffline
from memoryd.fair import CALLER
from memoryd.model import Memory, MemoryType
from memoryd.offline import FULL, noting_queued
from memoryd.ports import Record
from tests.ramstore import RamStore


class FailingStore(RamStore):
    """Raises `error` on every write, before or after it is done."""

    error: MemorydError | None = None
    does_it_first = False
    deleted: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()  # ids of memories that cannot be written
    held: anyio.Event | None = None  # until it is set, writes wait
    commits = 0

    async def put_all(self, records: Sequence[Record], *, new: bool = False) -> None:
        if not self.refused.isdisjoint(record.memory.id for record in records):
            raise StoreError("The server says no to this one.")
        self.commits += 1
        for record in records:
            await self.put(record, new=new)

    async def put(self, record: Record, *, new: bool = False) -> None:
        if self.held is not None:
            await self.held.wait()
        if self.error is None or self.does_it_first:
            await super().put(record, new=new)
        if self.error is not None:
            raise self.error

    async def delete(self, ids: Sequence[str]) -> set[str]:
        if self.error is not None:
            raise self.error
        return await super().delete(ids)

    async def noted(self, ids: Sequence[str]) -> Collection[str]:
        return self.deleted.intersection(ids)


AWAY = StoreOffline("The Chroma server cannot be reached.")


class Setup:
    def __init__(self, folder: Path) -> None:
        self.folder, self.inner = folder, FailingStore()
        self.open()

    def open(self, limit: int = 10, *, accepts: bool = True) -> None:
        """Open the queue again, as after a kill."""
        file = LocalQueueFile(self.folder)
        self.queue = OfflineQueue(self.inner, file, limit, 1_000_000, accepts=accepts)
        self.store = QueueingStore(self.inner, self.queue)


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)


@pytest.fixture(autouse=True)
def caller() -> None:
    CALLER.set("a client")


def record(id: str, text: str = "text", revision: int = 7) -> Record:
    memory = Memory(id.ljust(20, "0"), MemoryType.FACT, text, 1.0, None, {})
    return Record(memory, (), revision, 0)


async def test_what_is_queued_is_read_as_written_and_sent_in_order(setup: Setup) -> None:
    setup.inner.error = AWAY
    with noting_queued() as queued:
        for one in (record("a"), record("b")):
            await setup.store.put(one, new=True)
        await setup.store.delete(["a".ljust(20, "0")])
    assert len(queued) == 3
    found = await setup.store.get([id.ljust(20, "0") for id in "ab"])
    assert [one.memory.id[0] for one in found] == ["b"]
    with pytest.raises(StoreOffline):
        await setup.queue.send()
    setup.inner.error = None
    assert await setup.queue.send() == set()
    assert not setup.queue
    assert [id[0] for id in setup.inner.records] == ["b"]


async def test_a_write_whose_answer_was_lost_is_not_done_twice(setup: Setup) -> None:
    """It arrived, and another daemon forgot it before this one could send it again."""
    setup.inner.error, setup.inner.does_it_first = AWAY, True
    await setup.store.put(record("a"), new=True)
    assert setup.inner.records
    setup.inner.error = None
    setup.inner.records.clear()
    setup.inner.deleted = frozenset({"a".ljust(20, "0")})
    setup.open()
    assert await setup.queue.send() == {"a".ljust(20, "0")}
    assert not setup.inner.records


async def test_what_the_server_refuses_again_and_again_is_kept_apart(setup: Setup) -> None:
    setup.inner.error = AWAY
    await setup.store.put(record("a", "refused text"), new=True)
    await setup.store.put(record("b"), new=True)
    setup.inner.error = StoreError("The server says no.")
    for _ in range(MAX_REFUSALS - 1):
        with pytest.raises(StoreError):
            await setup.queue.send()
        assert len(setup.queue) == 2
    with pytest.raises(StoreError):  # the first is rejected, the second refused once
        await setup.queue.send()
    setup.inner.error = None
    await setup.queue.send()
    assert [id[0] for id in setup.inner.records] == ["b"]
    state = setup.queue.state()
    assert (state["queued"], state["rejected"]) == (0, 1)
    kept = (setup.folder / "offline.rejected").read_text()
    assert "refused text" in kept
    assert "The server says no." in kept


async def test_work_of_the_daemon_itself_is_not_queued(setup: Setup) -> None:
    CALLER.set(None)
    setup.inner.error = AWAY
    with pytest.raises(StoreOffline):
        await setup.store.delete(["a"])
    assert not setup.queue
    CALLER.set("a client")
    await setup.store.put(record("a"), new=True)
    CALLER.set(None)
    setup.inner.error = None
    with pytest.raises(StoreOffline):  # not before what is queued
        await setup.store.put(replace(record("a"), revision=8))


async def test_what_was_queued_is_sent_though_queueing_was_switched_off(setup: Setup) -> None:
    setup.inner.error = AWAY
    await setup.store.put(record("a"), new=True)
    setup.open(accepts=False)
    setup.inner.error = None
    with pytest.raises(StoreOffline):  # not before what is queued
        await setup.store.put(record("b"), new=True)
    await setup.queue.send()
    await setup.store.put(record("b"), new=True)
    assert [id[0] for id in setup.inner.records] == ["a", "b"]
    setup.inner.error = AWAY
    with pytest.raises(StoreOffline):
        await setup.store.put(record("c"), new=True)
    assert not setup.queue


async def test_a_forget_that_cannot_be_written_changes_nothing(setup: Setup) -> None:
    setup.inner.error = AWAY
    await setup.store.put(record("a", "secret text"), new=True)
    part = setup.folder / "offline.queue.part"
    part.mkdir()  # in the way of the new file
    with pytest.raises(StoreError):
        await setup.store.delete(["a".ljust(20, "0")])
    assert [one.memory.content for one in await setup.store.get(["a".ljust(20, "0")])]
    part.rmdir()
    await setup.store.delete(["a".ljust(20, "0")])
    assert "secret text" not in (setup.folder / "offline.queue").read_text()
    assert await setup.store.get(["a".ljust(20, "0")]) == []


async def test_a_full_queue_changes_nothing(setup: Setup) -> None:
    setup.open(limit=1)
    setup.inner.error = AWAY
    await setup.store.put(record("a"), new=True)
    with noting_queued() as queued, pytest.raises(StoreError) as caught:
        await setup.store.put(record("b"), new=True)
    assert (caught.value.code, queued) == (FULL, [])
    assert len(setup.queue) == 1


async def test_an_error_of_the_disk_is_told(setup: Setup) -> None:
    setup.inner.error = AWAY
    (setup.folder / "offline.queue").mkdir()
    with pytest.raises(StoreError) as caught:
        await setup.store.put(record("a"), new=True)
    assert caught.value.code == "offline_queue_unwritable"
    assert not setup.queue


async def test_writes_of_different_memories_are_sent_together(setup: Setup) -> None:
    """A server that takes writes one by one would be slower than the callers who add to them."""
    setup.open(limit=100)
    setup.inner.error = AWAY
    for number in range(40):
        await setup.store.put(record(f"{number:02}"), new=True)
    setup.inner.error = None
    setup.inner.commits = 0
    await setup.queue.send()
    assert len(setup.inner.records) == 40
    assert setup.inner.commits == 2
    assert not setup.queue


async def test_writes_of_one_memory_are_sent_in_order(setup: Setup) -> None:
    setup.inner.error = AWAY
    await setup.store.put(record("a", "first"), new=True)
    await setup.store.put(record("b"), new=True)
    await setup.store.put(replace(record("a", "second", revision=8), replaces=7))
    await setup.store.delete(["b".ljust(20, "0")])
    setup.inner.error = None
    await setup.queue.send()
    assert [one.memory.content for one in setup.inner.records.values()] == ["second"]


async def test_a_refused_write_does_not_hold_up_those_it_was_sent_with(setup: Setup) -> None:
    setup.inner.error = AWAY
    for id in "abc":
        await setup.store.put(record(id), new=True)
    setup.inner.error = None
    setup.inner.refused = frozenset({"b".ljust(20, "0")})
    for _ in range(MAX_REFUSALS - 1):
        with pytest.raises(StoreError):
            await setup.queue.send()
    await setup.queue.send()
    assert [id[0] for id in setup.inner.records] == ["a", "c"]
    state = setup.queue.state()
    assert (state["queued"], state["rejected"]) == (0, 1)


async def test_after_a_kill_all_that_was_being_sent_counts_as_sent(setup: Setup) -> None:
    """It arrived, and another daemon forgot one of the memories."""
    setup.inner.error = AWAY
    for id in "ab":
        await setup.store.put(record(id), new=True)
    setup.inner.does_it_first = True
    with pytest.raises(StoreOffline):
        await setup.queue.send()
    setup.inner.error = None
    gone = "a".ljust(20, "0")
    setup.inner.records.pop(gone)
    setup.inner.deleted = frozenset({gone})
    setup.open()
    assert await setup.queue.send() == {gone}
    assert [id[0] for id in setup.inner.records] == ["b"]


async def test_a_write_waits_for_the_queue_while_that_is_being_sent(setup: Setup) -> None:
    setup.inner.error = AWAY
    await setup.store.put(record("a"), new=True)
    setup.inner.error, setup.inner.held = None, anyio.Event()
    with noting_queued() as queued, anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(setup.queue.send)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(setup.store.put, record("b"))
            await anyio.wait_all_tasks_blocked()
            assert not setup.inner.records
            setup.inner.held.set()
    assert [id[0] for id in setup.inner.records] == ["a", "b"]
    assert not queued


async def test_a_write_to_a_server_that_hangs_is_queued_when_that_is_known(setup: Setup) -> None:
    """And done once, though the server does it when it goes on."""
    setup.inner.held = anyio.Event()
    with noting_queued() as queued, anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(setup.store.put, record("a"), new=True))
            await anyio.wait_all_tasks_blocked()
            assert not setup.queue
            setup.queue.set_away(True)
    assert queued == ["a".ljust(20, "0")]
    assert not setup.inner.records
    setup.inner.held.set()
    await setup.inner.put(record("a"), new=True)
    setup.queue.set_away(False)
    commits = setup.inner.commits
    await setup.queue.send()
    assert setup.inner.commits == commits
    assert not setup.queue


async def test_the_file_is_removed_with_the_last_write_however_long_that_took(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "SEND_SECONDS", 0.0)
    setup.inner.error = AWAY
    await setup.store.put(record("a"), new=True)
    setup.inner.error = None
    await setup.queue.send()
    assert not (setup.folder / "offline.queue").exists()
