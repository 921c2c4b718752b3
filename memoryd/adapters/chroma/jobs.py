"""Long work on the collection, in steps between which it serves: the rewrite.

A job takes the ids that are there when it begins and works through them page by page; reads
and writes go on in between. What is written meanwhile is copied once more at the end, which is
short, so nobody waits for the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from memoryd.adapters.chroma.collection import Collection
from memoryd.adapters.chroma.rewrite import STEP, Fresh, close
from memoryd.adapters.chroma.rows import OF, ROWS, row_ids
from memoryd.adapters.chroma.swap import LIVE
from memoryd.settings import StoreSettings


class Job(Protocol):
    """Long work in steps; `has_closed`: the collection must be opened anew."""

    has_closed: bool

    def before(self, ids: Iterable[str]) -> None: ...
    def step(self) -> bool: ...
    def finish(self) -> object: ...
    def abandon(self) -> None: ...


class Rewrite:
    """Copies the live rows into a fresh store, then has it take the old one's place."""

    def __init__(
        self, settings: StoreSettings, data_dir: Path, source: Collection, reason: str
    ) -> None:
        self.has_closed = False
        self._folder = data_dir / LIVE
        self._source = source
        self._reason = reason
        self._left = source.ids()
        self._left.reverse()
        self._parts: dict[str, set[str]] = {}  # memory -> its further rows that were copied
        self._dirty: set[str] = set()  # memories written since the job began
        self._fresh = Fresh(settings, data_dir, source.made_for, source.others)
        self._others = self._fresh.keep_others(source)
        self._more_others = bool(source.others)

    def before(self, ids: Iterable[str]) -> None:
        """These memories are about to be written."""
        self._dirty.update(ids)

    def step(self) -> bool:
        """One page more; whether there is more to do."""
        if self._left:
            self._copy([self._left.pop() for _ in range(min(STEP, len(self._left)))])
        elif self._more_others:
            self._more_others = next(self._others, False)
        elif len(self._dirty) > STEP:
            self._copy_dirty([self._dirty.pop() for _ in range(STEP)])
        return bool(self._left) or self._more_others or len(self._dirty) > STEP

    def finish(self) -> dict[str, object]:
        """The rest, the comparison, the swap. The source is closed afterwards."""
        while self._left or self._more_others:
            self.step()
        self._copy_dirty(list(self._dirty))
        wanted = self._source.ids()  # rows that belong to no memory included
        self._fresh.remove(self._fresh.ids.difference(wanted))
        self._copy([id for id in wanted if id not in self._fresh.ids])
        self._fresh.close(wanted)
        self.has_closed = True
        close(self._source, self._folder)
        self._fresh.finish(self._reason)
        return {"reason": self._reason}

    def abandon(self) -> None:
        """Leave the store as it is."""
        self._fresh.abandon()

    def _copy(self, ids: list[str]) -> None:
        found = self._source.fetch(ids)
        for row in found:
            if owner := row.meta.get(OF):
                self._parts.setdefault(str(owner), set()).add(row.id)
        self._fresh.add(found)

    def _copy_dirty(self, memories: list[str]) -> None:
        """Copy memories anew, whatever of them was copied before."""
        for id in memories:
            self._fresh.remove([id, *self._parts.pop(id, ())])
        self._copy(list(self._rows_of(memories)))

    def _rows_of(self, memories: list[str]) -> Iterator[str]:
        for row in self._source.fetch(memories):
            yield from row_ids(row.id, int(row.meta.get(ROWS, 1)))
