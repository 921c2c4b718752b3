"""The index as a snapshot, and back: a start that reads one file instead of every row.

Each memory carries the revision it was last written with, here and in the store. At a start the
store tells its revisions, which is cheap; what agrees is taken from the snapshot, and the rest
is read. So a snapshot may be old, but never wrong.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import numpy as np
import structlog
from numpy.typing import NDArray

from memoryd.engine.index import Entry, Index
from memoryd.engine.terms import TERMS_VERSION, term
from memoryd.model import Memory, MemoryType
from memoryd.ports import Progress, Record, Shelf, Snapshot, Store, Watch
from memoryd.tasks import task_group

log = structlog.get_logger()
FORMAT = 1
LEAST = 5_000  # memories from which a snapshot is worth its space
STALE = 50  # changes of one memory in so many make it worth writing anew
PACE = 500  # memories entered before others have their turn
FEW = 50  # the same where each has to be read, and its words found
LOADING = "loading"
FETCH = 1_000  # memories asked of the store at once


class NoShelf:
    """See `memoryd.ports.Shelf`: keeps nothing."""

    def save(self, snapshot: Snapshot) -> None: ...
    def load(self) -> Snapshot | None: ...
    def erase(self, key: int) -> None: ...
    def clear(self) -> None: ...


class Snapshots:
    """Loads the index at the start, and saves it when it has changed enough."""

    def __init__(self, index: Index, shelf: Shelf, identity: Mapping[str, object]) -> None:
        self._index = index
        self._shelf = shelf
        self._about = {"format": FORMAT, "terms": TERMS_VERSION, **identity}
        self._saved = -1  # the index's changes when it was last saved; -1: not to be trusted

    async def load(self, store: Store, watch: Watch | None = None) -> int:
        """Fill the empty index; how many memories came from the snapshot. `watch` is told how
        far it is."""
        tell = watch or (lambda so_far: None)
        collecting = gc.isenabled()
        gc.disable()  # all that is made now stays; looking for garbage among it takes long
        try:
            return await self._load(store, tell)
        finally:
            tell(None)
            if collecting:
                gc.enable()

    async def _load(self, store: Store, tell: Watch) -> int:
        known = await store.revisions()
        snapshot = await anyio.to_thread.run_sync(self._shelf.load) if known else None
        if known is None or snapshot is None or snapshot.about != self._about:
            self._shelf.clear()
            await self._read_all(store, tell, len(known or ()))
            return 0
        restored = await _restore(self._index, snapshot, known)
        changed = [id for id in known if self._index.get(id) is None]
        for start in range(0, len(changed), FETCH):
            tell(Progress(LOADING, len(self._index), len(known)))
            for record in await store.get(changed[start : start + FETCH]):
                self._index.put(record)
        if not changed and restored == len(snapshot.texts):
            self._saved = self._index.changes
        return restored

    async def _read_all(self, store: Store, tell: Watch, count: int) -> None:
        """Enter every memory of the store, which gets the next page ready meanwhile."""
        send, pages = anyio.create_memory_object_stream[list[Record]](1)

        async def ask() -> None:
            async with send:
                async for page in store.scan():
                    await send.send(page)

        async with task_group() as tasks, pages:
            tasks.start_soon(ask)
            async for page in pages:
                tell(Progress(LOADING, len(self._index), count))
                for number, record in enumerate(page, start=1):
                    self._index.put(record)
                    if number % FEW == 0:
                        await anyio.lowlevel.checkpoint()
                self._index.tables[0].settle()  # not all at once in the first search

    async def save_if_stale(self) -> int:
        """Save when much has changed, or what is there holds what is gone; how many memories."""
        many = max(LEAST // 5, len(self._index) // STALE)
        if self._saved >= 0 and self._index.changes - self._saved < many:
            return 0
        return await self.save()

    async def save(self) -> int:
        """Write a snapshot of the index as it is now; how many memories it holds."""
        index, changes = self._index, self._index.changes
        if changes == self._saved:
            return 0
        if len(index) < LEAST or not index.exact:
            self._shelf.clear()
            return 0
        entries = [(slot, entry) for slot, entry in enumerate(index.entries()) if entry]
        waiting = set(index.pending_ids())
        made = await anyio.to_thread.run_sync(_pack, index, entries, waiting, self._about)
        # Packed while writes went on: what changed meanwhile may be torn, and is left out.
        current = [index.is_current(slot, entry) for slot, entry in entries]
        made.arrays["revision"][~np.array(current, dtype=np.bool_)] = 0
        texts = [text if fits else "" for text, fits in zip(made.texts, current, strict=True)]
        whole = Snapshot(made.about, made.arrays, texts)
        try:
            await anyio.to_thread.run_sync(self._shelf.save, whole)
        except OSError as exc:  # a full disk, say: the next start reads the store
            log.warning("snapshot_not_saved", error=type(exc).__name__)
            self._shelf.clear()
            return 0
        for slot, entry in entries:  # forgotten while it was written
            if not index.is_current(slot, entry):
                self.erase(entry.memory.id)
        self._saved = changes
        return len(entries)

    def erase(self, id: str) -> None:
        """A memory was forgotten or changed: its text must not stay in the file."""
        self._shelf.erase(key(id))

    def clear(self) -> None:
        """Remove the snapshot."""
        self._shelf.clear()
        self._saved = -1


async def _restore(index: Index, snapshot: Snapshot, known: Mapping[str, int]) -> int:
    arrays = snapshot.arrays
    counts, spans = arrays["rows"].tolist(), arrays["span"].tolist()
    entries: list[Entry] = []
    pending: list[bool] = []
    taken = np.full(int(arrays["rows"].sum()), -1, dtype=np.int32)  # snapshot's row: row now
    owners: list[int] = []
    columns = zip(counts, arrays["revision"].tolist(), arrays["pending"].tolist(), strict=True)
    begin = 0
    for memory, (count, revision, waits) in zip(_memories(snapshot.texts), columns, strict=True):
        if memory is not None and revision and known.get(memory.id) == revision:
            rows = list(range(len(owners), len(owners) + count))
            taken[begin : begin + count] = rows
            owners += [len(entries)] * count
            parts = [(start, end) for start, end in spans[begin : begin + count]]
            entries.append(Entry(memory, rows, parts, revision))
            pending.append(bool(waits))
        begin += count
        if len(entries) % PACE == 0:
            await anyio.lowlevel.checkpoint()
    vectors, words = index.tables
    kept = taken >= 0
    vectors.restore(arrays["vector"][kept], np.array(owners, dtype=np.int32))
    words.restore(arrays, taken, arrays["length"][kept].astype(np.float32))
    for slot in index.restore(entries, pending):
        if slot % PACE == 0:
            await anyio.lowlevel.checkpoint()
    return len(entries)


def _pack(
    index: Index,
    entries: list[tuple[int, Entry]],
    waiting: set[str],
    facts: dict[str, object],
) -> Snapshot:
    table, words = index.tables
    rows = [row for _, entry in entries for row in entry.rows]
    numbers = np.full(len(table), -1, dtype=np.int32)
    numbers[rows] = np.arange(len(rows), dtype=np.int32)
    arrays: dict[str, NDArray[Any]] = {
        "key": np.array([key(entry.memory.id) for _, entry in entries], dtype=np.uint64),
        "revision": np.array([entry.revision for _, entry in entries], dtype=np.int64),
        "pending": np.array([entry.memory.id in waiting for _, entry in entries], dtype=np.bool_),
        "rows": np.array([len(entry.rows) for _, entry in entries], dtype=np.int32),
        "span": np.array([span for _, entry in entries for span in entry.spans], dtype=np.int32),
        "vector": table.rows(np.array(rows, dtype=np.int64)),
        "length": words.lengths(len(table))[rows],
        **words.pack(numbers),
    }
    return Snapshot(facts, arrays, [_text(entry.memory) for _, entry in entries])


def key(id: str) -> int:
    """The number a memory's text is erased by."""
    return term(id)


def _text(memory: Memory) -> str:
    return json.dumps(asdict(memory))


def _memories(texts: Sequence[str]) -> Iterator[Memory | None]:
    """Parsed many at a time, which is three times as fast as one by one."""
    for start in range(0, len(texts), PACE):
        joined = ",".join(text or "null" for text in texts[start : start + PACE])
        for fields in json.loads(f"[{joined}]"):
            if fields is not None:
                fields["type"] = MemoryType(fields["type"])
            yield None if fields is None else Memory(**fields)
