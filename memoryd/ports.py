"""The ports: what the engine needs from the outside, in words of its own.

Each port has several implementations under `adapters/` and one contract test-suite.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from memoryd.model import Memory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]  # one row a text
    Arrays = Mapping[str, NDArray[Any]]
    Piece = tuple[
        str, NDArray[Any] | Sequence[str]
    ]  # of a snapshot: some of an array, or of the texts

Span = tuple[int, int]  # from and to, in characters of the content


class Encoder(Protocol):
    """One embedding model. Synchronous and thread-safe: queries run beside document batches.

    Two encoders with the same `model` give the same vectors, whatever library computes them.
    """

    @property
    def model(self) -> str:
        """Identity of the vectors; recorded in the store and compared when it is opened."""

    @property
    def dimension(self) -> int: ...

    def split(self, text: str, lead: str = "") -> list[Span]:
        """The overlapping passages of `text` that the model can read whole, each with `lead`
        before it; one if it fits."""

    def knows(self, text: str) -> bool:
        """Whether it can read at least half of the text: what it cannot looks all the same."""

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Unit vectors, one row a text, in order. Raises EmbedError."""


class Reranker(Protocol):
    """A model that reads a query and a text together. Synchronous and thread-safe."""

    @property
    def model(self) -> str: ...

    def marks(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """How well each text answers the query, 0..1, in order. Raises EmbedError."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a memory's content with its vector."""

    span: Span
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Record:
    """A memory as the store keeps it. No passages: the store was made without a model."""

    memory: Memory
    passages: tuple[Passage, ...] = ()
    revision: int = 0  # a new number with every write of this memory; 0: not written yet


@dataclass(frozen=True, slots=True)
class Identity:
    """What a store was made for: refused when it differs from what is asked for."""

    model: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far something is that takes its time; `total` 0: that is not known."""

    what: str
    done: int = 0
    total: int = 0


ReportProgress = Callable[[Progress], None]  # called with how far the work is
Watch = Callable[[Progress | None], None]  # told how far it is; None: it is over


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The index as arrays of numbers and one text a memory, to start from."""

    about: Mapping[str, object]  # what it was made for: another is thrown away
    arrays: Arrays
    texts: Sequence[str]  # "" where it was erased

    @property
    def keys(self) -> list[int]:
        """A number for each text, to erase it by."""
        return [int(key) for key in self.arrays["key"]]

    def pieces(self) -> Iterator[Piece]:
        """As a shelf takes it."""
        yield from self.arrays.items()
        yield "text", self.texts


class Shelf(Protocol):
    """Where a snapshot of the index is kept between starts. Derived: losing it costs time."""

    def save(self, about: Mapping[str, object], pieces: Iterable[Piece]) -> None:
        """Replace what is there, whole or not at all. The parts of an array, or of the texts,
        follow each other; the array `key` comes before the texts. If `pieces` raises, what was
        there stays. Runs on a thread; `erase` and `clear` may be called meanwhile."""

    def load(self) -> Snapshot | None:
        """What was saved last; None if nothing was, or if it is damaged."""

    def erase(self, key: int) -> None:
        """Overwrite one text, now."""

    def clear(self) -> None:
        """Remove it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of the clock: the last time that was believed, the latest that was read, and
    for how many seconds the daemon has watched it run steadily since it leapt."""

    believed: float
    latest: float
    steady: float


class ClockRecord(Protocol):
    """Where it is kept between starts."""

    def load(self) -> Seen | None:
        """What was saved last; None if nothing was, or if it is damaged."""

    def save(self, seen: Seen) -> None:
        """Replace what is there, whole or not at all; OSError if the disk will not."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup on disk; `memories` is None where only a glance was taken."""

    path: str
    memories: int | None
    size: int
    created_at: float


class Store(Protocol):
    """The durable truth. What a call has returned from is committed."""

    async def put(self, record: Record, *, new: bool = False) -> None:
        """Insert or replace the whole memory; concurrent calls share a commit.

        `new` promises that the id was never used, which spares a look at what was there.
        """

    async def get(self, ids: Sequence[str]) -> list[Record]:
        """The records that exist among `ids`, in no particular order."""

    async def delete(self, ids: Sequence[str]) -> set[str]:
        """Remove memories with all their passages; the ids that existed and are gone now."""

    async def expired(self, now: float, limit: int) -> list[str]:
        """Ids of memories due at `now`, at most `limit` of them."""

    async def nearest(
        self, vector: NDArray[np.float32], count: int, among: Sequence[str] | None = None
    ) -> list[tuple[str, float]]:
        """About the nearest memories, with their cosines: each once, best first.

        For collections too large for exact search in RAM. `among`: only these ids, exactly.
        """

    async def revisions(self) -> Mapping[str, int] | None:
        """By id, the revision of every memory as it was when the store was opened, 0 where that
        is not sure; None where telling would cost as much as reading them."""

    def scan(self) -> AsyncIterator[list[Record]]:
        """Every memory, page by page."""

    async def count(self) -> int:
        """How many memories there are (not rows)."""

    async def purge(self) -> None:
        """See to it that no file of the store holds a byte of what was deleted."""

    async def compact(self) -> bool:
        """The same if enough has been deleted to be worth it; whether it was done. Also removes
        what a purge, compaction or backup left that was cancelled."""

    async def backup(
        self, folder: Path, keep: int, *, if_changed: bool = False, at: float | None = None
    ) -> Backup | None:
        """One verified file with everything as it is now, dated `at` or now. It and `keep` - 1
        others remain: the newest of each day first, then the newest.

        `if_changed`: None, and no file, if the newest already holds just this.
        """

    async def rescue(
        self, records: AsyncIterator[list[Record]], folder: Path, at: float | None = None
    ) -> Backup:
        """For a store whose files are gone or broken under it: write these memories, which must
        be all, to a verified backup in `folder`, and make the store anew from it. StoreError
        `store_in_place` if it still works."""

    async def newest_backup(self, folder: Path, until: float = math.inf) -> Backup | None:
        """The backup in a folder that was made last, of those that are dated `until` or before."""

    async def status(self) -> Mapping[str, object]:
        """Facts for a person: mode, rows, schema, model, worker's pid and restarts."""

    async def close(self) -> None:
        """Flush and let go of the store; closing twice is harmless."""
