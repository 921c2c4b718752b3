"""Another embedding model in the configuration: the same memories, their vectors made anew.

The store is rewritten for the new model with every memory waiting for its vector, in one swap;
the engine then embeds in the background, and a kill leaves the rest waiting as before. The vectors
of the former model go into a file beside the store: they find memories until then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoryd.adapters.chroma.collection import PAGE, SCHEMA, identity_of
from memoryd.adapters.chroma.open import NO_MODEL, open_embedded
from memoryd.adapters.chroma.rewrite import Fresh, close
from memoryd.adapters.chroma.rows import SCHEMA_KEY, plain_rows
from memoryd.adapters.chroma.sqlite_read import collection_facts
from memoryd.adapters.chroma.swap import LIVE
from memoryd.adapters.snapshot_file import PREVIOUS_VECTORS, LocalSnapshotFile
from memoryd.model import said_key
from memoryd.ports import Identity, Progress, Record, Snapshot
from memoryd.settings import StoreSettings

MOST = 250_000  # passages


def is_for_another(folder: Path, collection: str, identity: Identity) -> bool:
    """Whether the store holds the vectors of another model than the one that is to serve."""
    facts = collection_facts(folder, collection)
    if facts.get(SCHEMA_KEY) != SCHEMA or identity.model == NO_MODEL:
        return False
    before = identity_of(facts)
    taken_over = before.model == NO_MODEL and before.dimension == identity.dimension
    return before != identity and not taken_over


def remodel(
    settings: StoreSettings, data_dir: Path, identity: Identity, say: Callable[[Progress], None]
) -> None:
    """Rewrite every memory without its vectors; killed meanwhile, the store is as it was."""
    folder = data_dir / LIVE
    source = open_embedded(settings, folder, identity=None)
    fresh = Fresh(settings, data_dir, identity, source.others)
    former = _Vectors()
    ids = source.memory_ids()
    for start in range(0, len(ids), PAGE):
        say(Progress("changing the model", start, len(ids)))
        records = source.get(ids[start : start + PAGE])
        former.add(records)
        waiting = [Record(record.memory) for record in records]
        fresh.add(plain_rows(waiting, identity.dimension))
    for _ in fresh.keep_others(source):
        say(Progress("changing the model", len(ids), len(ids)))
    fresh.close(ids)
    close(source, folder)
    former.save(LocalSnapshotFile(data_dir / PREVIOUS_VECTORS), source.made_for)
    fresh.finish("model")


class _Vectors:
    """Those of the former model, by the keys of what was said: the file holds no text itself. More
    than `MOST` are not kept: they would not fit into RAM a second time."""

    def __init__(self) -> None:
        self._said: list[tuple[int, list[NDArray[np.float32]]]] = []
        self._passages = 0
        self._waiting = 0

    def add(self, records: Sequence[Record]) -> None:
        for record in records:
            self._waiting += not record.passages
            self._passages += len(record.passages)
            if record.passages:
                vectors = [passage.vector for passage in record.passages]
                self._said.append((said_key(record.memory), vectors))
        if self._passages > MOST:
            self._said.clear()

    def save(self, snapshot_file: LocalSnapshotFile, made_for: Identity) -> None:
        """Unless that model had not come to an end itself: then the one before it goes on."""
        is_fit = 0 < self._passages <= MOST
        if not is_fit or (self._waiting and snapshot_file.load() is not None):
            return
        arrays: dict[str, NDArray[Any]] = {
            "key": np.array([key for key, _ in self._said], dtype=np.uint64),
            "rows": np.array([len(vectors) for _, vectors in self._said], dtype=np.int32),
            "vector": np.stack([vector for _, vectors in self._said for vector in vectors]),
        }
        about = {"model": made_for.model, "dimension": made_for.dimension}
        try:
            snapshot_file.save(about, Snapshot(about, arrays, [""] * len(self._said)).pieces())
        except OSError:  # a full disk: words serve until the new vectors are made
            snapshot_file.clear()
