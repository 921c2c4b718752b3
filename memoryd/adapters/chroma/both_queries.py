"""The port `memoryd.queries.Queries` on private and shared memories: both stores are asked, and
their answers are made one.

What is asked of the server tells it what the user looks for: the vector and the words of a query,
filters, and names and sessions that are looked up. It is never told ids and names of private
memories that are here, and whoever looks something up for a private memory says `only_here`.

If the server cannot be reached, private memories are found, and `trouble` says so.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import anyio

from memoryd.adapters.chroma.private_and_shared import PrivateAndShared
from memoryd.adapters.chroma.store_queries import StoreQueries
from memoryd.errors import StoreUnavailable
from memoryd.ports import Record
from memoryd.queries import (
    Candidates,
    CandidatesWanted,
    Conditions,
    Place,
    note_failure,
    order_in_list,
)
from memoryd.tasks import task_group

T = TypeVar("T")
PATIENCE = 2.0  # seconds that a call waits before the server is asked for a sign of life
MAX_MOVES = 100_000  # memories that were moved once


class BothQueries:
    """See `memoryd.queries.Queries`."""

    def __init__(self, store: PrivateAndShared) -> None:
        self._store = store
        self._private = StoreQueries(store.private)
        self._knows_moves = False
        self.trouble = ""

    async def check(self) -> None:
        try:
            await self._store.check()
        except StoreUnavailable as exc:
            self.trouble = exc.message
        else:
            self.trouble = ""

    async def get(self, ids: Sequence[str], *, only_here: bool = False) -> list[Record]:
        here = [id for id in ids if self._store.is_here(id)]
        there = [] if only_here else [id for id in ids if not self._store.is_here(id)]
        found = await self._store.get(here) if here else []
        return found + (await self._ask(lambda _: self._store.get(there)) or [] if there else [])

    async def find(self, *asked: Conditions, limit: int, only_here: bool = False) -> list[str]:
        here = await self._private.find(*asked, limit=limit)
        told = [] if only_here else [one for one in map(self._told, asked) if one is not None]
        if not told:
            return here
        there = await self._ask(lambda shared: shared.find(*told, limit=limit))
        return list(dict.fromkeys([*here, *(there or ())]))

    def _told(self, asked: Conditions) -> Conditions | None:
        """The conditions without ids of private memories; None if nothing is left to ask."""
        is_here = self._store.is_here
        wanted = [asked.name, *(value for _, values in asked.having for value in values)]
        if any(isinstance(one, str) and is_here(one) for one in wanted):
            return None
        naming = tuple(id for id in asked.naming if not is_here(id))
        return replace(asked, naming=naming) if naming or not asked.naming else None

    async def newest(
        self, conditions: Conditions, now: float, after: Place | None, limit: int
    ) -> list[Place]:
        here = await self._private.newest(conditions, now, after, limit)
        there = await self._ask(lambda shared: shared.newest(conditions, now, after, limit)) or []
        shown = [place for place in there if not self._store.is_here(place[1])]
        return sorted([*here, *shown], key=order_in_list)[:limit]

    async def candidates(self, wanted: CandidatesWanted) -> Candidates:
        here = await self._private.candidates(wanted)
        there = await self._ask(lambda shared: shared.candidates(wanted))
        if there is None:
            return Candidates(self._store.one_of(here.records, ()), here.counts, here.rows)
        counts = zip(here.counts, there.counts, strict=True)
        return Candidates(
            self._store.one_of(here.records, there.records),
            tuple(min(wanted.each, sum(pair)) for pair in counts),
            here.rows + there.rows,
        )

    async def sample(self, count: int) -> tuple[list[Record], int]:
        here, rows_here = await self._private.sample(count)
        there, rows_there = await self._ask(lambda shared: shared.sample(count)) or ([], 0)
        # As many of each as it has of all rows.
        rows = rows_here + rows_there
        parts = [
            random.sample(records, min(len(records), round(count * share / max(1, rows))))
            for records, share in ((here, rows_here), (there, rows_there))
        ]
        return self._store.one_of(*parts), rows

    async def _ask(self, call: Callable[[StoreQueries], Awaitable[T]]) -> T | None:
        """The server's answer; None if it cannot be reached."""
        try:
            async with task_group() as tasks:
                tasks.start_soon(self._watch)
                shared = StoreQueries(self._store.shared)
                await self._learn_moves(shared)
                found = await call(shared)
                tasks.cancel_scope.cancel()
        except StoreUnavailable as exc:
            self.trouble = exc.message
            note_failure(exc.message)
            return None
        self.trouble = ""
        return found

    async def _watch(self) -> None:
        """Raise StoreOffline when the server gives no sign of life."""
        while True:
            await anyio.sleep(PATIENCE)
            await self._store.check()

    async def _learn_moves(self, shared: StoreQueries) -> None:
        """Once: find the moves that a kill may have interrupted. A daemon with an index finds them
        when it reads all memories."""
        if not self._knows_moves:
            moved = Conditions(moved=True)
            known: Sequence[str] = await self._private.find(moved, limit=MAX_MOVES)
            self._store.check_moves([*known, *await shared.find(moved, limit=MAX_MOVES)])
            self._knows_moves = True
