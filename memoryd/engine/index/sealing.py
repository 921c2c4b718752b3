"""What a snapshot of the index is made of, and how it is written piece by piece.

`Index.seal` takes copies of all arrays on the event loop. From then on words, metadata and entries
of new memories go into new dictionaries, and slots and rows that become free are not used again
until the snapshot is finished. So a thread can write it while the index changes: a memory that is
removed meanwhile is only missing or marked as gone, and never mixed up with another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from memoryd.engine.index.columns import Columns, Mask
from memoryd.engine.index.entries import Entries
from memoryd.engine.index.metadata_index import SEALED_METADATA
from memoryd.engine.index.rounded import Rounded
from memoryd.engine.index.sealed_words import SEALED_WORDS
from memoryd.engine.index.vectors import FREE, Runs, VectorTable
from memoryd.engine.index.words import WordIndex

if TYPE_CHECKING:
    from memoryd.index_files import Arrays, Piece, VectorFile

KEPT = (*SEALED_WORDS, *SEALED_METADATA)  # arrays that stay in RAM when a snapshot is finished
TEXTS = 500  # texts per piece
ROUNDED = ("rounded", "scale", "error")


@dataclass(frozen=True)
class Sealing:
    """A snapshot that was begun."""

    arrays: Arrays  # copies, by slot or by row
    columns: Columns
    vectors: VectorTable
    words: WordIndex
    entries: Entries
    held_slots: list[int]  # can be used again when the snapshot is finished
    held_rows: Runs

    @cached_property
    def has_slot(self) -> Mask:
        """Which slots are in it."""
        used: Mask = self.arrays["type"] != 0
        return used

    @cached_property
    def has_row(self) -> Mask:
        """Which rows are in it."""
        used: Mask = self.arrays["owner"] != FREE
        return used

    def write_vectors(self, file: VectorFile, go_on: Callable[[], None]) -> None:
        """Write the vectors that the file does not have yet. Runs on a thread; `go_on` may raise.
        Raises OSError."""
        self.vectors.write(file, np.flatnonzero(self.has_row).astype(np.int64), go_on)

    def pieces(self) -> Iterator[Piece]:
        """The snapshot, one piece at a time. Runs on a thread. Raises OSError."""
        yield from self.arrays.items()
        if self.vectors.keep:
            yield from self.vectors.rounded_pieces(len(self.has_row))
        yield from self.words.pack(self.has_row)
        yield from self.columns.metadata.pack(self.has_slot)
        for start in range(0, len(self.has_slot), TEXTS):
            end = min(start + TEXTS, len(self.has_slot))
            # What is forgotten since then is left out.
            wanted = self.has_slot[start:end] & (self.columns["type"][start:end] != 0)
            yield "text", self.entries.packed(start, wanted.tolist())


def rounded_of(arrays: Arrays) -> Rounded | None:
    """The rounded vectors of a snapshot; None if it has none."""
    return Rounded(*(arrays[name] for name in ROUNDED)) if ROUNDED[0] in arrays else None
