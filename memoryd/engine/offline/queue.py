"""The queue of writes for a Chroma server that cannot be reached (`store.offline: queue`).

A write is acknowledged when it is in the file. Writes are sent in order when the server is back, in
groups of writes of different memories: a group costs about as much as one write, and callers add
writes faster than the server takes them one by one, so that after an outage of seconds a queue
would last for minutes. Before each group the file notes that it may reach the server, and that
those before it have: so after a kill one group at most is sent again. That does no harm: a write
that the server has is recognised by its revision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import structlog

from memoryd.engine.offline.merge import Outcome, Reads, resolve
from memoryd.engine.parts import Parts
from memoryd.errors import (
    MemorydError,
    StoreConflict,
    StoreError,
    StoreOffline,
    StoreUnavailable,
)
from memoryd.lead import read_text
from memoryd.model import Memory
from memoryd.offline import QueuedWrite, QueueFile, SharedStore, note_queued, queue_full
from memoryd.ports import Record

log = structlog.get_logger()
T = TypeVar("T")
GROUP = 32  # writes that are sent at once
SEND_SECONDS = 1.0  # until the next look at what other daemons did
MAX_MEMORIES = 128  # that they write together, unless it is one write
MAX_CONFLICTS = 5  # times that a write is resolved again
MAX_REFUSALS = 5  # times that the server may refuse a write before it is rejected


class OfflineQueue:
    """What waits for the server."""

    def __init__(
        self,
        store: SharedStore,
        file: QueueFile,
        limit: int,
        max_bytes: int,
        *,
        accepts: bool = True,
    ) -> None:
        """For this store; at most `limit` writes with `max_bytes` in the file. `accepts` False:
        only send what is in it. Raises OSError."""
        self._store, self.accepts = store, accepts
        self._file, self._limit, self._max_bytes = file, limit, max_bytes
        self._writes = file.load()
        self._number = max((write.number for write in self._writes), default=0)
        self._latest: dict[str, Record | None] = {}
        self._changing = anyio.Lock()  # of the file
        self._refusals = 0  # of the first write, in a row
        self._single = 0  # writes to send one by one: the server refused one of them
        self._stopped: anyio.Event | None = (
            None  # set when sending ends; None while nothing is sent
        )
        self._known: Callable[[str], Memory | None] = lambda id: None  # what this daemon shows
        self._reads: Reads = lambda memory: memory.content
        self._away = anyio.Event()  # set while the server is known to be away
        self._index_latest()

    def attach(self, parts: Parts) -> None:
        """Show what is queued from a former run."""
        self._known = lambda id: parts.index.get(id)
        self._reads = lambda memory: read_text(memory, parts.search.lead_fields)
        for id, record in self._latest.items():
            if record is not None:
                parts.index.put(record)
            else:
                parts.index.remove(id)

    @property
    def is_away(self) -> bool:
        """Whether the server is known to be away."""
        return self._away.is_set()

    def set_away(self, away: bool) -> None:
        """Note whether the server is known to be away."""
        if away:
            self._away.set()
        elif self._away.is_set():
            self._away = anyio.Event()

    async def fail_when_away(self) -> None:
        """Raise StoreOffline as soon as the server is known to be away."""
        await self._away.wait()
        raise StoreOffline("The Chroma server cannot be reached: it has not answered.")

    def __len__(self) -> int:
        return len(self._writes)

    @property
    def latest(self) -> Mapping[str, Record | None]:
        """By id, what is queued of each memory; None: that it is deleted."""
        return self._latest

    def state(self) -> dict[str, Any]:
        """Facts for `status`."""
        count, path = self._file.rejected()  # a person removes the file
        told = {"rejected": count, "rejected_file": path} if count else {}
        return {"queued": len(self._writes), "queue_limit": self._limit} | told

    async def add(self, write: QueuedWrite) -> None:
        """Queue a write, durably. Raises StoreError, such as `offline_queue_full`."""
        async with self._changing:
            if len(self._writes) >= self._limit:
                raise queue_full(f"{self._limit} writes")
            bases = tuple(self._known(record.memory.id) for record in write.records)
            write = replace(write, number=self._number + 1, bases=bases)
            # Texts of memories that are forgotten now leave the file with the same change.
            rest = [_without(before, write.deleted) for before in self._writes]
            if all(new is old for new, old in zip(rest, self._writes, strict=True)):
                await self._on_file(self._file.append, write, self._max_bytes)
            else:
                await self._on_file(self._file.replace, [*rest, write])
            self._number += 1
            self._writes = [*rest, write]
            self._index_latest()
        note_queued(write.ids)

    async def send(self) -> set[str]:
        """Send writes for about `SEND_SECONDS`; ids of memories that must be read again. Raises
        StoreError while the server cannot be used; then the rest waits."""
        if not self._writes:
            return set()
        different: set[str] = set()
        before, until = len(self._writes), anyio.current_time() + SEND_SECONDS
        if self._stopped is None:
            self._stopped = anyio.Event()
        try:
            is_time = True
            while self._writes and is_time:
                different |= await self._send_group()
                is_time = anyio.current_time() < until
            async with self._changing:
                if not self._writes:
                    await self._on_file(self._file.replace, [])  # which removes all texts
        except BaseException:
            self._stop_waiting()
            raise
        if not self._writes:
            self._stop_waiting()
        log.info("queue_sent", before=before, left=len(self._writes))
        return different

    async def wait_until_sent(self, seconds: float) -> None:
        """Wait, at most so long, while writes are being sent."""
        if self._stopped is not None:
            with anyio.move_on_after(seconds):
                await self._stopped.wait()

    def _stop_waiting(self) -> None:
        if self._stopped is not None:
            self._stopped.set()
        self._stopped = None

    async def _send_group(self) -> set[str]:
        async with self._changing:
            group = self._next_group()
            await self._on_file(self._file.mark_sending, group[0].number, group[-1].number)
            self._writes[: len(group)] = [replace(write, was_sent=True) for write in group]
        try:
            different = await self._send_writes(group)
        except StoreUnavailable:
            raise
        except MemorydError as exc:
            if len(group) > 1:
                self._single = len(group)
                return set()
            different = await self._refused(group[0], exc)
        self._refusals, self._single = 0, max(0, self._single - 1)
        async with self._changing:
            del self._writes[: len(group)]
            self._index_latest()
        return different

    def _next_group(self) -> list[QueuedWrite]:
        """The first writes, up to one of a memory that another one of them writes, too."""
        group, ids = self._writes[:1], set(self._writes[0].ids)
        for write in self._writes[1 : 1 if self._single else GROUP]:
            if not ids.isdisjoint(write.ids) or len(ids) + len(write.ids) > MAX_MEMORIES:
                break
            group.append(write)
            ids.update(write.ids)
        return group

    async def _refused(self, write: QueuedWrite, exc: MemorydError) -> set[str]:
        """Raise the error, or reject a write that was refused too often."""
        if isinstance(exc, StoreConflict):
            raise exc
        self._refusals += 1
        if self._refusals < MAX_REFUSALS:
            raise exc
        await self._reject(write, exc.message)
        return set(write.ids)

    async def _send_writes(self, group: Sequence[QueuedWrite]) -> set[str]:
        """Bring writes to the server by the rules of `merge`; ids of those that must be read
        again."""
        for left in reversed(range(MAX_CONFLICTS)):
            resolved = await self._resolved(group)
            outcomes = [outcome for _, outcomes in resolved for outcome in outcomes.values()]
            records = [outcome.send for outcome in outcomes if outcome.send is not None]
            try:
                if records:
                    await self._store.put_all(records)
                break
            except StoreConflict:
                if not left:
                    raise
        if deleted := [id for write in group for id in write.deleted]:
            await self._store.delete(deleted)
        for write, found in resolved:
            if any(outcome.is_rejected for outcome in found.values()):
                await self._reject(write, "Another daemon forgot the memory that it replaces.")
        return {id for _, found in resolved for id, outcome in found.items() if outcome.is_other}

    async def _resolved(
        self, group: Sequence[QueuedWrite]
    ) -> list[tuple[QueuedWrite, dict[str, Outcome]]]:
        """Each write with what to do with its memories, by id."""
        ids = [record.memory.id for write in group for record in write.records]
        found = await self._store.get(ids) if ids else []
        present = {record.memory.id: record for record in found}
        absent = [id for id in ids if id not in present]
        noted = await self._store.noted(absent) if absent else ()
        return [
            (
                write,
                {
                    record.memory.id: resolve(
                        record,
                        base,
                        present.get(record.memory.id),
                        self._reads,
                        is_store=write.is_store,
                        was_sent=write.was_sent,
                        is_noted=record.memory.id in noted,
                    )
                    for record, base in zip(write.records, write.bases, strict=True)
                },
            )
            for write in group
        ]

    async def _reject(self, write: QueuedWrite, why: str) -> None:
        async with self._changing:
            await self._on_file(self._file.reject, write, why)
        log.warning("queued_write_rejected", number=write.number)

    def _index_latest(self) -> None:
        self._latest = {}
        for write in self._writes:
            self._latest |= {record.memory.id: record for record in write.records}
            self._latest |= dict.fromkeys(write.deleted, None)

    async def _on_file(self, work: Callable[..., T], *args: object) -> T:
        """Run `work` on a thread, to its end also if the caller is cancelled. Raises StoreError."""
        try:
            return await anyio.to_thread.run_sync(work, *args)  # which cannot be cancelled
        except OSError as exc:
            raise StoreError(
                f"The queue cannot be written: {exc.strerror or exc}.",
                code="offline_queue_unwritable",
                hint="Check that the disk of the data directory is writable and not full.",
            ) from exc


def _without(write: QueuedWrite, ids: Iterable[str]) -> QueuedWrite:
    """The write without these memories; a deletion stays."""
    gone = set(ids)
    pairs = zip(write.records, write.bases, strict=True)
    kept = [(record, base) for record, base in pairs if record.memory.id not in gone]
    if len(kept) == len(write.records):
        return write
    return replace(
        write,
        records=tuple(record for record, _ in kept),
        bases=tuple(base for _, base in kept),
    )
