"""The memories that were written after the last snapshot, kept from a stop to the next start.

A store of any age has some: each search counts the uses of what it found. Reading them from the
store would make every start wait until ChromaDB is open. They are few, because enough of them
lead to a new snapshot, so a stop can write them whatever the size of the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from memoryd.engine.index.columns import id_key
from memoryd.engine.index.entries import memory_of, text_of
from memoryd.ports import Passage, Record

if TYPE_CHECKING:
    from memoryd.index_files import Piece, Snapshot


def pieces_of(records: Sequence[Record]) -> Iterator[Piece]:
    """The records as a snapshot of their own."""
    passages = [passage for record in records for passage in record.passages]
    yield "key", np.array([id_key(record.memory.id) for record in records], dtype=np.uint64)
    yield "revision", np.array([record.revision for record in records], dtype=np.int64)
    yield "count", np.array([len(record.passages) for record in records], dtype=np.int32)
    yield "span", np.array([p.span for p in passages], dtype=np.int64).reshape(-1, 2)
    vectors = [passage.vector for passage in passages]
    yield "vector", np.array(vectors, dtype=np.float32).reshape(len(vectors), -1)
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
