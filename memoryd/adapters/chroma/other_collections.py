"""Other collections in the same store, left by another `store.collection`: a rewrite keeps them.

Those that memoryd made are copied like ours. What belongs to a foreign collection is not known, so
nothing is rewritten while there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memoryd.adapters.chroma.rows import (
    DIMENSION_KEY,
    SCHEMA_KEY,
    Row,
    plain_rows,
    to_records,
)
from memoryd.adapters.chroma.sqlite_read import DATABASE, database, salvage
from memoryd.errors import StoreError

HOME = "default_database"  # Chroma's database in which memoryd makes its collections
TABLES = "SELECT COUNT(*) FROM sqlite_master WHERE name IN ('collections', 'databases', 'segments')"
OTHERS = """
SELECT c.name, d.name = :home AND EXISTS (
    SELECT 1 FROM collection_metadata m WHERE m.collection_id = c.id AND m.key = :schema
), (
    SELECT COUNT(*) FROM embeddings e JOIN segments s ON s.id = e.segment_id
    WHERE s.collection = c.id
)
FROM collections c JOIN databases d ON d.id = c.database_id
WHERE NOT (c.name = :ours AND d.name = :home) ORDER BY c.name
"""


@dataclass(frozen=True, slots=True)
class OtherCollection:
    """A collection in the same store as ours; `made_here`: memoryd made it."""

    name: str
    made_here: bool
    rows: int


def other_collections(folder: Path, ours: str) -> tuple[OtherCollection, ...]:
    """All collections of this store but `ours`; the store must be closed. Raises Unreadable."""
    path = folder / DATABASE
    if not path.exists() or path.stat().st_size == 0:
        return ()
    with database(path) as connection:
        if connection.execute(TABLES).fetchone()[0] != 3:
            return ()
        parameters = {"home": HOME, "schema": SCHEMA_KEY, "ours": ours}
        found = connection.execute(OTHERS, parameters).fetchall()
    return tuple(
        OtherCollection(name, bool(made_here), int(rows)) for name, made_here, rows in found
    )


def read_other(
    folder: Path, other: OtherCollection
) -> tuple[OtherCollection, dict[str, Any], list[Row]]:
    """The collection with its metadata and rows, read from the database; raises Unreadable."""
    facts, found = salvage(folder, other.name)
    records = to_records(found).records
    return other, facts, plain_rows(records, int(facts[DIMENSION_KEY]))


def can_be_kept(others: Sequence[OtherCollection]) -> bool:
    """Whether a rewrite can copy them all."""
    return all(other.made_here for other in others)


def check_all_kept(others: Sequence[OtherCollection]) -> None:
    """Raise StoreError if a rewrite would lose one of them."""
    foreign = [other.name for other in others if not other.made_here]
    if foreign:
        raise StoreError(
            f"The store also holds collections that memoryd did not make: {', '.join(foreign)}. "
            "A rewrite would lose them, so nothing was changed.",
            code="other_collections",
            hint="Move them to a directory of their own, or use another memory.path.",
        )
