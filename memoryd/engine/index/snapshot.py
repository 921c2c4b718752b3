"""Snapshots of the index: a start reads one file instead of every row of the store.

Each memory has the revision of its last write, here and in the store. At start the store lists its
revisions, which is cheap; memories whose revision agrees are taken from the snapshot, the others
are read from the store. So a snapshot may be old, but never wrong.

It is saved while the engine runs, on a thread and piece by piece, so that it needs little memory
and does not delay the event loop. Saving at the end was rejected: a stop would take longer the
larger the store is. A memory that is written during a save has a new revision, and is read from the
store at the next start.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import numpy as np
import structlog

from memoryd.engine.index.index import Entry, Index
from memoryd.engine.index.terms import TERMS_VERSION, term
from memoryd.model import Memory, MemoryType
from memoryd.ports import Progress, Record, Snapshot, SnapshotFile, Store, Watch
from memoryd.tasks import task_group

if TYPE_CHECKING:
    from memoryd.ports import Piece

log = structlog.get_logger()
FORMAT = 3
MIN_MEMORIES = 5_000  # below this a snapshot is not worth its space
CHANGED_SHARE = 50  # save again after changes to one in this many memories
PACE = 500  # memories added before the event loop runs other tasks
PACE_READ = 50  # the same for memories from the store, whose terms have to be computed
LOADING = "loading"
FETCH = 1_000  # memories per read from the store
BLOCK = 4_096  # vectors per piece
PAUSE = 0.002  # seconds after each piece, for other threads
CHECK_INTERVAL = 30.0  # seconds between checks whether enough has changed
BUSY_SHARE = 20  # saving takes at most one in this many seconds
RETRY = 600.0  # seconds after a failure such as a full disk
MAX_AT_END = 20_000  # memories up to which a stop saves a snapshot
END_LIMIT = 1.0  # seconds that a stop waits for it
FIELDS = tuple(field.name for field in dataclasses.fields(Memory))
GIVE_UP_WAIT = 0.5  # seconds for the thread to notice that it must give up


class NoSnapshotFile:
    """A `memoryd.ports.SnapshotFile` that keeps nothing."""

    def save(self, about: Mapping[str, object], pieces: Iterable[Piece]) -> None: ...
    def load(self) -> Snapshot | None: ...
    def erase(self, key: int) -> None: ...
    def clear(self) -> None: ...


class GivenUp(Exception):
    """The snapshot that is being written is no longer wanted."""


class Snapshots:
    """Loads the index at start, and saves it when enough has changed."""

    def __init__(
        self, index: Index, snapshot_file: SnapshotFile, identity: Mapping[str, object]
    ) -> None:
        self._index = index
        self._file = snapshot_file
        self._about = _about(identity)
        self._saved = -1  # `Index.changes` at the last save; negative: no snapshot
        self._saving = anyio.Lock()
        self._give_up = threading.Event()  # set: the running save must stop
        self._erased: set[int] = set()  # keys of texts erased since the running save began
        self._is_stuck = False  # a thread was told to give up, and still waits for its disk

    async def load(self, store: Store, watch: Watch | None = None) -> int:
        """Fill the empty index; how many memories came from the snapshot. Reports progress to
        `watch`."""
        tell = watch or (lambda so_far: None)
        collecting = gc.isenabled()
        gc.disable()  # everything allocated now stays; collections would only cost time
        try:
            return await self._load(store, tell)
        finally:
            tell(None)
            if collecting:
                gc.enable()

    async def _load(self, store: Store, tell: Watch) -> int:
        known = await store.revisions()
        snapshot = await anyio.to_thread.run_sync(self._file.load) if known else None
        if known is None or snapshot is None or snapshot.about != self._about:
            self._file.clear()
            await self._read_all(store, tell, len(known or ()))
            return 0
        restored, stale = await _restore(self._index, snapshot, known)
        # Forgotten or changed, and the daemon was killed before it erased the text.
        await anyio.to_thread.run_sync(self._erase_all, stale)
        changed = [id for id in known if self._index.get(id) is None]
        for start in range(0, len(changed), FETCH):
            tell(Progress(LOADING, len(self._index), len(known)))
            for record in await store.get(changed[start : start + FETCH]):
                self._index.put(record)
        missing = len(changed) + len(snapshot.texts) - restored
        self._saved = self._index.changes - missing
        return restored

    def _erase_all(self, keys: Iterable[int]) -> None:
        for key in keys:
            self._file.erase(key)

    async def _read_all(self, store: Store, tell: Watch, count: int) -> None:
        """Add every memory of the store, which prepares the next page meanwhile."""
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
                    if number % PACE_READ == 0:
                        await anyio.lowlevel.checkpoint()
                self._index.tables[
                    0
                ].round_new_rows()  # here, so that the first search does not have to

    async def keep_current(self) -> None:
        """Save whenever enough has changed, until cancelled. A failure is logged and retried."""
        while True:
            began = time.monotonic()
            pause = CHECK_INTERVAL if await self._save_if_stale() else RETRY
            await anyio.sleep(max(pause, BUSY_SHARE * (time.monotonic() - began)))

    async def _save_if_stale(self) -> bool:
        """Save if enough has changed; false if that failed."""
        many = max(MIN_MEMORIES // 5, len(self._index) // CHANGED_SHARE)
        if self._saved >= 0 and self._index.changes - self._saved < many:
            return True
        return await self.save()

    async def save_at_end(self) -> None:
        """Save if the index is small; else the next start reads the changes from the store."""
        if len(self._index) <= MAX_AT_END:
            with anyio.move_on_after(END_LIMIT):
                await self.save()

    async def save(self) -> bool:
        """Write a snapshot of the index as it is now, unless `clear` is called meanwhile; false if
        that failed."""
        index = self._index
        async with self._saving:
            changes, began = index.changes, time.monotonic()
            if changes == self._saved:
                return True
            if self._is_stuck:
                return False
            if len(index) < MIN_MEMORIES or not index.exact:
                self._file.clear()
                return True
            self._give_up, self._erased = threading.Event(), set()
            give_up, slots = self._give_up, index.entries()
            pieces = _pieces(index, slots, index.pending_slots(), self._erased)
            try:
                await self._write(_until(give_up, index, pieces), give_up)
            except GivenUp:
                return True
            except Exception as exc:  # such as a full disk: the next start reads the store
                log.warning("snapshot_not_saved", error=type(exc).__name__)
                self.clear()
                return False
            if not give_up.is_set():
                self._saved = changes
                took = round(time.monotonic() - began, 3)
                log.info("snapshot_saved", memories=len(index), seconds=took)
            return True

    async def _write(self, pieces: Iterable[Piece], give_up: threading.Event) -> None:
        """Write the pieces on a thread. A cancelled call does not wait for a slow disk: it tells
        the thread to give up, which ends with the process at the latest."""
        ended, failure = anyio.Event(), list[BaseException]()
        token = anyio.lowlevel.current_token()

        def work() -> None:
            try:
                self._file.save(self._about, pieces)
            except BaseException as exc:
                failure.append(exc)
            with contextlib.suppress(RuntimeError):  # the event loop has ended
                anyio.from_thread.run_sync(end, token=token)

        def end() -> None:
            self._is_stuck = False
            ended.set()

        threading.Thread(target=work, name="snapshot", daemon=True).start()
        try:
            await ended.wait()
        except anyio.get_cancelled_exc_class():
            give_up.set()
            with anyio.move_on_after(GIVE_UP_WAIT, shield=True):
                await ended.wait()
            self._is_stuck = not ended.is_set()
            raise
        if failure:
            raise failure[0]

    def erase(self, id: str) -> None:
        """Overwrite the text of a memory that was forgotten or changed."""
        if self._saving.locked():
            self._erased.add(key(id))
        self._file.erase(key(id))

    def clear(self) -> None:
        """Remove the snapshot, and stop a running save."""
        self._give_up.set()
        self._file.clear()
        self._saved = -1

    def use(self, index: Index, identity: Mapping[str, object]) -> None:
        """Keep snapshots of this index from now on."""
        self.clear()
        self._index, self._about = index, _about(identity)


def _about(identity: Mapping[str, object]) -> dict[str, object]:
    return {"format": FORMAT, "terms": TERMS_VERSION, **identity}


async def _restore(
    index: Index, snapshot: Snapshot, known: Mapping[str, int]
) -> tuple[int, list[int]]:
    """Add the memories whose revision agrees with the store; how many, and the other keys."""
    arrays, stale = snapshot.arrays, list[int]()
    counts, spans = arrays["rows"].tolist(), arrays["span"].tolist()
    entries: list[Entry] = []
    pending: list[bool] = []
    taken = np.full(
        int(arrays["rows"].sum()), -1, dtype=np.int32
    )  # row in the snapshot: row in the index
    owners: list[int] = []
    names = ("key", "revision", "pending")
    columns = zip(counts, *(arrays[name].tolist() for name in names), strict=True)
    begin = 0
    for memory, (count, key, revision, waits) in zip(
        _memories(snapshot.texts), columns, strict=True
    ):
        if memory is not None and revision and known.get(memory.id) == revision:
            rows = list(range(len(owners), len(owners) + count))
            taken[begin : begin + count] = rows
            owners += [len(entries)] * count
            parts = [(start, end) for start, end in spans[begin : begin + count]]
            entries.append(Entry(memory, rows, parts, revision))
            pending.append(bool(waits))
        elif memory is not None:
            stale.append(key)
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
    return len(entries), stale


def _until(give_up: threading.Event, index: Index, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The pieces, with pauses. Raises GivenUp once it is set, or vectors are no longer in RAM."""
    for piece in pieces:
        if give_up.is_set() or not index.exact:
            raise GivenUp
        yield piece
        time.sleep(PAUSE)
    if give_up.is_set():
        raise GivenUp


