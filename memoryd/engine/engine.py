"""The engine: one object with every operation, open inside a block."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import tzinfo
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import anyio

from memoryd.engine.clock_guard import NoRecord
from memoryd.engine.embedding import Embedding
from memoryd.engine.exports import Exported, Exporter
from memoryd.engine.former import Former, Stock
from memoryd.engine.governance import Governance
from memoryd.engine.handles import Handles, memory_handles, session_handles
from memoryd.engine.imports import Arrival, Imports
from memoryd.engine.index import Index
from memoryd.engine.parts import Parts
from memoryd.engine.recall import Recall
from memoryd.engine.snapshot import NoShelf, Snapshots
from memoryd.engine.upkeep import Upkeep
from memoryd.engine.windows import Window, Windows
from memoryd.model import DAY, MICRO, Lifetimes, Memory, Stored
from memoryd.ports import Backup, ClockRecord, Encoder, Passage, Reranker, Shelf, Store, Watch
from memoryd.settings import Config, MemorySettings
from memoryd.tasks import task_group


class Engine(Governance, Imports, Recall):
    """Everything a door can ask for."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._upkeep = Upkeep(parts, self)
        self._windows = Windows(parts, self)
        self._exporter = Exporter(parts)

    @property
    def zone(self) -> tzinfo | None:
        """The time zone that days and times are told in; None: the system's."""
        return self._parts.lifetimes.zone

    async def add_turn(
        self, role: str, content: str, session_id: str, speaker: str | None = None
    ) -> Stored:
        """Store one message of a conversation and put it into its session's window."""
        return await self._windows.add_turn(role, content, session_id, speaker)

    async def context_window(self, session_id: str, max_turns: int | None = None) -> Window:
        """The last messages of a session, oldest first."""
        return await self._windows.window(session_id, max_turns)

    async def clear_window(self, session_id: str) -> int:
        """Empty a session's window; the memories remain. How many messages it held."""
        return await self._windows.clear(session_id)

    async def memory_handles(self, prefix: str, most: int) -> Handles:
        """Names and ids of memories that begin with `prefix`."""
        return await memory_handles(self._parts, prefix, most)

    async def session_handles(self, prefix: str, most: int) -> Handles:
        """Ids of sessions that begin with `prefix`."""
        return await session_handles(self._parts, prefix, most)

    async def export_page(self, after: str | None = None) -> Exported:
        """A page of all memories with their vectors, in the order of their ids."""
        return await self._exporter.page(after)

    async def take_in(
        self, memory: Memory, passages: tuple[Passage, ...] = (), *, overwrite: bool = False
    ) -> Arrival:
        """Keep a memory of an export as it was; its session's window is read anew."""
        arrived = await super().take_in(memory, passages, overwrite=overwrite)
        if memory.session_id is not None and arrived.changed:
            self._windows.drop(memory.session_id)
        return arrived

    @property
    def model(self) -> tuple[str, int] | None:
        """The model that serves, and how many numbers its vectors have."""
        encoder = self._parts.embedding.encoder
        return (encoder.model, encoder.dimension) if encoder else None

    @property
    def max_content_bytes(self) -> int:
        return self._parts.memory.max_content_bytes

    def state(self) -> dict[str, Any]:
        """Counts and model, for status."""
        index, encoder = self._parts.index, self._parts.embedding.encoder
        former = self._parts.embedding.former
        counts, next_expiry = index.census(self._parts.clock())
        return {
            "memories": {str(type): count for type, count in counts.items()},
            "next_expiry": next_expiry,
            "clock_doubt": asdict(doubt) if (doubt := self._upkeep.doubt) else None,
            "sessions": len(self._windows),
            "pending_vectors": index.pending,
            "model": encoder.model if encoder else None,
            "former_model": former.model if former else None,
            "model_trouble": None if encoder else self._parts.embedding.trouble(),
        }

    async def store_status(self) -> Mapping[str, object]:
        """Facts about the store and its newest backup."""
        newest = await self._upkeep.newest_backup()
        facts = dict(await self._parts.store.status())
        return facts | ({"backup": newest.path, "backup_at": newest.created_at} if newest else {})

    async def backup(self) -> Backup:
        """A backup now, verified; the oldest of those that are there may go for it."""
        return await self._upkeep.backup()

    async def audit(self) -> dict[str, int]:
        """How many memories index and store hold: the same, while nothing is written."""
        return {"index": len(self._parts.index), "store": await self._parts.store.count()}

    async def purge(self) -> None:
        """Have no byte of what was forgotten, replaced or expired in any file but backups."""
        await self._upkeep.purge()

    async def sweep(self, *, clock_is_right: bool = False) -> int:
        """Delete what is due, unless the clock may be wrong; how many memories that were."""
        return await self._upkeep.sweep(clock_is_right=clock_is_right)

    async def note_clock(self) -> None:
        """Keep the time for the next start."""
        await self._upkeep.note_clock()

    async def cleanup_expired(self) -> int:
        """Delete what is due, now; how many memories that were."""
        return await self._upkeep.cleanup_expired()

    @property
    def count(self) -> int:
        """How many memories there are, expired ones that wait for the sweep included."""
        return len(self._parts.index)

    async def keep_up(self) -> None:
        """The work in the background."""
        await self._upkeep.run()

    def attach(self, encoder: Encoder) -> None:
        """A model has arrived: from now on it serves."""
        self._parts.embedding.attach(encoder)

    def keep_former(self, shelf: Shelf) -> None:
        """Where vectors of a former model are kept, to be removed when they have served."""
        self._parts.embedding.former_shelf = shelf

    async def lend(self, former: Former, stock: Stock) -> None:
        """Search by the former model until the new one has made all vectors."""
        self._parts.embedding.former = former  # first, so that it hears of all that goes meanwhile
        try:
            await former.take_up(self._parts.index, stock)
        except BaseException:
            self._parts.embedding.former = None  # or searches would wait for it for ever
            raise

    async def cover(self, former: Former) -> None:
        """Have the former model make vectors of what came after it."""
        await former.cover(self._parts.index)

    def attach_reranker(self, reranker: Reranker | None, trouble: str = "") -> None:
        """A second look at the first results from now on; or why there is none."""
        self._parts.embedding.reranker = reranker
        self._parts.embedding.rerank_trouble = trouble

    async def embed_all_pending(self) -> int:
        """Give vectors to what was stored without a model; how many memories that were."""
        return await self._upkeep.embed_pending()

    def without_model(self, why: Callable[[], str]) -> None:
        """Say `why` in every answer until a model is attached."""
        self._parts.embedding.trouble = why


