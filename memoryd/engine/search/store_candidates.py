"""Candidates by meaning from the store, for collections whose vectors do not fit into RAM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memoryd.engine.index.rounded import Floats
from memoryd.engine.index.view import View
from memoryd.engine.search.rank import POOL
from memoryd.ports import Store

if TYPE_CHECKING:
    from memoryd.engine.index.index import Index

EXACT_BELOW = 2000  # allowed memories up to which the store compares exactly these
OVERFETCH = 4
MAX_FETCH = 16_384  # candidates to fetch before settling for too few that pass the filter


async def from_store(store: Store, index: Index, view: View, query: Floats, count: int) -> Floats:
    """By slot, the cosine of the candidates that the store found; 0 for all others."""
    meaning = np.zeros(len(view.layout.first), dtype=np.float32)
    allowed = np.flatnonzero(view.allowed)
    if not allowed.size:
        return meaning
    among = None
    if len(allowed) <= EXACT_BELOW:
        among = index.ids_in(allowed.tolist())
    wanted = max(POOL, OVERFETCH * count)
    while True:
        candidates = await store.nearest(query, wanted, among)
        usable = _place(meaning, index, view, candidates)
        if usable >= min(count, len(allowed)) or len(candidates) < wanted or wanted >= MAX_FETCH:
            return meaning
        wanted *= OVERFETCH  # the filter removed too many


def _place(meaning: Floats, index: Index, view: View, candidates: list[tuple[str, float]]) -> int:
    """Write the cosines of allowed memories into `meaning`; how many there were."""
    usable = 0
    for id, cosine in candidates:
        slot = index.slot(id)
        if slot is not None and slot < len(meaning) and view.allowed[slot]:
            meaning[slot] = min(1.0, max(0.0, cosine))
            usable += 1
    return usable
