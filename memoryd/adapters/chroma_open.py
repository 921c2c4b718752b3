"""Opening the collection: make it or recognise it, refuse what it was not made for.

`get_or_create` ignores a differing configuration, so it is compared here; reopening binds a
default embedder that downloads a model, so none is passed; the journal is slow as shipped, so
the write-ahead log is set before Chroma opens the file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from memoryd.adapters.chroma_collection import SCHEMA, Collection, identity_of
from memoryd.adapters.chroma_revisions import read_revisions
from memoryd.adapters.chroma_rows import DIMENSION_KEY, MODEL_KEY, SCHEMA_KEY
from memoryd.adapters.chroma_salvage import DATABASE, set_wal
from memoryd.errors import MemorydError, StoreError, StoreMismatch, StoreUnavailable
from memoryd.ports import Identity
from memoryd.settings import StoreSettings

OTHER_MODEL = "store_other_model"
NO_MODEL = "none"  # a store whose rows are all placeholders: any model may take it over


def open_embedded(settings: StoreSettings, folder: Path, identity: Identity | None) -> Collection:
    """The collection in this folder, made if absent; StoreMismatch if made for something else.
    StoreError with the code `store_corrupt` if Chroma cannot open it. Without an identity it is
    opened as it is, whatever its schema."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    written = set_wal(folder / DATABASE)
    revisions = read_revisions(folder / DATABASE)
    os.chdir(folder)  # importing chromadb reads ./.env of wherever the daemon was started
    import chromadb

    def connect() -> Any:
        return chromadb.PersistentClient(str(folder), settings=_quiet())

    return _open(settings, identity, connect, written, revisions)


def open_remote(settings: StoreSettings, identity: Identity) -> Collection:
    """The collection on a Chroma server; StoreUnavailable if it cannot be reached."""
    os.chdir(tempfile.gettempdir())
    import chromadb

    def connect() -> Any:
        return chromadb.HttpClient(
            host=settings.host,
            port=settings.port,
            ssl=settings.ssl,
            headers=dict(settings.headers),
            tenant=settings.tenant,
            database=settings.database,
            settings=_quiet(),
        )

    return _open(settings, identity, connect, 0)


def _open(
    settings: StoreSettings,
    identity: Identity | None,
    connect: Callable[[], Any],
    written: int,
    revisions: dict[str, int] | None = None,
) -> Collection:
    from chromadb.errors import NotFoundError

    client = None
    try:
        client = connect()
        try:
            found = client.get_collection(settings.collection, embedding_function=None)
        except NotFoundError:
            if identity is None:
                raise
            found = _create(client, settings, identity)
        if identity is not None:
            _compare(found, identity)
    except BaseException as exc:
        if client is not None:
            client.close()
        if isinstance(exc, MemorydError) or not isinstance(exc, Exception):
            raise
        raise _unreachable(settings, exc) from exc
    identity = identity or identity_of(found.metadata)
    return Collection(found, identity, settings.mode, client, written, revisions)


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
    before = identity_of(facts)
    if before == identity:
        return
    if NO_MODEL in (before.model, identity.model) and before.dimension == identity.dimension:
        if identity.model != NO_MODEL:
            found.modify(metadata=facts | {MODEL_KEY: identity.model})
        return
    raise StoreMismatch(
        f"The store was made with {before.model} ({before.dimension} numbers a vector), "
        f"not {identity.model} ({identity.dimension}).",
        code=OTHER_MODEL,
        hint=f"Set memory.embedding_model back to {before.model}, or use another memory.path.",
    )