@asynccontextmanager
async def run_engine(
    config: Config,
    store: Store,
    encoder: Encoder | None,
    dimension: int,
    clock: Callable[[], float] = time.time,
    shelf: Shelf | None = None,
    model: str = "",
    watch: Watch | None = None,
    clock_record: ClockRecord | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Engine]:
    """Load the index from the store, then serve inside the block.

    `shelf` keeps a snapshot of the index between starts, good for the vectors of `model`.
    `watch` is told how far the loading is. `clock_record` keeps the time that was seen last.
    """
    embedding = Embedding(config.embedding, encoder)
    exact = config.search.exact_limit if config.store.mode == "embedded" else 0
    index = Index(dimension, exact_limit=exact)
    snapshots = Snapshots(index, shelf or NoShelf(), {"model": model, "dimension": dimension})
    await snapshots.load(store, watch)
    rules = (lifetimes_of(config.memory), config.memory, config.search)
    ticks = partial(_now, clock, not config.memory.timezone)
    time_kept = (monotonic, clock_record or NoRecord())
    parts = Parts(store, index, embedding, ticks, *rules, snapshots, config.backup, *time_kept)
    engine = Engine(parts)
    try:
        async with task_group() as tasks:
            tasks.start_soon(embedding.run)
            tasks.start_soon(engine.keep_up)
            tasks.start_soon(snapshots.keep_current)
            yield engine
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await engine.note_clock()
            await snapshots.save_at_end()


def _now(clock: Callable[[], float], in_system_zone: bool) -> float:
    """The time to the microsecond. Every operation asks for it first, so a system that has moved to
    another time zone is noticed here: the C library looks only when it is told to."""
    if in_system_zone and sys.platform != "win32":
        time.tzset()
    return round(clock(), MICRO)


def lifetimes_of(settings: MemorySettings) -> Lifetimes:
    """The expiry rules as configured."""
    zone = ZoneInfo(settings.timezone) if settings.timezone else None
    return Lifetimes(conversation=settings.conversation_days * DAY, zone=zone)
