"""The engine: one object with every operation, and the block that runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import asdict
from datetime import tzinfo
from functools import partial
from typing import Any

from memoryd.engine.ask.ask import Ask
from memoryd.engine.audiences import audiences_of
from memoryd.engine.bulk_change import BulkChange
from memoryd.engine.bulk_forget import BulkForget
from memoryd.engine.bulk_import import BulkImports
from memoryd.engine.census import Censuses
from memoryd.engine.chains import Chains
from memoryd.engine.details import Details
from memoryd.engine.following import Following
from memoryd.engine.handles import memory_handles, session_handles
from memoryd.engine.lifecycle.jobs import LifecycleJobs
from memoryd.engine.lifecycle.review import Review
from memoryd.engine.lifecycle.staleness import Staleness
from memoryd.engine.lifecycle.uses import Uses
from memoryd.engine.listing import Listing
from memoryd.engine.map.map import Map
from memoryd.engine.memories import Memories
from memoryd.engine.mirror.blocks import Blocks
from memoryd.engine.mirror.mirror import Mirror
from memoryd.engine.models.model_change import ModelChange
from memoryd.engine.offline.queue import OfflineQueue
from memoryd.engine.parts import Parts
from memoryd.engine.projects import Projects
from memoryd.engine.push.file_notes import FileNotes
from memoryd.engine.push.hooks import Hooks
from memoryd.engine.push.intake import Intake
from memoryd.engine.push.pushes import Pushes
from memoryd.engine.push.relevant import Relevant
from memoryd.engine.rescue import Rescue
from memoryd.engine.search.search import Search
from memoryd.engine.sessions.brief import Briefs
from memoryd.engine.sessions.compaction import Compaction
from memoryd.engine.sessions.digest import Digests
from memoryd.engine.sessions.durable import Durable
from memoryd.engine.sessions.facts import Facts
from memoryd.engine.sessions.notes import Notes
from memoryd.engine.sessions.recall import Recall
from memoryd.engine.sessions.records import Records
from memoryd.engine.sessions.sessions import Sessions
from memoryd.engine.sessions.working_memory import WorkingMemories
from memoryd.engine.takeover import Takeover
from memoryd.engine.transfer import Exporter, Imports
from memoryd.engine.updates import Updates
from memoryd.engine.upkeep import Upkeep
from memoryd.engine.windows import Windows
from memoryd.model import Memory
from memoryd.ports import (
    Backup,
    ChangeFeed,
    Encoder,
    FileHistory,
    NextStore,
    Reranker,
)
from memoryd.settings import StoreSettings


class Engine:
    """Every operation that a door can call. Each is a method of the part that does it."""

    def __init__(self, parts: Parts, history: FileHistory | None = None) -> None:
        """`history`: knows which files of a project have changed."""
        self._parts = parts
        self._change: ModelChange | None = None
        self._following: Following | None = None

        self._memories = memories = Memories(parts)
        self.store = memories.store
        self.get = memories.get
        self.forget = memories.forget
        self.remember_fact = memories.remember_fact
        self.remember_conversation = memories.remember_conversation
        self.set_context = memories.set_context
        self.get_context = memories.get_context

        chains = Chains(parts, memories)
        self.chain = chains.chain

        self.projects = Projects(parts)
        self.censuses = Censuses(parts)
        self.map = Map(parts)

        uses = Uses()
        lifecycle = LifecycleJobs(parts, memories, uses)
        self.count_uses = lifecycle.count_uses
        self.write_uses_at_end = lifecycle.write_uses_at_end

        listing = Listing(parts, uses)
        self.list_memories = listing.list_memories
        search = Search(parts, listing)
        self.search = search.search
        self.ask = Ask(parts, search).ask
        self.memory_handles = partial(memory_handles, parts)
        self.session_handles = partial(session_handles, parts)

        self._updates = updates = Updates(parts, memories)
        self.update_memory = updates.update_memory
        self.bulk = BulkChange(parts, memories, updates)
        self.review = Review(parts, memories, updates, uses).review

        self.notes = Notes(parts, memories, updates)

        self._compose_sessions(memories, updates, search, listing)
        self.details = Details(parts, memories, chains, uses, self.pushes)

        staleness = Staleness(parts, uses, history)
        self._upkeep = upkeep = Upkeep(parts, memories, chains, lifecycle, staleness)
        self.backup = upkeep.backup
        self.newest_backup = upkeep.newest_backup
        self.all_backups = upkeep.all_backups
        self.sweep = upkeep.sweep
        self.cleanup_expired = upkeep.cleanup_expired
        self.embed_all_pending = upkeep.embed_pending
        self.note_clock = upkeep.note_clock
        self.keep_up = upkeep.run
        self.embed_after_outages = upkeep.embed_after_outages

        self._open_transfer(memories)
        self.takeover: Mapping[str, object] | None = None  # facts for `status`, set by the wiring

    def _open_transfer(self, memories: Memories) -> None:
        """The operations on many memories: forget, export and import."""
        bulk = BulkForget(self._parts, memories, self.purge)
        self.selection = bulk.selection
        self.forget_where = bulk.forget_where
        self.export_page = Exporter(self._parts).page
        imports = Imports(self._parts, self._windows.drop)
        bulk_imports = BulkImports(self._parts, imports, self._windows.drop)
        self.import_memory = imports.import_memory
        self.import_memories = bulk_imports.import_memories
        self.known_facts = imports.known_facts
        self.import_rows = Takeover(self._parts, self.import_memories).import_rows

    def _compose_sessions(
        self, memories: Memories, updates: Updates, search: Search, listing: Listing
    ) -> None:
        """The parts for sessions and hooks."""
        parts = self._parts
        self.working_memories = WorkingMemories(parts, memories)
        durable = Durable(parts)
        recall = Recall(parts, search, listing, self.working_memories, durable)
        self.recall = recall.recall
        self.brief = Briefs(parts, search, listing).brief

        self.records = Records(parts, memories, updates)
        facts = Facts(parts, memories, updates)
        digests = Digests(parts, memories, durable)
        self.compaction = Compaction(parts, self.records, self.notes, facts, durable, digests)
        self.mirror = Mirror(parts, memories, updates, durable)
        self.blocks = Blocks(parts, durable)
        parts.after_drop = self._erase_copies

        self._windows = windows = Windows(parts, memories, updates, self.compaction.after_turn)
        self.add_turn = windows.add_turn
        self.context_window = windows.window
        self.clear_window = windows.clear
        self.sessions = Sessions(parts, self.records, windows, self.compaction, recall)

        self.pushes = Pushes(parts, self.records)
        finish = (self.compaction.consolidate, self.sessions.sleep)
        self.intake = Intake(parts, self.records, windows, *finish)
        self.hooks = Hooks(
            parts,
            recall,
            Relevant(parts, search),
            FileNotes(parts, listing, search),
            self.pushes,
            self.intake,
            self.count_uses,
        )

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of days and shown times; None: the system's."""
        return self._parts.lifetimes.zone

    def now(self) -> float:
        """The time, in epoch seconds."""
        return self._parts.clock()

    @property
    def backup_hours(self) -> float:
        """Hours between two backups; 0: none are made by themselves."""
        return self._parts.backup.every_hours

    @property
    def backups_kept(self) -> int:
        """How many backups are kept."""
        return self._parts.backup.keep

    def operation(self, name: str) -> AbstractAsyncContextManager[object]:
        """The block of a call by a door. Raises MemorydError if the engine does not offer it."""
        return nullcontext()

    def all_memories(self) -> list[Memory]:
        """Every memory, expired ones too; they must not be changed."""
        return list(self._parts.index)

    @property
    def model(self) -> tuple[str, int] | None:
        """The current model and the dimension of its vectors; None without a model."""
        encoder = self._parts.embedding.encoder
        return (encoder.model, encoder.dimension) if encoder else None

    @property
    def max_content_bytes(self) -> int:
        return self._parts.memory.max_content_bytes

    def store_trouble(self) -> str:
        return self._parts.store_trouble()

    def state(self) -> dict[str, Any]:
        """Counts and model, for `status`."""
        index, encoder = self._parts.index, self._parts.embedding.encoder
        counts, next_expiry = index.census(self._parts.clock())
        return {
            "memories": {str(type): count for type, count in counts.items()},
            "next_expiry": next_expiry,
            "clock_doubt": asdict(doubt) if (doubt := self._upkeep.doubt) else None,
            "sessions": len(self._windows),
            "pending_vectors": index.pending,
            "search_way": index.search_way,
            "embedding_backend": self._parts.embedding.settings.backend,
            "model": encoder.model if encoder else None,
            "model_trouble": self._parts.embedding.trouble() or None,
            "model_change": asdict(self._change.state()) if self._change else None,
            "llm": self._parts.language.name,
            "llm_trouble": self._parts.language.trouble or None,
            "takeover": self.takeover,
            "shared_store": self._following.state() if self._following else None,
            "mirror": self.mirror.state(),
            "blocks": self.blocks.state(),
        }

    async def store_status(self) -> Mapping[str, object]:
        """Facts about the store and its newest backup."""
        newest = await self.newest_backup()
        facts = dict(await self._parts.store.status())
        return facts | ({"backup": newest.path, "backup_at": newest.created_at} if newest else {})

    async def purge(self) -> None:
        """Rewrite all files that hold memories, so that none holds deleted data."""
        change = self._change
        await self._upkeep.purge()
        if change is not None and not await change.purge():
            await self._upkeep.purge()  # the store that is live now was not purged yet
        await self.mirror.purge()
        await self.blocks.purge()

    async def _erase_copies(self, ids: Collection[str]) -> None:
        """Take deleted memories out of the files for people."""
        await self.mirror.erase(ids)
        await self.blocks.erase(ids)

    async def rescue(self, folder: str | None = None) -> Backup:
        """Write all memories in RAM to a verified backup, in `folder` if given, and restore the
        store from it. Raises StoreError if the store still works."""
        return await Rescue(self._parts).run(self._upkeep.backup_folder(folder))

    async def audit(self) -> dict[str, int]:
        """How many memories index and store hold; equal while nothing is written."""
        return {"index": len(self._parts.index), "store": await self._parts.store.count()}

    @property
    def count(self) -> int:
        """How many memories there are, including expired ones that wait for the sweep."""
        return len(self._parts.index)

    @property
    def pending_vectors(self) -> int:
        """How many memories have no vector."""
        return self._parts.index.pending

    def has(self, id: str) -> bool:
        """Whether there is a memory with this id, expired or not."""
        return self._parts.index.slot(id) is not None

    def attach(self, encoder: Encoder) -> None:
        """Use this model from now on."""
        self._parts.embedding.attach(encoder)

    @asynccontextmanager
    async def changing_model(
        self, next_store: NextStore, to: str, trouble: Callable[[], str]
    ) -> AsyncIterator[ModelChange]:
        """Inside the block `status` shows a change to the model `to`, which the block loads and
        runs; `trouble` says why it is not loaded yet."""
        self._change = change = ModelChange(self._parts, next_store, to, trouble)
        try:
            yield change
        finally:
            self._change = None

    def attach_reranker(self, reranker: Reranker | None, trouble: str = "") -> None:
        """Rerank the top results from now on; without a reranker, `trouble` says why."""
        self._parts.reranking.attach(reranker, trouble)

    def follow(self, feed: ChangeFeed, settings: StoreSettings, queue: OfflineQueue | None) -> None:
        """Follow what other daemons do to the store, from the start of the jobs on."""
        self._parts.audiences = audiences_of(settings)
        drop, pause = self._windows.drop, settings.poll_seconds
        self._following = Following(self._parts, feed, self._memories, pause, drop, queue)

    def jobs(self) -> tuple[Callable[[], Coroutine[Any, Any, None]], ...]:
        """What runs in the background as long as the engine does."""
        parts = self._parts
        return (
            *(parts.embedding.run, parts.reranking.run, self.keep_up),
            *(self.embed_after_outages, parts.snapshots.keep_current, self.compaction.run),
            *(self.pushes.run, self.intake.run, self.mirror.run, self.blocks.run, self.map.run),
            *([self._following.run] if self._following else []),
        )

    def without_model(self, why: Callable[[], str]) -> None:
        """Use `why` for the warning in every answer until a model is attached."""
        self._parts.embedding.why_missing = why
