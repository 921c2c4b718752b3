"""Meaning beyond what fits into RAM: candidates from the store, checked against the filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memoryd.engine.index.vectors import Floats
from memoryd.engine.index.view import View
from memoryd.engine.search.rank import POOL
from memoryd.ports import Store

if TYPE_CHECKING:
    from memoryd.engine.index.index import Index

FEW = 2000  # memories that a filter leaves: these are compared one by one
OVERFETCH = 4
MOST = 16_384  # candidates asked for before the answer is taken as it is


async def from_store(store: Store, index: Index, view: View, query: Floats, count: int) -> Floats:
    """By slot, the cosine of what the store found near; 0 for the rest."""
    meaning = np.zeros(len(view.layout.first), dtype=np.float32)
    allowed = np.flatnonzero(view.allowed)
    if not allowed.size:
        return meaning
    among = None
    if len(allowed) <= FEW:
        entries = index.entries()
        among = [entry.memory.id for slot in allowed if (entry := entries[slot]) is not None]
    wanted = max(POOL, OVERFETCH * count)
    while True:
        found = await store.nearest(query, wanted, among)
        usable = _place(meaning, index, view, found)
        if usable >= min(count, len(allowed)) or len(found) < wanted or wanted >= MOST:
            return meaning
        wanted *= OVERFETCH  # the filter took too many of them


def _place(meaning: Floats, index: Index, view: View, found: list[tuple[str, float]]) -> int:
    usable = 0
    for id, cosine in found:
        slot = index.slot(id)
        if slot is not None and slot < len(meaning) and view.allowed[slot]:
            meaning[slot] = min(1.0, max(0.0, cosine))
            usable += 1
    return usable
