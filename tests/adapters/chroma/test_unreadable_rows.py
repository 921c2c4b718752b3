"""Rows that are not memories: a start names them and goes on, and nothing deletes them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memoryd.adapters.backup_file import verify
from memoryd.adapters.chroma.next_store import ChromaNextStore
from memoryd.adapters.chroma.store import ChromaStore, open_chroma
from memoryd.cli.main import main
from memoryd.errors import StoreError
from memoryd.ports import Identity
from memoryd.settings import StoreSettings
from tests.adapters.chroma.test_contract import IDENTITY, all_of, assert_same, record
from tests.daemons import Daemon
from tests.processes import environment

pytestmark = pytest.mark.slow

SETTINGS = StoreSettings(sync_threshold=10)
OTHER = Identity("other", IDENTITY.dimension // 2)
NO_TYPE, NO_TIME = "it has no memoryd:type", "it has no memoryd:created_at"
DAMAGED = "its metadata is damaged"
ODD = {
    "bare": NO_TYPE,
    "noted": NO_TYPE,
    "long": NO_TYPE,
    "gossip": DAMAGED,
    "timeless": NO_TIME,
    "garbled": DAMAGED,
    "numbered": DAMAGED,
}
PASSAGES = {"long": 3}
ANOTHER_PROGRAM = """
import sys, chromadb
client = chromadb.PersistentClient(sys.argv[1])
ours = client.get_collection("memories", embedding_function=None)
vector = ours.get(limit=1, include=["embeddings"])["embeddings"][0]
ours.add(ids=["bare"], documents=["canary-51c"], embeddings=[vector])
ours.add(ids=["noted"], metadatas=[{"colour": "red"}], embeddings=[vector])
for id, change in {
    "long": {"memoryd:type": None, "memoryd:rows": None},
    "gossip": {"memoryd:type": "gossip"},
    "timeless": {"memoryd:created_at": None, "memoryd:expires_at": 1.0},
    "garbled": {"memoryd:json": "{oops"},
    "numbered": {"memoryd:name": 7},
}.items():
    if ours.get(ids=[id])["ids"]:
        ours.update(ids=[id], metadatas=[change])
client.close()
"""
DUMP = """
import json, sys, chromadb
client = chromadb.PersistentClient(sys.argv[1])
ours = client.get_collection("memories", embedding_function=None)
found = ours.get(include=["documents", "metadatas"])
columns = zip(found["ids"], found["documents"], found["metadatas"])
print(json.dumps({id: [text, meta] for id, text, meta in columns}))
client.close()
"""


def python(code: str, folder: Path) -> str:
    command = [sys.executable, "-c", code, str(folder / "store")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def odd_rows(folder: Path) -> dict[str, Any]:
    """The rows that cannot be read, as another program sees them, with their passages."""
    found = json.loads(python(DUMP, folder))
    return {id: row for id, row in found.items() if id.partition("#")[0] in ODD}


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A closed store in which another program wrote and changed rows."""
    async with open_chroma(SETTINGS, tmp_path, IDENTITY) as store:
        for n, id in enumerate(("m0", "m1", "m2", *ODD)):
            if id not in ("bare", "noted"):
                item = record(id, PASSAGES.get(id, 1 + n % 3))
                await store.put(replace(item, revision=n + 1), new=True)
    python(ANOTHER_PROGRAM, tmp_path)
    assert len(odd_rows(tmp_path)) >= len(ODD) + 2
    return tmp_path


async def test_a_start_reads_the_others_and_names_them(folder: Path) -> None:
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        found = await all_of(store)
        assert set(found) == {"m0", "m1", "m2"}
        assert_same(found["m1"], replace(record("m1", 2), revision=2))
        assert (await store.status())["unreadable"] == {"count": len(ODD), "rows": ODD}
        assert [r.memory.id for r in await store.get(["m0", "bare", "gossip"])] == ["m0"]


