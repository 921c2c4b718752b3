"""The revisions of all memories, read from Chroma's own tables before it opens them.

By its API this takes as long as reading everything. A start compares them with the snapshot of
the index and reads only what differs.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from memoryd.adapters.chroma_rows import REVISION, TYPE

KNOWN = (
    "SELECT e.embedding_id, m.int_value FROM embedding_metadata m "
    "JOIN embeddings e ON e.id = m.id WHERE m.key = ? AND m.int_value IS NOT NULL"
)
MEMORIES = "SELECT COUNT(*) FROM embedding_metadata WHERE key = ?"
# What the log has and the tables do not yet.
WAITING = (
    "SELECT id FROM embeddings_queue WHERE seq_id > (SELECT COALESCE(MAX(q.seq_id), 0) "
    "FROM max_seq_id q JOIN segments s ON s.id = q.segment_id WHERE s.scope = 'METADATA')"
)


def read_revisions(path: Path) -> dict[str, int] | None:
    """By id, the revision of every memory, 0 where the log knows better; None if it does not
    tell of all."""
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(path)) as connection:
            known: dict[str, int] = dict(connection.execute(KNOWN, (REVISION,)))
            (memories,) = connection.execute(MEMORIES, (TYPE,)).fetchone()
            for (id,) in connection.execute(WAITING):
                known[str(id).partition("#")[0]] = 0
    except sqlite3.Error:
        return None  # whatever is wrong is found, and told, by who opens it next
    return known if memories <= len(known) else None
