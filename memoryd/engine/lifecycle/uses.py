"""Which memories reached an agent, counted in RAM until the upkeep writes them.

A search only counts here, so that it never writes to the store; a crash loses what was counted
since the last upkeep.
"""

from __future__ import annotations

from collections.abc import Iterable

from memoryd.engine.lifecycle.decay import Use
from memoryd.fields import uses_of
from memoryd.model import Memory


class Uses:
    """The uses that are not written yet, by memory."""

    def __init__(self) -> None:
        self._waiting: dict[str, Use] = {}

    def count(self, ids: Iterable[str], now: float) -> None:
        """Count one use of each of these memories."""
        for id in ids:
            self._waiting[id] = Use(self.waiting(id) + 1, now)

    def waiting(self, id: str) -> int:
        """How many uses of a memory are not written yet."""
        return self._waiting[id].count if id in self._waiting else 0

    def total(self, memory: Memory) -> int:
        """All uses of a memory, written or not."""
        return uses_of(memory) + self.waiting(memory.id)

    def all(self) -> dict[str, Use]:
        """What is not written yet: a copy."""
        return self._waiting.copy()

    def written(self, id: str, use: Use) -> None:
        """These uses of a memory are written, or it is gone; later ones still wait."""
        later = self.waiting(id) - use.count
        if later > 0:
            self._waiting[id] = Use(later, self._waiting[id].last)
        else:
            self._waiting.pop(id, None)
