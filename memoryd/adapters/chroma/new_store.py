"""A new store while it is filled: each batch is read back and compared; it replaces the live one
in `finish`, not before.

No byte of a row that was not added is in its files. A copy of the live store may be filled over
several runs: what an earlier one left is compared row by row, not trusted.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from memoryd.adapters.chroma import swap
from memoryd.adapters.chroma.collection import Collection
from memoryd.adapters.chroma.hnsw_files import is_torn, scrub
from memoryd.adapters.chroma.open import create_other_collection, open_embedded
from memoryd.adapters.chroma.other_collections import OtherCollection, check_all_kept
from memoryd.adapters.chroma.rows import Row
from memoryd.errors import StoreError
from memoryd.ports import Identity
from memoryd.settings import StoreSettings

OTHER_ROWS = 200  # rows of another collection in one write
SMALL_BATCH_ROWS = 50  # rows in one write that others may have to wait for
BATCH_ROWS = 2_000  # rows in one write: fewer than a second's work, so that a stop waits no longer
# Rows between two flushes of the index. Each flush writes all of it, so a copy that is flushed as
# often as a live store takes twice as long; with more rows the queue that each write reads is long.
FLUSH_ROWS = 5_000
CLOSE_WAIT = 5.0
TOLERANCE = 1e-5  # Chroma normalises vectors again, which changes the last bits


class NewStore:
    """`store.new` while it is filled.

    `others`: the other collections of the store that it replaces. They must be copied too, or
    `close` fails. Raises StoreError if one of them cannot be copied. `bulk`: write large batches,
    which take up to a second each. `reason`: of a copy that a later run may finish; without one, no
    run does. `go_on`: keep what an earlier run left, if it can be opened."""

    def __init__(
        self,
        settings: StoreSettings,
        data_dir: Path,
        identity: Identity,
        others: Sequence[OtherCollection],
        *,
        bulk: bool = True,
        reason: str = "",
        go_on: bool = False,
    ) -> None:
        check_all_kept(others)
        self._settings, self._data_dir = settings, data_dir
        self._batch, self._is_settled = BATCH_ROWS if bulk else SMALL_BATCH_ROWS, not bulk
        self._missing = {other.name for other in others}
        self._folder = data_dir / swap.NEW
        flush = max(FLUSH_ROWS, settings.sync_threshold) if bulk else settings.sync_threshold
        self._filling = replace(settings, sync_threshold=flush)
        self._collection = self._reopened(identity) if go_on else self._begun(identity, reason)
        self.ids = set(self._collection.ids())
        self._expected: set[str] = set()
        self._waiting: dict[str, Row] = {}  # rows to be written

    def _begun(self, identity: Identity, reason: str) -> Collection:
        swap.begin(self._data_dir, reason)
        return open_embedded(self._filling, self._folder, identity)

    def _reopened(self, identity: Identity) -> Collection:
        """What an earlier run left; an empty store if that is of no use."""
        reason = swap.copy_reason(self._data_dir)
        if is_torn(self._folder):
            return self._begun(identity, reason)
        try:
            found = open_embedded(self._filling, self._folder, identity)
            found.set_sync_threshold(self._filling.sync_threshold)
            found.probe()
            for other in found.others:  # copied anew: what has changed in them is not known
                found.client.delete_collection(other.name)
            return found
        except Exception:  # nothing in it is the only copy
            return self._begun(identity, reason)

    def add(self, rows: Sequence[Row]) -> None:
        """Write rows, at the latest in `settle` or `close`; StoreError if one differs when it is
        read back. Rows that are there already are only compared."""
        if len(self._waiting) >= self._batch:
            self.flush()
        known = [row for row in rows if row.id in self.ids and row.id not in self._waiting]
        right = _same_rows(self._collection, known)
        self._drop([row.id for row in known if row.id not in right])
        new = {row.id: row for row in rows if row.id not in right}
        self._waiting |= new
        self.ids.update(new)

    def update(self, memories: Sequence[str], rows: Sequence[Row]) -> None:
        """Make these rows all that there is of these memories."""
        kept = {row.id for row in rows}
        self._drop([id for id in self._rows_of(memories) if id not in kept])
        self.add(rows)

    def remove(self, ids: Sequence[str]) -> None:
        """Remove rows; those that are not there are ignored."""
        self._drop([id for id in ids if id in self.ids])

    def _rows_of(self, memories: Iterable[str]) -> Iterator[str]:
        for memory in memories:
            number, id = 0, memory
            while id in self.ids:
                yield id
                number += 1
                id = f"{memory}#{number}"

    def _drop(self, ids: Sequence[str]) -> None:
        written = [id for id in ids if self._waiting.pop(id, None) is None]
        if written:
            self._collection.drop(written)
        self.ids.difference_update(ids)

    def flush(self) -> None:
        """Write what waits."""
        rows, self._waiting = list(self._waiting.values()), {}
        write_verified(self._collection, rows)

    def settle(self) -> None:
        """Write what waits, and all files to the disk; from now on the index is flushed as often as
        that of a live store. So `close` has little left to do."""
        if self._is_settled:
            return
        self._is_settled = True
        self._reopen()  # Chroma reads the setting when it opens the index
        self._collection.set_sync_threshold(self._settings.sync_threshold)
        self.flush()
        self._reopen(sync=True)

    def _reopen(self, *, sync: bool = False) -> None:
        close(self._collection, self._folder)
        if sync:
            swap.sync_tree(self._folder)
        self._collection = open_embedded(self._settings, self._folder, identity=None)

    def expect(self, ids: Iterable[str]) -> None:
        """Note ids that `differences` is to find."""
        self._expected.update(ids)

    def differences(self) -> tuple[list[str], list[str]]:
        """The expected ids that are not in its files, and those in its files that are not
        expected."""
        self.flush()
        expected, self._expected = self._expected, set()
        self.ids = set(self._collection.ids())
        return list(expected - self.ids), list(self.ids - expected)

    def copy_others(self, source: Collection) -> Iterator[bool]:
        """Copy the other collections of an open store, one page per iteration."""
        for name in sorted(self._missing):
            theirs = source.other(name)
            ids = theirs.ids()
            self.begin_other(name, theirs.metadata)
            for start in range(0, len(ids), OTHER_ROWS):
                self.add_to_other(name, theirs.fetch(ids[start : start + OTHER_ROWS]))
                yield True
            self.end_other(name, ids)

    def add_other(
        self, other: OtherCollection, facts: Mapping[str, Any], rows: Sequence[Row]
    ) -> None:
        """Write another collection from its rows, for a store that does not open."""
        self.begin_other(other.name, facts)
        for start in range(0, len(rows), OTHER_ROWS):
            self.add_to_other(other.name, rows[start : start + OTHER_ROWS])
        self.end_other(other.name, [row.id for row in rows])

    def begin_other(self, name: str, facts: Mapping[str, Any]) -> None:
        """Create another collection."""
        create_other_collection(self._collection, name, self._settings, facts)

    def add_to_other(self, name: str, rows: Sequence[Row]) -> None:
        write_verified(self._collection.other(name), rows)

    def end_other(self, name: str, ids: Sequence[str]) -> None:
        """Compare its ids; StoreError if they differ."""
        compare_ids(ids, self._collection.other(name).ids())
        self._missing.remove(name)

    def close(self, count: int | None = None) -> None:
        """Compare the number of rows with `count`, or that of the added ones, then close the files;
        StoreError if they differ."""
        self.settle()
        self.flush()
        found, count = self._collection.row_count(), len(self.ids) if count is None else count
        if found != count:
            raise StoreError(
                f"The copy has {found} rows, not {count}. The store was not changed.",
                code="copy_differs",
            )
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

    def suspend(self) -> None:
        """Close it as it is; a later run may go on with it."""
        close(self._collection, self._folder)

    def abandon(self) -> None:
        """Close and remove it."""
        self.suspend()
        swap.drop_unfinished(self._data_dir)


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


def write_verified(collection: Collection, rows: Sequence[Row]) -> None:
    """Write rows, read them back, compare; StoreError if one differs."""
    if not rows:
        return
    collection.put(rows)
    right = _same_rows(collection, rows)
    for row in rows:
        if row.id not in right:
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


def _same_rows(collection: Collection, rows: Sequence[Row]) -> set[str]:
    """The ids of those rows that the collection has exactly like this."""
    mine = {row.id: row for row in rows}
    found = collection.fetch(list(mine))
    if not found:
        return set()
    wanted = np.stack([mine[row.id].vector for row in found])
    largest = np.abs(wanted - np.stack([row.vector for row in found])).max(axis=1)
    pairs = zip(found, largest.tolist(), strict=True)
    return {row.id for row, off in pairs if off <= TOLERANCE and _is_same_row(mine[row.id], row)}


def _is_same_row(mine: Row, other: Row) -> bool:
    """Whether they are the same except for the vector."""
    return (
        mine.document == other.document
        and mine.meta.keys() == other.meta.keys()
        and all(_is_same_value(mine.meta[key], other.meta[key]) for key in mine.meta)
    )


def _is_same_value(mine: object, other: object) -> bool:
    """Equal and of the same type: True is not 1. Floats may differ a little, because Chroma can
    change their last digit."""
    if isinstance(mine, float) and isinstance(other, float):
        return math.isclose(mine, other, rel_tol=0.0, abs_tol=TOLERANCE)
    return type(mine) is type(other) and mine == other
