"""Snapshots of the index: a start reads one file instead of every row of the store.

Each memory has the revision of its last write, here and in the store. At start the store lists its
revisions, unless it knows that nothing was written since the stop (see `recent`); memories whose
revision agrees are taken from the snapshot, the others are read from the store. So a snapshot may
be old, but never wrong. Of a Chroma server that cannot be reached at the start, it counts until it
can. Its arrays are used as they are in the file, and texts and exact vectors stay there: see
`sealing`.

It is saved while the engine runs, on a thread and piece by piece, so that it needs little memory
and does not delay the event loop; what was saved then no longer needs RAM. Saving at the end was
rejected: a stop would take longer the larger the store is. A memory that is written during a save
has a new revision, and is read from the store at the next start.
"""

from __future__ import annotations

import contextlib
import gc
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import structlog

from memoryd.engine.index.columns import id_key
from memoryd.engine.index.index import Index
from memoryd.engine.index.recent import Recent, is_whole, pieces_of, take, whole_of
from memoryd.engine.index.restoring import is_current, restore
from memoryd.engine.index.sealing import KEPT, Sealing
from memoryd.engine.index.terms import TERMS_VERSION
from memoryd.errors import StoreError
from memoryd.fair import in_turns
from memoryd.index_files import WHOLE
from memoryd.places import release_free_memory
from memoryd.ports import Progress, Record, Store, Watch
from memoryd.tasks import task_group

if TYPE_CHECKING:
    from memoryd.engine.parts import Gate
    from memoryd.index_files import Floats, Piece, Rows, Snapshot, SnapshotFile, VectorFile

    Saved = tuple[Snapshot, VectorFile | None] | None

log = structlog.get_logger()
FORMAT = 4
MIN_MEMORIES = 5_000  # below this a snapshot is not worth its space, if the store can be reached
FIRST_SAVE = 50_000  # memories read from the store after which the first snapshot is saved
CHANGED_SHARE = 50  # save again after changes to one in this many memories
PACE_READ = 50  # memories added before the event loop runs other tasks
LOADING = "loading"
FETCH = 1_000  # memories per read from the store
PAUSE = 0.002  # seconds after each piece, for other threads
CHECK_INTERVAL = 30.0  # seconds between checks whether enough has changed
BUSY_SHARE = 20  # saving takes at most one in this many seconds
RETRY = 600.0  # seconds after a failure such as a full disk
MAX_AT_END = 20_000  # memories up to which a stop saves a snapshot
MAX_RECENT = 5_000  # in a larger store, changed memories up to which a stop saves these
END_LIMIT = 1.0  # seconds that a stop waits for either
OUTAGE_END_LIMIT = 3.0  # the same if the next start may have nothing else
GIVE_UP_WAIT = 0.5  # seconds for the thread to notice that it must give up


class NoVectorFile:
    """A `memoryd.index_files.VectorFile` that keeps nothing."""

    name = ""

    def write(self, rows: Rows, vectors: Floats) -> None: ...
    def read(self, rows: Rows) -> Floats:
        raise OSError

    def blank(self, row: int) -> None: ...
    def flush(self) -> None: ...


class NoSnapshotFile:
    """A `memoryd.index_files.SnapshotFile` that keeps nothing."""

    def vectors(self, dimension: int) -> VectorFile:
        return NoVectorFile()

    def save(
        self, about: Mapping[str, object], pieces: Iterable[Piece], keep: Collection[str] = ()
    ) -> Snapshot | None: ...
    def load(self) -> Snapshot | None: ...
    def save_recent(self, about: Mapping[str, object], pieces: Iterable[Piece]) -> None: ...
    def take_recent(self) -> Snapshot | None: ...
    def erase(self, key: int) -> None: ...
    def clear(self) -> None: ...


class GivenUp(Exception):
    """The snapshot that is being written is no longer wanted."""


