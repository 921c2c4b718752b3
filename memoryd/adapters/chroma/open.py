"""Open or create the collection, and refuse one that was made for something else.

Chroma's `get_or_create` ignores a different configuration, so it is compared here; reopening binds
a default embedder that downloads a model, so none is passed; SQLite's default journal is slow, so
the write-ahead log is enabled before Chroma opens the file.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from memoryd.adapters.chroma.collection import SCHEMA, Collection, identity_of
from memoryd.adapters.chroma.other_collections import OtherCollection, other_collections
from memoryd.adapters.chroma.remote_errors import to_open_error
from memoryd.adapters.chroma.rows import DIMENSION_KEY, MODEL_KEY, SCHEMA_KEY
from memoryd.adapters.chroma.shared import NOTES, SharedCollection
from memoryd.adapters.chroma.sqlite_read import (
    DATABASE,
    collection_facts,
    enable_wal,
    read_revisions,
)
from memoryd.adapters.chroma.worker_events import stage
from memoryd.audience import Viewer
from memoryd.errors import (
    MemorydError,
    StoreError,
    StoreMismatch,
)
from memoryd.ports import Identity
from memoryd.settings import StoreSettings

REQUEST_TIMEOUT = 25.0  # seconds; less than the time after which an idle worker is replaced
CONNECT_TIMEOUT = 5.0  # seconds: a connection needs nothing of what a slow request needs
OTHER_MODEL = "store_other_model"
NO_MODEL = "none"  # all rows have placeholder vectors: any model may take the store over
EMBEDDED_EF = (
    40  # neighbours that an insertion considers: adds are a fifth faster than with the default, 100
)
NO_MODEL_DIMENSION = 384  # of placeholders: MiniLM's, so that it can take the store over
ANY_MODEL = Identity("any", 0)  # opens a store of any model


def open_embedded(
    settings: StoreSettings, folder: Path, identity: Identity | None, with_revisions: bool = False
) -> Collection:
    """The collection in this folder, created if absent; StoreMismatch if it was made for another
    model, StoreError with the code `store_corrupt` if Chroma cannot open it. Without an identity
    neither model nor schema is compared. `with_revisions`: read those of all memories, too."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    written = enable_wal(folder / DATABASE)
    others = other_collections(folder, settings.collection)
    written = max(0, written - sum(other.rows for other in others))  # their rows are not dead
    path = folder / DATABASE
    revisions = read_revisions(path, settings.collection) if with_revisions else None
    os.chdir(folder)  # importing chromadb reads ./.env of wherever the daemon was started
    if "chromadb" not in sys.modules:  # an early worker has imported it
        with stage("import"):
            importlib.import_module("chromadb")
    import chromadb

    def connect() -> Any:
        return chromadb.PersistentClient(str(folder), settings=_client_settings())

    return _get_or_create(
        settings, identity, connect, written, revisions, others, str(folder / DATABASE)
    )


def has_other_model(folder: Path, collection: str, identity: Identity) -> bool:
    """Whether the store, which need not be open, holds vectors of another model than `identity`."""
    facts = collection_facts(folder, collection)
    if facts.get(SCHEMA_KEY) != SCHEMA or identity.model == NO_MODEL:
        return False
    before = identity_of(facts)
    taken_over = before.model == NO_MODEL and before.dimension == identity.dimension
    return before != identity and not taken_over


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
            settings=_client_settings(settings.ca_file),
        )

    return _get_or_create(settings, identity, connect, 0)


