"""Fills the index from a snapshot with the memories that are as they are in the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from memoryd.engine.index.columns import id_key
from memoryd.engine.index.index import Index
from memoryd.fields import AUDIENCE, PRIVATE
from memoryd.ports import Record, Revisions

if TYPE_CHECKING:
    from memoryd.index_files import Arrays, Snapshot, VectorFile


def restore(
    index: Index, snapshot: Snapshot, known: Revisions | None, file: VectorFile | None
) -> list[int]:
    """Add the memories whose revision agrees with the store; the keys of the others. `known` None:
    all that were not erased agree."""
    arrays, ids = snapshot.arrays, list(snapshot.heads)
    stale = _stale(ids, arrays, known)
    erased = [int(key) for key in arrays["key"][stale]]
    for slot in stale:
        ids[slot] = ""
    arrays["pending"][stale] = False
    arrays["speaker"][stale] = 0
    for name in ("type", "key", "fact"):
        arrays[name][stale] = 0
    index.restore(arrays, ids, stale, snapshot.texts, file)
    if known is not None and not known.is_whole:
        private = [id for id in index.ids_having(AUDIENCE, PRIVATE) if id not in known.by_id]
        erased += [id_key(id) for id in private if index.remove(id)]
    return erased


def _stale(ids: Sequence[str], arrays: Arrays, known: Revisions | None) -> list[int]:
    """The slots of memories that are not as they are in the store."""
    is_used = arrays["type"] != 0
    if known is None:
        has_id = np.fromiter(map(bool, ids), np.bool_, len(ids))
        return np.flatnonzero(is_used & ~has_id).tolist()
    revisions = arrays["revision"].tolist()
    expected = known.by_id
    if not known.is_whole:  # the others count: the server may have them
        expected = {id: n for id, n in zip(ids, revisions, strict=True) if id} | dict(expected)
    return [
        slot
        for slot, (id, revision, used) in enumerate(
            zip(ids, revisions, is_used.tolist(), strict=True)
        )
        if used and (not revision or expected.get(id) != revision)
    ]


def is_current(record: Record, known: Revisions) -> bool:
    """Whether it is as it is in the store."""
    return bool(record.revision) and known.by_id.get(record.memory.id) == record.revision
