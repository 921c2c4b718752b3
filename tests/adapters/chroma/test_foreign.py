"""Reading a Chroma directory of another program: complete, and without changing it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from memoryd.adapters.chroma import foreign
from memoryd.adapters.chroma.foreign import read_foreign
from memoryd.adapters.embed.hash import HashEncoder
from memoryd.errors import InvalidInput
from memoryd.export_file import vector_from
from tests.chroma_seed import Row, digests, seed

ROWS: list[Row] = [
    (f"id-{n}", f"Number {n} € ü.", {"type": "fact", "n": n, "x": n / 4, "ok": n % 2 == 0})
    for n in range(1200)  # more than Chroma keeps in its queue
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = seed(tmp_path_factory.mktemp("foreign") / "chroma", ROWS)
    seed(folder, [("o1", "Other.", {"a": 1})], "other")
    return folder


@pytest.mark.slow
async def test_every_row_is_read_and_the_original_stays(source: Path, tmp_path: Path) -> None:
    before = digests(source)
    rows = await read_foreign(source, "memories", tmp_path)
    found = {row["id"]: row for row, _ in rows}
    assert (rows.count, len(found), rows.other_collections) == (1200, 1200, {"other": 1})
    for id, document, metadata in ROWS:
        assert (found[id]["document"], found[id]["metadata"]) == (document, metadata)
    vectors = np.array([vector_from(found[id]["vector"]) for id, _, _ in ROWS])
    assert np.allclose(vectors, HashEncoder().encode([text for _, text, _ in ROWS]), atol=1e-6)
    assert digests(source) == before
    assert os.listdir(tmp_path) == ["rows.jsonl"]
    assert sum(len(batch) for batch in rows.batches(64, 10_000)) == 1200


def damage_indexes(folder: Path) -> None:
    for file in folder.glob("*/*"):
        file.write_bytes(b"\xff" * 40)


async def test_without_its_index_the_texts_are_read(source: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(source, broken)
    damage_indexes(broken)
    rows = await read_foreign(broken, "memories", tmp_path)
    assert {row["id"]: row["document"] for row, _ in rows} == {id: text for id, text, _ in ROWS}


async def test_a_reader_that_crashes_is_tried_without_the_index(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = "import os, sys; '--without-index' in sys.argv or os.abort()\n"
    run = "import memoryd.adapters.chroma.foreign_reader as reader; reader.main()"
    monkeypatch.setattr(foreign, "READER", [foreign.READER[0], "-c", crash + run])
    rows = await read_foreign(source, "memories", tmp_path)
    assert rows.count == 1200


@pytest.mark.parametrize(
    ("collection", "code", "names"),
    [("nothing", "collection_missing", "memories, other"), ("own", "chroma_own", "by memoryd")],
)
async def test_a_collection_that_cannot_be_taken_is_refused(
    source: Path, tmp_path: Path, collection: str, code: str, names: str
) -> None:
    path = tmp_path / "c"
    path.mkdir()
    (path / "chroma.sqlite3").write_bytes((source / "chroma.sqlite3").read_bytes())
    with closing(sqlite3.connect(path / "chroma.sqlite3")) as connection, connection:
        if collection == "own":
            connection.execute("UPDATE collections SET name = 'own' WHERE name = 'other'")
            connection.execute(
                "INSERT INTO collection_metadata (collection_id, key, int_value) "
                "SELECT id, 'memoryd:schema', 1 FROM collections WHERE name = 'own'"
            )
    with pytest.raises(InvalidInput, match=names) as caught:
        await read_foreign(path, collection, tmp_path)
    assert caught.value.code == code


async def test_a_directory_that_cannot_be_read_is_named(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        await read_foreign(tmp_path / "no", "memories", tmp_path)
    assert (caught.value.code, str(tmp_path / "no") in caught.value.message) == (
        "chroma_missing",
        True,
    )
    for content in (b"SQLite format 3\0" + b"\0" * 5000, b"text", b""):
        broken = tmp_path / "broken"
        broken.mkdir(exist_ok=True)
        (broken / "chroma.sqlite3").write_bytes(content)
        with pytest.raises(InvalidInput) as caught:
            await read_foreign(broken, "memories", tmp_path)
        assert caught.value.code in ("chroma_unreadable", "collection_missing")
        assert str(broken) in caught.value.message
        assert str(tmp_path / "copy") not in caught.value.message


async def test_what_was_not_checkpointed_is_read(source: Path, tmp_path: Path) -> None:
    """A program that was killed left its last writes in a journal beside the database."""
    live = tmp_path / "live"
    live.mkdir()
    path = live / "chroma.sqlite3"
    path.write_bytes((source / "chroma.sqlite3").read_bytes())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        with connection:
            connection.execute(
                "UPDATE embedding_metadata SET string_value = 'In the log.' WHERE key = "
                "'chroma:document' AND string_value = 'Other.'"
            )
        copied = tmp_path / "killed"
        copied.mkdir()
        for name in ("chroma.sqlite3", "chroma.sqlite3-wal"):
            (copied / name).write_bytes((live / name).read_bytes())
    rows = await read_foreign(copied, "other", tmp_path)
    assert json.dumps([row["document"] for row, _ in rows]) == '["In the log."]'
