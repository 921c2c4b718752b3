"""The engine of a daemon without an index: every operation reads what it needs from the stores."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, cast

import anyio

from memoryd.audience import is_private
from memoryd.engine.audiences import audiences_of
from memoryd.engine.bulk_import import ImportMemories
from memoryd.engine.clock_guard import NoRecord
from memoryd.engine.engine import Engine
from memoryd.engine.handles import Handles
from memoryd.engine.index.index import Index
from memoryd.engine.index.snapshot import NoSnapshotFile, Snapshots
from memoryd.engine.models.embedding import Embedding
from memoryd.engine.models.language import Language
from memoryd.engine.parts import Parts, lifetimes_of, now_in_zone
from memoryd.engine.takeover import Takeover
from memoryd.engine.thin.corpus import Corpora
from memoryd.engine.thin.jobs import ThinJobs
from memoryd.engine.thin.recall import ThinRecall
from memoryd.engine.thin.refused import OFFERED, Refused, refusal
from memoryd.engine.thin.search import CandidateSearch
from memoryd.engine.thin.source import ThinSource
from memoryd.engine.thin.working_set import WorkingSet
from memoryd.engine.transfer import Arrival
from memoryd.engine.windows import Windows
from memoryd.errors import InvalidInput
from memoryd.model import Memory, Stored
from memoryd.ports import ClockRecord, Record, Store
from memoryd.queries import Conditions, Queries
from memoryd.settings import Config
from memoryd.tasks import task_group

ONLY_PRIVATE = " Only private memories are found, and can be stored."


class ThinEngine(Engine):
    """The operations that work without an index; the others raise NeedsFullIndex."""

    def __init__(self, parts: Parts, queries: Queries, dimension: int, poll_seconds: float) -> None:
        super().__init__(parts)
        self._queries = queries
        self._working_set = working_set = WorkingSet(parts, queries)
        self._corpora = Corpora(queries, dimension, parts.monotonic)
        search = CandidateSearch(queries, self._corpora, parts.search, dimension)
        # Without compaction, which looks at whole sessions.
        self._windows = windows = Windows(parts, self._memories, self._updates)
        self._open_transfer(self._memories)
        source = ThinSource(parts, queries, working_set, search, windows.drop)
        parts.source = source
        recall = ThinRecall(parts, queries, source, self._memories)
        parts.catch_up, parts.store_trouble = working_set.refresh, self._told_trouble
        self._jobs = ThinJobs(parts, queries, working_set, self._memories, self._upkeep)
        self._poll_seconds = poll_seconds
        self._scope_operations(working_set, windows)
        self._refuse()
        self.recall = recall.recall

    def _scope_operations(self, working_set: WorkingSet, windows: Windows) -> None:
        """Make every offered operation keep what it has read until its end."""
        scoped = working_set.scoped
        self.store = scoped(self._store_named(self.store))
        self.get, self.forget = scoped(self.get), scoped(self.forget)
        self.update_memory, self.chain = scoped(self.update_memory), scoped(self.chain)
        self.add_turn = scoped(windows.add_turn)
        self.context_window = scoped(windows.window)
        self.clear_window = scoped(windows.clear)
        self.import_memory = scoped(self.import_memory)
        self.import_memories = self._import_named(self.import_memories)
        self.import_rows = Takeover(self._parts, self.import_memories).import_rows
        self.embed_all_pending = self._jobs.embed_pending

    def _store_named(
        self, store: Callable[..., Coroutine[Any, Any, Stored]]
    ) -> Callable[..., Coroutine[Any, Any, Stored]]:
        """`store` that remembers the name: another daemon may have used it at the same moment."""

        async def run(*args: Any, **options: Any) -> Stored:
            stored = await store(*args, **options)
            if stored.memory.name is not None and not is_private(stored.memory):
                self._jobs.check_name(stored.memory.name)
            return stored

        return run

    def _import_named(self, import_memories: ImportMemories) -> ImportMemories:
        """`import_memories` that remembers the names, for the same reason."""

        async def run(records: Iterable[Record], **options: Any) -> list[Arrival | InvalidInput]:
            asked = list(records)
            async with self._working_set.operation():
                outcomes = await import_memories(asked, **options)
                found = (self._parts.index.get(one.memory.id) for one in asked)
                for name in {one.name for one in found if one and not is_private(one)} - {None}:
                    self._jobs.check_name(str(name))
            return outcomes

        return run

    def _refuse(self) -> None:
        """Put `Refused` in the place of everything that looks at all memories."""
        names = {
            "ask": "An answer to a question",
            "brief": "A brief",
            "export_page": "An export",
            "forget_where": "Forgetting by a filter",
            "hooks": "A hook",
            "known_facts": "This import",
            "map": "The map",
            "notes": "A list of notes",
            "projects": "A list of projects",
            "rescue": "A rescue",
            "review": "A review",
            "selection": "Forgetting by a filter",
            "sessions": "A list of sessions",
        }
        for name, what in names.items():
            setattr(self, name, Refused(what))
        revision = self._parts.index.changes
        self.censuses = cast(Any, Refused("A count of all memories", revision=revision))
        self.count_uses = _count_nothing
        for name in ("memory_handles", "session_handles"):
            setattr(self, name, _no_handles)

    def operation(self, name: str) -> AbstractAsyncContextManager[object]:
        if name not in OFFERED:
            raise refusal(f"`{name}`")
        return self._working_set.operation()

    def all_memories(self) -> list[Memory]:
        raise refusal("This")

    @property
    def count(self) -> int:
        """How many rows the collection had at the last search."""
        return self._corpora.rows

    def state(self) -> dict[str, Any]:
        """As for every engine, but without counts of memories."""
        known = super().state()
        known |= {"memories": {}, "search_way": "remote", "next_expiry": None}
        return known | {"shared_store": {"trouble": self._queries.trouble or None}}

    def _told_trouble(self) -> str:
        trouble = self._queries.trouble
        return f"{trouble}{ONLY_PRIVATE}" if trouble else ""

    def jobs(self) -> tuple[Callable[[], Coroutine[Any, Any, None]], ...]:
        parts = self._parts
        run = partial(self._jobs.run, self._poll_seconds)
        return (parts.embedding.run, parts.reranking.run, run, self.embed_after_outages)


def _count_nothing(ids: Iterable[str]) -> None:
    """Uses are not counted: each would be another write to the server."""


async def _no_handles(prefix: str, most: int) -> Handles:
    return Handles((), 0)


@asynccontextmanager
async def run_thin_engine(
    config: Config,
    store: Store,
    queries: Queries,
    dimension: int,
    clock: Callable[[], float] = time.time,
    clock_record: ClockRecord | None = None,
) -> AsyncIterator[Engine]:
    """Run the engine inside the block. Nothing is loaded."""
    index = Index(dimension, keep_vectors=False)
    snapshots = Snapshots(index, NoSnapshotFile(), {})
    ticks = partial(now_in_zone, clock, not config.memory.timezone)
    # The newest memory tells whether the clock can be trusted, if nothing else does.
    newest = await queries.newest(Conditions(), ticks(), None, 1)
    for record in await queries.get([id for _, id in newest]):
        index.put(record)
    parts = Parts(
        store,
        index,
        Embedding(config.embedding, None),
        ticks,
        lifetimes_of(config.memory),
        config.memory,
        config.search,
        snapshots,
        config.backup,
        config.lifecycle,
        config.sessions,
        clock_record=clock_record or NoRecord(),
    )
    parts.language = Language(config.llm, None, None)
    parts.audiences = audiences_of(config.store)
    engine = ThinEngine(parts, queries, dimension, config.store.poll_seconds)
    try:
        async with task_group() as tasks:
            for job in engine.jobs():
                tasks.start_soon(job)
            yield engine
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await engine.note_clock()