def _pieces(
    index: Index, slots: Sequence[Entry | None], waiting: set[int], erased: set[int]
) -> Iterator[Piece]:
    """The snapshot, one piece at a time. Runs on a thread while the event loop changes the index:
    the data of a memory that changes meanwhile may be inconsistent, but its revision is then no
    longer the store's, so a start ignores it. `erased` has the keys of its text."""
    table, words = index.tables
    pending = [slot in waiting for slot, entry in enumerate(slots) if entry is not None]
    entries = [entry for entry in slots if entry is not None]
    rows = np.array([row for entry in entries for row in entry.rows], dtype=np.int64)
    numbers = np.full(len(table), -1, dtype=np.int32)
    numbers[rows] = np.arange(len(rows), dtype=np.int32)
    yield "key", np.array([key(entry.memory.id) for entry in entries], dtype=np.uint64)
    yield "revision", np.array([entry.revision for entry in entries], dtype=np.int64)
    yield "pending", np.array(pending, dtype=np.bool_)
    yield "rows", np.array([len(entry.rows) for entry in entries], dtype=np.int32)
    yield "span", np.array([span for entry in entries for span in entry.spans], dtype=np.int32)
    yield "length", words.lengths(len(table))[rows]
    for start in range(0, len(rows), BLOCK):
        yield "vector", table.rows(rows[start : start + BLOCK])
    yield from words.pack(numbers)
    for start in range(0, len(entries), PACE):
        part = entries[start : start + PACE]
        yield "text", ["" if key(e.memory.id) in erased else _text(e.memory) for e in part]


def key(id: str) -> int:
    """The key by which the text of a memory is erased."""
    return term(id)


def _text(memory: Memory) -> str:
    return json.dumps({name: getattr(memory, name) for name in FIELDS})


def _memories(texts: Sequence[str]) -> Iterator[Memory | None]:
    """The memories, parsed in groups: three times as fast as one by one."""
    for start in range(0, len(texts), PACE):
        joined = ",".join(text or "null" for text in texts[start : start + PACE])
        for fields in json.loads(f"[{joined}]"):
            if fields is not None:
                fields["type"] = MemoryType(fields["type"])
            yield None if fields is None else Memory(**fields)
