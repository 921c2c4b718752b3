"""Change the embedding model of a store: the same memories get new vectors.

The store is rewritten for the new model in one swap, with every memory waiting for its vector. The
engine then embeds them in the background; after a kill it goes on with those that still wait. The
vectors of the previous model go into a file next to the store: searches use them until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoryd.adapters.chroma.collection import PAGE, SCHEMA, Collection, identity_of
from memoryd.adapters.chroma.open import NO_MODEL, open_embedded
from memoryd.adapters.chroma.rewrite import NewStore, close
from memoryd.adapters.chroma.rows import SCHEMA_KEY, Row, placeholder, plain_rows
from memoryd.adapters.chroma.sqlite_read import collection_facts
from memoryd.adapters.chroma.swap import LIVE
from memoryd.adapters.snapshot_file import PREVIOUS_VECTORS, LocalSnapshotFile
from memoryd.lead import said_key
from memoryd.ports import Identity, Progress, Record, ReportProgress, Snapshot
from memoryd.settings import StoreSettings

MAX_PASSAGES = 250_000  # of the previous model: more would not fit into RAM a second time


def has_other_model(folder: Path, collection: str, identity: Identity) -> bool:
    """Whether the store holds vectors of another model than `identity`."""
    facts = collection_facts(folder, collection)
    if facts.get(SCHEMA_KEY) != SCHEMA or identity.model == NO_MODEL:
        return False
    before = identity_of(facts)
    taken_over = before.model == NO_MODEL and before.dimension == identity.dimension
    return before != identity and not taken_over


def remodel(
    settings: StoreSettings, data_dir: Path, identity: Identity, progress: ReportProgress
) -> None:
    """Rewrite every memory without its vectors. The store stays unchanged until all are written."""
    folder = data_dir / LIVE
    source = open_embedded(settings, folder, identity=None)
    new_store = NewStore(settings, data_dir, identity, source.others)
    previous = _PreviousVectors()
    ids = source.memory_ids()
    for start in range(0, len(ids), PAGE):
        progress(Progress("changing the model", start, len(ids)))
        records = source.get(ids[start : start + PAGE])
        previous.add(records)
        waiting = [Record(record.memory) for record in records]
        new_store.add(plain_rows(waiting, identity.dimension))
    unreadable = _unreadable(source, new_store.ids, identity.dimension)
    new_store.add(unreadable)
    for _ in new_store.copy_others(source):
        progress(Progress("changing the model", len(ids), len(ids)))
    new_store.close([*ids, *(row.id for row in unreadable)])
    close(source, folder)
    previous.save(LocalSnapshotFile(data_dir / PREVIOUS_VECTORS), source.made_for)
    new_store.finish("model")


def _unreadable(source: Collection, memories: set[str], dimension: int) -> list[Row]:
    """The rows that belong to none of these memories, for the new model."""
    ids = [id for id in source.ids() if id.partition("#")[0] not in memories]
    vector = placeholder(dimension)
    return [Row(row.id, row.document, row.meta, vector) for row in source.fetch(ids)]


class _PreviousVectors:
    """The vectors of the previous model, by a hash of each text: the file holds no text. None are
    kept if there are more than `MAX_PASSAGES`."""

    def __init__(self) -> None:
        self._vectors: list[tuple[int, list[NDArray[np.float32]]]] = []
        self._passages = 0
        self._waiting = 0

    def add(self, records: Sequence[Record]) -> None:
        for record in records:
            self._waiting += not record.passages
            self._passages += len(record.passages)
            if record.passages:
                vectors = [passage.vector for passage in record.passages]
                self._vectors.append((said_key(record.memory), vectors))
        if self._passages > MAX_PASSAGES:
            self._vectors.clear()

    def save(self, file: LocalSnapshotFile, made_for: Identity) -> None:
        """Write them to `file`. A file that is there stays if that model has not embedded all
        memories yet: the older vectors then find more of them."""
        can_keep = 0 < self._passages <= MAX_PASSAGES
        if not can_keep or (self._waiting and file.load() is not None):
            return
        arrays: dict[str, NDArray[Any]] = {
            "key": np.array([key for key, _ in self._vectors], dtype=np.uint64),
            "rows": np.array([len(vectors) for _, vectors in self._vectors], dtype=np.int32),
            "vector": np.stack([vector for _, vectors in self._vectors for vector in vectors]),
        }
        about = {"model": made_for.model, "dimension": made_for.dimension}
        try:
            file.save(about, Snapshot(about, arrays, [""] * len(self._vectors)).pieces())
        except OSError:  # a full disk: search by words until the new vectors are made
            file.clear()
