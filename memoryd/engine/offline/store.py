"""A store whose writes are queued while its server cannot be reached."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from memoryd.engine.offline.queue import OfflineQueue
from memoryd.errors import StoreOffline
from memoryd.fair import CALLER
from memoryd.offline import QueuedWrite, SharedStore, is_storing
from memoryd.ports import Record
from memoryd.tasks import task_group

T = TypeVar("T")
SENDING_WAIT = 2.0  # seconds that a write waits for those before it while these are being sent
KeepsHere = Callable[[Sequence[Record], Sequence[str]], bool]


def _keeps_nothing(records: Sequence[Record], ids: Sequence[str]) -> bool:
    return False


class QueueingStore:
    """See `memoryd.ports.Store`. Once something is queued, what follows is queued behind it, so
    that the order stays. While the queue is being sent a write waits a moment for its end first,
    so that callers do not add to it faster than it is sent. Only what a client asked for is queued:
    work of the daemon itself, such as a sweep, is refused and done later."""

    def __init__(
        self, store: SharedStore, queue: OfflineQueue, keeps_here: KeepsHere = _keeps_nothing
    ) -> None:
        """`keeps_here`: whether all of these memories, and those with these ids, are only on this
        machine."""
        self._store, self._queue, self._keeps_here = store, queue, keeps_here
        self.expired = store.expired
        self.nearest = store.nearest
        self.revisions = store.revisions
        self.scan = store.scan
        self.saved_index, self.keep_index = store.saved_index, store.keep_index
        self.count = store.count
        self.purge = store.purge
        self.compact = store.compact
        self.backup = store.backup
        self.rescue = store.rescue
        self.all_backups = store.all_backups
        self.newest_backup = store.newest_backup
        self.status = store.status
        self.close = store.close

    async def put(self, record: Record, *, new: bool = False) -> None:
        await self._write(
            QueuedWrite(records=(record,), is_store=is_storing()),
            lambda: self._store.put(record, new=new),
            None,
        )

    async def put_all(self, records: Sequence[Record], *, new: bool = False) -> None:
        write = QueuedWrite(records=tuple(records), is_store=is_storing())
        await self._write(write, lambda: self._store.put_all(records, new=new), None)

    async def delete(self, ids: Sequence[str]) -> set[str]:
        write = QueuedWrite(deleted=tuple(ids))
        return await self._write(write, lambda: self._store.delete(ids), set())

    async def get(self, ids: Sequence[str]) -> list[Record]:
        """As they are with what is queued."""
        queued = self._queue.latest
        others = [id for id in ids if id not in queued]
        found = [record for id in ids if (record := queued.get(id)) is not None]
        return found + (await self._store.get(others) if others else [])

    async def _write(self, write: QueuedWrite, send: Callable[[], Awaitable[T]], queued: T) -> T:
        """Send a write, or queue it; `queued`: the answer then."""
        queue = self._queue
        if self._keeps_here(write.records, write.deleted):
            return await send()
        may_queue = queue.accepts and CALLER.get() is not None
        if queue and not may_queue:
            raise StoreOffline("The Chroma server has not got all earlier writes yet.")
        if queue:
            await queue.wait_until_sent(SENDING_WAIT)
        if not queue and not (may_queue and queue.is_away):
            try:
                return await (self._send_or_fail(send) if may_queue else send())
            except StoreOffline:
                if not may_queue:
                    raise
                write = replace(write, was_sent=True)
        await queue.add(write)
        return queued

    async def _send_or_fail(self, send: Callable[[], Awaitable[T]]) -> T:
        """What `send` returns. Raises StoreOffline if the server is found to be away meanwhile,
        though it may get the write later: a server that hangs keeps a caller for its time limit."""
        async with task_group() as tasks:
            tasks.start_soon(self._queue.fail_when_away)
            answer = await send()
            tasks.cancel_scope.cancel()
        return answer
