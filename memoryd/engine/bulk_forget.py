"""Forget everything that a filter matches, in bounded batches.

The matches are a snapshot of the index. Each batch tests its memories again under their locks, so
that a memory which was changed meanwhile and no longer matches is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import anyio.lowlevel

from memoryd.engine import checks
from memoryd.engine.checks import asked_filter, without_records
from memoryd.engine.filters import Filter
from memoryd.engine.memories import Memories
from memoryd.engine.parts import Parts
from memoryd.errors import InvalidInput
from memoryd.model import Memory, is_expired

SHOWN = 5  # memories in a preview
STRIDE = 2000  # memories tested before the event loop runs other tasks


@dataclass(frozen=True, slots=True)
class BulkForgetResult:
    """What a forget by filter matched, and how many were deleted."""

    matched: int
    forgotten: int
    types: Mapping[str, int]  # of the matched memories
    shown: tuple[Memory, ...]  # the first few, oldest first


class BulkForget:
    """The operation `forget_where` and its filter."""

    def __init__(
        self, parts: Parts, memories: Memories, purge: Callable[[], Awaitable[None]]
    ) -> None:
        """`purge` removes deleted data from every file."""
        self._parts = parts
        self._memories = memories
        self._purge = purge

    def selection(
        self,
        *,
        memory_type: str | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        since: object = None,
        until: object = None,
        older_than: float | None = None,
        pinned: bool | None = None,
    ) -> Filter:
        """A filter from the arguments; `older_than`: seconds before now. Raises InvalidInput."""
        zone = self._parts.lifetimes.zone
        found = asked_filter(zone, memory_type, session_id, metadata, since, until, pinned)
        if (
            found.type is not None or metadata or pinned is not None
        ):  # what a list with this filter shows
            found = without_records(found)
        if older_than is None:
            return found
        age = self._parts.clock() - _seconds(older_than)
        return replace(found, until=age if found.until is None else min(age, found.until))

    async def forget_where(
        self,
        filter: Filter,
        *,
        dry_run: bool = False,
        everything: bool = False,
        purge: bool = False,
        limit: int | None = None,
    ) -> BulkForgetResult:
        """Delete what the filter matches; with `dry_run`, only report it.

        An empty filter is refused unless `everything` is true. At most `limit` are deleted;
        `matched` counts all. `purge` also removes the data from the files, once all are deleted.
        Raises InvalidInput.
        """
        _check_not_empty(filter, everything)
        purging = checks.flag(purge, "purge")
        found = await self._matching(filter)
        found.sort(key=lambda memory: (memory.created_at, memory.id))
        types = Counter(str(memory.type) for memory in found)
        shown = tuple(memory.copy() for memory in found[:SHOWN])
        if checks.flag(dry_run, "dry_run"):
            return BulkForgetResult(len(found), 0, types, shown)
        gone = await self._forget_in_batches([memory.id for memory in found[:limit]], filter)
        if purging and gone >= len(found):
            await self._purge()
        return BulkForgetResult(len(found), gone, types, shown)

    async def _matching(self, filter: Filter) -> list[Memory]:
        now, found = self._parts.clock(), []
        memories = iter(list(self._parts.index))
        while some := list(islice(memories, STRIDE)):
            found += [m for m in some if not is_expired(m, now) and filter.matches(m)]
            await anyio.lowlevel.checkpoint()
        return found

    async def _forget_in_batches(self, ids: list[str], filter: Filter) -> int:
        gone, size = 0, self._parts.memory.cleanup_batch
        for start in range(0, len(ids), size):
            batch = ids[start : start + size]
            gone += len(await self._memories.drop_if(batch, partial(_still_matches, filter)))
        return gone


def _still_matches(filter: Filter, memory: Memory | None) -> bool:
    return memory is not None and filter.matches(memory)


def _check_not_empty(filter: Filter, everything: bool) -> None:
    if (filter == Filter()) != checks.flag(everything, "everything"):
        raise InvalidInput(
            "A filter and --everything exclude each other."
            if everything
            else "The filter is empty.",
            code="filter_with_everything" if everything else "filter_empty",
            hint="Give a filter, or use --everything.",
        )


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e12:
        raise InvalidInput("older_than must be a number of seconds.", code="older_than_invalid")
    return float(value)
