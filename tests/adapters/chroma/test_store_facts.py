"""What a worker tells of a store before ChromaDB has opened it."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_process
import pytest

from memoryd.adapters.chroma.open import open_embedded
from memoryd.adapters.chroma.store import ChromaStore, open_chroma
from memoryd.adapters.chroma.store_facts import facts_in
from memoryd.adapters.chroma.swap import CLEAN
from memoryd.errors import StoreError, StoreMismatch
from memoryd.ports import Identity, Record
from memoryd.settings import StoreSettings
from tests.adapters.chroma import odd_worker
from tests.adapters.chroma.odd_worker import opening
from tests.adapters.chroma.test_contract import IDENTITY, all_of, record
from tests.processes import until

SETTINGS = StoreSettings(sync_threshold=3)
OTHER = Identity("another", IDENTITY.dimension)


def stored(n: int) -> Record:
    return replace(record(f"m{n}"), revision=n + 1)


def opened(folder: Path, identity: Identity = IDENTITY, **options: Any) -> Any:
    return open_chroma(SETTINGS, folder, identity, tell_first=True, **options)


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    made = tmp_path / "data"
    async with open_chroma(SETTINGS, made, IDENTITY) as store:
        for n in range(3):
            await store.put(stored(n))
    return made


async def revisions(store: ChromaStore) -> dict[str, int]:
    known = await store.revisions()
    assert known is not None
    return dict(known.by_id)


async def test_they_are_those_of_the_open_store(folder: Path) -> None:
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        expected = (store.facts.identity, store.facts.made_for, await revisions(store))
        assert await store.revisions() is None, "once"
    async with opened(folder) as store:
        assert (store.facts.identity, store.facts.made_for, await revisions(store)) == expected
        assert len(await all_of(store)) == 3
        await store.put(stored(3))
    async with opened(folder) as store:
        assert set(await revisions(store)) == {"m0", "m1", "m2", "m3"}


async def test_a_store_names_the_index_that_has_all_of_it(folder: Path) -> None:
    async with opened(folder) as store:
        await store.put(stored(3))
        await store.keep_index("one")
    for _ in range(2):  # a start that writes nothing, and says nothing, knows nothing new
        async with opened(folder, saved_index="one") as store:
            assert store.saved_index == "one"
            assert await store.revisions() is None
            assert len(await all_of(store)) == 4
            await store.keep_index("one")
    async with opened(folder, saved_index="another") as store:
        assert store.saved_index == ""
        assert len(await revisions(store)) == 4
        await store.keep_index("two")
    async with opened(folder) as store:  # the daemon has lost its index
        assert len(await revisions(store)) == 4


async def test_an_index_is_named_after_all_kinds_of_writes(folder: Path) -> None:
    """The rows that ChromaDB counts are those that the worker has counted."""
    async with opened(folder) as store:
        await store.put_all([stored(n) for n in range(3, 9)], new=True)
        await store.put(replace(record("m3", 3), revision=44))
        await store.put(replace(record("m3"), revision=45))  # fewer passages
        await store.put(replace(stored(4), revision=46))
        assert await store.delete(["m5", "nobody"]) == {"m5"}
        await store.keep_index("one")
    async with opened(folder, saved_index="one") as store:
        assert store.saved_index == "one"
        assert "m5" not in await all_of(store)


async def test_an_index_is_named_for_one_collection(folder: Path) -> None:
    other = replace(SETTINGS, collection="work")
    async with open_chroma(other, folder, IDENTITY) as store:
        await store.put(stored(1))
    async with opened(folder) as store:
        await store.keep_index("one")
    async with open_chroma(other, folder, IDENTITY, tell_first=True, saved_index="one") as store:
        assert store.saved_index == ""
        assert set(await revisions(store)) == {"m1"}


async def test_no_index_is_named_if_a_write_has_failed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been done in part."""
    async with opened(folder) as store:
        call = store._worker.call

        async def fail_to_write(name: str, *args: Any) -> Any:
            if name == "write":
                raise StoreError("The disk is full.")
            return await call(name, *args)

        monkeypatch.setattr(store._worker, "call", fail_to_write)
        with pytest.raises(StoreError):
            await store.put(stored(3))
        await store.keep_index("one")
    async with opened(folder, saved_index="one") as store:
        assert store.saved_index == ""


