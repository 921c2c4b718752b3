"""Rewrite: fill a new store next to the live one, read each page back and compare it, then swap.

The one mechanism behind compaction, purge, repair, migration and restore. No byte of a row that
was not copied is in the new files.
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
from memoryd.adapters.chroma.open import create_other_collection, open_embedded
from memoryd.adapters.chroma.other_collections import OtherCollection, check_all_kept
from memoryd.adapters.chroma.rows import OF, Row, placeholder, row_count, row_ids, to_records
from memoryd.adapters.chroma.swap import CLEAN, LIVE, NEXT
from memoryd.errors import StoreError
from memoryd.ports import Identity
from memoryd.settings import StoreSettings

STEP_ROWS = 200  # rows in one step, about a quarter of a second: other calls wait that long
CLOSE_WAIT = 5.0
TOLERANCE = 1e-5  # Chroma normalises vectors again, which changes the last bits


class NewStore:
    """`store.new` while it is filled. It replaces the live store in `finish`, not before.

    `others`: the other collections of the store that it replaces. They must be copied too, or
    `close` fails. Raises StoreError if one of them cannot be copied."""

    def __init__(
        self,
        settings: StoreSettings,
        data_dir: Path,
        identity: Identity,
        others: Sequence[OtherCollection],
    ) -> None:
        check_all_kept(others)
        self._settings, self._data_dir = settings, data_dir
        self._missing = {other.name for other in others}
        self._folder = swap.begin(data_dir)
        self._collection = open_embedded(settings, self._folder, identity)
        self.ids: set[str] = set()

    def add(self, rows: Sequence[Row]) -> None:
        """Write rows, read them back, compare; StoreError if one differs."""
        _write_verified(self._collection, rows)
        self.ids |= {row.id for row in rows}

    def copy_others(self, source: Collection) -> Iterator[bool]:
        """Copy the other collections of an open store, one page per iteration."""
        for name in sorted(self._missing):
            for _ in copy_other(source, self._collection, name, self._settings):
                yield True
            self._missing.remove(name)

    def add_other(
        self, other: OtherCollection, facts: Mapping[str, Any], rows: Sequence[Row]
    ) -> None:
        """Write another collection from its rows, for a store that does not open."""
        mine = create_other_collection(self._collection, other.name, self._settings, facts)
        for start in range(0, len(rows), STEP_ROWS):
            _write_verified(mine, rows[start : start + STEP_ROWS])
        compare_ids([row.id for row in rows], mine.ids())
        self._missing.remove(other.name)

    def remove(self, ids: Iterable[str]) -> None:
        """Remove rows that changed since they were copied."""
        gone = [id for id in ids if id in self.ids]
        if gone:
            self._collection.drop(gone)
        self.ids.difference_update(gone)

    def close(self, expected: Iterable[str]) -> None:
        """Compare the ids with `expected`, then close the files; StoreError if they differ."""
        compare_ids(expected, self._collection.ids())
        if self._missing:
            names = ", ".join(sorted(self._missing))
            raise StoreError(
                f"The copy lacks the collections {names}. The store was not changed.",
                code="copy_differs",
            )
        close(self._collection, self._folder)
        scrub(self._folder)

    def finish(self, reason: str, aside: str | None = None) -> None:
        """Replace the live store, which must be closed."""
        swap.complete(self._data_dir, reason, aside)

    def abandon(self) -> None:
        """Close and remove it."""
        close(self._collection, self._folder)
        swap.recover(self._data_dir)


def copy_other(
    source: Collection, target: Collection, name: str, settings: StoreSettings
) -> Iterator[bool]:
    """Copy another collection from the store of `source` to that of `target`, one page per
    iteration."""
    theirs = source.other(name)
    mine = create_other_collection(target, name, settings, theirs.metadata)
    ids = theirs.ids()
    for start in range(0, len(ids), STEP_ROWS):
        _write_verified(mine, theirs.fetch(ids[start : start + STEP_ROWS]))
        yield True
    compare_ids(ids, mine.ids())


def close(collection: Collection, folder: Path) -> None:
    """Close it and wait until none of its files is open any more."""
    collection.close()
    until = time.monotonic() + CLOSE_WAIT
    while _is_open(folder) and time.monotonic() < until:
        time.sleep(0.001)


def _is_open(folder: Path) -> bool:
    prefix = f"{folder.resolve()}{os.sep}"
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:  # not Linux
        return False
    for name in names:
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith(prefix):
                return True
        except OSError:
            continue
    return False


def _write_verified(collection: Collection, rows: Sequence[Row]) -> None:
    """Write rows, read them back, compare; StoreError if one differs."""
    if not rows:
        return
    collection.put(rows)
    found = {row.id: row for row in collection.fetch([row.id for row in rows])}
    for row in rows:
        if row.id not in found or not _is_same_row(row, found[row.id]):
            raise StoreError(
                f"The copy of row {row.id} differs. The store was not changed.",
                code="copy_differs",
            )


def compare_ids(expected: Iterable[str], copied: Iterable[str]) -> None:
    """Raise StoreError unless both are the same ids."""
    wanted, found = set(expected), set(copied)
    if wanted != found:
        raise StoreError(
            f"The copy has {len(found)} rows, not {len(wanted)}. The store was not changed.",
            code="copy_differs",
        )


def _is_same_row(mine: Row, other: Row) -> bool:
    return (
        mine.document == other.document
        and mine.meta.keys() == other.meta.keys()
        and all(_is_same_value(mine.meta[key], other.meta[key]) for key in mine.meta)
        and bool(np.allclose(mine.vector, other.vector, rtol=0.0, atol=TOLERANCE))
    )


def _is_same_value(mine: object, other: object) -> bool:
    """Equal and of the same type: True is not 1. Floats may differ a little, because Chroma can
    change their last digit."""
    if isinstance(mine, float) and isinstance(other, float):
        return math.isclose(mine, other, rel_tol=0.0, abs_tol=TOLERANCE)
    return type(mine) is type(other) and mine == other


class Job(Protocol):
    """Long work in steps; `has_closed`: the collection must be opened again."""

    has_closed: bool

    def before_write(self, ids: Iterable[str]) -> None: ...
    def step(self) -> bool: ...
    def finish(self) -> object: ...
    def abandon(self) -> None: ...


class Rewrite:
    """Copies the live rows into a new store, which then replaces the old one."""

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
        self._new_store = NewStore(settings, data_dir, source.made_for, source.others)
        self._others = self._new_store.copy_others(source)
        self._more_others = bool(source.others)

    def before_write(self, ids: Iterable[str]) -> None:
        """Called with the ids of memories that are about to be written or deleted."""
        self._dirty.update(ids)

    def step(self) -> bool:
        """Copy one page; whether there is more to do."""
        if self._left:
            self._copy([self._left.pop() for _ in range(min(STEP_ROWS, len(self._left)))])
        elif self._more_others:
            self._more_others = next(self._others, False)
        elif len(self._dirty) > STEP_ROWS:
            self._copy_dirty([self._dirty.pop() for _ in range(STEP_ROWS)])
        return bool(self._left) or self._more_others or len(self._dirty) > STEP_ROWS

    def finish(self) -> dict[str, object]:
        """Copy the rest, compare, swap. The source is closed afterwards."""
        while self._left or self._more_others:
            self.step()
        self._copy_dirty(list(self._dirty))
        wanted = self._source.ids()  # rows that belong to no memory included
        self._new_store.remove(self._new_store.ids.difference(wanted))
        self._copy([id for id in wanted if id not in self._new_store.ids])
        self._new_store.close(wanted)
        self.has_closed = True
        close(self._source, self._folder)
        self._new_store.finish(self._reason)
        return {"reason": self._reason}

    def abandon(self) -> None:
        """Remove the new store; the live one is unchanged."""
        self._new_store.abandon()

    def _copy(self, ids: list[str]) -> None:
        found = self._source.fetch(ids)
        for row in found:
            if owner := row.meta.get(OF):
                self._parts.setdefault(str(owner), set()).add(row.id)
        self._new_store.add(found)

    def _copy_dirty(self, memories: list[str]) -> None:
        """Copy memories again that were written since the job began."""
        for id in memories:
            self._new_store.remove([id, *self._parts.pop(id, ())])
        self._copy(list(self._rows_of(memories)))

    def _rows_of(self, memories: list[str]) -> Iterator[str]:
        for row in self._source.fetch(memories):
            yield from row_ids(row.id, row_count(row.meta))


class CopyOthers:
    """A job of the live store's worker: copies the other collections into the next store. They are
    copied anew each time, because a daemon of another collection may have changed them."""

    has_closed = False

    def __init__(
        self, settings: StoreSettings, data_dir: Path, source: Collection, identity: Identity
    ) -> None:
        check_all_kept(source.others)
        self._folder = data_dir / NEXT / LIVE
        self._target = open_embedded(settings, self._folder, identity)
        for other in self._target.others:
            self._target.client.delete_collection(other.name)
        self._steps = (
            True
            for other in source.others
            for _ in copy_other(source, self._target, other.name, settings)
        )

    def before_write(self, ids: Iterable[str]) -> None:
        """Only our own collection is written to."""

    def step(self) -> bool:
        return next(self._steps, False)

    def finish(self) -> None:
        while self.step():
            pass
        close(self._target, self._folder)

    def abandon(self) -> None:
        close(self._target, self._folder)


def finish_next(folder: Path, settings: StoreSettings, live: Collection) -> None:
    """Make the closed next store in `folder` ready to replace the live one: add the rows that are
    no memories, compare the ids, and blank the unused space in its files. Raises StoreError unless
    it then has all that the live one has."""
    if not (folder / CLEAN).exists():
        raise StoreError(
            "The next store was not closed in order. The store was not changed.",
            code="copy_differs",
        )
    target = open_embedded(settings, folder, identity=None)
    try:
        _copy_unreadable(live, target)
        compare_ids(live.memory_ids(), target.memory_ids())
        compare_ids([o.name for o in live.others], [o.name for o in target.others])
    finally:
        close(target, folder)
    scrub(folder)


def _copy_unreadable(live: Collection, target: Collection) -> None:
    """Copy the rows that are no memories, which the engine does not know of. An attempt that failed
    later may have copied some that are no longer there."""
    kept, copied = live.ids(), target.ids()
    target.drop([row.id for row in _unreadable(target, copied, kept)])
    vector = placeholder(target.made_for.dimension)
    missing = _unreadable(live, kept, copied)
    target.put([Row(row.id, row.document, row.meta, vector) for row in missing])


def _unreadable(collection: Collection, ids: list[str], known: list[str]) -> list[Row]:
    """The rows among `ids` whose first row is not `known`; none of a memory, which is a difference
    that must not be hidden."""
    first = set(known)
    rows = collection.fetch([id for id in ids if id.partition("#")[0] not in first])
    memories = {record.memory.id for record in to_records(rows).records}
    return [row for row in rows if row.id.partition("#")[0] not in memories]
