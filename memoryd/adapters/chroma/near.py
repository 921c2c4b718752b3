"""Chroma's own approximate search, for collections too large for exact search in RAM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memoryd.adapters.chroma import rows as rows

PAGE = 1000  # ids in one call: Chroma binds each as an SQL variable


def nearest(
    chroma: Any, vector: Any, count: int, among: Sequence[str] | None
) -> list[tuple[str, float]]:
    """The best row of each memory that is found near, with its cosine."""
    ids = None if among is None else _all_rows(chroma, among)
    if ids == []:
        return []
    found = chroma.query(
        query_embeddings=[vector], n_results=count, ids=ids, include=["metadatas", "distances"]
    )
    best: dict[str, float] = {}
    answers = zip(found["ids"][0], found["metadatas"][0], found["distances"][0], strict=True)
    for id, meta, distance in answers:
        if not (meta or {}).get(rows.PENDING):
            best.setdefault(str((meta or {}).get(rows.OF, id)), 1.0 - float(distance))
    return list(best.items())


def _all_rows(chroma: Any, ids: Sequence[str]) -> list[str]:
    """The row ids of these memories, as far as they exist."""
    found: list[str] = []
    for start in range(0, len(ids), PAGE):
        part = chroma.get(ids=list(ids[start : start + PAGE]), include=["metadatas"])
        for id, meta in zip(part["ids"], part["metadatas"], strict=True):
            found += rows.row_ids(id, int((meta or {}).get(rows.ROWS, 1)))
    return found
