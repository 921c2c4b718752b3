"""Openings that are slow, killed or crash: only evidence counts against a store, never time."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from memoryd.adapters.chroma import worker_client
from memoryd.adapters.chroma.process_activity import ProcessActivity
from memoryd.adapters.chroma.store import ChromaStore, open_chroma
from memoryd.adapters.chroma.swap import CLEAN
from memoryd.errors import StoreError, StoreUnavailable
from memoryd.ports import Progress
from memoryd.settings import StoreSettings
from tests.adapters.chroma import odd_worker
from tests.adapters.chroma.odd_worker import opening
from tests.adapters.chroma.test_contract import IDENTITY, all_of, record
from tests.processes import is_running, until

pytestmark = pytest.mark.slow

SETTINGS = StoreSettings(sync_threshold=10)
COUNT = 25


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A healthy store with an index."""
    made = tmp_path / "data"
    async with open_chroma(SETTINGS, made, IDENTITY) as store:
        for n in range(COUNT):
            await store.put(record(f"m{n}"))
    return made


async def assert_healthy(store: ChromaStore) -> None:
    facts = await store.status()
    assert (facts["set_aside"], facts["since_by"]) == ([], "made")
    found = await all_of(store)
    assert len(found) == COUNT
    assert all(item.passages for item in found.values()), "a vector is lost"


async def test_a_slow_opening_is_waited_for_and_told(folder: Path, control: Path) -> None:
    (control / odd_worker.HOLD).touch()
    seen: list[Progress | None] = []

    def progress(update: Progress | None) -> None:
        seen.append(update)
        if update == Progress("opening"):
            (control / odd_worker.HOLD).unlink()

    async with open_chroma(SETTINGS, folder, IDENTITY, progress=progress) as store:
        await assert_healthy(store)
    assert seen == [Progress("opening"), None]


async def test_workers_killed_while_they_open_say_nothing_about_the_store(
    folder: Path, control: Path
) -> None:
    """By a user, or by a system that is short of memory."""
    (control / odd_worker.HOLD).touch()

    async def kill(times: int) -> None:
        killed: set[int] = set()
        while len(killed) < times:
            await until(lambda: bool(set(opening(control)) - killed))
            (pid,) = set(opening(control)) - killed
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kill, worker_client.MAX_OPENINGS)
        with pytest.raises(StoreUnavailable) as refused:
            async with open_chroma(SETTINGS, folder, IDENTITY):
                pass
    assert "SIGKILL" in refused.value.message
    assert str(folder / "store") in refused.value.message
    (control / odd_worker.HOLD).unlink()
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        await assert_healthy(store)


async def test_daemons_that_end_during_a_slow_opening_harm_nothing(
    folder: Path, control: Path
) -> None:
    for n in range(3):
        (control / odd_worker.HOLD).touch()
        async with anyio.create_task_group() as tasks:

            async def open_it() -> None:
                async with open_chroma(SETTINGS, folder, IDENTITY):
                    pytest.fail("it cannot be open")

            tasks.start_soon(open_it)
            await until(lambda n=n: len(opening(control)) > n)  # type: ignore[misc]
            tasks.cancel_scope.cancel()
            (control / odd_worker.HOLD).unlink()  # the cancelled daemon must not have killed it
        assert not any(is_running(pid) for pid in opening(control))
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        await assert_healthy(store)


async def test_a_check_that_nobody_waits_for_ends_at_the_next_page(
    folder: Path, control: Path
) -> None:
    (folder / "store" / CLEAN).unlink()  # so that every row is checked
    (control / odd_worker.HOLD_PAGE).touch()
    pages = control / odd_worker.PAGES
    async with anyio.create_task_group() as tasks:

        async def open_it() -> None:
            async with open_chroma(SETTINGS, folder, IDENTITY):
                pytest.fail("it cannot be open")

        tasks.start_soon(open_it)
        await until(lambda: pages.exists() and "0" in pages.read_text())
        tasks.cancel_scope.cancel()
        (control / odd_worker.HOLD_PAGE).unlink()
    assert not any(is_running(pid) for pid in opening(control))
    assert len(pages.read_text().split()) == 1
    assert not (folder / "store" / CLEAN).exists(), "it was not checked"
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        await assert_healthy(store)
    assert len(pages.read_text().split()) > COUNT // 5


@pytest.mark.parametrize("crashes", [1, 2])
async def test_a_worker_that_crashes_twice_while_reading_counts_as_damage(
    folder: Path, control: Path, crashes: int
) -> None:
    (control / odd_worker.CRASHES).write_text(str(crashes))
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        if crashes == 1:
            await assert_healthy(store)
        else:
            assert (await store.status())["since_by"] == "repair"
            assert len(await all_of(store)) == COUNT


async def test_too_little_memory_is_no_damage(folder: Path, control: Path) -> None:
    (control / odd_worker.NO_RAM).touch()
    with pytest.raises(StoreError) as refused:
        async with open_chroma(SETTINGS, folder, IDENTITY):
            pass
    assert refused.value.code == "store_memory"
    (control / odd_worker.NO_RAM).unlink()
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        await assert_healthy(store)


async def test_a_worker_that_works_long_is_not_killed(
    folder: Path, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_client, "IDLE_LIMIT", 0.05)
    looks: list[bool] = []

    class Counted(ProcessActivity):
        def has_changed(self) -> bool:
            looks.append(super().has_changed())
            if len(looks) == 5:
                (control / odd_worker.BUSY).unlink()
            return looks[-1]

    monkeypatch.setattr(worker_client, "ProcessActivity", Counted)
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        (control / odd_worker.BUSY).touch()
        assert not await store.compact()
        assert (await store.status())["restarts"] == 0
    assert looks[:5] == [True] * 5


@pytest.mark.skipif(sys.platform != "linux", reason="tells nothing of other processes")
async def test_a_worker_that_does_nothing_any_more_is_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        worker = int(str((await store.status())["pid"]))
        os.kill(worker, signal.SIGSTOP)
        monkeypatch.setattr(worker_client, "IDLE_LIMIT", 0.2)
        assert await store.count() == COUNT
        assert not is_running(worker)
        assert (await store.status())["restarts"] == 1
