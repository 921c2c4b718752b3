"""What a worker tells its daemon of the store when it opens it.

ChromaDB takes longer to open the larger a store is, and a daemon with a snapshot of its index needs
little of it to search. So the worker reads these facts of a store that was closed in order from the
database, tells them, and opens ChromaDB after that. If the daemon has saved its index before the
store was closed, the facts name that index, and nothing in them grows with the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from memoryd.adapters.chroma.collection import SCHEMA, Collection, identity_of
from memoryd.adapters.chroma.other_collections import OtherCollection, other_collections
from memoryd.adapters.chroma.rows import SCHEMA_KEY
from memoryd.adapters.chroma.sqlite_read import (
    DATABASE,
    collection_facts,
    read_revisions,
    rows_written,
)
from memoryd.adapters.chroma.swap import Closed, read_closed
from memoryd.ports import Identity


@dataclass(slots=True)
class StoreFacts:
    """See above."""

    identity: Identity  # of the model for which it is open
    made_for: Identity  # of the model whose vectors it holds
    other_collections: dict[str, int]  # their rows
    revisions: dict[str, int] | None  # by id, those of all memories; None if they are not known
    # The name of the saved index that has all memories: then their revisions are not listed.
    saved_index: str = ""


Tell = Callable[[StoreFacts], None]


def facts_of(collection: Collection) -> StoreFacts:
    """The facts of an open store."""
    identity, made_for = collection.identity, collection.made_for
    return StoreFacts(identity, made_for, _rows_of(collection.others), collection.take_revisions())


def facts_in(
    folder: Path, collection: str, identity: Identity, saved_index: str = ""
) -> StoreFacts | None:
    """The facts of a store that is closed; None unless it was made for this model, by this version,
    and every memory has a revision. `saved_index`: the name of the index that the daemon has saved.
    Raises Unreadable."""
    known = collection_facts(folder, collection)
    if known.get(SCHEMA_KEY) != SCHEMA or identity_of(known) != identity:
        return None
    others = _rows_of(other_collections(folder, collection))
    if saved_index and _has_all(folder, saved_index, collection):
        return StoreFacts(identity, identity, others, None, saved_index)
    revisions = read_revisions(folder / DATABASE, collection)
    return None if revisions is None else StoreFacts(identity, identity, others, revisions)


def _has_all(folder: Path, saved_index: str, collection: str) -> bool:
    """Whether this index has all that is in the collection: the store was closed after it was
    saved, and nothing was written since."""
    written = rows_written(folder / DATABASE)
    return read_closed(folder) == Closed(saved_index, collection, written)


def _rows_of(others: tuple[OtherCollection, ...]) -> dict[str, int]:
    return {other.name: other.rows for other in others}
