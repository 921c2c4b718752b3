"""The memories that were written after the last snapshot, kept from a stop to the next start.

A store of any age has some: each search counts the uses of what it found. Reading them from the
store would make every start wait until ChromaDB is open. They are few, because enough of them
lead to a new snapshot, so a stop can write them whatever the size of the store.

A snapshot whose texts were erased when their memories changed, and all of these, are the whole
index. So it gets a name at the stop, which the store keeps if nothing else was written and no write
has failed. A start that finds it in both need not compare revisions, which would take longer the
larger the store is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from memoryd.engine.index.columns import id_key
from memoryd.engine.index.entries import memory_of, text_of
from memoryd.index_files import WHOLE, Whole
from memoryd.ports import Passage, Record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from memoryd.index_files import Piece, Snapshot, SnapshotFile

    Revisions = NDArray[np.int64]


class Recent(NamedTuple):
    """What was kept, and what it makes up with the snapshot, if that is the whole index."""

    records: Sequence[Record]
    whole: Whole | None


def take(file: SnapshotFile, about: Mapping[str, object]) -> Recent:
    """What was kept for snapshots of this kind, once. Runs on a thread."""
    saved = file.take_recent()
    if saved is None or any(saved.about.get(key) != value for key, value in about.items()):
        return Recent((), None)
    named = saved.about.get(WHOLE)
    return Recent(list(records_in(saved)), Whole(**named) if isinstance(named, dict) else None)


def whole_of(name: str, revisions: Revisions) -> Whole:
    """An index with these revisions."""
    return Whole(name, len(revisions), int(np.bitwise_xor.reduce(revisions)))


def is_whole(expected: Whole, snapshot: Snapshot, recent: Sequence[Record]) -> bool:
    """Whether the memories of both that are not erased are all that there were. Runs on a
    thread."""
    arrays = snapshot.arrays
    has_text = np.fromiter(map(bool, snapshot.heads), np.bool_, len(snapshot.heads))
    kept = arrays["revision"][(arrays["type"] != 0) & has_text]
    added = np.array([record.revision for record in recent], dtype=np.int64)
    revisions = np.concatenate([kept, added])
    return bool(revisions.all()) and whole_of(expected.name, revisions) == expected


def pieces_of(records: Sequence[Record]) -> Iterator[Piece]:
    """The records as a snapshot of their own."""
    passages = [passage for record in records for passage in record.passages]
    yield "key", np.array([id_key(record.memory.id) for record in records], dtype=np.uint64)
    yield "revision", np.array([record.revision for record in records], dtype=np.int64)
    yield "count", np.array([len(record.passages) for record in records], dtype=np.int32)
    yield "span", np.array([p.span for p in passages], dtype=np.int64).reshape(-1, 2)
    vectors = [passage.vector for passage in passages]
    yield "vector", np.array(vectors, dtype=np.float32).reshape(len(vectors), -1 if vectors else 0)
    yield "text", [text_of(record.memory) for record in records]


def records_in(saved: Snapshot) -> Iterator[Record]:
    """The records of such a snapshot. Those whose texts are damaged are left out."""
    arrays, row = saved.arrays, 0
    revisions, counts = arrays["revision"].tolist(), arrays["count"].tolist()
    for number, (revision, count) in enumerate(zip(revisions, counts, strict=True)):
        rows = range(row, row + count)
        row += count
        try:
            memory = memory_of(saved.texts.read(number))
        except OSError:
            continue
        if memory is not None:
            spans = [tuple(arrays["span"][n].tolist()) for n in rows]
            vectors = [arrays["vector"][n].copy() for n in rows]
            passages = [Passage(span, vector) for span, vector in zip(spans, vectors, strict=True)]
            yield Record(memory, tuple(passages), revision)
