"""Background work: delete expired memories, write uses and what follows from them, embed memories
stored without a model, compact the store and back it up.

Correctness does not depend on it: reads skip expired memories. The sweep keeps the store small. It
sleeps by the monotonic clock, so a wall clock that jumps cannot stop it, and deletes only while
`clock_guard` trusts the wall clock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import structlog

from memoryd.engine import checks
from memoryd.engine.chains import Chains
from memoryd.engine.clock_guard import ClockGuard, Doubt
from memoryd.engine.lifecycle.jobs import LifecycleJobs
from memoryd.engine.lifecycle.staleness import Staleness
from memoryd.engine.memories import Memories
from memoryd.engine.parts import Parts
from memoryd.errors import InvalidInput, MemorydError, StoreUnavailable
from memoryd.logs import stage
from memoryd.ports import Backup
from memoryd.tasks import task_group

log = structlog.get_logger()
HOUR = 3600.0
GROUP = 32  # memories embedded at the same time
SETTLED = 600.0  # age of the oldest memory, in seconds, before the first backup
FIRST_BACKUP = 5.0  # seconds after the start: the first calls have the machine for themselves
Jobs = tuple[Callable[[], Awaitable[int]], ...]


class Upkeep:
    """The background jobs and their loop."""

    def __init__(
        self,
        parts: Parts,
        memories: Memories,
        chains: Chains,
        lifecycle: LifecycleJobs,
        staleness: Staleness,
    ) -> None:
        self._parts = parts
        self._memories = memories
        self._chains = chains
        self._lifecycle = lifecycle
        self._staleness = staleness
        self._started = parts.monotonic()
        self._believed: float | None = None  # the time of this round, if it can be trusted
        self._guard = ClockGuard(
            parts.clock_record, parts.memory, parts.clock, parts.monotonic, self._newest_memory
        )

    @property
    def doubt(self) -> Doubt | None:
        """Why expired memories are not deleted now; None if they are."""
        return self._guard.doubt

    async def sweep(self, *, clock_is_right: bool = False) -> int:
        """Delete all expired memories on request; how many. Raises `clock_doubted` if the clock may
        be wrong, unless the user says that it is right."""
        if clock_is_right:
            await self._guard.confirm()
        elif self.doubt is not None:
            raise MemorydError(
                "The clock jumped ahead, or memoryd did not run for days: expired memories are not"
                " deleted until the clock is known to be right.",
                code="clock_doubted",
                hint="If date and time are right, run: memoryd sweep --now",
            )
        return await self.cleanup_expired()

    async def note_clock(self) -> None:
        """Record the time for the next start."""
        await self._guard.believed_now()

    def _newest_memory(self, now: float) -> float | None:
        made = self._parts.index.created()
        return float(made[made <= now].max()) if (made <= now).any() else None

    async def cleanup_expired(self, now: float | None = None) -> int:
        """Delete all memories that expired by `now`, batch by batch; how many."""
        deleted, batch = 0, self._parts.memory.cleanup_batch
        now = self._parts.clock() if now is None else now
        passed: set[str] = set()  # renewed meanwhile, pinned, or failed: do not try again
        while True:
            found = await self._parts.store.expired(now, batch + len(passed))
            due = [id for id in found if id not in passed][:batch]
            if not due:
                return deleted
            gone = await self._drop_expired(due, now)
            deleted += len(gone)
            passed.update(id for id in due if id not in gone)

    async def _drop_expired(self, due: list[str], now: float) -> set[str]:
        """Delete these; the deleted ids. One that cannot be deleted does not block the others."""
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
        """`cleanup_expired` for the loop: deletes nothing while the clock may be wrong."""
        self._believed = now = await self._guard.believed_now()
        return 0 if now is None else await self.cleanup_expired(now)

    async def deprecate(self) -> int:
        """Mark memories that are deprecated, and delete those whose time is over; how many. Does
        nothing while the clock may be wrong."""
        if self._believed is None:
            return 0
        marked = await self._lifecycle.mark_deprecated(self._believed)
        return marked + await self._lifecycle.drop_deprecated(self._believed)

    async def embed_pending(self) -> int:
        """Embed the memories that have no vector; how many have one now. Ends early if the model's
        server fails."""
        embedding = self._parts.embedding
        waiting = self._parts.index.pending_ids() if embedding.encoder else []
        for start in range(
            0, len(waiting), GROUP
        ):  # in parallel, so that they share batches and commits
            if embedding.outage.error is not None:
                break
            async with task_group() as tasks:
                for id in waiting[start : start + GROUP]:
                    tasks.start_soon(self._memories.embed_pending, id)
        return sum(not self._parts.index.is_pending(id) for id in waiting)

    async def embed_after_outages(self) -> None:
        """Embed what was stored during an outage of the model, whenever one ends."""
        while True:
            await self._parts.embedding.recovered()
            await self._run(self.embed_pending)

    async def purge(self) -> None:
        """Rewrite all files that hold memories, so that none holds deleted data."""
        if self.doubt is None:
            await self.cleanup_expired()
        self._parts.snapshots.clear()
        await self._parts.store.purge()
        await self._parts.snapshots.save()

    async def compact(self) -> int:
        """Compact the store if enough was deleted; how many memories it holds, 0 if not done."""
        return len(self._parts.index) if await self._parts.store.compact() else 0

    async def backup(self) -> Backup:
        """Make a backup now."""
        settings = self._parts.backup
        at = self._parts.clock()
        made = await self._parts.store.backup(self._folder, settings.keep, at=at)
        assert made is not None
        return made

    async def backup_if_due(self) -> int:
        """Make a backup if the newest is old and something changed; how many memories it holds."""
        hours, newest = self._parts.backup.every_hours, await self.newest_backup()
        if not hours or await self._backup_age(newest) < hours * HOUR:
            return 0
        if newest is None and not self._is_settled():
            return 0  # it would hold a memory or two, and be the only one for a day
        keep, at = self._parts.backup.keep, self._parts.clock()
        made = await self._parts.store.backup(self._folder, keep, if_changed=True, at=at)
        return (made.memories or 0) if made else 0

    async def _backup_age(self, newest: Backup | None) -> float:
        """Seconds since the newest backup. If that is dated in the future, since the newest one
        that is not; without one, since the start of this daemon."""
        now = self._parts.clock()
        if newest is not None and newest.created_at > now:
            newest = await self._parts.store.newest_backup(self._folder, until=now)
            if newest is None:
                return self._parts.monotonic() - self._started
        return now - newest.created_at if newest else math.inf

    def _is_settled(self) -> bool:
        """Whether the oldest memory is older than `SETTLED`; without any in RAM, this daemon."""
        if not len(self._parts.index):
            return self._parts.monotonic() - self._started > SETTLED
        oldest = float(self._parts.index.created().min(initial=math.inf))
        return oldest < self._parts.clock() - SETTLED

    async def all_backups(self) -> tuple[Path, list[Backup]]:
        """The folder of the backups, and those in it, newest first."""
        return self._folder, await self._parts.store.all_backups(self._folder)

    async def newest_backup(self) -> Backup | None:
        return await self._parts.store.newest_backup(self._folder)

    @property
    def _folder(self) -> Path:
        return self._parts.backup.folder(self._parts.memory.path)

    def backup_folder(self, named: str | None) -> Path:
        """The folder for a backup: the given one, else the configured one. Raises InvalidInput."""
        if named is None:
            return self._folder
        folder = Path(checks.label(named, "folder") or "")
        if not folder.is_absolute():
            raise InvalidInput("The folder must be an absolute path.", code="folder_invalid")
        return folder

    async def run(self) -> None:
        """Run all jobs now, then every `cleanup_interval`. A failure is logged and retried."""
        with stage("sweep"):  # the last stage of a start, beside the calls
            await self._run_each(self._jobs())
        await anyio.sleep(FIRST_BACKUP)
        await self._run(self.backup_if_due)
        while True:
            await anyio.sleep(self._parts.memory.cleanup_interval)
            await self.tick()

    async def tick(self) -> None:
        """Run every job once."""
        await self._run_each((*self._jobs(), self.backup_if_due))

    def _jobs(self) -> Jobs:
        """All but the backup."""
        return (
            self.cleanup_if_believed,
            self._lifecycle.write_uses,
            self.deprecate,
            self._chains.mend_relations,
            self.embed_pending,
            self._staleness.check_files,
            self.compact,
        )

    async def _run_each(self, jobs: Jobs) -> None:
        for job in jobs:
            await self._run(job)

    async def _run(self, job: Callable[[], Awaitable[int]]) -> None:
        name, began = getattr(job, "__name__", "job"), time.perf_counter()
        try:
            if done := await job():
                took = round(1000 * (time.perf_counter() - began), 1)
                log.info("upkeep", job=name, memories=done, ms=took)
        except MemorydError as exc:
            log.warning("upkeep_failed", job=name, code=exc.code)