@pytest.mark.parametrize(
    "after",
    ["put", "delete", "purge", "kill", "another program", "another program before", "nothing"],
)
async def test_an_index_is_not_named_after_a_write(folder: Path, after: str) -> None:
    async with opened(folder) as store:
        if after == "another program before":
            await anyio.to_process.run_sync(write_as_another_program, folder / "store")
        await store.keep_index("one")
        if after == "put":
            await store.put(stored(3))
        elif after == "delete":
            await store.delete(["m0"])
        elif after == "purge":
            await store.purge()
        elif after == "kill":
            os.kill(int(str((await store.status())["pid"])), signal.SIGKILL)
            await store.count()
    if after == "another program":
        await anyio.to_process.run_sync(write_as_another_program, folder / "store")
    async with opened(folder, saved_index="one") as store:
        assert store.saved_index == ("one" if after == "nothing" else "")


def write_as_another_program(store: Path) -> None:
    collection = open_embedded(SETTINGS, store, IDENTITY)
    collection.write([stored(9)], [], [])
    collection.close()


async def test_a_store_of_another_model_is_opened_first(folder: Path) -> None:
    assert facts_in(folder / "store", SETTINGS.collection, OTHER) is None
    with pytest.raises(StoreMismatch):
        async with opened(folder, OTHER):
            pass
    async with opened(folder, OTHER, any_model=True) as store:
        assert store.facts.identity == IDENTITY


async def test_a_store_that_was_not_closed_is_opened_first(folder: Path) -> None:
    (folder / "store" / CLEAN).unlink()
    (folder / "store" / "rewritten.json").unlink()
    async with opened(folder) as store:
        assert set(await revisions(store)) == {"m0", "m1", "m2"}
        assert (await store.status())["since_by"] == "made"


@pytest.mark.slow
async def test_calls_wait_until_it_is_open(folder: Path, control: Path) -> None:
    """And what kills the worker meanwhile costs a restart of it."""
    (control / odd_worker.HOLD).touch()
    found: list[str] = []

    async def read() -> None:
        found.extend(sorted(await all_of(store)))

    async with opened(folder) as store, anyio.create_task_group() as tasks:
        assert len(await revisions(store)) == 3
        tasks.start_soon(read)
        await until(lambda: bool(opening(control)))
        assert found == []
        (worker,) = opening(control)
        (control / odd_worker.HOLD).unlink()
        os.kill(worker, signal.SIGKILL)
    assert found == ["m0", "m1", "m2"]


@pytest.mark.slow
async def test_a_stop_while_it_is_being_opened_is_clean(folder: Path, control: Path) -> None:
    (control / odd_worker.HOLD).touch()
    async with anyio.create_task_group() as tasks:
        async with opened(folder) as store:
            assert len(await revisions(store)) == 3
            await until(lambda: bool(opening(control)))
            tasks.start_soon(let_go, control)
    assert (folder / "store" / CLEAN).exists()


async def let_go(control: Path) -> None:
    (control / odd_worker.HOLD).unlink()


async def test_a_broken_index_is_found_later_and_rebuilt(folder: Path) -> None:
    """The worker that finds it ends, and the next one repairs the store; calls wait for that."""
    (header,) = (folder / "store").glob("*/header.bin")
    shutil.rmtree(header.parent)
    async with opened(folder) as store:
        assert len(await revisions(store)) == 3
        assert sorted(await all_of(store)) == ["m0", "m1", "m2"]
        status = await store.status()
        assert (status["since_by"], status["restarts"]) == ("repair", 1)
        await store.put(stored(3))


async def test_a_broken_database_is_not_served(folder: Path) -> None:
    database = folder / "store" / "chroma.sqlite3"
    database.write_bytes(b"\xff" * database.stat().st_size)
    with pytest.raises(StoreError) as caught:
        async with opened(folder):
            pass
    assert caught.value.code == "store_corrupt"
