"""Repair at start: a store is rebuilt from its database; a database that lost rows is refused."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memoryd.adapters.chroma.store import open_chroma
from memoryd.errors import StoreError
from memoryd.model import MemoryType
from memoryd.ports import Progress, Record
from memoryd.settings import StoreSettings
from tests.adapters.chroma.test_contract import (
    FAITHFUL,
    IDENTITY,
    all_of,
    assert_same,
    record,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_worker")]

SETTINGS = StoreSettings(sync_threshold=10)
DATABASE = "chroma.sqlite3"


def samples() -> list[Record]:
    """25 plain ones, so that the index is flushed, then rows with everything, in the queue."""
    rich = {"type": MemoryType.CONTEXT, "expires_at": 5000.5, "name": "n", "session_id": "s"}
    return [
        *(record(f"m{n}", 1 + n % 3, metadata={"n": n, "list": ["a", "b"]}) for n in range(25)),
        record("rich", 2, metadata=FAITHFUL, pinned=True, updated_at=9.25, **rich),
        record("none", 0),
    ]


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A store with all of the samples, closed."""
    async with open_chroma(SETTINGS, tmp_path, IDENTITY) as store:
        for item in samples():
            await store.put(item)
        await store.put(record("gone"))
        await store.put(record("m1", metadata={"now": "other"}))
        await store.delete(["gone"])
    return tmp_path


def index_file(folder: Path, name: str) -> Path:
    return next((folder / "store").glob(f"*/{name}"))


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: index_file(folder, name).unlink()


def emptied(name: str) -> Callable[[Path], object]:
    return lambda folder: index_file(folder, name).write_bytes(b"")


def garbled(name: str) -> Callable[[Path], object]:
    noise = np.random.default_rng(1).bytes(3000)
    return lambda folder: index_file(folder, name).write_bytes(noise)


def without_index(folder: Path) -> None:
    shutil.rmtree(index_file(folder, "header.bin").parent)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "index directory missing": without_index,
    **{f"{name} missing": without(name) for name in ("header.bin", "data_level0.bin")},
    **{f"{name} missing": without(name) for name in ("length.bin", "link_lists.bin")},
    "index_metadata.pickle missing": without("index_metadata.pickle"),
    "index_metadata.pickle cut off": emptied("index_metadata.pickle"),
    "link_lists.bin cut off": emptied("link_lists.bin"),
    "data_level0.bin garbled": garbled("data_level0.bin"),
    "header.bin garbled": garbled("header.bin"),
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_broken_index_is_rebuilt_without_a_human(folder: Path, damage: str) -> None:
    DAMAGE[damage](folder)
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        found = await all_of(store)
        wanted = {item.memory.id: item for item in samples()}
        wanted["m1"] = record("m1", metadata={"now": "other"})
        assert set(found) == set(wanted)
        for id, item in found.items():
            assert item.memory == wanted[id].memory
            if item.passages:  # what the index had not taken yet has its vectors still
                assert_same(item, wanted[id])
        status = await store.status()
        assert status["since_by"] == "repair"
        aside: Any = status["set_aside"]
        assert len(aside) == 1
        assert (folder / aside[0] / DATABASE).exists()
        await store.put(record("later"))
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        assert (await store.status())["set_aside"] == aside  # repaired once
        assert len(await all_of(store)) == len(wanted) + 1


async def test_a_repair_tells_how_far_it_is(folder: Path) -> None:
    DAMAGE["header.bin missing"](folder)
    seen: list[Progress | None] = []
    async with open_chroma(SETTINGS, folder, IDENTITY, progress=seen.append):
        assert Progress("repairing", 0, len(samples())) in seen
        assert seen[-1] is None, "it is over"


async def test_vectors_that_are_garbage_count_as_missing(folder: Path) -> None:
    """Same size, wrong bytes: Chroma may not notice, or crash. Either way texts are there."""
    file = index_file(folder, "data_level0.bin")
    file.write_bytes(np.random.default_rng(2).bytes(file.stat().st_size))
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        found = await all_of(store)
        assert set(found) == {item.memory.id for item in samples()}
        for item in found.values():
            for passage in item.passages:
                assert np.linalg.norm(passage.vector) == pytest.approx(1.0, abs=1e-3)


async def test_a_store_that_breaks_while_open_is_repaired(folder: Path) -> None:
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        pid = (await store.status())["pid"]
        without("index_metadata.pickle")(folder)
        os.kill(pid, signal.SIGKILL)  # type: ignore[arg-type]
        await store.put(record("later"))
        assert len(await all_of(store)) == len(samples()) + 1
        assert (await store.status())["since_by"] == "repair"


async def test_broken_database_indexes_are_rebuilt(folder: Path) -> None:
    """A page of an SQL index is wiped: the tables still hold every memory."""
    import sqlite3

    path = folder / "store" / DATABASE
    connection = sqlite3.connect(path)
    size = connection.execute("PRAGMA page_size").fetchone()[0]
    (page,) = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = 'embedding_metadata_string_value'"
    ).fetchone()
    connection.close()
    data = bytearray(path.read_bytes())
    data[(page - 1) * size : page * size] = b"\xff" * size
    path.write_bytes(data)
    (folder / "store" / "clean").unlink()
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        assert set(await all_of(store)) == {item.memory.id for item in samples()}
        assert (await store.status())["since_by"] == "repair"


async def test_a_database_without_its_write_ahead_log_does_not_become_an_empty_store(
    tmp_path: Path,
) -> None:
    """After a kill the log may hold everything; without it the file is a valid, empty database."""
    folder, lost = tmp_path / "data", tmp_path / "lost"
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        await store.put(record("kept"))
        shutil.copytree(folder, lost)  # as a kill would leave it
    (lost / "store" / f"{DATABASE}-wal").unlink()
    (lost / "store" / f"{DATABASE}-shm").unlink()
    with pytest.raises(StoreError) as refused:
        async with open_chroma(SETTINGS, lost, IDENTITY):
            pass
    assert refused.value.code == "store_corrupt"


@pytest.mark.parametrize("damage", ["cut off", "missing", "empty", "noise", "tables gone"])
async def test_a_database_that_lost_rows_is_refused_with_the_way_out(
    folder: Path, damage: str
) -> None:
    path = folder / "store" / DATABASE
    data = path.read_bytes()
    path.with_name(f"{DATABASE}-wal").unlink(missing_ok=True)  # it may hold all of it
    if damage == "missing":
        path.unlink()
    else:
        noise = np.random.default_rng(3).bytes(len(data) // 2)
        cut = {"cut off": data[: len(data) // 2], "empty": b"", "noise": b"x" * 5000}
        path.write_bytes(cut.get(damage, data[:4096] + noise))
    before = path.read_bytes() if path.exists() else None
    for _ in range(2):  # it does not become an empty store the second time
        with pytest.raises(StoreError) as refused:
            async with open_chroma(SETTINGS, folder, IDENTITY):
                pass
        assert refused.value.code == "store_corrupt"
        assert f"no backup in {folder}" in refused.value.hint
        assert "Nothing was changed" in refused.value.message
    assert (path.read_bytes() if path.exists() else None) == before
