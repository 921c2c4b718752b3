"""List memories in an order, page by page.

A cursor names the place after which a page begins: the sort key and id of the last memory before
it. So a page needs no state here, and what is written or forgotten meanwhile moves no other memory:
one that is there during the whole list, and keeps its sort key, is listed exactly once.
`created_at` never changes; the other keys change only with the memory itself, with its uses, and
with the day.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from hashlib import blake2b
from heapq import nsmallest
from typing import Any

import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from memoryd.engine import checks
from memoryd.engine.checks import asked_filter, without_records
from memoryd.engine.filters import Filter
from memoryd.engine.index.selection import Selection
from memoryd.engine.lifecycle.decay import confidence_now
from memoryd.engine.lifecycle.uses import Uses
from memoryd.engine.parts import Parts
from memoryd.engine.project_rules import narrowed
from memoryd.engine.source import ListNeed, Place
from memoryd.errors import InvalidInput
from memoryd.fair import turn
from memoryd.metadata import check_metadata
from memoryd.model import DAY, Listed, Memory

LIMIT = 20
PAGE_CHARS = 400_000  # of content on one page, which has at least one memory
MAX_CURSOR = 4_000  # characters

Key = tuple[float, ...]


def _end(memory: Memory) -> float:
    return math.inf if memory.pinned or memory.expires_at is None else memory.expires_at


# The smallest key comes first; of equal ones the newest, then the lower id.
ORDERS: dict[str, Callable[[Memory, Uses, float], Key]] = {
    "newest": lambda memory, uses, now: (-memory.created_at,),
    "oldest": lambda memory, uses, now: (memory.created_at,),
    "expiring": lambda memory, uses, now: (_end(memory), -memory.created_at),
    "most_used": lambda memory, uses, now: (-uses.total(memory), -memory.created_at),
    "least_sure": lambda memory, uses, now: (_sure_today(memory, now), -memory.created_at),
}


# Orders whose key begins with a column of the index: only the first memories have to be read.
COLUMNS: dict[str, Callable[[Selection], NDArray[np.float64]]] = {
    "newest": lambda selection: -selection.created,
    "oldest": lambda selection: selection.created,
    "expiring": lambda selection: selection.expires,
}


def _sure_today(memory: Memory, now: float) -> float:
    """Its confidence when this day began (UTC): the pages of one list must agree."""
    return confidence_now(memory, now - now % DAY)


class Listing:
    """The operation `list_memories`."""

    def __init__(self, parts: Parts, uses: Uses) -> None:
        self._parts = parts
        self._uses = uses

    async def list_memories(
        self,
        *,
        memory_type: str | None = None,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        since: object = None,
        until: object = None,
        project: str | None = None,
        pinned: bool | None = None,
        order: str = "newest",
        limit: int = LIMIT,
        cursor: str | None = None,
    ) -> Listed:
        """The memories that match, in this order: newest, oldest, expiring (those that never do
        come last), most_used or least_sure. `project`: only of this one; `pinned`: only
        such ones, or only others; `cursor`: of the page before. Raises InvalidInput."""
        zone, count = self._parts.lifetimes.zone, checks.limit(limit)
        metadata = narrowed(metadata, project)
        filter = without_records(
            asked_filter(zone, memory_type, session_id, metadata, since, until, pinned)
        )
        about = _digest(order, filter, check_metadata(metadata))
        after = None if cursor is None else _place(cursor, about)
        return await self._page(filter, order, count, after, about)

    async def newest(self, filter: Filter, limit: int) -> tuple[Memory, ...]:
        """The newest that match."""
        return (await self._page(filter, "newest", limit)).memories

    def _key(self, order: object) -> Callable[[Memory], Key]:
        """The sort key of an order. Raises InvalidInput."""
        of, now = _order(order), self._parts.clock()
        return lambda memory: of(memory, self._uses, now)

    async def _page(
        self,
        filter: Filter,
        order: str,
        limit: int,
        after: Place | None = None,
        about: str = "",
    ) -> Listed:
        key, column = self._key(order), COLUMNS.get(order)
        need = ListNeed(filter, order, limit, after, self._parts.clock())
        index, known_total = await self._parts.source.listed(self._parts.index, need)
        async with turn():
            # After the wait for the turn, so that nothing that expired meanwhile is listed.
            selection = index.selection(filter, self._parts.clock())
            found, total = await anyio.to_thread.run_sync(
                _first, selection, key, column, limit + 1, after
            )
        page = _fitting(found[:limit])
        more = len(found) > len(page)
        last = (key(page[-1]), page[-1].id) if more else None
        memories = tuple(memory.copy() for memory in page)
        total = total if known_total is None else known_total
        return Listed(memories, total, None if last is None else _cursor(last, about))


def _first(
    selection: Selection,
    key: Callable[[Memory], Key],
    column: Callable[[Selection], NDArray[np.float64]] | None,
    count: int,
    after: Place | None,
) -> tuple[list[Memory], int]:
    """The first memories after a place, and how many match in all. Runs on a thread."""
    slots = np.flatnonzero(selection.mask())
    total = len(slots)
    if column is not None:
        values, start = column(selection)[slots], after[0][0] if after else -math.inf
        left = values >= start
        slots, values = slots[left], values[left]
        most = count + int(np.count_nonzero(values == start))  # some of these come before `after`
        if most < len(slots):
            slots = slots[values <= np.partition(values, most - 1)[most - 1]]
    memories = [entry.memory for slot in slots.tolist() if (entry := selection.entries[slot])]
    places = ((key(memory), memory.id) for memory in memories)
    later = (
        (place, number) for number, place in enumerate(places) if after is None or place > after
    )
    return [memories[number] for _, number in nsmallest(count, later)], total


def _fitting(memories: list[Memory]) -> list[Memory]:
    """As many as fit into one answer."""
    size = 0
    for number, memory in enumerate(memories):
        size += len(memory.content)
        if number and size > PAGE_CHARS:
            return memories[:number]
    return memories


def _order(name: object) -> Callable[[Memory, Uses, float], Key]:
    if not isinstance(name, str) or name not in ORDERS:
        raise InvalidInput(
            f"There is no order {str(name)[:50]!r}.",
            code="order_unknown",
            hint=f"Use {', '.join(ORDERS)}.",
        )
    return ORDERS[name]


# A cursor is JSON in base64: the digest of order and filter, the sort key and the id.
def _digest(order: str, filter: Filter, metadata: Mapping[str, Any]) -> str:
    """Order and filter as a short text, so that a cursor is not used with others."""
    facts = [order, filter.type, filter.session_id, filter.since, filter.until, metadata]
    facts += [] if filter.pinned is None else [filter.pinned]
    text = json.dumps(facts, sort_keys=True)
    return blake2b(text.encode(), digest_size=6).hexdigest()


def _cursor(place: Place, about: str) -> str:
    key, id = place
    text = json.dumps([about, [number.hex() for number in map(float, key)], id])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _place(cursor: object, about: str) -> Place:
    try:
        if not isinstance(cursor, str) or len(cursor) > MAX_CURSOR:
            raise ValueError
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True)
        digest, key, id = json.loads(text)
        place = tuple(map(float.fromhex, key)), id
        if not isinstance(id, str) or not place[0] or any(map(math.isnan, place[0])):
            raise ValueError
    except (ValueError, TypeError, RecursionError) as exc:
        raise InvalidInput(
            "The cursor is not one that a list returned.",
            code="cursor_invalid",
            hint="Leave it out to begin at the first page.",
        ) from exc
    if digest != about:
        raise InvalidInput(
            "The cursor belongs to a list with another filter or order.",
            code="cursor_invalid",
            hint="Repeat the arguments of the first page, or leave the cursor out.",
        )
    return place
