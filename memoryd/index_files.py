"""What the index keeps on disk: a snapshot of itself, and the vectors.

Derived data: losing it only makes the next start slower. Arrays hold numbers only; what people
wrote is in the texts, each of which can be overwritten.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]
    Rows = NDArray[np.int64]
    Floats = NDArray[np.float32]
    # The name of an array, and some rows of it; or "text", and some texts.
    Piece = tuple[str, NDArray[Any] | Sequence[bytes]]


WHOLE = "whole"  # what has a `Whole` in what `SnapshotFile.save_recent` gets as `about`


@dataclass(frozen=True, slots=True)
class Whole:
    """A name for the index at a stop, and what tells whether all of it was read again."""

    name: str
    memories: int
    revisions: int  # of all memories, combined by exclusive or


class Texts(Protocol):
    """The texts of a snapshot, which stay in its file. Runs on any thread."""

    def __len__(self) -> int: ...

    def read(self, number: int) -> bytes:
        """One text; empty if it was erased. Raises OSError, also if it is damaged."""

    def read_range(self, start: int, end: int) -> list[bytes]:
        """The texts with these numbers. Raises OSError, also if one is damaged."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The index as arrays of numbers and one text per slot."""

    about: Mapping[str, object]  # format, model and dimension: used only if all are the same
    arrays: Arrays
    texts: Texts
    heads: Sequence[str] = ()  # the first line of each text, "" if it was erased or is damaged


class VectorFile(Protocol):
    """A file of vectors, one in each row. A row that a snapshot uses is not written again until a
    newer snapshot is complete, except with zeros when its memory is gone."""

    @property
    def name(self) -> str:
        """What tells this file from another."""

    def write(self, rows: Rows, vectors: Floats) -> None:
        """Write sorted rows. Raises OSError."""

    def read(self, rows: Rows) -> Floats:
        """Sorted rows. Runs on any thread. Raises OSError, also if the file is too short."""

    def blank(self, row: int) -> None:
        """Overwrite a row with zeros. Raises OSError."""

    def flush(self) -> None:
        """Wait until everything is on the disk. Raises OSError."""


class SnapshotFile(Protocol):
    """The files of a snapshot."""

    def vectors(self, dimension: int) -> VectorFile:
        """The file for the vectors of the next snapshot: that of the last one, or a new one."""

    def save(
        self, about: Mapping[str, object], pieces: Iterable[Piece], keep: Collection[str] = ()
    ) -> Snapshot | None:
        """Replace the file atomically; what was saved, with the arrays in `keep`. The pieces of an
        array, or of the texts, follow each other; the array `key` comes before the texts. If
        `pieces` raises, the old file stays. Runs on a thread; `erase` and `clear` may be called
        meanwhile. None if nothing is kept."""

    def load(self) -> Snapshot | None:
        """What was saved last; None if nothing was, or if it is damaged."""

    def save_recent(self, about: Mapping[str, object], pieces: Iterable[Piece]) -> None:
        """Write a second, small snapshot of what has changed since the last one. Runs on a
        thread."""

    def take_recent(self) -> Snapshot | None:
        """What `save_recent` wrote, once: its file is deleted, so that no text in it has to be
        erased later."""

    def erase(self, key: int) -> None:
        """Overwrite one text immediately."""

    def clear(self) -> None:
        """Remove the files. What was loaded or saved can still be read."""
