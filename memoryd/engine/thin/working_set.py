"""The memories that running operations need, read from the server into the index.

An operation reads each memory once, when it first needs it, so it works on what the server has now.
What it read or wrote stays until every operation has ended that was running then: another one may
have looked for the same name or fact before it was written, and must see it when it gets the lock.
So the index holds what running calls need, and nothing when there are none.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from memoryd.engine import commits
from memoryd.engine.lock_keys import id_key
from memoryd.engine.parts import Parts
from memoryd.fields import related_ids
from memoryd.queries import Queries, failures, noting_failures

P = ParamSpec("P")
T = TypeVar("T")
BATCH = 100  # memories that are read at once
MAX_RELATED = 500  # memories that are read because others name them


@dataclass(slots=True, eq=False)
class Operation:
    """A running operation."""

    began: int
    known: set[str] = field(default_factory=set)  # ids that it has read
    looked_up: set[str] = field(default_factory=set)  # ids or names that it has looked up


_CURRENT: ContextVar[Operation | None] = ContextVar("operation", default=None)


class WorkingSet:
    """Fills the index for operations, and empties it again."""

    def __init__(self, parts: Parts, queries: Queries) -> None:
        self._parts, self._queries = parts, queries
        self._running: set[Operation] = set()
        self._ended = 0  # how many operations have ended
        self._used: dict[str, int] = {}  # by id: `_ended` when it was last used

    @asynccontextmanager
    async def operation(self) -> AsyncIterator[Operation]:
        """Inside the block, what is read stays. May be nested."""
        if (outer := _CURRENT.get()) is not None and outer in self._running:
            yield outer
            return
        running = Operation(self._ended)
        token = _CURRENT.set(running)
        self._running.add(running)
        try:
            with noting_failures():
                yield running
        finally:
            _CURRENT.reset(token)
            self._running.discard(running)
            self._release(running)

    def scoped(self, call: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        """The call as an operation."""

        @wraps(call)
        async def run(*args: P.args, **kwargs: P.kwargs) -> T:
            async with self.operation():
                return await call(*args, **kwargs)

        return run

    async def load(self, ids: Iterable[str], *, only_here: bool = False) -> None:
        """Read these memories and those in their relations, unless this operation has. `only_here`:
        those that are private. Raises StoreError."""
        async with self.operation() as running:
            waiting, read = set(ids) - running.known, 0
            while waiting and read < MAX_RELATED:
                failed = len(failures())
                found_ids = await self._read(sorted(waiting), only_here)
                is_answered = not only_here and len(failures()) == failed
                running.known |= waiting if is_answered else found_ids
                only_here = False  # who reads a private memory may ask for what it names
                read += len(waiting)
                found = [memory for id in waiting if (memory := self._parts.index.get(id))]
                waiting = {id for memory in found for id in related_ids(memory)} - running.known

    async def refresh(self) -> None:
        """Read again everything that is in the index."""
        await self._read([memory.id for memory in self._parts.index])

    async def _read(self, ids: Sequence[str], only_here: bool = False) -> set[str]:
        """Read these memories; the ids of those that were found."""
        found: set[str] = set()
        for start in range(0, len(ids), BATCH):
            batch = ids[start : start + BATCH]
            async with self._parts.locks.hold(map(id_key, batch)):
                found |= await self._read_batch(batch, only_here)
        return found

    async def _read_batch(self, ids: Sequence[str], only_here: bool) -> set[str]:
        index = self._parts.index
        failed = len(failures())
        records = await self._queries.get(ids, only_here=only_here)
        found = {record.memory.id: record for record in records}
        # By the order of the writes: the last of several memories with one name is put last.
        for record in sorted(found.values(), key=lambda one: (one.clock, one.memory.id)):
            if index.revision(record.memory.id) != record.revision or not record.revision:
                index.put(record, await commits.terms(record))
            self._used.pop(record.memory.id, None)  # this operation uses it from now on
        if not only_here and len(failures()) == failed:  # else it may be there
            for id in set(ids) - found.keys():
                index.remove(id)
        return set(found)

    def _release(self, ended: Operation) -> None:
        """Remove what no running operation can have used."""
        self._ended += 1
        written = (memory.id for memory in self._parts.index if memory.id not in self._used)
        self._used |= dict.fromkeys([*ended.known, *written], self._ended)
        oldest = min((running.began for running in self._running), default=math.inf)
        for id in [id for id, used in self._used.items() if used <= oldest]:
            del self._used[id]
            self._parts.index.remove(id)
