"""What a daemon without an index of its own (`search.index: remote`) asks of its stores.

The conditions are those that a store can test by itself. They may select too much, never too
little: whoever asks tests the memories again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from memoryd.model import MemoryType
from memoryd.ports import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Values = tuple[str | bool, ...]
Place = tuple[float, str]  # when a memory was created, and its id


@dataclass(frozen=True, slots=True)
class Conditions:
    """All that are given must hold. Times are epoch seconds: since <= created_at < until."""

    type: MemoryType | None = None
    session_id: str | None = None
    name: str | None = None
    since: float | None = None
    until: float | None = None
    pinned: bool | None = None
    pending: bool = False  # without a vector
    # By metadata key: it has one of these values, or is a list with one of them.
    having: tuple[tuple[str, Values], ...] = ()
    naming: tuple[str, ...] = ()  # ids, of which one is in a relation
    orders: tuple[int, ...] = ()  # messages with one of these numbers
    contains: tuple[str, ...] = ()  # the text contains all of these, case included
    moved: bool = False  # it was in another store before, or is being moved from there

    @property
    def is_empty(self) -> bool:
        """Whether every memory meets them."""
        return self == Conditions()


@dataclass(frozen=True, slots=True)
class CandidatesWanted:
    """What a search asks for."""

    vector: NDArray[np.float32] | None
    nearest: int  # memories by meaning
    words: tuple[str, ...]  # a regular expression for each word, the rarest first
    each: int  # memories that are looked at for each word
    by_words: int  # memories by words: those with most of the words, and with the rarest
    conditions: Conditions = Conditions()


@dataclass(frozen=True, slots=True)
class Candidates:
    """What a store found for a search."""

    records: Sequence[Record]
    counts: tuple[int, ...]  # for each word, how many memories have it; `each` if there are more
    rows: int  # in the whole collection


_failures: ContextVar[list[str] | None] = ContextVar("failures", default=None)


@contextmanager
def noting_failures() -> Iterator[None]:
    """Inside the block `failures` counts the queries that a server did not answer."""
    token = _failures.set([])
    try:
        yield
    finally:
        _failures.reset(token)


def note_failure(why: str) -> None:
    """A server did not answer a query of the running operation."""
    if (noted := _failures.get()) is not None:
        noted.append(why)


def failures() -> Sequence[str]:
    """Why queries of the running operation were not answered by a server, each time."""
    return tuple(_failures.get() or ())


def order_in_list(place: Place) -> tuple[float, str]:
    """By this places are sorted: the newest first."""
    return -place[0], place[1]


class Queries(Protocol):
    """A store that finds memories by itself. Every method may raise StoreOffline, unless a part of
    the memories can be found without the server: then it finds these, and `trouble` says why not
    all."""

    @property
    def trouble(self) -> str:
        """Why the last answers may lack memories; empty if they do not."""

    async def check(self) -> None:
        """Ask the server for a sign of life, for `trouble`."""

    async def get(self, ids: Sequence[str], *, only_here: bool = False) -> list[Record]:
        """Those of these memories that exist, in no particular order. `only_here`: see `find`."""

    async def find(self, *asked: Conditions, limit: int, only_here: bool = False) -> list[str]:
        """The ids of memories that meet one of the conditions, in no particular order: at most
        `limit` for each of them. `only_here`: of memories on this machine; no server is told of the
        conditions."""

    async def newest(
        self, conditions: Conditions, now: float, after: Place | None, limit: int
    ) -> list[Place]:
        """The places of the newest memories that meet the conditions, newest first, of equal times
        the lower id. `after`: the place of the last one before them."""

    async def candidates(self, wanted: CandidatesWanted) -> Candidates:
        """Memories that may be the best for a search."""

    async def sample(self, count: int) -> tuple[list[Record], int]:
        """About `count` memories from all over the collection, without vectors, and how many rows
        the collection has."""
