"""Opening the collection: make it or recognise it, refuse what it was not made for.

`get_or_create` ignores a differing configuration, so it is compared here; reopening binds a
default embedder that downloads a model, so none is passed; the journal is slow as shipped, so
the write-ahead log is set before Chroma opens the file.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from memoryd.adapters.chroma_collection import SCHEMA, Collection
from memoryd.adapters.chroma_rows import REVISION, TYPE
from memoryd.errors import MemorydError, StoreError, StoreMismatch, StoreUnavailable
from memoryd.metadata import RESERVED
from memoryd.ports import Identity
from memoryd.settings import StoreSettings

SCHEMA_KEY, MODEL_KEY, DIMENSION_KEY = (
    RESERVED + word for word in ("schema", "model", "dimension")
)
DATABASE = "chroma.sqlite3"
NO_MODEL = "none"  # a store whose rows are all placeholders: any model may take it over


def open_collection(settings: StoreSettings, data_dir: Path, identity: Identity) -> Collection:
    """The collection, made if absent; StoreMismatch if it was made for something else."""
    embedded = settings.mode == "embedded"
    known = read_revisions(data_dir / "store" / DATABASE) if embedded else None
    client = _embedded(data_dir) if embedded else _remote(settings)
    from chromadb.errors import NotFoundError

    try:
        found = client.get_collection(settings.collection, embedding_function=None)
    except NotFoundError:
        found = _create(client, settings, identity)
    except MemorydError:
        raise
    except Exception as exc:
        raise _unreachable(settings, exc) from exc
    _compare(found, identity)
    return Collection(found, identity, settings.mode, known)


def _embedded(data_dir: Path) -> Any:
    folder = data_dir / "store"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _set_wal(folder / DATABASE)
    os.chdir(folder)  # importing chromadb reads ./.env of wherever the daemon was started
    import chromadb

    return chromadb.PersistentClient(str(folder), settings=_quiet())


def _set_wal(path: Path) -> None:
    """2 fsyncs a commit instead of 8. Only while Chroma is closed: two SQLite copies in one
    process drop each other's locks."""
    try:
        connection = sqlite3.connect(path)
        try:
            (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        finally:
            connection.close()
    except sqlite3.Error as exc:
        raise StoreError(
            f"The store's database {path} cannot be used: {exc}.", code="store_corrupt"
        ) from exc
    if mode != "wal":
        raise StoreError(f"{path} cannot use a write-ahead log (it answered {mode}).")


def read_revisions(path: Path) -> dict[str, int] | None:
    """By id, the revision of every memory; None if the file does not tell.

    Read from Chroma's own tables before it opens them: by its API this takes as long as reading
    everything. A write that its log has and its tables do not is told as 0: unknown, not old.
    """
    if not path.exists():
        return None
    try:
        connection = sqlite3.connect(path)
        try:
            known: dict[str, int] = dict(
                connection.execute(
                    "SELECT e.embedding_id, m.int_value FROM embedding_metadata m "
                    "JOIN embeddings e ON e.id = m.id "
                    "WHERE m.key = ? AND m.int_value IS NOT NULL",
                    (REVISION,),
                )
            )
            (memories,) = connection.execute(
                "SELECT COUNT(*) FROM embedding_metadata WHERE key = ?", (TYPE,)
            ).fetchone()
            for (id,) in connection.execute(
                "SELECT id FROM embeddings_queue WHERE seq_id > (SELECT COALESCE(MAX(q.seq_id), 0) "
                "FROM max_seq_id q JOIN segments s ON s.id = q.segment_id "
                "WHERE s.scope = 'METADATA')"
            ):
                known[str(id).partition("#")[0]] = 0
        finally:
            connection.close()
    except sqlite3.Error:
        return None  # whatever is wrong is found, and told, by who opens it next
    return known if memories <= len(known) else None


def _remote(settings: StoreSettings) -> Any:
    os.chdir(tempfile.gettempdir())
    import chromadb

    try:
        return chromadb.HttpClient(
            host=settings.host,
            port=settings.port,
            ssl=settings.ssl,
            headers=dict(settings.headers),
            tenant=settings.tenant,
            database=settings.database,
            settings=_quiet(),
        )
    except Exception as exc:
        raise _unreachable(settings, exc) from exc


def _quiet() -> Any:
    from chromadb.config import Settings

    return Settings(anonymized_telemetry=False)


def _unreachable(settings: StoreSettings, exc: Exception) -> MemorydError:
    if settings.mode == "embedded":
        return StoreError(f"The store does not open: {str(exc)[:200]}", code="store_corrupt")
    return StoreUnavailable(
        f"The Chroma server at {settings.host}:{settings.port} cannot be used: {str(exc)[:200]}",
        hint="Check that it runs and that store.host, port, tenant and database are right.",
    )


def _create(client: Any, settings: StoreSettings, identity: Identity) -> Any:
    sync = settings.sync_threshold
    return client.create_collection(
        settings.collection,
        embedding_function=None,
        configuration={
            "hnsw": {"space": "cosine", "sync_threshold": sync, "batch_size": min(sync, 100)}
        },
        metadata={
            SCHEMA_KEY: SCHEMA,
            MODEL_KEY: identity.model,
            DIMENSION_KEY: identity.dimension,
        },
    )


def _compare(found: Any, identity: Identity) -> None:
    facts = dict(found.metadata or {})
    if SCHEMA_KEY not in facts:
        raise StoreMismatch(f"The collection {found.name!r} was not made by memoryd.")
    if facts[SCHEMA_KEY] != SCHEMA:
        raise StoreMismatch(
            f"The store has schema {facts[SCHEMA_KEY]}; this memoryd reads schema {SCHEMA}.",
            hint="Use the version of memoryd that wrote it.",
        )
    if found.configuration_json.get("hnsw", {}).get("space") != "cosine":
        raise StoreMismatch("The collection does not compare by cosine.")
    before = Identity(str(facts[MODEL_KEY]), int(facts[DIMENSION_KEY]))
    if before == identity:
        return
    if NO_MODEL in (before.model, identity.model) and before.dimension == identity.dimension:
        if identity.model != NO_MODEL:
            found.modify(metadata=facts | {MODEL_KEY: identity.model})
        return
    raise StoreMismatch(
        f"The store was made with {before.model} ({before.dimension} numbers a vector), "
        f"not {identity.model} ({identity.dimension}).",
        hint=f"Set memory.embedding_model back to {before.model}, or use another memory.path.",
    )
