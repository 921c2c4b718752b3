"""The Store port on ChromaDB: writes of many callers in one commit, reads beside them.

A commit costs about the same for one row as for thirty, so all writes that arrive while one commit
runs go into the next, one of each caller in turn (`write_queue`). A commit is bounded, so that a
read never waits for a long write. While several callers write the bound is lower, so that a short
write never waits long for a long one of another caller.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Unpack, cast

import anyio
import anyio.to_thread
import numpy as np
import structlog
from numpy.typing import NDArray

from memoryd.adapters.backup_file import listed_in, newest_in, write_backup
from memoryd.adapters.chroma.backup import Restore
from memoryd.adapters.chroma.early_worker import How
from memoryd.adapters.chroma.pipes import JOB_LOST
from memoryd.adapters.chroma.rows import Found, Row, to_records
from memoryd.adapters.chroma.store_facts import StoreFacts
from memoryd.adapters.chroma.worker_client import WorkerClient
from memoryd.adapters.chroma.write_queue import Write, WriteQueue
from memoryd.errors import MemorydError, StoreError, StoreUnavailable
from memoryd.ports import Backup, Changes, Identity, Record, Revisions, Watch
from memoryd.settings import StoreSettings
from memoryd.tasks import task_group

log = structlog.get_logger()
SCAN_PAGE = 1000
Nearest = list[tuple[str, float]]
MAX_NAMED = 20  # unreadable rows that are named; the others are counted
# The memories are only in RAM any more: rescue is possible.
LOST_CODES = ("store_gone", "store_corrupt")


class ChromaStore:
    """See `memoryd.ports.Store`."""

    def __init__(self, worker: WorkerClient, *, is_shared: bool = False) -> None:
        """`is_shared`: other daemons may write to it, too."""
        self._worker = worker
        self._is_shared = is_shared
        self._waiting = WriteQueue()
        self._group: list[Write] = []  # being committed
        self._has_writes = anyio.Event()
        self._closed = False
        self._unreadable: dict[str, str] = {}  # id of a row: why it is not a memory
        self._has_failed = False  # a write, which may have been done in part
        self._job = anyio.Lock()
        self._committing = anyio.Lock()
        # Shielded: a cancelled caller still waits for commits that are under way.
        self._commit_scope = anyio.CancelScope(shield=True)

    async def put(self, record: Record, *, new: bool = False) -> None:
        await self.put_all([record], new=new)

    async def put_all(self, records: Sequence[Record], *, new: bool = False) -> None:
        # An unreadable row may have such an id: adding would leave that one as it is.
        new = new and not any(record.memory.id in self._unreadable for record in records)
        await self._write(Write(added=list(records)) if new else Write(replaced=list(records)))
        for record in records:
            self._unreadable.pop(record.memory.id, None)

    async def get(self, ids: Sequence[str]) -> list[Record]:
        found: Found = await self._worker.call("read", list(ids))
        self._report_unreadable(found.unreadable)
        return found.records

    async def delete(self, ids: Sequence[str]) -> set[str]:
        return (await self._write(Write(to_delete=list(ids)))).deleted

    async def expired(self, now: float, limit: int) -> list[str]:
        due: list[str] = await self._worker.call("expired", now, limit + len(self._unreadable))
        return [id for id in due if id not in self._unreadable][:limit]

    async def nearest(
        self, vector: NDArray[np.float32], count: int, among: Sequence[str] | None = None
    ) -> Nearest:
        ids = None if among is None else list(among)
        return cast(Nearest, await self._worker.call("nearest", vector, count, ids))

    @property
    def facts(self) -> StoreFacts:
        """What the store held when it was opened."""
        return self._worker.facts

    async def revisions(self) -> Revisions | None:
        found, self.facts.revisions = self.facts.revisions, None  # once: they may be many
        return None if found is None else Revisions(found)

    @property
    def saved_index(self) -> str:
        return self.facts.saved_index

    async def keep_index(self, name: str) -> None:
        # Only a list of revisions shows unreadable rows, and what a failed call has written.
        if not (self._unreadable or self._has_failed or self._worker.restarts):
            await self._worker.call("keep_index", name)

    async def scan(self) -> AsyncIterator[list[Record]]:
        """Every memory, page by page. Also removes rows that belong to no memory."""
        if self._is_shared:
            async for shared_page in self._scan_shared():
                yield shared_page
            return
        held: list[Row] = []  # of memories with several rows, which may be on different pages
        async for page in self._scan_rows():
            whole = [row for row in page if not row.is_part]
            held += [row for row in page if row.is_part]
            found = to_records(whole)
            self._report_unreadable(found.unreadable)
            yield found.records
        found = to_records(held)
        self._report_unreadable(found.unreadable)
        yield found.records
        orphans = [id for id in found.orphans if id.partition("#")[0] not in self._unreadable]
        if orphans:
            await self._worker.call("drop", orphans)

    async def _scan_rows(self) -> AsyncIterator[list[Row]]:
        """Every row, by id: to read rows at an offset takes longer the larger it is."""
        offset, has_more = 0, True
        while has_more:
            ids, has_more = await self._worker.call("ids_from", offset)
            offset += len(ids)
            for start in range(0, len(ids), SCAN_PAGE):
                yield await self._worker.call("fetch", ids[start : start + SCAN_PAGE])

    async def _scan_shared(self) -> AsyncIterator[list[Record]]:
        """The same while other daemons write: a memory with all its rows at a time. Rows without a
        memory are kept, because another daemon may be writing the memory."""
        offset = 0
        while page := await self.listing(offset):
            offset += len(page)
            yield await self.get(list(page))

    async def changes(self, since: int) -> Changes:
        """See `memoryd.ports.ChangeFeed`, also for the next three."""
        found: Changes = await self._worker.call("changes", since)
        page, last = 0, found
        while last.has_more:
            page += 1
            last = await self._worker.call("changes", since, page)
            found = found.with_page(last)
        return found

    async def clock(self) -> int:
        return int(await self._worker.call("clock"))

    async def listing(self, offset: int) -> Mapping[str, int] | None:
        return cast("dict[str, int] | None", await self._worker.call("listing", offset))

    async def noted(self, ids: Sequence[str]) -> set[str]:
        """See `memoryd.offline.SharedStore`."""
        return cast(set[str], await self._worker.call("noted", list(ids))) if ids else set()

    async def sweep_notes(self) -> None:
        await self._worker.call("sweep_notes")

    async def query(self, name: str, *args: object) -> Any:
        """An operation of `memoryd.adapters.chroma.queries`."""
        return await self._worker.call(name, *args)

    def _report_unreadable(self, found: Mapping[str, str]) -> None:
        new = {id: why for id, why in found.items() if id not in self._unreadable}
        self._unreadable |= new
        if new:
            log.warning("rows_unreadable", count=len(new), rows=_first(new))

    async def count(self) -> int:
        return int(await self._worker.call("count"))

    async def purge(self) -> None:
        """Rewrite the store, so that its files hold no byte of a deleted memory. What an earlier
        run left may hold some, so it is not used."""
        try:
            await self._run_job("rewrite", "purge", False, again=("rewrite", "purge", True))
        except StoreUnavailable as exc:
            if not self._closed:
                raise
            message = "The daemon stopped before the purge was finished."
            raise StoreUnavailable(message, hint="The next start goes on with it.") from exc

    async def compact(self) -> bool:
        """Rewrite the store if enough of its rows are dead, or finish a rewrite that a stop or kill
        interrupted; whether it was done. Also removes the files of a cancelled job."""
        async with self._job:
            await self._worker.call("drop_unfinished")
        if not (reason := await self._worker.call("due_rewrite")):
            return False
        await self._run_job("rewrite", reason, True)
        return True

    async def backup(
        self, folder: Path, keep: int, *, if_changed: bool = False, at: float | None = None
    ) -> Backup | None:
        """A verified backup file of the present memories; None if `if_changed` and nothing has."""
        if if_changed and await self._worker.call("is_backed_up", folder):
            return None
        return cast(Backup, await self._run_job("backup", folder, keep, at))

    async def rescue(
        self, records: AsyncIterator[list[Record]], folder: Path, at: float | None = None
    ) -> Backup:
        """See `memoryd.ports.Store`. No write is committed meanwhile."""
        async with self._job, self._committing:
            await self._check_lost()
            made = await write_backup(records, folder, self.facts.made_for, at)
            try:
                await self._worker.rebuild(Path(made.path))
            except MemorydError as exc:
                raise StoreError(
                    f"All {made.memories} memories are saved in {made.path}, but no new store "
                    f"could be made: {exc.message}",
                    code="rescue_incomplete",
                    hint=f"Keep that file, and later run: memoryd restore {made.path}",
                ) from exc
            self._unreadable.clear()
        return made

    async def read_identity(self) -> Identity:
        """The model whose vectors the store holds now."""
        return cast(Identity, await self._worker.call("read_identity"))

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """No long job runs inside the block."""
        async with self._job:
            yield

    async def copy_other_collections(self, identity: Identity) -> None:
        """Copy the other collections, if there are any, to the next store, which is closed and gets
        vectors of this model."""
        if self.facts.other_collections:
            await self._run_job("copy_others", identity)

    async def replace_by_next(self, identity: Identity) -> None:
        """See `memoryd.ports.NextStore.replace`."""
        await self._worker.call("replace_by_next", identity)
        self.facts.made_for = identity

    async def drop_next(self) -> None:
        """Delete the files of the next store."""
        await self._worker.call("drop_next")

    async def _check_lost(self) -> None:
        """Raise `store_in_place` if the store still works."""
        try:
            await self._worker.call("check_files")
        except StoreError as exc:
            if exc.code in LOST_CODES:
                return
            raise
        raise StoreError(
            "The store's files are in their place, so there is nothing to rescue.",
            code="store_in_place",
            hint="Run: memoryd backup",
        )

    async def all_backups(self, folder: Path) -> list[Backup]:
        return await anyio.to_thread.run_sync(listed_in, folder)

    async def newest_backup(self, folder: Path, until: float = math.inf) -> Backup | None:
        found = await anyio.to_thread.run_sync(newest_in, folder, until)
        return found[0] if found else None

    async def _run_job(self, *job: object, again: tuple[object, ...] | None = None) -> Any:
        """Run a long job; its result. If the worker is restarted meanwhile, starts once more, with
        `again` if given."""
        async with self._job:
            try:
                return await self._run_steps(*job)
            except StoreError as exc:
                if exc.code != JOB_LOST:
                    raise
                return await self._run_steps(*(again or job))

    async def _run_steps(self, *job: object) -> Any:
        """Run a job step by step, so that other calls run in between."""
        await self._worker.call("begin", *job)
        while (pause := await self._worker.call("step")) is not None:
            if pause:
                await anyio.sleep(pause)
        return await self._worker.call("finish")

    async def status(self) -> Mapping[str, object]:
        facts = {**await self._worker.call("facts"), "restarts": self._worker.restarts}
        if found := self._unreadable:
            facts["unreadable"] = {"count": len(found), "rows": _first(found)}
        return facts

    async def close(self) -> None:
        """Commit the waiting writes, then end the worker."""
        self._closed = True
        for write in [*self._group, *self._waiting]:
            await write.done.wait()
        await self._worker.close()
        self._commit_scope.cancel()

    async def commit_groups(self) -> None:
        """The only writer: commits the waiting writes in groups and wakes their callers."""
        with self._commit_scope:
            try:
                await self._commit_all()
            finally:
                self._fail_waiting()

    async def _commit_all(self) -> None:
        while True:
            await self._has_writes.wait()
            self._has_writes = anyio.Event()
            while self._waiting:
                self._group = self._waiting.next_group()
                async with self._committing:
                    await self._commit(self._group)
                for write in self._group:
                    write.done.set()
                self._group = []

    async def _write(self, write: Write) -> Write:
        if self._closed:
            raise StoreUnavailable("The store is closed.")
        self._waiting.push(write)
        self._has_writes.set()
        await write.done.wait()
        if write.error is not None:
            raise write.error
        return write

    def _fail_waiting(self) -> None:
        """Fail the waiting writes: nothing will commit them."""
        self._closed = True
        for write in [*self._group, *self._waiting]:
            write.error = StoreUnavailable(
                "The store was closed while this was being written; it may or may not be kept."
            )
            write.done.set()
        self._waiting, self._group = WriteQueue(), []

    async def _commit(self, group: list[Write]) -> None:
        """One call for all; if it fails, one call each: no write fails because of another."""
        added = [record for write in group for record in write.added]
        replaced = [record for write in group for record in write.replaced]
        to_delete = [id for write in group for id in write.to_delete]
        try:
            deleted = await self._worker.call("write", added, replaced, to_delete)
        except MemorydError as exc:
            if len(group) > 1 and not isinstance(exc, StoreUnavailable):
                for write in group:
                    await self._commit([write])
                return
            self._has_failed = True
            for write in group:
                write.error = exc
        else:
            for write in group:
                write.deleted = deleted.intersection(write.to_delete)


def _first(unreadable: Mapping[str, str]) -> dict[str, str]:
    """Some of these, with ids that are short whoever chose them."""
    return {id[:40]: why for id, why in list(unreadable.items())[:MAX_NAMED]}


@asynccontextmanager
async def open_chroma(
    settings: StoreSettings,
    data_dir: Path,
    identity: Identity,
    restore: Restore | None = None,
    *,
    progress: Watch | None = None,
    backups: Path | None = None,
    **how: Unpack[How],
) -> AsyncIterator[ChromaStore]:
    """A store that is open inside the block. Raises StoreBusy, StoreMismatch, StoreUnavailable.
    `restore`: make it from a backup first. `progress`: called in a slow opening, also of a later
    worker, and with None at its end. `backups`: their folder, if it is not in the data directory.
    With `tell_first` the block may begin before ChromaDB is open; calls wait."""
    worker = WorkerClient(
        settings, data_dir, identity, restore, progress=progress, backups=backups, **how
    )
    store = ChromaStore(worker, is_shared=settings.mode == "http")
    async with task_group() as tasks:
        await worker.start(tasks)
        tasks.start_soon(store.commit_groups)
        try:
            yield store
        finally:
            with anyio.CancelScope(shield=True):
                await store.close()
            tasks.cancel_scope.cancel()