def _get_or_create(
    settings: StoreSettings,
    identity: Identity | None,
    connect: Callable[[], Any],
    written: int,
    revisions: dict[str, int] | None = None,
    others: tuple[OtherCollection, ...] = (),
    where: str = "",
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
            found = _create_for(client, settings, identity)
        notes = _remote_notes(client, settings) if settings.mode == "http" else None
        if identity is not None:
            _check_compatible(found, identity, where or f"at {settings.host}:{settings.port}")
        if identity == ANY_MODEL:
            identity = None
    except BaseException as exc:
        if client is not None:
            client.close()
        if isinstance(exc, MemorydError) or not isinstance(exc, Exception):
            raise
        raise _open_error(settings, exc) from exc
    identity = identity or identity_of(found.metadata)
    if notes is not None:
        viewer = Viewer(settings.owner, settings.projects)
        return SharedCollection(found, notes, identity, client, viewer)
    return Collection(found, identity, settings.mode, client, written, revisions, others)


def _remote_notes(client: Any, settings: StoreSettings) -> Any:
    """The collection of the notes. Also sets a limit for requests: Chroma's client has none, and a
    server that does not answer would block the worker for ever."""
    other = (REQUEST_TIMEOUT,) * 3  # read, write, and wait for a connection
    client._server._session.timeout = (CONNECT_TIMEOUT, *other)
    name = settings.collection + NOTES
    return client.get_or_create_collection(name, embedding_function=None)


def _client_settings(ca_file: str = "") -> Any:
    from chromadb.config import Settings

    trusted = str(Path(ca_file).expanduser()) if ca_file else None  # None: the usual authorities
    return Settings(anonymized_telemetry=False, chroma_server_ssl_verify=trusted)


def _open_error(settings: StoreSettings, exc: Exception) -> MemorydError:
    if settings.mode == "embedded":
        name = type(exc).__name__
        return StoreError(f"The store cannot be opened ({name}).", code="store_corrupt")
    return to_open_error(exc, settings)


def _create_for(client: Any, settings: StoreSettings, identity: Identity) -> Any:
    if identity == ANY_MODEL:
        identity = Identity(NO_MODEL, NO_MODEL_DIMENSION)
    facts = {
        SCHEMA_KEY: SCHEMA,
        MODEL_KEY: identity.model,
        DIMENSION_KEY: identity.dimension,
    }
    try:
        return _create_collection(client, settings, settings.collection, facts)
    except Exception:
        if settings.mode == "embedded":
            raise
        # Another daemon may have made it a moment ago; if not, this raises.
        return client.get_collection(settings.collection, embedding_function=None)


def create_other_collection(
    collection: Collection, name: str, settings: StoreSettings, facts: Mapping[str, Any]
) -> Collection:
    """An empty collection in the same store, with this metadata."""
    made = _create_collection(collection.client, settings, name, facts)
    return Collection(made, identity_of(facts), settings.mode, collection.client, 0)


def _create_collection(
    client: Any, settings: StoreSettings, name: str, facts: Mapping[str, Any]
) -> Any:
    sync = settings.sync_threshold
    hnsw: dict[str, object] = {
        "space": "cosine",
        "sync_threshold": sync,
        "batch_size": min(sync, 100),
    }
    if settings.mode == "embedded":
        hnsw["ef_construction"] = EMBEDDED_EF  # a search rarely asks Chroma's index there
    return client.create_collection(
        name, embedding_function=None, configuration={"hnsw": hnsw}, metadata=dict(facts)
    )


def newer_schema_error(where: str, schema: int) -> StoreMismatch:
    """The error for a store that a newer memoryd wrote."""
    return StoreMismatch(
        f"The store {where} has schema {schema}; this memoryd reads schema {SCHEMA}. "
        "Nothing was changed.",
        code="store_newer",
        hint="Use the version of memoryd that wrote it, or a newer one.",
    )


def _check_compatible(collection: Any, identity: Identity, where: str) -> None:
    facts = dict(collection.metadata or {})
    if SCHEMA_KEY not in facts:
        raise StoreMismatch(
            f"The collection {collection.name!r} in the store {where} was not made by memoryd.",
            hint="Name another store.collection, or use another memory.path.",
        )
    schema = facts[SCHEMA_KEY]
    if schema > SCHEMA:
        raise newer_schema_error(where, schema)
    if schema != SCHEMA:
        raise StoreMismatch(
            f"The store {where} has schema {schema}; this memoryd reads schema {SCHEMA}.",
            hint="Use the version of memoryd that wrote it.",
        )
    if collection.configuration_json.get("hnsw", {}).get("space") != "cosine":
        raise StoreMismatch(
            f"The collection {collection.name!r} in the store {where} does not use cosine "
            "distance.",
            hint="Name another store.collection, or use another memory.path.",
        )
    before = identity_of(facts)
    if identity in (before, ANY_MODEL):
        return
    if NO_MODEL in (before.model, identity.model) and before.dimension == identity.dimension:
        if identity.model != NO_MODEL:
            collection.modify(metadata=facts | {MODEL_KEY: identity.model})
        return
    raise StoreMismatch(
        f"The store was made with {before.model} ({before.dimension} numbers a vector), "
        f"not {identity.model} ({identity.dimension}).",
        code=OTHER_MODEL,
        hint=f"Set memory.embedding_model back to {before.model}, or use another memory.path.",
    )
