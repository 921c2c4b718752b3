"""Schemas: an older store is brought to this one, a newer one is refused, neither is harmed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from memoryd.adapters.chroma.store import open_chroma
from memoryd.errors import StoreMismatch
from memoryd.settings import StoreSettings
from tests.adapters.chroma.test_contract import IDENTITY, all_of, record
from tests.paths import ROOT
from tests.processes import environment

pytestmark = pytest.mark.slow

# A memoryd of the next version: it calls the session's key by another name.
NEXT = """
import sys
from pathlib import Path
from memoryd.adapters.chroma import collection, open, rows, start

for module in (collection, open, start):
    module.SCHEMA = 2
old, rows.SESSION = rows.SESSION, "memoryd:session"

def renamed(row):
    meta = {rows.SESSION if key == old else key: value for key, value in row.meta.items()}
    return rows.Row(row.id, row.document, meta, row.vector)

if sys.argv[2] == "migrates":
    start.MIGRATIONS[1] = renamed
from tests.adapters.chroma.worker_stores import open_store
opened = open_store(Path(sys.argv[1]))
import json
ids, _ = opened.method("ids_from")(0)
records, *_ = rows.to_records(opened.method("fetch")(ids))
print(json.dumps([opened.facts(), {r.memory.id: r.memory.session_id for r in records},
                  [len(r.passages) for r in records]]))
opened.close()
"""


def next_version(folder: Path, how: str = "migrates") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", NEXT, str(folder), how],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    async with open_chroma(StoreSettings(), tmp_path, IDENTITY) as store:
        await store.put(record("a", 2, session_id="s-1"))
        await store.put(record("b"))
    return tmp_path


async def test_an_older_store_is_migrated_and_kept_as_a_backup(folder: Path) -> None:
    done = next_version(folder)
    assert done.returncode == 0, done.stderr
    facts, sessions, passages = json.loads(done.stdout)
    assert sessions == {"a": "s-1", "b": None}
    assert passages == [2, 1]
    assert (facts["schema"], facts["since_by"]) == (2, "migrate")
    (aside,) = facts["set_aside"]
    assert aside.startswith("backups/store.schema-1-")
    again = json.loads(next_version(folder).stdout)
    assert again[0]["set_aside"] == [aside]  # once
    # The copy that was kept is a store that the older version still opens.
    (folder / "store").rename(folder / "newer")
    (folder / aside).rename(folder / "store")
    async with open_chroma(StoreSettings(), folder, IDENTITY) as store:
        assert (await all_of(store))["a"].memory.session_id == "s-1"


async def test_a_newer_store_is_refused_and_left_alone(folder: Path) -> None:
    assert next_version(folder).returncode == 0
    with pytest.raises(StoreMismatch) as refused:
        async with open_chroma(StoreSettings(), folder, IDENTITY):
            pass
    assert "schema 2" in refused.value.message
    assert json.loads(next_version(folder).stdout)[1] == {"a": "s-1", "b": None}


async def test_an_older_store_without_a_way_up_is_refused(folder: Path) -> None:
    done = next_version(folder, "does not")
    assert done.returncode != 0
    assert "StoreMismatch" in done.stderr
    async with open_chroma(StoreSettings(), folder, IDENTITY) as store:
        assert len(await all_of(store)) == 2
