"""Which slots have changed, and what they held while a search runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import numpy as np

from memoryd.engine.index.growing_array import GrowingArray, Numbers

MAX_REPLACED = 1024  # replaced entries that are kept while a search runs
Held = TypeVar("Held")


class SlotVersions(Generic[Held]):
    """By slot, the number of its last change; while a search runs, also the replaced entries."""

    def __init__(self) -> None:
        self._versions = GrowingArray()
        self._replaced: dict[tuple[int, int], Held] = {}
        self._watchers = 0
        self.changes = 0  # of all slots

    def touch(self, slot: int, held: Held | None) -> None:
        """Call before a slot changes; `held` is what it holds until then."""
        if self._watchers and held is not None:
            self._replaced[slot, self._version(slot)] = held
            if len(self._replaced) > MAX_REPLACED:
                del self._replaced[next(iter(self._replaced))]
        self.changes += 1
        self._versions.set(slot, self.changes & 0x7FFFFFFF)

    @property
    def is_watched(self) -> bool:
        """Whether replaced entries are kept."""
        return self._watchers > 0

    def restore(self, count: int) -> None:
        """Begin with this many slots."""
        self.changes = count
        self._versions.restore(np.arange(1, count + 1, dtype=np.int32))

    def first(self, count: int) -> Numbers:
        """A copy of the versions of the first `count` slots."""
        return self._versions.first(count)

    def is_current(self, slot: int, version: int) -> bool:
        """Whether the slot has not changed since this version."""
        return self._version(slot) == version

    def replaced(self, slot: int, version: int) -> Held | None:
        """What the slot held at this version; None if it is no longer kept."""
        return self._replaced.get((slot, version))

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Keep replaced entries while the block, a search, runs."""
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._replaced.clear()

    def _version(self, slot: int) -> int:
        return int(self._versions.values[slot]) if slot < len(self._versions.values) else -1
