"""Another `store.collection`: every rewrite keeps the other collections of the directory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from memoryd.adapters.chroma.backup import Restore
from memoryd.adapters.chroma.next_store import ChromaNextStore
from memoryd.adapters.chroma.store import ChromaStore, open_chroma
from memoryd.errors import StoreError
from memoryd.ports import Identity, Record
from memoryd.settings import StoreSettings
from tests.adapters.chroma.test_contract import IDENTITY, all_of, assert_same, record
from tests.processes import environment

pytestmark = pytest.mark.slow

MINE, THEIRS = StoreSettings(sync_threshold=10), StoreSettings(sync_threshold=10, collection="work")
KEPT = [
    record("same-id", content="theirs"),
    *(record(f"w{n}", 1 + n % 3, metadata={"n": n, "x": None}) for n in range(25)),
    record("none", 0),
]
FOREIGN = """
import sys, chromadb
client = chromadb.PersistentClient(sys.argv[1])
made = client.get_or_create_collection("recipes", embedding_function=None)
made.upsert(ids=["soup"], documents=["leek and potato"], embeddings=[[1.0, 2.0, 3.0]])
print(made.count(), made.get(ids=["soup"])["documents"])
client.close()
"""


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A store with two collections, closed."""
    async with open_chroma(THEIRS, tmp_path, IDENTITY) as store:
        for item in KEPT:
            await store.put(item, new=True)
    async with open_chroma(MINE, tmp_path, IDENTITY) as store:
        await store.put(record("same-id", content="mine"))
        await store.put(record("gone"))
        await store.delete(["gone"])
    return tmp_path


async def revisions(store: ChromaStore) -> Mapping[str, int]:
    known = await store.revisions()
    return known.by_id if known else {}


async def assert_kept(folder: Path, kept: Sequence[Record] = KEPT, vectors: bool = True) -> None:
    async with open_chroma(THEIRS, folder, IDENTITY) as store:
        found = await all_of(store)
        assert set(found) == {item.memory.id for item in kept}
        for item in kept:
            if vectors:
                assert_same(found[item.memory.id], item)
            assert found[item.memory.id].memory == item.memory
        assert set(await revisions(store) or found) == set(found)


async def test_a_purge_keeps_the_other_collection(folder: Path) -> None:
    async with open_chroma(MINE, folder, IDENTITY) as store:
        assert set(await revisions(store) or {"same-id": 1}) == {"same-id"}
        await store.purge()
        assert set(await all_of(store)) == {"same-id"}
    await assert_kept(folder)


async def test_rows_of_the_other_collection_are_not_dead(folder: Path) -> None:
    rows = sum(max(1, len(item.passages)) for item in KEPT)
    settings = StoreSettings(compact_rows=5)
    async with open_chroma(settings, folder, IDENTITY) as store:
        status = await store.status()
        assert status["other_collections"] == {"work": rows}
        assert status["dead_rows"] == 1
        assert not await store.compact()
        await store.purge()
        status = await store.status()
        assert (status["dead_rows"], status["other_collections"]) == (0, {"work": rows})


async def test_a_repair_keeps_the_other_collection(folder: Path) -> None:
    for path in (folder / "store").glob("*/header.bin"):
        path.write_bytes(b"")
    async with open_chroma(MINE, folder, IDENTITY) as store:
        assert (await store.status())["since_by"] == "repair"
        assert set(await all_of(store)) == {"same-id"}
    await assert_kept(folder, vectors=False)


@pytest.mark.parametrize("times", [1, 2])
async def test_another_model_keeps_the_other_collection(folder: Path, times: int) -> None:
    """Also if the change was interrupted: the collection is copied again, as it is now."""
    other = Identity("other", 8)
    async with open_chroma(MINE, folder, IDENTITY, any_model=True) as store:
        next_store = ChromaNextStore(store, MINE, folder)
        for _ in range(times):
            async with next_store.open(other) as beside:
                await beside.put(record("same-id", 0))
        async with next_store.alone():
            await next_store.replace(other)
        assert (await store.status())["since_by"] == "model"
        assert await store.read_identity() == other
        assert set(await all_of(store)) == {"same-id"}
    await assert_kept(folder)


async def test_a_restore_keeps_the_other_collection(folder: Path, tmp_path: Path) -> None:
    async with open_chroma(MINE, folder, IDENTITY) as store:
        made = await store.backup(tmp_path / "kept", 3)
        assert made is not None
    asked = Restore(Path(made.path), replace=True)
    async with open_chroma(MINE, folder, IDENTITY, asked) as store:
        assert (await store.status())["since_by"] == "restore"
        assert set(await all_of(store)) == {"same-id"}
    await assert_kept(folder)


def foreign(folder: Path) -> str:
    command = [sys.executable, "-c", FOREIGN, str(folder / "store")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


async def test_a_collection_of_another_program_stops_the_rewrite(folder: Path) -> None:
    said = foreign(folder)
    settings = StoreSettings(compact_rows=0, compact_hours=0)
    async with open_chroma(settings, folder, IDENTITY) as store:
        assert not await store.compact()
        with pytest.raises(StoreError, match="recipes") as refused:
            await store.purge()
        assert refused.value.code == "other_collections"
        with pytest.raises(StoreError, match="recipes"):
            async with ChromaNextStore(store, settings, folder).open(Identity("other", 8)):
                pass
        await store.put(record("goes on"))
        assert set(await all_of(store)) == {"same-id", "goes on"}
    assert foreign(folder) == said
    await assert_kept(folder)
