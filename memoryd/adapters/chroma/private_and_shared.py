"""One store made of two: private memories on this machine, the others on a Chroma server.

A record's audience says where it belongs, so nothing private is ever sent to the server: neither a
text, nor a vector, nor an id. What is in the local store counts as private, whatever it says.

A change of audience moves a memory: it is written to the other store first, then deleted from the
first. A kill in between leaves two copies with one id. The new copy names the revision that it was
made of (`Record.moved_from`), so the next look at the server finds out which one it is, and
finishes the move:

- The local copy was made of the version on the server: it was being made private. The server's is
  deleted; if others have changed that meanwhile, the local copy is, and the memory stays shared.
- The server's copy was made of the local version: it was being shared. The local one is deleted.
- Neither: they are two memories with one id, such as one that another user imported from an export.
  Both are kept, and the daemon shows the local one.

The server may be out of reach, also at the start: then private memories are served and stored, and
everything that needs the server raises StoreOffline.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.abc
import numpy as np
import structlog
from numpy.typing import NDArray

from memoryd.adapters.chroma.server import Answers, OpenShared, Server
from memoryd.adapters.chroma.store import ChromaStore
from memoryd.audience import Viewer, is_private
from memoryd.errors import StoreConflict, StoreError, StoreOffline, StoreUnavailable
from memoryd.fields import AUDIENCE, PRIVATE
from memoryd.ports import Backup, Changes, Record, Revisions
from memoryd.tasks import task_group

log = structlog.get_logger()
NEAREST_SECONDS = 3.0  # that a search waits for the server before it goes by words


class PrivateAndShared:
    """See `memoryd.ports.Store` and `memoryd.ports.ChangeFeed`."""

    def __init__(self, private: ChromaStore, server: Server, viewer: Viewer) -> None:
        self.private = private
        self._server, self._viewer = server, viewer
        # Ids of private memories. Those of deleted ones stay: they must not get to the server.
        self._ids: set[str] = set()
        self._doubles: set[str] = set()  # private ones that the server may have, too
        self._is_read = False  # all of it, once: moves that were interrupted are finished
        self._loaded: dict[str, int] = {}  # revisions of the private memories when it was opened
        self.listed_clock: int | None = None
        self._listed = math.inf  # private memories before those of the server, in `listing`

    async def load(self) -> None:
        """Read which memories are private. Call it before all others."""
        known = await self.private.revisions()
        self._loaded = dict(known.by_id) if known else await _listed(self.private)
        self._ids.update(self._loaded)

    async def put(self, record: Record, *, new: bool = False) -> None:
        if new and not self._needs_move(record):
            await self._home(record).put(record, new=True)
            self._note_ids([record])
        else:
            await self.put_all([record])

    async def put_all(self, records: Sequence[Record], *, new: bool = False) -> None:
        """Those of the server first: it refuses more often. All or none holds for each store."""
        with suppress(*([StoreUnavailable] if _all_private(records) else [])):
            await self._settle(record.memory.id for record in records)
        moving: list[Record] = []
        shared: list[Record] = []
        private: list[Record] = []
        for record in records:
            stays = private if is_private(record.memory) else shared
            (moving if self._needs_move(record) else stays).append(record)
        if shared:
            await self._server.store.put_all(shared, new=new)
        for record in moving:
            await (self._withdraw if is_private(record.memory) else self._publish)(record)
        if private:
            await self.private.put_all(private, new=new)
            self._note_ids(private)

    @property
    def shared(self) -> ChromaStore:
        """The store on the server. Raises StoreOffline."""
        return self._server.store

    def is_here(self, id: str) -> bool:
        """Whether it is the id of a private memory, or was one."""
        return id in self._ids

    def one_of(self, here: Iterable[Record], there: Iterable[Record]) -> list[Record]:
        """What was found in the two stores, as memories of one."""
        shown = self._seen([r for r in there if r.memory.id not in self._ids])
        return [*map(_as_private, here), *shown]

    def check_moves(self, ids: Iterable[str]) -> None:
        """Look, when they are next used, whether moves of those that are private were
        interrupted."""
        self._doubles |= self._ids.intersection(ids)

    def keeps_here(self, records: Sequence[Record], ids: Sequence[str]) -> bool:
        """Whether all of these memories, and those with these ids, are only on this machine."""
        are_private = all(is_private(r.memory) and not self._needs_move(r) for r in records)
        return are_private and self._ids.issuperset(ids) and self._doubles.isdisjoint(ids)

    def _home(self, record: Record) -> ChromaStore:
        return self.private if is_private(record.memory) else self._server.store

    def _note_ids(self, records: Sequence[Record]) -> None:
        self._ids.update(r.memory.id for r in records if is_private(r.memory))

    def _needs_move(self, record: Record) -> bool:
        """Whether the memory is in the other store. Nothing is known there of a new one."""
        is_here = record.memory.id in self._ids
        if is_private(record.memory):
            return not is_here and record.replaces != 0
        return is_here

    async def _publish(self, record: Record) -> None:
        """Move a memory to the server."""
        before = await self.private.get([record.memory.id])
        source = before[0].revision if before else 0
        self._doubles.add(record.memory.id)
        await self._server.store.put(replace(record, replaces=0, moved_from=source))
        await self.private.delete([record.memory.id])
        self._ids.discard(record.memory.id)
        self._doubles.discard(record.memory.id)

    async def _withdraw(self, record: Record) -> None:
        """Move a memory from the server to this machine. Raises StoreConflict if another daemon
        changed or forgot it."""
        server, id = self._server.store, record.memory.id
        found = next(iter(await server.get([id])), None)
        if record.replaces and (found is None or found.revision != record.replaces):
            raise StoreConflict("Another daemon changed or forgot this memory at the same time.")
        if found is not None:
            # With a mark until the server's copy is gone, so that a kill is noticed.
            await self.private.put(replace(record, moved_from=found.revision))
            self._ids.add(id)
            self._doubles.add(id)
            await server.delete([id])
        await self.private.put(replace(record, moved_from=0))
        self._ids.add(id)
        self._doubles.discard(id)

    async def get(self, ids: Sequence[str]) -> list[Record]:
        with suppress(StoreUnavailable):
            await self._settle(ids)
        here = [id for id in ids if id in self._ids]
        there = [id for id in ids if id not in self._ids]
        found = list(map(_as_private, await self.private.get(here))) if here else []
        return found + (self._seen(await self._server.store.get(there)) if there else [])

    def _seen(self, records: Sequence[Record]) -> list[Record]:
        """What the user may see. The server was asked for nothing else; it is checked again."""
        return [record for record in records if self._viewer.may_see(record.memory.metadata)]

    async def delete(self, ids: Sequence[str]) -> set[str]:
        await self._settle(ids)
        here = [id for id in ids if id in self._ids]
        there = [id for id in ids if id not in self._ids]
        gone = await self._server.store.delete(there) if there else set()
        return gone | (await self.private.delete(here) if here else set())

    async def expired(self, now: float, limit: int) -> list[str]:
        """Only private ones if the server cannot be reached."""
        due = await self.private.expired(now, limit)
        if len(due) < limit:
            try:
                more = await self._server.store.expired(now, limit)
            except StoreUnavailable:
                return due
            due += [id for id in more if id not in self._ids][: limit - len(due)]
        return due

    async def nearest(
        self, vector: NDArray[np.float32], count: int, among: Sequence[str] | None = None
    ) -> list[tuple[str, float]]:
        here, there = among, among
        if among is not None:
            here = [id for id in among if id in self._ids]
            there = [id for id in among if id not in self._ids]
        found: list[tuple[str, float]] = []
        if there is None or there:
            shared = await self._nearest_shared(vector, count, there)
            found += [(id, cosine) for id, cosine in shared if id not in self._ids]
        if here is None or here:
            found += await self.private.nearest(vector, count, here)
        return sorted(found, key=lambda one: -one[1])[:count]

    async def _nearest_shared(
        self, vector: NDArray[np.float32], count: int, among: Sequence[str] | None
    ) -> list[tuple[str, float]]:
        with anyio.move_on_after(NEAREST_SECONDS):
            return await self._server.store.nearest(vector, count, among)
        raise StoreOffline(
            f"The Chroma server has not answered for {NEAREST_SECONDS:g} seconds.",
            hint="Search again, or look at the load of the server.",
        )

    async def revisions(self) -> Revisions | None:
        """Only of the private memories if the server cannot be reached. Finishes moves, as a first
        scan does."""
        here, self._loaded = self._loaded, {}
        try:
            clock = await self._server.store.clock()
            there = await _listed(self._server.store)
            await self._settle_all(there)
        except StoreUnavailable as exc:
            log.warning("server_not_read", code=exc.code)
            return Revisions(here, is_whole=False)
        self._is_read, self.listed_clock = True, clock
        return Revisions(there | {id: number for id, number in here.items() if id in self._ids})

    @property
    def saved_index(self) -> str:
        """Empty: others write to the server meanwhile."""
        return ""

    async def keep_index(self, name: str) -> None:
        """See `saved_index`."""

    async def scan(self) -> AsyncIterator[list[Record]]:
        """Every memory, page by page; only private ones if the server cannot be reached. The first
        scan, before anything is written, finishes moves that were interrupted."""
        async for page in self.private.scan():
            yield list(map(_as_private, page))
        try:
            async for page in self._server.store.scan():
                if not self._is_read:
                    await self._settle_all(record.memory.id for record in page)
                yield self.one_of((), page)
            self._is_read = True
        except StoreUnavailable as exc:
            log.warning("server_not_read", code=exc.code)

    async def _settle(self, ids: Iterable[str]) -> None:
        """Finish moves of these memories that were interrupted. While the engine runs, it holds the
        locks of these ids. Raises StoreOffline."""
        for id in self._doubles.intersection(ids):
            await self._finish_move(id)
            self._doubles.discard(id)

    async def _settle_all(self, ids: Iterable[str]) -> None:
        """Finish moves of those of these memories of the server that are private, too."""
        self.check_moves(ids)
        await self._settle(tuple(self._doubles))

    async def _finish_move(self, id: str) -> None:
        mine = next(iter(await self.private.get([id])), None)
        theirs = next(iter(await self._server.store.get([id])), None)
        if mine is None or theirs is None:
            if theirs is not None:
                self._ids.discard(id)
        elif mine.moved_from == theirs.revision:
            await self._server.store.delete([id])
            await self.private.put(replace(mine, moved_from=0))
            log.info("move_finished", to="private")
        elif mine.moved_from or theirs.moved_from == mine.revision:
            await self.private.delete([id])
            self._ids.discard(id)
            log.info("move_finished", to="server")

    async def count(self) -> int:
        return await self.private.count() + await self._server.store.count()

    async def clock(self) -> int:
        return await self._server.store.clock()

    async def changes(self, since: int) -> Changes:
        return await self._server.store.changes(since)

    async def listing(self, offset: int) -> Mapping[str, int] | None:
        """Private memories first, then those of the server. One that is in both is settled when it
        is read again."""
        if offset == 0:
            self._listed = math.inf
        if offset < self._listed:
            if page := await self.private.listing(offset):
                return page
            self._listed = offset
        found = await self._server.store.listing(offset - int(self._listed))
        self.check_moves(found or ())
        return found

    async def check(self) -> None:
        await self._server.check()

    async def noted(self, ids: Sequence[str]) -> set[str]:
        return await self._server.store.noted(ids)

    async def sweep_notes(self) -> None:
        await self._server.store.sweep_notes()

    async def purge(self) -> None:
        """Rewrite the files of the private memories. Raises StoreError then: the server's are not
        rewritten."""
        await self.private.purge()
        raise StoreError(
            "The files of the private memories are rewritten; those of the Chroma server cannot be "
            "rewritten from here.",
            code="not_embedded",
            hint="Purge and compact it on the server.",
        )

    async def compact(self) -> bool:
        return await self.private.compact()

    async def backup(
        self, folder: Path, keep: int, *, if_changed: bool = False, at: float | None = None
    ) -> Backup | None:
        """Of the private memories: those of the server are backed up there."""
        return await self.private.backup(folder, keep, if_changed=if_changed, at=at)

    async def rescue(
        self, records: AsyncIterator[list[Record]], folder: Path, at: float | None = None
    ) -> Backup:
        """Of the private memories."""

        async def private() -> AsyncIterator[list[Record]]:
            async for page in records:
                yield [record for record in page if is_private(record.memory)]

        return await self.private.rescue(private(), folder, at)

    async def all_backups(self, folder: Path) -> list[Backup]:
        return await self.private.all_backups(folder)

    async def newest_backup(self, folder: Path, until: float = math.inf) -> Backup | None:
        return await self.private.newest_backup(folder, until)

    async def status(self) -> Mapping[str, object]:
        """Facts about the local store, and under `server` those about the other one."""
        facts = {**await self.private.status(), "mode": "http"}
        try:
            return {**facts, "server": await self._server.store.status()}
        except StoreUnavailable as exc:
            error = {"code": exc.code, "message": exc.message, "hint": exc.hint}
            return {"error": error, **facts, "server": None}

    async def close(self) -> None:
        """Each store is closed by who opened it."""


async def _listed(store: ChromaStore) -> dict[str, int]:
    """The revisions of all memories of a store."""
    found: dict[str, int] = {}
    offset = 0
    while page := await store.listing(offset):
        offset += len(page)
        found |= page
    return found


def _all_private(records: Iterable[Record]) -> bool:
    return all(is_private(record.memory) for record in records)


def _as_private(record: Record) -> Record:
    """A record of the local store, which may be older than audiences, or say what was not done."""
    memory = record.memory
    if memory.metadata.get(AUDIENCE) == PRIVATE:
        return record
    return replace(record, memory=replace(memory, metadata={**memory.metadata, AUDIENCE: PRIVATE}))


@asynccontextmanager
async def open_private_and_shared(
    private: ChromaStore, shared: OpenShared, viewer: Viewer, answers: Answers | None = None
) -> AsyncIterator[PrivateAndShared]:
    """Both stores as one, open inside the block. `shared` is called again until the server can be
    reached; `answers`: whether it gives a sign of life. Raises StoreError."""
    async with task_group() as tasks:
        server = Server(shared, answers)
        store = PrivateAndShared(private, server, viewer)
        await store.load()
        await tasks.start(server.run)
        yield store
        tasks.cancel_scope.cancel()
