"""Files that are deleted, moved or replaced under a running daemon: no write is acknowledged."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from memoryd.adapters.chroma.store import ChromaStore, open_chroma
from memoryd.errors import StoreError
from memoryd.settings import StoreSettings
from tests.adapters.chroma.test_contract import IDENTITY, all_of, record

pytestmark = pytest.mark.usefixtures("forked_worker")

SETTINGS = StoreSettings(sync_threshold=10)
DATABASE = "chroma.sqlite3"


def replaced(folder: Path) -> None:
    other = shutil.copytree(folder / "store", folder / "copy")
    shutil.rmtree(folder / "store")
    other.rename(folder / "store")


LOSSES: dict[str, Callable[[Path], object]] = {
    "data directory deleted": shutil.rmtree,
    "store deleted": lambda folder: shutil.rmtree(folder / "store"),
    "data directory moved": lambda folder: folder.rename(folder.with_name("moved")),
    "database deleted": lambda folder: (folder / "store" / DATABASE).unlink(),
    "write-ahead log deleted": lambda folder: (folder / "store" / f"{DATABASE}-wal").unlink(),
    "store replaced by its copy": replaced,
}


async def assert_refused(store: ChromaStore) -> None:
    with pytest.raises(StoreError) as of_put:
        await store.put(record("into nothing"), new=True)
    with pytest.raises(StoreError) as of_delete:
        await store.delete(["m1"])
    with pytest.raises(StoreError) as of_purge:
        await store.purge()
    codes = {refused.value.code for refused in (of_put, of_delete, of_purge)}
    assert codes == {"store_gone"}
    assert "memoryd rescue" in of_put.value.hint


@pytest.mark.parametrize("loss", LOSSES)
async def test_no_write_is_acknowledged_once_the_files_are_gone(tmp_path: Path, loss: str) -> None:
    folder = tmp_path / "data"
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        for n in range(15):
            await store.put(record(f"m{n}"))
        LOSSES[loss](folder)
        await assert_refused(store)


async def test_a_directory_that_is_put_back_serves_again(tmp_path: Path) -> None:
    folder, away = tmp_path / "data", tmp_path / "away"
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        await store.put(record("before"))
        folder.rename(away)
        await assert_refused(store)  # reads are not asked for: Chroma may open its file by name
        away.rename(folder)
        await store.put(record("after"))
        await store.purge()
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        assert set(await all_of(store)) == {"before", "after"}


@pytest.mark.parametrize("loss", ["data directory deleted", "store deleted"])
async def test_a_new_worker_makes_no_empty_store_in_its_place(tmp_path: Path, loss: str) -> None:
    folder = tmp_path / "data"
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        await store.put(record("before"))
        LOSSES[loss](folder)
        os.kill(int(str((await store.status())["pid"])), signal.SIGKILL)
        await assert_refused(store)
    assert not (folder / "store" / DATABASE).exists()
