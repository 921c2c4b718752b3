"""A fresh store beside the live one, filled row by row, each page read back and compared.

The one mechanism behind compaction, purge, repair, migration and restore: what is not copied
is not there, in no byte of the new files.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from memoryd.adapters.chroma import swap
from memoryd.adapters.chroma.collection import Collection
from memoryd.adapters.chroma.hnsw_files import scrub
from memoryd.adapters.chroma.open import create_beside, open_embedded
from memoryd.adapters.chroma.other_collections import Other, check_kept
from memoryd.adapters.chroma.rows import OF, ROWS, Row, row_ids
from memoryd.adapters.chroma.swap import LIVE
from memoryd.errors import StoreError
from memoryd.ports import Identity
from memoryd.settings import StoreSettings

STEP = 200  # rows a step, about a quarter of a second: what a caller may have to wait for
CLOSE_WAIT = 5.0
NEAR = 1e-5  # Chroma scales vectors to length 1 once more, which moves the last bits


class Fresh:
    """`store.new` while it is filled. Rows count only after `finish`.

    `others`: the further collections of the store that it is to replace. They must be copied too,
    or `close` fails; StoreError at once if one cannot be."""

    def __init__(
        self,
        settings: StoreSettings,
        data_dir: Path,
        identity: Identity,
        others: Sequence[Other],
    ) -> None:
        check_kept(others)
        self._settings, self._data_dir = settings, data_dir
        self._missing = {other.name for other in others}
        self._folder = swap.begin(data_dir)
        self._collection = open_embedded(settings, self._folder, identity)
        self.ids: set[str] = set()

    def add(self, rows: Sequence[Row]) -> None:
        """Write rows, read them back, compare; StoreError if one differs."""
        _put(self._collection, rows)
        self.ids |= {row.id for row in rows}

    def keep_others(self, source: Collection) -> Iterator[bool]:
        """Copy the other collections of an open store, a page each time."""
        for name in sorted(self._missing):
            theirs = source.beside(name)
            mine = create_beside(self._collection, name, self._settings, theirs.metadata)
            ids = theirs.ids()
            for start in range(0, len(ids), STEP):
                _put(mine, theirs.fetch(ids[start : start + STEP]))
                yield True
            _compare(ids, mine)
            self._missing.remove(name)

    def keep_other(self, other: Other, facts: Mapping[str, Any], rows: Sequence[Row]) -> None:
        """Another collection of a store that does not open, from its rows."""
        mine = create_beside(self._collection, other.name, self._settings, facts)
        for start in range(0, len(rows), STEP):
            _put(mine, rows[start : start + STEP])
        _compare([row.id for row in rows], mine)
        self._missing.remove(other.name)

    def remove(self, ids: Iterable[str]) -> None:
        """Take rows out again that changed since they were copied."""
        gone = [id for id in ids if id in self.ids]
        if gone:
            self._collection.drop(gone)
        self.ids.difference_update(gone)

    def close(self, expected: Iterable[str]) -> None:
        """Compare the ids with what should be there, and let go of the files."""
        _compare(expected, self._collection)
        if self._missing:
            names = ", ".join(sorted(self._missing))
            raise StoreError(
                f"The copy lacks the collections {names}; the store is left as it was.",
                code="copy_differs",
            )
        close(self._collection, self._folder)
        scrub(self._folder)

    def finish(self, reason: str, aside: str | None = None) -> None:
        """Take the live store's place, which must be closed."""
        swap.complete(self._data_dir, reason, aside)

    def abandon(self) -> None:
        """Leave no trace."""
        close(self._collection, self._folder)
        swap.settle(self._data_dir)


def close(collection: Collection, folder: Path) -> None:
    """Close it and wait until the system says that no file of it is open any more."""
    collection.close()
    until = time.monotonic() + CLOSE_WAIT
    while _is_open(folder) and time.monotonic() < until:
        time.sleep(0.001)


def _is_open(folder: Path) -> bool:
    prefix = f"{folder.resolve()}{os.sep}"
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:  # a system that does not tell
        return False
    for name in names:
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith(prefix):
                return True
        except OSError:
            continue
    return False


def _put(collection: Collection, rows: Sequence[Row]) -> None:
    """Write rows, read them back, compare."""
    if not rows:
        return
    collection.put(rows)
    found = {row.id: row for row in collection.fetch([row.id for row in rows])}
    for row in rows:
        if row.id not in found or not _same(row, found[row.id]):
            raise StoreError(
                f"The copy of row {row.id} differs; the store is left as it was.",
                code="copy_differs",
            )


def _compare(expected: Iterable[str], collection: Collection) -> None:
    wanted, found = set(expected), set(collection.ids())
    if wanted != found:
        raise StoreError(
            f"The copy has {len(found)} rows, not {len(wanted)}; the store is left as it was.",
            code="copy_differs",
        )


def _same(mine: Row, other: Row) -> bool:
    return (
        mine.document == other.document
        and mine.meta.keys() == other.meta.keys()
        and all(_equal(mine.meta[key], other.meta[key]) for key in mine.meta)
        and bool(np.allclose(mine.vector, other.vector, rtol=0.0, atol=NEAR))
    )


def _equal(mine: object, other: object) -> bool:
    """Equal, and of one type: True is not 1. Chroma can move the last digit of a fraction;
    ours are times."""
    if isinstance(mine, float) and isinstance(other, float):
        return math.isclose(mine, other, rel_tol=0.0, abs_tol=NEAR)
    return type(mine) is type(other) and mine == other


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
