"""Background work of a daemon without an index: delete what has expired, embed what was stored
without a model, settle names that two daemons gave away at the same moment, compact and back up the
private memories, and notice whether the server can be reached."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import structlog

from memoryd.audience import Scope, is_private, scope_of
from memoryd.engine.following import GRACE
from memoryd.engine.memories import Memories
from memoryd.engine.parts import Parts
from memoryd.engine.thin.working_set import WorkingSet
from memoryd.engine.upkeep import GROUP, Upkeep
from memoryd.errors import MemorydError
from memoryd.model import Memory
from memoryd.ports import Record
from memoryd.queries import Conditions, Queries
from memoryd.tasks import task_group

log = structlog.get_logger()
MAX_NAMES = 10_000  # names that wait for a check
RIVALS = 50  # memories with one name


class ThinJobs:
    """The jobs and their loop."""

    def __init__(
        self,
        parts: Parts,
        queries: Queries,
        working_set: WorkingSet,
        memories: Memories,
        upkeep: Upkeep,
    ) -> None:
        self._parts, self._queries, self._working_set = parts, queries, working_set
        self._memories, self._upkeep = memories, upkeep
        self._names: dict[str, float] = {}  # when each was stored under

    def check_name(self, name: str) -> None:
        """Look later whether another daemon has stored under this name at the same moment."""
        if len(self._names) < MAX_NAMES:
            self._names[name] = self._parts.monotonic()

    async def run(self, poll_seconds: float) -> None:
        """Run all jobs until cancelled. A failure is logged and retried."""
        upkeep, next_sweep = self._upkeep, 0.0
        while True:
            await self._queries.check()
            await self._try(self._settle_names)
            if self._parts.monotonic() >= next_sweep:
                for job in (
                    upkeep.cleanup_if_believed,
                    self.embed_pending,
                    upkeep.compact,
                    upkeep.backup_if_due,
                ):
                    await self._try(job)
                next_sweep = self._parts.monotonic() + self._parts.memory.cleanup_interval
            await anyio.sleep(poll_seconds)

    async def _try(self, job: Callable[[], Awaitable[object]]) -> None:
        try:
            await job()
        except MemorydError as exc:
            log.warning("upkeep_failed", job=getattr(job, "__name__", "job"), code=exc.code)

    async def embed_pending(self) -> int:
        """Embed the memories that have no vector; how many were tried. Ends early if the model
        fails."""
        embedding, tried = self._parts.embedding, set[str]()
        while embedding.encoder is not None and embedding.outage.error is None:
            async with self._working_set.operation():
                found = await self._queries.find(Conditions(pending=True), limit=len(tried) + GROUP)
                due = [id for id in found if id not in tried]
                if not due:
                    break
                tried.update(due)
                await self._working_set.load(due)
                async with task_group() as tasks:
                    for id in due:
                        tasks.start_soon(self._memories.embed_pending, id)
        return len(tried)

    async def _settle_names(self) -> None:
        now = self._parts.monotonic()
        for name in [name for name, at in self._names.items() if now - at >= GRACE]:
            await self._keep_last(name)
            self._names.pop(name, None)

    async def _keep_last(self, name: str) -> None:
        """Of the memories with this name that the same people see, remove all but the one that was
        written last; see `engine.following`."""
        ids = await self._queries.find(Conditions(name=name), limit=RIVALS)
        if len(ids) < 2:
            return
        rivals: dict[Scope, list[Record]] = {}
        for record in await self._queries.get(ids):
            if record.memory.name == name and not is_private(record.memory):
                rivals.setdefault(scope_of(record.memory), []).append(record)
        for scope, found in rivals.items():
            last = max(found, key=lambda record: (record.clock, record.memory.id))
            losers = [record.memory.id for record in found if record is not last]
            if losers:
                await self._drop_losers(losers, name, scope)

    async def _drop_losers(self, ids: list[str], name: str, scope: Scope) -> None:
        def is_rival(memory: Memory | None) -> bool:
            return memory is not None and (memory.name, scope_of(memory)) == (name, scope)

        async with self._working_set.operation():
            gone = await self._memories.drop_if(ids, is_rival)
        log.info("name_settled", removed=len(gone))
