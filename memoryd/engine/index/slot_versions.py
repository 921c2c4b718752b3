"""What searches under way may still have to show when a write overtakes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from memoryd.engine.index.turns import Grown, Numbers

FORMER = 1024  # removed memories that are remembered while somebody searches
Held = TypeVar("Held")


class Stamps(Generic[Held]):
    """By slot, the number of its last change; and what it held before, while that matters."""

    def __init__(self) -> None:
        self._stamps = Grown()
        self._former: dict[tuple[int, int], Held] = {}
        self._watchers = 0
        self.changes = 0  # so far, of all slots

    def touch(self, slot: int, held: Held | None) -> None:
        """The slot is about to change; `held` is what it holds until now."""
        if self._watchers and held is not None:
            self._former[slot, self._stamp(slot)] = held
            if len(self._former) > FORMER:
                del self._former[next(iter(self._former))]
        self.changes += 1
        self._stamps.set(slot, self.changes & 0x7FFFFFFF)

    def first(self, count: int) -> Numbers:
        """A copy of the stamps of the first slots."""
        return self._stamps.first(count)

    def is_current(self, slot: int, stamp: int) -> bool:
        """Whether the slot has not changed since."""
        return self._stamp(slot) == stamp

    def former(self, slot: int, stamp: int) -> Held | None:
        """What the slot held then; None if nobody remembers."""
        return self._former.get((slot, stamp))

    @contextmanager
    def watched(self) -> Iterator[None]:
        """A search is under way: what is removed meanwhile is remembered until it ends."""
        self._watchers += 1
        try:
            yield
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._former.clear()

    def _stamp(self, slot: int) -> int:
        return int(self._stamps.values[slot]) if slot < len(self._stamps.values) else -1