class Snapshots:
    """Loads the index at start, and saves it when enough has changed."""

    def __init__(
        self,
        index: Index,
        snapshot_file: SnapshotFile,
        identity: Mapping[str, object],
        *,
        for_outages: bool = False,
    ) -> None:
        """`identity`: what a snapshot must be of to be used. `for_outages`: the store may be out of
        reach at the next start, so small snapshots are kept, too, and saved after any change."""
        self._index = index
        self._file = snapshot_file
        self._about = _about(index, identity)
        self._min_memories = 0 if for_outages else MIN_MEMORIES
        self._end_limit = OUTAGE_END_LIMIT if for_outages else END_LIMIT
        self._saved = -1  # `Index.changes` at the last save; negative: no snapshot
        self._saving = anyio.Lock()
        self._give_up = threading.Event()  # set: the running save must stop
        self._is_stuck = False  # a thread was told to give up, and still waits for its disk

    async def load(self, store: Store, watch: Watch | None = None) -> int:
        """Fill the empty index; how many memories came from the snapshot. Reports progress to
        `watch`."""
        tell = watch or (lambda so_far: None)
        try:
            return await self._load(store, tell)
        finally:
            tell(None)

    async def _load(self, store: Store, tell: Watch) -> int:
        snapshot, recent = await anyio.to_thread.run_sync(self._read_files, store.saved_index)
        is_whole_index = recent.whole is not None  # nothing was written since
        known = None if is_whole_index else await store.revisions()
        if snapshot is None or not (is_whole_index or known):
            self._file.clear()
            await self._read_all(store, tell, len(known.by_id) if known else 0)
            return 0
        dimension = self._index.tables[0].dimension
        file = self._file.vectors(dimension) if self._index.has_vectors else None
        with _without_collections():
            stale = restore(self._index, snapshot, known, file)
        restored = len(self._index)
        # Forgotten or changed, and the daemon was killed before it erased the text.
        await anyio.to_thread.run_sync(self._erase_all, stale)
        async for record in in_turns(recent.records, PACE_READ):
            if known is None or is_current(record, known):
                self._index.put(record)
        changed = [id for id in known.by_id if id not in self._index] if known else []
        for start in range(0, len(changed), FETCH):
            tell(Progress(LOADING, len(self._index), len(self._index) + len(changed)))
            for record in await store.get(changed[start : start + FETCH]):
                self._index.put(record)
        changes = 2 * (len(self._index) - restored)
        self._saved = max(0, self._index.changes - changes - len(stale))
        return restored

    def _read_files(self, saved_index: str) -> tuple[Snapshot | None, Recent]:
        """The snapshot, and what was written between it and the last stop; that is `whole` only if
        the store knows it by its name. Runs on a thread."""
        snapshot = self._file.load()
        if snapshot is None or snapshot.about != self._about:
            return None, Recent((), None)
        recent = take(self._file, self._about)
        if (whole := recent.whole) is not None and not (
            whole.name == saved_index and is_whole(whole, snapshot, recent.records)
        ):
            recent = recent._replace(whole=None)
        return snapshot, recent

    def _erase_all(self, keys: Iterable[int]) -> None:
        for key in keys:
            self._file.erase(key)

    async def _read_all(self, store: Store, tell: Watch, count: int) -> None:
        """Add every memory of the store, which prepares the next page meanwhile. Each time that
        their number has doubled a snapshot is saved: what is in it leaves RAM, and a start that is
        interrupted need not begin anew."""
        save_at = FIRST_SAVE
        send, pages = anyio.create_memory_object_stream[list[Record]](1)

        async def ask() -> None:
            async with send:
                async for page in store.scan():
                    await send.send(page)

        async with task_group() as tasks, pages:
            tasks.start_soon(ask)
            async for page in pages:
                tell(Progress(LOADING, len(self._index), count))
                with _without_collections():
                    async for record in in_turns(page, PACE_READ):
                        self._index.put(record)
                # Here, so that the first search does not have to.
                self._index.tables[0].round_new_rows()
                if len(self._index) >= save_at:
                    save_at *= 2
                    await self.save()

    async def keep_current(self) -> None:
        """Save whenever enough has changed, until cancelled. A failure is logged and retried."""
        while True:
            began = time.monotonic()
            pause = CHECK_INTERVAL if await self._save_if_stale() else RETRY
            await anyio.sleep(max(pause, BUSY_SHARE * (time.monotonic() - began)))

    async def _save_if_stale(self) -> bool:
        """Save if enough has changed; false if that failed."""
        many = max(1, self._min_memories // 5, len(self._index) // CHANGED_SHARE)
        if self._saved >= 0 and self._index.changes - self._saved < many:
            return True
        return await self.save()

    async def save_at_end(self, store: Store, gate: Gate) -> None:
        """Save if the index is small; else what has changed since the last snapshot, unless that is
        much: then the next start reads it from the store. Nothing is written meanwhile."""
        with anyio.move_on_after(self._end_limit):
            if len(self._index) <= MAX_AT_END:
                await self.save()
            elif self._saved >= 0 and self._index.has_vectors:
                async with gate.closed():
                    await self._save_recent(store)

    async def _save_recent(self, store: Store) -> None:
        index, changes = self._index, self._index.changes
        ids = index.unsaved_ids()
        if len(ids) > MAX_RECENT:
            return
        records = [record for id in ids if (record := index.record(id)) is not None]
        about = dict(self._about)
        whole = whole_of(secrets.token_hex(8), index.revisions())
        if len(records) == len(ids):
            about[WHOLE] = asdict(whole)
        save = partial(self._file.save_recent, about, pieces_of(records))
        with contextlib.suppress(OSError, StoreError):  # such as a full disk
            await anyio.to_thread.run_sync(save, abandon_on_cancel=True)
            if WHOLE in about and self._index is index and index.changes == changes:
                await store.keep_index(whole.name)

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
            if len(index) < self._min_memories:
                self._file.clear()
                return True
            self._give_up = give_up = threading.Event()
            sealing, about = index.seal(), self._about
            finished = False
            try:
                made = await self._write(lambda: self._save(sealing, about, give_up), give_up)
                if made is None or give_up.is_set() or self._index is not index:
                    return True
                index.adopt(sealing, *made)
                finished = True
            except GivenUp:
                return True
            except Exception as exc:  # such as a full disk: the next start reads the store
                log.warning("snapshot_not_saved", error=type(exc).__name__)
                self.clear()
                return False
            finally:
                if not finished:
                    index.give_up(sealing)
            self._saved = changes
            release_free_memory()
            took = round(time.monotonic() - began, 3)
            log.info("snapshot_saved", memories=len(index), seconds=took)
            return True

    def _save(
        self, sealing: Sealing, about: Mapping[str, object], give_up: threading.Event
    ) -> tuple[Snapshot, VectorFile | None] | None:
        """Write the files. Runs on a thread."""
        file = None
        if sealing.vectors.keep:
            file = self._file.vectors(sealing.vectors.dimension)
            sealing.write_vectors(file, lambda: _pause(give_up))
        made = self._file.save(about, _until(give_up, sealing.pieces()), KEPT)
        return None if made is None else (made, file)

    async def _write(self, write: Callable[[], Saved], give_up: threading.Event) -> Saved:
        """Call it on a thread. A cancelled call does not wait for a slow disk: it tells the thread
        to give up, which ends with the process at the latest."""
        ended, failure = anyio.Event(), list[BaseException]()
        made: list[Saved] = []
        token = anyio.lowlevel.current_token()

        def work() -> None:
            try:
                made.append(write())
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
        return made[0]

    def erase(self, id: str) -> None:
        """Overwrite the text of a memory that was forgotten or changed."""
        self._file.erase(id_key(id))

    def clear(self) -> None:
        """Remove the snapshot, and stop a running save."""
        self._give_up.set()
        self._file.clear()
        self._saved = -1

    def use(self, index: Index, identity: Mapping[str, object]) -> None:
        """Keep snapshots of this index from now on."""
        self.clear()
        self._index, self._about = index, _about(index, identity)


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """No garbage is collected inside the block: what it allocates stays. Not while anything waits
    for the store, because calls leave garbage meanwhile."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _about(index: Index, identity: Mapping[str, object]) -> dict[str, object]:
    known = {"format": FORMAT, "terms": TERMS_VERSION, "has_vectors": index.has_vectors}
    return {**known, **identity}


def _until(give_up: threading.Event, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The pieces, with pauses. Raises GivenUp once it is set."""
    for piece in pieces:
        _pause(give_up)
        yield piece
    if give_up.is_set():
        raise GivenUp


def _pause(give_up: threading.Event) -> None:
    """A moment for other threads. Raises GivenUp once it is set."""
    if give_up.is_set():
        raise GivenUp
    time.sleep(PAUSE)
