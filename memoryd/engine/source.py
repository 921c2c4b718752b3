"""Where the memories that an operation needs come from.

Usually the index has every memory, and nothing is to be done: that is `Source`. A daemon without an
index of its own (`engine.thin`) reads what an operation needs from the server first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memoryd.engine.filters import Filter
from memoryd.model import Memory

if TYPE_CHECKING:
    from memoryd.engine.index.index import Index
    from memoryd.engine.index.rounded import Floats
    from memoryd.engine.search.dates import AskedTimes

Place = tuple[tuple[float, ...], str]  # in a list: sort key and id


@dataclass(frozen=True, slots=True)
class SearchNeed:
    """What a search is about."""

    text: str
    terms: Sequence[int]
    vector: Floats | None
    filter: Filter
    times: AskedTimes
    limit: int
    now: float


@dataclass(frozen=True, slots=True)
class ListNeed:
    """What a page of a list is about."""

    filter: Filter
    order: str
    limit: int
    after: Place | None
    now: float


class Source:
    """The index has every memory."""

    finds_here = False  # by meaning what it has here, while the server cannot be reached

    def operation(self) -> AbstractAsyncContextManager[object]:
        """What is brought into the index inside the block stays there until its end."""
        return nullcontext()

    async def handle(self, id_or_name: object) -> None:
        """Called before a memory is looked up by id or name."""

    async def handles(self, ids_or_names: Iterable[object], *, only_here: bool = False) -> None:
        """The same for several. `only_here`: among private memories."""

    async def place(self, name: object, metadata: Mapping[str, Any]) -> None:
        """Called before a memory with this metadata is stored under a name."""

    async def before_write(self, wanted: Callable[[], Memory]) -> None:
        """Called before a memory is stored or changed, outside of all locks but those of sessions;
        `wanted` returns what it is to become."""

    async def before_drop(self, ids: Sequence[str]) -> None:
        """Called before memories are deleted or replaced by an import."""

    async def before_import(self, memories: Sequence[Memory]) -> None:
        """Called before these memories are imported, outside of all locks."""

    async def session(self, session_id: str) -> None:
        """Called before the last messages of a session are used."""

    def searched(self, index: Index, need: SearchNeed) -> AbstractAsyncContextManager[Index]:
        """The index to search in, which may be used inside the block only."""
        return nullcontext(index)

    async def listed(self, index: Index, need: ListNeed) -> tuple[Index, int | None]:
        """The index that has the page, and how many memories match in all if the index does not
        know it."""
        return index, None
