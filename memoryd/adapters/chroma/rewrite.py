"""Rewrite: copy the live rows into a new store, slice by slice, then swap the two.

The one mechanism behind compaction and purge. Other calls run between two slices, so a slice is cut
to a time, not to a number of rows. What is written meanwhile is copied again. The end, while no
other call runs, takes a time that hardly depends on the size of the store: all rows are compared
before, and only what the last calls wrote is left.

A stop or a kill leaves the copy as it is. A later run goes through all rows again: those that the
copy has are only compared, which is several times as fast as writing them.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from memoryd.adapters.chroma import swap
from memoryd.adapters.chroma.collection import Collection
from memoryd.adapters.chroma.copy_process import (
    CAN_INHERIT,
    CopyProcess,
    InProcess,
    NewStoreCalls,
)
from memoryd.adapters.chroma.hnsw_files import scrub
from memoryd.adapters.chroma.new_store import OTHER_ROWS, close, compare_ids, write_verified
from memoryd.adapters.chroma.open import create_other_collection, open_embedded
from memoryd.adapters.chroma.other_collections import check_all_kept
from memoryd.adapters.chroma.rows import Row, placeholder, row_count, row_ids, to_records
from memoryd.adapters.chroma.swap import CLEAN, LIVE, NEXT
from memoryd.errors import StoreError
from memoryd.ports import Identity
from memoryd.settings import StoreSettings

SLICE_SECONDS = 0.01  # that other calls may have to wait for one slice
FIRST_ROWS, LEAST_ROWS, MOST_ROWS = 100, 20, 1_000  # of a slice
SURPLUS_ROWS = 1_000  # rows that are looked up and removed in one slice
PAUSE = 0.02  # seconds until the copying process is asked again whether it is done
FEW = 16  # memories that may be left to copy while no other call runs
SMALL = 1_000  # rows up to which a process of its own would take longer to start than to copy

Steps = Generator[float, None, None]  # yields seconds to wait before the next step


class Slice:
    """How many rows to read at once, so that it takes `SLICE_SECONDS`."""

    def __init__(self) -> None:
        self.rows = FIRST_ROWS

    def took(self, seconds: float) -> None:
        """Adjust it to the time that one took."""
        fitting = int(self.rows * SLICE_SECONDS / max(seconds, 1e-6))
        self.rows = min(max(fitting, LEAST_ROWS, self.rows // 2), MOST_ROWS, self.rows * 2)


class Job(Protocol):
    """Long work in steps; `has_closed`: the collection must be opened again."""

    has_closed: bool

    def before_write(self, ids: Iterable[str]) -> None:
        """Called with the ids of memories that are about to be written or deleted."""

    def step(self) -> float | None:
        """Do a little; seconds to wait before the next step, None if there is none."""

    def finish(self) -> object:
        """End it while no other call runs; its result."""

    def suspend(self) -> None:
        """Leave it for the next start, if it can go on then."""

    def abandon(self) -> None:
        """Remove what it has made."""


class Rewrite:
    """Copies the live rows into a new store, which then replaces the old one. `go_on`: with a copy
    that an earlier run left."""

    def __init__(
        self,
        settings: StoreSettings,
        data_dir: Path,
        source: Collection,
        reason: str,
        go_on: bool = False,
    ) -> None:
        check_all_kept(source.others)
        self.has_closed = False
        self._data_dir, self._source, self._reason = data_dir, source, reason
        self._opening = (settings, data_dir, source.made_for, source.others)
        self._left: dict[str, None] = {}  # ids of rows to copy
        self._dirty: set[str] = set()  # memories written since the job began
        self._slice = Slice()
        self._new_store = self._open(go_on=go_on)
        self._steps = self._run(go_on)

    def _open(self, *, go_on: bool) -> NewStoreCalls:
        if not go_on:
            swap.drop_unfinished(self._data_dir)
        is_small = self._source.row_count() <= SMALL
        kind = InProcess if is_small or not CAN_INHERIT else CopyProcess
        return kind(*self._opening, reason=self._reason, go_on=go_on)

    def before_write(self, ids: Iterable[str]) -> None:
        self._dirty.update(ids)

    def step(self) -> float | None:
        return next(self._steps, None)

    def _run(self, go_on: bool) -> Steps:
        yield from self._open_again_if_lost(go_on)
        yield from self._list(self._left.update)
        yield from self._copy_left()
        for other in self._source.others:
            yield from self._copy_other(other.name)
        yield from self._copy_dirty()
        yield from self._call("settle")
        yield from self._compare()
        while len(self._dirty) > FEW:
            yield from self._copy_dirty()
            yield from self._call("flush")

    def _open_again_if_lost(self, go_on: bool) -> Steps:
        """What an earlier run left can crash Chroma: then begin anew."""
        try:
            if go_on:
                yield from self._wait()
        except StoreError:
            self._new_store.abandon()
            self._new_store = self._open(go_on=False)

    def _list(self, take: Any) -> Steps:
        """List the ids of all rows, those that belong to no memory included."""
        for page in self._source.id_pages():
            take(dict.fromkeys(page))
            yield 0.0

    def _copy_left(self) -> Steps:
        while self._left:
            ids = [id for id, _ in zip(self._left, range(self._slice.rows), strict=False)]
            for id in ids:
                del self._left[id]
            clean = [id for id in ids if id.partition("#")[0] not in self._dirty]
            self._add(self._fetch(clean))
            yield from self._make_room()

    def _copy_other(self, name: str) -> Steps:
        theirs = self._source.other(name)
        ids = theirs.ids()
        yield from self._call("begin_other", name, theirs.metadata)
        for start in range(0, len(ids), OTHER_ROWS):
            page = theirs.fetch(ids[start : start + OTHER_ROWS])
            self._new_store.send("add_to_other", name, page, rows=len(page))
            yield from self._make_room()
        yield from self._call("end_other", name, ids)

    def _copy_dirty(self) -> Steps:
        """Copy what was written since the job began."""
        while self._dirty:
            self._copy_some_dirty()
            yield from self._make_room()

    def _copy_some_dirty(self) -> None:
        memories = [self._dirty.pop() for _ in range(min(self._slice.rows, len(self._dirty)))]
        rows = self._fetch(memories)
        further = [id for row in rows for id in row_ids(row.id, row_count(row.meta))[1:]]
        rows += self._source.fetch(further)
        self._new_store.send("update", memories, rows, rows=len(rows))

    def _compare(self) -> Steps:
        """Compare the ids of all rows, and copy or remove those that differ."""
        yield from self._list(lambda ids: self._new_store.send("expect", list(ids)))
        yield from self._call("differences")
        missing, surplus = self._new_store.result
        self._left.update(dict.fromkeys(missing))
        yield from self._copy_left()
        for start in range(0, len(surplus), SURPLUS_ROWS):
            part = surplus[start : start + SURPLUS_ROWS]
            kept = self._source.existing(part)  # written after the others were listed
            self._new_store.send("remove", [id for id in part if id not in kept])
            yield from self._make_room()
        yield from self._call("flush")

    def _fetch(self, ids: list[str]) -> list[Row]:
        began = time.perf_counter()
        found = self._source.fetch(ids)
        if len(ids) == self._slice.rows:
            self._slice.took(time.perf_counter() - began)
        return found

    def _add(self, rows: list[Row]) -> None:
        self._new_store.send("add", rows, rows=len(rows))

    def _make_room(self) -> Steps:
        """Let others run, and wait while the new store has enough to do."""
        yield 0.0
        while self._new_store.is_full():
            yield PAUSE

    def _call(self, name: str, *args: Any) -> Steps:
        """Call the new store, and let others run until it is done."""
        self._new_store.send(name, *args)
        yield from self._wait()

    def _wait(self) -> Steps:
        while not self._new_store.is_idle():
            yield PAUSE

    def finish(self) -> dict[str, object]:
        """Copy the rest, compare, swap. The source is closed afterwards."""
        for _ in self._steps:
            time.sleep(PAUSE)
        while self._dirty:
            self._copy_some_dirty()
        self._new_store.call("close", self._source.row_count())
        self._new_store.end()
        self.has_closed = True
        close(self._source, self._data_dir / LIVE)
        swap.complete(self._data_dir, self._reason)
        return {"reason": self._reason}

    def suspend(self) -> None:
        """Keep the copy; the live store is unchanged."""
        self._new_store.suspend()

    def abandon(self) -> None:
        """Remove the copy; the live store is unchanged."""
        self._new_store.abandon()
        swap.drop_unfinished(self._data_dir)


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
            0.0
            for other in source.others
            for _ in _copy_other(source, self._target, other.name, settings)
        )

    def before_write(self, ids: Iterable[str]) -> None:
        """Only our own collection is written to."""

    def step(self) -> float | None:
        return next(self._steps, None)

    def finish(self) -> None:
        for _ in self._steps:
            pass
        close(self._target, self._folder)

    def suspend(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        close(self._target, self._folder)


def _copy_other(
    source: Collection, target: Collection, name: str, settings: StoreSettings
) -> Iterator[bool]:
    """Copy another collection from the store of `source` to that of `target`, one page per
    iteration."""
    theirs = source.other(name)
    mine = create_other_collection(target, name, settings, theirs.metadata)
    ids = theirs.ids()
    for start in range(0, len(ids), OTHER_ROWS):
        write_verified(mine, theirs.fetch(ids[start : start + OTHER_ROWS]))
        yield True
    compare_ids(ids, mine.ids())


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
        target.set_sync_threshold(settings.sync_threshold)
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
