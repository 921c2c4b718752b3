"""The Store port on ChromaDB: writes of many callers in one commit, reads beside them.

A commit costs about the same for one row as for thirty, so whatever waits while one commit
runs goes into the next, callers by turns. Bounded, so that a read never stands behind a long
write; and closer while several callers write, so that a short write never waits long for a long
one of another.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from memoryd.adapters.backup_file import newest_in, write_backup
from memoryd.adapters.chroma.backup import Restore
from memoryd.adapters.chroma.rows import Row, to_records
from memoryd.adapters.chroma.worker_client import TRIES, Link
from memoryd.errors import MemorydError, StoreError, StoreUnavailable
from memoryd.fair import CALLER, FairQueue
from memoryd.ports import Backup, Identity, Record, Watch
from memoryd.settings import StoreSettings
from memoryd.tasks import task_group

GROUP_ROWS = 128  # rows in one commit: about 0.1 s that a read may have to wait
SHARED_ROWS = 32  # while several callers wait
SCAN_PAGE = 1000
LOST = ("store_gone", "store_corrupt")  # what only the index in RAM still knows


@dataclass(slots=True, eq=False)
class _Write:
    """Memories to add or replace and ids to delete: what one caller waits for."""

    added: list[Record] = field(default_factory=list)
    replaced: list[Record] = field(default_factory=list)
    doomed: list[str] = field(default_factory=list)
    done: anyio.Event = field(default_factory=anyio.Event)
    gone: set[str] = field(default_factory=set)
    error: MemorydError | None = None

    @property
    def size(self) -> int:
        records = (*self.added, *self.replaced)
        return sum(max(1, len(r.passages)) for r in records) + len(self.doomed)


class ChromaStore:
    """See `memoryd.ports.Store`."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._waiting: FairQueue[_Write] = FairQueue()
        self._group: list[_Write] = []  # being committed
        self._work = anyio.Event()
        self._closed = False
        self._job = anyio.Lock()
        self._committing = anyio.Lock()
        # Shielded: who is cancelled around us still waits for commits that are under way.
        self._life = anyio.CancelScope(shield=True)

    async def put(self, record: Record, *, new: bool = False) -> None:
        await self._write(_Write(added=[record]) if new else _Write(replaced=[record]))

    async def get(self, ids: Sequence[str]) -> list[Record]:
        found: list[Record] = await self._link.call("get", list(ids))
        return found

    async def delete(self, ids: Sequence[str]) -> set[str]:
        return (await self._write(_Write(doomed=list(ids)))).gone

    async def expired(self, now: float, limit: int) -> list[str]:
        due: list[str] = await self._link.call("expired", now, limit)
        return due

    async def nearest(
        self, vector: NDArray[np.float32], count: int, among: Sequence[str] | None = None
    ) -> list[tuple[str, float]]:
        ids = None if among is None else list(among)
        found: list[tuple[str, float]] = await self._link.call("nearest", vector, count, ids)
        return found

    async def revisions(self) -> Mapping[str, int] | None:
        found: dict[str, int] | None = await self._link.call("revisions")
        return found

    async def scan(self) -> AsyncIterator[list[Record]]:
        """Every memory. Rows that belong to no memory are met here, and removed."""
        held: list[Row] = []  # rows of memories with several: they may be pages apart
        offset = 0
        while page := await self._link.call("page", offset, SCAN_PAGE):
            offset += len(page)
            whole = [row for row in page if not row.is_part]
            held += [row for row in page if row.is_part]
            yield to_records(whole)[0]
        records, orphans = to_records(held)
        yield records
        if orphans:
            await self._link.call("drop", orphans)

    async def count(self) -> int:
        total: int = await self._link.call("count")
        return total

    async def purge(self) -> None:
        """Rewrite the store: of what was deleted no byte remains in its files."""
        await self._work_through("rewrite", "purge")

    async def compact(self) -> bool:
        """Rewrite the store if enough of it is dead; whether it was done. What a rewrite left
        that was cancelled goes in any case."""
        async with self._job:
            await self._link.call("drop_unfinished")
        if not await self._link.call("is_stale"):
            return False
        await self._work_through("rewrite", "compact")
        return True

    async def backup(
        self, folder: Path, keep: int, *, if_changed: bool = False, at: float | None = None
    ) -> Backup | None:
        """A verified copy of what is there now, as a file of its own."""
        if if_changed and await self._link.call("is_backed_up", folder):
            return None
        done: Backup = await self._work_through("backup", folder, keep, at)
        return done

    async def rescue(
        self, records: AsyncIterator[list[Record]], folder: Path, at: float | None = None
    ) -> Backup:
        """See `memoryd.ports.Store`. No write is committed meanwhile."""
        async with self._job, self._committing:
            await self._check_lost()
            made = await write_backup(records, folder, self._link.made_for, at)
            try:
                await self._link.rebuild(Path(made.path))
            except MemorydError as exc:
                raise StoreError(
                    f"All {made.memories} memories are saved in {made.path}, but no new store "
                    f"could be made: {exc.message}",
                    code="rescue_incomplete",
                    hint=f"Keep that file, and later run: memoryd restore {made.path}",
                ) from exc
        return made

    async def _check_lost(self) -> None:
        """Raise StoreError unless the store cannot be used any more."""
        try:
            await self._link.call("check_files")
        except StoreError as exc:
            if exc.code in LOST:
                return
            raise
        raise StoreError(
            "The store's files are in their place, so there is nothing to rescue.",
            code="store_in_place",
            hint="Run: memoryd backup",
        )

    async def newest_backup(self, folder: Path, until: float = math.inf) -> Backup | None:
        found = await anyio.to_thread.run_sync(newest_in, folder, until)
        return found[0] if found else None

    async def _work_through(self, job: str, *args: object) -> Any:
        """A long job, step by step: calls of others go in between. Begun again if the worker
        dies of something else meanwhile."""
        async with self._job:
            for tries in reversed(range(TRIES)):
                try:
                    await self._link.call("begin", job, *args)
                    while await self._link.call("step"):
                        pass
                    return await self._link.call("finish")
                except StoreError as exc:
                    if exc.code != "job_lost" or not tries:
                        raise

    async def status(self) -> Mapping[str, object]:
        facts: dict[str, object] = await self._link.call("facts")
        return facts | {"restarts": self._link.restarts}

    async def close(self) -> None:
        """Commit what waits, then end the worker."""
        self._closed = True
        for write in [*self._group, *self._waiting]:
            await write.done.wait()
        await self._link.close()
        self._life.cancel()

    async def commit_groups(self) -> None:
        """The one writer: takes what waits, commits it, wakes the callers."""
        with self._life:
            try:
                await self._commit_all()
            finally:
                self._abandon()

    async def _commit_all(self) -> None:
        while True:
            await self._work.wait()
            self._work = anyio.Event()
            while self._waiting:
                self._group = self._next_group()
                async with self._committing:
                    await self._commit(self._group)
                for write in self._group:
                    write.done.set()
                self._group = []

    async def _write(self, write: _Write) -> _Write:
        if self._closed:
            raise StoreUnavailable("The store is closed.")
        self._waiting.push(write, CALLER.get())
        self._work.set()
        await write.done.wait()
        if write.error is not None:
            raise write.error
        return write

    def _abandon(self) -> None:
        """No more commits: whoever waits is told, for nobody may wait for ever."""
        self._closed = True
        for write in [*self._group, *self._waiting]:
            write.error = StoreUnavailable(
                "The store was closed while this was being written; it may or may not be kept."
            )
            write.done.set()
        self._waiting, self._group = FairQueue(), []

    def _next_group(self) -> list[_Write]:
        group: list[_Write] = []
        size, most = 0, GROUP_ROWS if self._waiting.callers == 1 else SHARED_ROWS
        while self._waiting and (not group or size + self._waiting.peek().size <= most):
            group.append(self._waiting.pop())
            size += group[-1].size
        return group

    async def _commit(self, group: list[_Write]) -> None:
        """One call for all; if it is refused, one call each, so that one cannot fail others."""
        added = [record for write in group for record in write.added]
        replaced = [record for write in group for record in write.replaced]
        doomed = [id for write in group for id in write.doomed]
        try:
            gone = await self._link.call("write", added, replaced, doomed)
        except MemorydError as exc:
            if len(group) > 1 and not isinstance(exc, StoreUnavailable):
                for write in group:
                    await self._commit([write])
                return
            for write in group:
                write.error = exc
        else:
            for write in group:
                write.gone = gone.intersection(write.doomed)


@asynccontextmanager
async def open_chroma(
    settings: StoreSettings,
    data_dir: Path,
    identity: Identity,
    restore: Restore | None = None,
    *,
    remodelling: bool = False,
    watch: Watch | None = None,
    backups: Path | None = None,
) -> AsyncIterator[ChromaStore]:
    """A store that is open inside the block; StoreBusy, StoreMismatch, StoreUnavailable.
    `restore`: made from a backup first, or BackupDamaged. `remodelling`: a store of another
    model is rewritten for this one, every memory waiting for its vector. `watch` is told how far
    an opening is that takes its time, the first one and any later. `backups`: where they are, if
    not in the data directory."""
    link = Link(
        settings,
        data_dir,
        identity,
        restore,
        remodelling=remodelling,
        watch=watch,
        backups=backups,
    )
    store = ChromaStore(link)
    async with task_group() as tasks:
        await link.start(tasks)
        tasks.start_soon(store.commit_groups)
        try:
            yield store
        finally:
            with anyio.CancelScope(shield=True):
                await store.close()
            tasks.cancel_scope.cancel()
