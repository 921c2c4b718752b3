"""Reads a Chroma directory of another program, in a process of its own.

    python -m memoryd.adapters.chroma.foreign_reader SOURCE COLLECTION FOLDER [--without-index]

Chroma writes to what it opens: it migrates older formats and applies its queue. So the directory is
copied into FOLDER first, and only the copy is opened. The rows go to `rows.jsonl` in FOLDER, one
JSON object a line; facts about them, or an error, go to stdout. If Chroma cannot read its index, or
crashes (then the caller adds `--without-index`), the rows come from the tables, without vectors.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memoryd.adapters.chroma.disk_errors import to_memoryd_error
from memoryd.adapters.chroma.other_collections import other_collections
from memoryd.adapters.chroma.rows import SCHEMA_KEY
from memoryd.adapters.chroma.sqlite_read import (
    DATABASE,
    Unreadable,
    collection_facts,
    database,
    raw_rows,
)
from memoryd.errors import InvalidInput, MemorydError, StoreError
from memoryd.export_file import vector_text

COPY, ROWS = "copy", "rows.jsonl"
WITHOUT_INDEX = "--without-index"
JOURNALS = (f"{DATABASE}-wal", f"{DATABASE}-journal")  # parts of a database that was not closed
PAGE = 500
INCLUDE: Any = ["documents", "metadatas", "embeddings"]
HEADROOM = 1.5  # of the copied bytes: the rows are written beside the copy
NOTHING_CHANGED = "Nothing was changed."

Line = dict[str, Any]


def main() -> None:
    """Copy, read, and print the facts or the error."""
    os.umask(0o077)
    source, collection, folder, *flags = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints is not the answer
    try:
        facts = read(Path(source), collection, Path(folder), with_index=WITHOUT_INDEX not in flags)
    except (MemorydError, OSError) as exc:
        error = to_memoryd_error(exc)
        fields = {"code": error.code, "message": error.message, "hint": error.hint}
        json.dump({"error": fields}, out)
    else:
        json.dump(facts, out)
    out.close()


def read(source: Path, collection: str, folder: Path, *, with_index: bool = True) -> Line:
    """Write the rows of a collection to `folder`; the facts about them. Raises InvalidInput if the
    directory cannot be read, StoreError if the copy cannot be made."""
    copy = folder / COPY
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True, mode=0o700)
    try:
        _copy_database(source, copy)
        others = {other.name: other.rows for other in other_collections(copy, collection)}
        _check_collection(copy, source, collection, others)
        _copy_indexes(source, copy)
        count, has_vectors = _write_rows(copy, collection, folder / ROWS, with_index=with_index)
    except Unreadable as exc:
        raise _unreadable(source, exc.message.replace(str(copy), str(source))) from exc
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    return {"count": count, "vectors": has_vectors, "other_collections": others}


def _copy_database(source: Path, copy: Path) -> None:
    """Copy the database with its journals; refuse one that is written to meanwhile."""
    path = source / DATABASE
    if not path.is_file():
        raise InvalidInput(
            f"{source} holds no {DATABASE}, so it is not a directory of ChromaDB.",
            code="chroma_missing",
            hint="Name the directory that holds the file chroma.sqlite3.",
        )
    parts = [source / name for name in (DATABASE, *JOURNALS) if (source / name).exists()]
    before = [_state(part) for part in parts]
    _check_room(sum(size for size, _ in before), copy)
    for part in parts:
        _copy(shutil.copyfile, part, copy / part.name)
    if before != [_state(part) for part in parts]:
        raise InvalidInput(
            f"Another program writes to {path} at this moment. {NOTHING_CHANGED}",
            code="chroma_busy",
            hint="Stop that program, then try again.",
        )


def _copy_indexes(source: Path, copy: Path) -> None:
    """Copy the index directories that the database names."""
    with database(copy / DATABASE) as connection:
        names = [str(id) for (id,) in connection.execute("SELECT id FROM segments")]
    folders = [source / name for name in names if (source / name).is_dir()]
    total = sum(file.stat().st_size for folder in folders for file in folder.iterdir())
    _check_room(total, copy)
    for folder in folders:
        _copy(shutil.copytree, folder, copy / folder.name)


def _copy(how: Any, source: Path, target: Path) -> None:
    try:
        how(source, target)
    except (OSError, shutil.Error) as exc:
        reason = getattr(exc, "strerror", None) or "some of its files cannot be read"
        raise _unreadable(source, f"{source}: {reason}.") from exc


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _check_room(size: int, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < size * HEADROOM:
        raise StoreError(
            f"A copy needs {size:,} bytes and room for its rows; {free:,} bytes are free on the "
            f"disk of {folder.parent}.",
            code="store_full",
            hint="Free some space.",
        )


def _check_collection(copy: Path, source: Path, collection: str, others: dict[str, int]) -> None:
    with database(copy / DATABASE) as connection:
        query = "SELECT COUNT(*) FROM collections WHERE name = ?"
        known = connection.execute(query, (collection,)).fetchone()[0]
    if not known:
        named = ", ".join(others) or "none"
        raise InvalidInput(
            f"{source} has no collection {collection!r}. Its collections: {named}.",
            code="collection_missing",
            hint=f"Run: memoryd import --chroma {source} --collection NAME",
        )
    if SCHEMA_KEY in collection_facts(copy, collection):
        raise InvalidInput(
            f"The collection {collection!r} in {source} was made by memoryd.",
            code="chroma_own",
            hint="Serve it with memory.path, export its memories there, or restore a backup.",
        )


def _write_rows(copy: Path, collection: str, path: Path, *, with_index: bool) -> tuple[int, bool]:
    """Write every row; how many, and whether they have vectors."""
    if with_index:
        try:
            return _write(_chroma_rows(copy, collection), path), True
        except Exception as exc:
            if isinstance(exc, MemorydError | OSError):
                raise
    return _write(_table_rows(copy, collection), path), False


def _write(lines: Iterator[Line], path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")
            count += 1
    return count


def _chroma_rows(copy: Path, collection: str) -> Iterator[Line]:
    os.chdir(copy)  # importing chromadb reads ./.env
    import chromadb
    from chromadb.config import Settings

    client = chromadb.PersistentClient(str(copy), settings=Settings(anonymized_telemetry=False))
    found = client.get_collection(collection, embedding_function=None)
    offset = 0
    while True:
        page = found.get(limit=PAGE, offset=offset, include=INCLUDE)
        if not page["ids"]:
            return
        documents, metadatas = page["documents"] or [], page["metadatas"] or []
        vectors = page["embeddings"] if page["embeddings"] is not None else []
        for row in zip(page["ids"], documents, metadatas, vectors, strict=True):
            yield _line(*row)
        offset += len(page["ids"])


def _table_rows(copy: Path, collection: str) -> Iterator[Line]:
    try:
        _, found = raw_rows(copy, collection)
    except (TypeError, ValueError) as exc:
        raise Unreadable(f"The tables of {copy / DATABASE} cannot be read.") from exc
    for id, row in found.items():
        yield _line(id, row.document, row.meta, row.vector)


def _line(id: str, document: str | None, metadata: Any, vector: Any) -> Line:
    plain = {key: _plain(value) for key, value in (metadata or {}).items()}
    line: Line = {"id": id, "document": document, "metadata": plain}
    if vector is not None:
        import numpy as np

        line["vector"] = vector_text(np.asarray(vector, dtype=np.float32))
    return line


def _plain(value: Any) -> Any:
    """The value; a number that JSON cannot represent as its name."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _unreadable(source: Path, what: str) -> InvalidInput:
    return InvalidInput(
        f"The memories in {source} cannot be read. {what} {NOTHING_CHANGED}",
        code="chroma_unreadable",
        hint=f"Check who owns its files: ls -l {source}",
    )


if __name__ == "__main__":
    main()
