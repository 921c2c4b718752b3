"""Chroma directories as the plain managers write them that memoryd replaces."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memoryd.adapters.embed.hash import HashEncoder

Row = tuple[str, str, dict[str, Any]]  # id, document, metadata
PAGE = 1000


def seed(folder: Path, rows: Sequence[Row], collection: str = "memories", **how: Any) -> Path:
    """Add rows to a collection with vectors of the hash encoder, or with those of `how["encode"]`;
    the folder."""
    import chromadb
    from chromadb.config import Settings

    folder.mkdir(mode=0o700, exist_ok=True)
    encode = how.get("encode", HashEncoder().encode)
    settings = Settings(anonymized_telemetry=False)
    client: Any = chromadb.PersistentClient(str(folder), settings=settings)
    try:
        found = client.get_or_create_collection(collection, embedding_function=None)
        for start in range(0, len(rows), PAGE):
            page = rows[start : start + PAGE]
            found.add(
                ids=[id for id, _, _ in page],
                documents=[document for _, document, _ in page],
                metadatas=[metadata for _, _, metadata in page],
                embeddings=encode([document for _, document, _ in page]),
            )
    finally:
        client.close()
    return folder


def digests(folder: Path) -> Mapping[str, str]:
    """The digest of every file that the other program wrote."""
    ours = {"store", "backups", "takeover.part"}
    found = {}
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in ours]
        for path in (Path(root, name) for name in names):
            if path.parent != folder or path.name.startswith("chroma.sqlite3"):
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                found[str(path.relative_to(folder))] = digest
    return found
