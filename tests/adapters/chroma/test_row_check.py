"""Stores that were not closed: what is told of them early, and rows that are checked later."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import signal
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from memoryd.adapters.chroma.sqlite_read import DATABASE, read_revisions
from memoryd.adapters.chroma.store import ChromaStore, open_chroma
from memoryd.adapters.chroma.swap import CLEAN
from memoryd.ports import Record
from memoryd.settings import StoreSettings
from tests.adapters.chroma import odd_worker
from tests.adapters.chroma.test_contract import IDENTITY, all_of, record
from tests.processes import until

pytestmark = pytest.mark.slow

SETTINGS = StoreSettings(sync_threshold=10)
COUNT = 25


def stored(n: int, passages: int = 1) -> Record:
    return replace(record(f"m{n}", passages), revision=n + 1)


@pytest.fixture
async def folder(tmp_path: Path, control: Path) -> Path:
    """A store that looks as if it had been killed, with more rows than are checked at once."""
    made = tmp_path / "data"
    async with open_chroma(SETTINGS, made, IDENTITY) as store:
        for n in range(COUNT):
            await store.put(stored(n))
    (made / "store" / CLEAN).unlink()
    (control / odd_worker.CHECK_LATER).touch()
    return made


def opened(folder: Path) -> Any:
    return open_chroma(SETTINGS, folder, IDENTITY, tell_first=True)


def lose_a_row(folder: Path) -> None:
    """Remove a row from the index, as if a flush of it had been lost."""
    (path,) = (folder / "store").glob("*/index_metadata.pickle")
    known = pickle.loads(path.read_bytes())
    del known["label_to_id"][known["id_to_label"].pop("m7")]
    path.write_bytes(pickle.dumps(known, protocol=2))


def count_of(events: list[Any], name: str) -> int:
    return sum(event["event"] == name for event in events)


async def served(store: ChromaStore) -> None:
    assert (await store.revisions()).by_id == {f"m{n}": n + 1 for n in range(COUNT)}  # type: ignore[union-attr]
    await store.put(stored(COUNT))
    assert len(await all_of(store)) == COUNT + 1


async def test_calls_are_served_while_rows_are_checked(folder: Path, control: Path) -> None:
    (control / odd_worker.HOLD_CHECK).touch()
    with capture_logs() as events:
        async with opened(folder) as store:
            await served(store)
            assert not count_of(events, "rows_checked")
            (control / odd_worker.HOLD_CHECK).unlink()
            await until(lambda: count_of(events, "rows_checked") == 1)
            assert await store.delete(["m0"]) == {"m0"}
    (told,) = [event for event in events if event["event"] == "rows_checked"]
    assert told["rows"] == COUNT + 1
    assert (folder / "store" / CLEAN).exists()


async def test_a_stop_before_all_rows_are_checked_leaves_that_to_the_next_start(
    folder: Path, control: Path
) -> None:
    (control / odd_worker.HOLD_CHECK).touch()
    async with opened(folder) as store:
        await served(store)
    assert not (folder / "store" / CLEAN).exists()
    (control / odd_worker.HOLD_CHECK).unlink()
    with capture_logs() as events:
        async with opened(folder) as store:
            await until(lambda: count_of(events, "rows_checked") == 1)
    assert (folder / "store" / CLEAN).exists()


async def test_a_lost_row_is_found_without_a_call_and_the_store_repaired(
    folder: Path, control: Path
) -> None:
    """What was stored until it is found is kept too."""
    lose_a_row(folder)
    (control / odd_worker.HOLD_CHECK).touch()
    with capture_logs() as events:
        async with opened(folder) as store:
            await store.put(stored(COUNT))
            (control / odd_worker.HOLD_CHECK).unlink()
            await until(lambda: count_of(events, "worker_ended") == 1)
            assert len(await all_of(store)) == COUNT + 1
            status = await store.status()
            assert (status["since_by"], status["restarts"]) == ("repair", 1)
            await store.put(stored(COUNT + 1))
    assert count_of(events, "repair") == 1
    async with opened(folder) as store:
        assert len(await all_of(store)) == COUNT + 2


async def test_a_worker_that_was_killed_is_replaced_before_all_rows_are_checked(
    folder: Path, control: Path
) -> None:
    (control / odd_worker.HOLD_CHECK).touch()
    async with opened(folder) as store:
        for _ in range(2):
            os.kill(int(str((await store.status())["pid"])), signal.SIGKILL)
            assert len(await all_of(store)) == COUNT
        assert (await store.status())["restarts"] == 2


async def test_revisions_of_operations_that_only_the_queue_has(tmp_path: Path) -> None:
    """Chroma applies its queue when it opens the store: the same must come out."""
    pick, later, earlier = random.Random(5), tmp_path / "later", tmp_path / "earlier"
    settings = StoreSettings(sync_threshold=1000)  # the queue keeps everything
    async with open_chroma(settings, later, IDENTITY) as store:
        for n in range(12):
            await store.put(stored(n, passages=1 + n % 3))
    expected = {f"m{n}": n + 1 for n in range(12)}
    assert read_revisions(later / "store" / DATABASE, settings.collection) == expected
    shutil.copytree(later, earlier)
    async with open_chroma(settings, later, IDENTITY) as store:
        for n in range(12, 40):
            id = pick.randrange(20)
            if pick.random() < 0.3:
                expected.pop(f"m{id}", None)
                await store.delete([f"m{id}"])
            else:
                expected[f"m{id}"] = n + 1
                await store.put(replace(stored(id, 1 + n % 3), revision=n + 1))
    copy_queue(later / "store" / DATABASE, earlier / "store" / DATABASE)
    for folder in (later, earlier):
        assert read_revisions(folder / "store" / DATABASE, settings.collection) == expected
    async with open_chroma(settings, earlier, IDENTITY) as store:
        assert (await store.revisions()).by_id == expected  # type: ignore[union-attr]


def copy_queue(source: Path, target: Path) -> None:
    """Make this a store that was killed after these operations were committed to its queue."""
    with closing(sqlite3.connect(target)) as connection:
        connection.execute("ATTACH ? AS source", (str(source),))
        connection.execute(
            "INSERT INTO embeddings_queue SELECT * FROM source.embeddings_queue "
            "WHERE seq_id > (SELECT MAX(seq_id) FROM embeddings_queue)"
        )
        assert connection.total_changes > 28
        connection.commit()
