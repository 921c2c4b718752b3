"""The revisions of all memories, read from Chroma's own tables before it opens them.

By its API this takes as long as reading everything. A start compares them with the snapshot of
the index and reads only what differs.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from memoryd.adapters.chroma.rows import REVISION, TYPE

KNOWN = (
    "SELECT e.embedding_id, m.int_value FROM embedding_metadata m "
    "JOIN embeddings e ON e.id = m.id "
    "WHERE m.key = ? AND m.int_value IS NOT NULL AND e.segment_id = ?"
)
MEMORIES = (
    "SELECT COUNT(*) FROM embedding_metadata m JOIN embeddings e ON e.id = m.id "
    "WHERE m.key = ? AND e.segment_id = ?"
)
# What the log has and the tables do not yet.
WAITING = (
    "SELECT id FROM embeddings_queue WHERE topic LIKE ? AND seq_id > "
    "(SELECT COALESCE(MAX(seq_id), 0) FROM max_seq_id WHERE segment_id = ?)"
)
OURS = (
    "SELECT c.id, s.id FROM collections c JOIN segments s ON s.collection = c.id "
    "WHERE c.name = ? AND s.scope = 'METADATA'"
)


def read_revisions(path: Path, collection: str) -> dict[str, int] | None:
    """By id, the revision of every memory of this collection, 0 where the log knows better; None
    if it does not tell of all."""
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(path)) as connection:
            ours = connection.execute(OURS, (collection,)).fetchone()
            if ours is None:
                return None
            topic, segment = f"%/{ours[0]}", ours[1]
            known: dict[str, int] = dict(connection.execute(KNOWN, (REVISION, segment)))
            (memories,) = connection.execute(MEMORIES, (TYPE, segment)).fetchone()
            for (id,) in connection.execute(WAITING, (topic, segment)):
                known[str(id).partition("#")[0]] = 0
    except sqlite3.Error:
        return None  # whatever is wrong is found, and told, by who opens it next
    return known if memories <= len(known) else None
