"""Other collections in the same store, left by another `store.collection`: a rewrite keeps them.

Those that memoryd made are copied like the one that is served. Of any other it is not known what
belongs to it, so nothing is rewritten while one is there.
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

HOME = "default_database"  # of Chroma, where memoryd makes its collections
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
class Other:
    """A collection beside the one that is served; `made_here`: by memoryd."""

    name: str
    made_here: bool
    rows: int


def other_collections(folder: Path, ours: str) -> tuple[Other, ...]:
    """What else is in this store, which must be closed; raises Unreadable."""
    path = folder / DATABASE
    if not path.exists() or path.stat().st_size == 0:
        return ()
    with database(path) as connection:
        if connection.execute(TABLES).fetchone()[0] != 3:
            return ()
        asked = {"home": HOME, "schema": SCHEMA_KEY, "ours": ours}
        found = connection.execute(OTHERS, asked).fetchall()
    return tuple(Other(name, bool(made_here), int(rows)) for name, made_here, rows in found)


def salvaged(folder: Path, other: Other) -> tuple[Other, dict[str, Any], list[Row]]:
    """Its metadata and its rows, as the database has them; raises Unreadable."""
    facts, found = salvage(folder, other.name)
    records, _ = to_records(found)
    return other, facts, plain_rows(records, int(facts[DIMENSION_KEY]))


def can_be_kept(others: Sequence[Other]) -> bool:
    """Whether a rewrite can copy them all."""
    return all(other.made_here for other in others)


def check_kept(others: Sequence[Other]) -> None:
    """Refuse a rewrite that would lose a collection."""
    foreign = [other.name for other in others if not other.made_here]
    if foreign:
        raise StoreError(
            f"The store also holds collections that memoryd did not make: {', '.join(foreign)}. "
            "They would be lost, so it is left as it was.",
            code="other_collections",
            hint="Move them to a directory of their own, or use another memory.path.",
        )
