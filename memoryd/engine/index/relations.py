"""Which memories name which others in their relations, and until when each one is superseded.

A memory is superseded as long as one lives that names it in `supersedes`. This is derived from the
memories in the index, so a forgotten or expired one supersedes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from memoryd.fields import SUPERSEDES, ids_of, related_ids
from memoryd.model import Memory

Get = Callable[[str], Memory | None]
NEVER = 0.0  # of a memory that is not superseded


class Relations:
    """By id, the ids of the memories that name it."""

    def __init__(self, get: Get) -> None:
        """`get`: the memory with an id, if it is in the index."""
        self._get = get
        self._naming: dict[str, set[str]] = {}
        self._named: dict[str, tuple[list[str], list[str]]] = {}  # by id: all, and superseded ones

    def put(self, memory: Memory) -> None:
        if related := list(related_ids(memory)):
            self._named[memory.id] = (related, list(ids_of(memory, SUPERSEDES)))
        for id in related:
            self._naming.setdefault(id, set()).add(memory.id)

    def remove(self, memory_id: str) -> list[str]:
        """Forget which memories one names; the ids of those that it supersedes."""
        related, superseded = self._named.pop(memory_id, ([], []))
        for id in related:
            self._naming[id].discard(memory_id)
            if not self._naming[id]:
                del self._naming[id]
        return superseded

    def naming(self, ids: Iterable[str]) -> set[str]:
        """The ids of other memories that name one of `ids` in a relation."""
        wanted = set(ids)
        return {by for id in wanted for by in self._naming.get(id, ())} - wanted

    def superseding(self, id: str) -> list[str]:
        """The ids of the memories that supersede one, sorted."""
        found = (self._get(by) for by in self._naming.get(id, ()) if by != id)
        return sorted(memory.id for memory in found if memory and id in ids_of(memory, SUPERSEDES))

    def superseded_until(self, id: str) -> float:
        """When the last memory that supersedes it expires: `math.inf` if never, `NEVER` if none."""
        found = (self._get(by) for by in self.superseding(id))
        return max((_end(memory) for memory in found if memory), default=NEVER)

    def unknown(self) -> list[str]:
        """The ids that are named although there is no such memory."""
        return [id for id in self._naming if self._get(id) is None]


def _end(memory: Memory) -> float:
    return math.inf if memory.pinned or memory.expires_at is None else memory.expires_at
