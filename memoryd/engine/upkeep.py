"""What the engine does by itself: expire what is due, embed what was stored without a model,
rewrite a store that is mostly dead, back it up.

Correctness never waits for it: reads drop what has expired. The sweep keeps the store small.
It sleeps by the monotonic clock, so a wall clock that jumps cannot stop it, and deletes only while
`clock_guard` believes the wall clock.
"""

from __future__ import annotations

import math
from pathlib import Path

import anyio
import structlog

from memoryd.engine import checks
from memoryd.engine.clock_guard import ClockGuard, Doubt
from memoryd.engine.memories import Memories
from memoryd.engine.parts import Parts
from memoryd.errors import InvalidInput, MemorydError, StoreUnavailable
from memoryd.ports import Backup
from memoryd.tasks import task_group

log = structlog.get_logger()
HOUR = 3600.0
GROUP = 32  # memories that are embedded at a time
SETTLED = 600.0  # seconds after the first memory until a first backup


class Upkeep:
    """The sweep and its loop."""

    def __init__(self, parts: Parts, memories: Memories) -> None:
        self._parts = parts
        self._memories = memories
        self._started = parts.monotonic()
        self._guard = ClockGuard(
            parts.clock_record, parts.memory, parts.clock, parts.monotonic, self._newest_memory
        )

    @property
    def doubt(self) -> Doubt | None:
        """Why nothing expired is deleted now; None if it is."""
        return self._guard.doubt

    async def sweep(self, *, clock_is_right: bool = False) -> int:
        """Delete everything that is due, asked by a person; `clock_doubted` if the clock may be
        wrong and nobody says that it is right."""
        if clock_is_right:
            await self._guard.confirm()
        elif self.doubt is not None:
            raise MemorydError(
                "The clock leapt ahead, or memoryd did not run for days: nothing expired is deleted"
                " until it is known which.",
                code="clock_doubted",
                hint="If date and time are right, run: memoryd sweep --now",
            )
        return await self.cleanup_expired()

    async def note_clock(self) -> None:
        """Keep the time for the next start."""
        await self._guard.believed_now()

    def _newest_memory(self, now: float) -> float | None:
        made = (memory.created_at for memory in self._parts.index)
        return max((at for at in made if at <= now), default=None)

    async def cleanup_expired(self, now: float | None = None) -> int:
        """Delete everything that is due by `now`, batch by batch; how many memories that were."""
        deleted, batch = 0, self._parts.memory.cleanup_batch
        now = self._parts.clock() if now is None else now
        passed: set[str] = set()  # renewed meanwhile, pinned, or not to be deleted: never again
        while True:
            found = await self._parts.store.expired(now, batch + len(passed))
            due = [id for id in found if id not in passed][:batch]
            if not due:
                return deleted
            gone = await self._drop_expired(due, now)
            deleted += len(gone)
            passed.update(id for id in due if id not in gone)

    async def _drop_expired(self, due: list[str], now: float) -> set[str]:
        """Delete what is due; one that the store cannot delete does not keep the others."""
        try:
            return await self._memories.drop_expired(due, now)
        except StoreUnavailable:
            raise
        except MemorydError as exc:
            if len(due) == 1:
                log.warning("expired_not_deleted", id=due[0], code=exc.code)
                return set()
        gone: set[str] = set()
        for id in due:
            gone |= await self._drop_expired([id], now)
        return gone

    async def cleanup_if_believed(self) -> int:
        """The same for the loop: nothing while the clock may be wrong."""
        now = await self._guard.believed_now()
        return 0 if now is None else await self.cleanup_expired(now)

    async def embed_pending(self) -> int:
        """Give vectors to memories that have none; how many got them."""
        waiting = self._parts.index.pending_ids() if self._parts.embedding.encoder else []
        for start in range(0, len(waiting), GROUP):  # together, for batches and commits
            async with task_group() as tasks:
                for id in waiting[start : start + GROUP]:
                    tasks.start_soon(self._memories.embed_pending, id)
        if self._parts.embedding.encoder and not self._parts.index.pending:
            self._parts.embedding.retire_previous_model()
        return len(waiting)

    async def purge(self) -> None:
        """Rewrite everything that holds memories in a file, so that what is gone is in none."""
        if self.doubt is None:
            await self.cleanup_expired()
        self._parts.snapshots.clear()
        self._parts.embedding.delete_previous_vectors()
        await self._parts.store.purge()
        await self._parts.snapshots.save()

    async def compact(self) -> int:
        """Rewrite the store where enough is dead; how many memories it holds if it was done."""
        return len(self._parts.index) if await self._parts.store.compact() else 0

    async def backup(self) -> Backup:
        """A backup now."""
        settings = self._parts.backup
        at = self._parts.clock()
        made = await self._parts.store.backup(self._folder, settings.keep, at=at)
        assert made is not None
        return made

    async def backup_if_due(self) -> int:
        """A backup if the newest is old and something changed; how many memories it holds."""
        hours, newest = self._parts.backup.every_hours, await self.newest_backup()
        if not hours or await self._backup_age(newest) < hours * HOUR:
            return 0
        if newest is None and not self._is_settled():
            return 0  # the first would hold a memory or two, and be the only one for a day
        keep, at = self._parts.backup.keep, self._parts.clock()
        made = await self._parts.store.backup(self._folder, keep, if_changed=True, at=at)
        return (made.memories or 0) if made else 0

    async def _backup_age(self, newest: Backup | None) -> float:
        """Seconds since the newest backup. One that was made while the clock was ahead has no age:
        then the newest before it counts, and if there is none, the start of this daemon."""
        now = self._parts.clock()
        if newest is not None and newest.created_at > now:
            newest = await self._parts.store.newest_backup(self._folder, until=now)
            if newest is None:
                return self._parts.monotonic() - self._started
        return now - newest.created_at if newest else math.inf

    def _is_settled(self) -> bool:
        """Whether the oldest memory has been there for a while."""
        oldest = min((memory.created_at for memory in self._parts.index), default=math.inf)
        return oldest < self._parts.clock() - SETTLED

    async def newest_backup(self) -> Backup | None:
        return await self._parts.store.newest_backup(self._folder)

    @property
    def _folder(self) -> Path:
        return self._parts.backup.folder(self._parts.memory.path)

    def backup_folder(self, named: str | None) -> Path:
        """Where a backup goes: the folder that is named, or the one of the configuration."""
        if named is None:
            return self._folder
        folder = Path(checks.label(named, "folder") or "")
        if not folder.is_absolute():
            raise InvalidInput("The folder must be an absolute path.", code="folder_invalid")
        return folder

    async def run(self) -> None:
        """Now, then every `cleanup_interval`. A failure is logged and met again next time."""
        while True:
            await self.tick()
            await anyio.sleep(self._parts.memory.cleanup_interval)

    async def tick(self) -> None:
        """One round of the loop."""
        jobs = (
            self.cleanup_if_believed,
            self.embed_pending,
            self.compact,
            self.backup_if_due,
        )
        for job in jobs:
            try:
                if count := await job():
                    log.info(job.__name__, memories=count)
            except MemorydError as exc:
                log.warning(f"{job.__name__}_failed", code=exc.code)
