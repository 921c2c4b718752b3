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

    def put(self, memory: Memory) -> None:
        for id in related_ids(memory):
            self._naming.setdefault(id, set()).add(memory.id)

    def remove(self, memory: Memory) -> None:
        for id in related_ids(memory):
            self._naming[id].discard(memory.id)
            if not self._naming[id]:
                del self._naming[id]

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