async def test_a_start_from_a_snapshot_reads_and_names_them_too(folder: Path) -> None:
    """It asks the store only for what it does not know."""
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        known = await store.revisions()
        assert known is not None
        assert [known.by_id[id] for id in ("m0", "m1", "m2")] == [1, 2, 3]
        assert [known.by_id[id] for id in ("bare", "noted", "long")] == [0, 0, 0]
        assert "unreadable" not in await store.status()
        await store.get(list(known.by_id))
        assert (await store.status())["unreadable"] == {"count": len(ODD), "rows": ODD}


async def test_a_start_a_sweep_a_purge_and_another_model_keep_them(folder: Path) -> None:
    before = odd_rows(folder)
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        await all_of(store)
        assert await store.expired(2000.0, 10) == []
        await store.purge()
        await all_of(store)
    assert odd_rows(folder) == before
    async with open_chroma(SETTINGS, folder, OTHER, any_model=True) as store:
        await all_of(store)
        await change_model(store, folder, "m0", "m1", "m2")
        assert (await store.status())["since_by"] == "model"
        assert (await store.status())["unreadable"] == {"count": len(ODD), "rows": ODD}
        assert set(await all_of(store)) == {"m0", "m1", "m2"}
    assert odd_rows(folder) == before


async def test_a_change_of_model_that_failed_before_keeps_those_that_are_left(folder: Path) -> None:
    """The first attempt copies them and lacks a memory; then one of them becomes a memory."""
    async with open_chroma(SETTINGS, folder, OTHER, any_model=True) as store:
        await all_of(store)
        with pytest.raises(StoreError):
            await change_model(store, folder, "m0", "m1")
        await store.delete(["bare"])
        await store.put(record("gossip"), new=True)
        await change_model(store, folder, "m2", "gossip")
        assert set(await all_of(store)) == {"m0", "m1", "m2", "gossip"}
    assert {id.partition("#")[0] for id in odd_rows(folder)} == ODD.keys() - {"bare"}


async def change_model(store: ChromaStore, folder: Path, *ids: str) -> None:
    """Add these memories to the next store, and put it in the place of the live one."""
    next_store = ChromaNextStore(store, SETTINGS, folder)
    async with next_store.open(OTHER) as filled:
        await all_of(filled)
        for id in ids:
            await filled.put(record(id, 0), new=True)  # vectors of no model
    async with next_store.alone():
        await next_store.replace(OTHER)


async def test_a_backup_has_the_others(folder: Path, tmp_path: Path) -> None:
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        made = await store.backup(tmp_path / "files", 3)
        assert made is not None
    assert verify(Path(made.path)) == made.memories == 3


async def test_a_memory_with_the_id_of_one_takes_its_place(folder: Path) -> None:
    """As an import of a backup does, for which the memory is new."""
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        await all_of(store)
        await store.put(record("gossip", 2), new=True)
        found = (await store.status())["unreadable"]
        assert isinstance(found, dict)
        assert "gossip" not in found["rows"]
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        assert_same((await all_of(store))["gossip"], record("gossip", 2))


def test_the_daemon_serves_and_doctor_names_them_without_their_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon = Daemon(tmp_path / "data").start()
    daemon.tool("store_memory", content="Tea is at four.")
    assert daemon.stop() == 0
    python(ANOTHER_PROGRAM, tmp_path / "data")
    daemon.start()
    try:
        assert daemon.tool("search_memories", query="tea")["results"]
        assert daemon.status()["store"]["unreadable"]["count"] == 2
        where = ["--data-dir", str(daemon.folder), "--socket", str(daemon.socket)]
        assert main(["doctor", *where]) == 1
        said = capsys.readouterr().out
        assert f"rows_unreadable: Rows of the store that are not memories: bare ({NO_TYPE})" in said
        assert main(["status", *where]) == 0
        assert "2 rows of the store" in capsys.readouterr().out
    finally:
        assert daemon.stop() == 0
    log = daemon.log.read_text()
    assert "rows_unreadable" in log
    assert "canary-51c" not in log + said
