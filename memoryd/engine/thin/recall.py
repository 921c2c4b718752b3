"""The recall of a daemon without an index.

A recall chooses the facts that every prompt has from all facts. Here it chooses from those that the
server can name: the pinned ones and the newest. Messages, working memory, recaps and the moments
that match the hint are the same as with an index.
"""

from __future__ import annotations

from typing import Any

from memoryd.engine import checks
from memoryd.engine.lifecycle.uses import Uses
from memoryd.engine.listing import Listing
from memoryd.engine.memories import Memories
from memoryd.engine.parts import Parts
from memoryd.engine.search.search import Search
from memoryd.engine.sessions.durable import Durable, digest_name
from memoryd.engine.sessions.recall import Recall, Recalled
from memoryd.engine.sessions.records import find_record, markers_of
from memoryd.engine.sessions.working_memory import WorkingMemories
from memoryd.engine.thin.source import ThinSource
from memoryd.engine.turn_keys import is_message, order_of
from memoryd.engine.windows import session_label
from memoryd.fields import PROJECT
from memoryd.model import MemoryType, Page
from memoryd.queries import Conditions, Queries

NEWEST_FACTS, PINNED_FACTS = 150, 100  # from which those of a recall are chosen
SPARE_MESSAGES = 20  # of a session, besides those that are shown: some may not be


class ThinRecall:
    """The operation `recall`."""

    def __init__(
        self, parts: Parts, queries: Queries, source: ThinSource, memories: Memories
    ) -> None:
        self._parts, self._queries, self._source = parts, queries, source
        listing = Listing(parts, Uses())
        search = LoadingSearch(parts, listing, queries, source)
        working = WorkingMemories(parts, memories)
        self._recall = Recall(parts, search, listing, working, Durable(parts))

    async def recall(
        self, session_id: str, hint: str | None = None, max_tokens: int | None = None, **rest: Any
    ) -> Recalled:
        """See `Recall.recall`."""
        session, most = session_label(session_id), self._parts.sessions.recall_messages
        project = checks.label(rest.get("own_project"), PROJECT)
        async with self._source.operation():
            await self._source.messages(session, most + SPARE_MESSAGES)
            record = find_record(self._parts.index, session)
            archives = [str(marker.get("archive_id")) for marker in markers_of(record)]
            await self._source.handle(digest_name(project))
            await self._source.load([*archives, *await self._facts()])
            return await self._recall.recall(session, hint, max_tokens, **rest)

    async def _facts(self) -> list[str]:
        facts = Conditions(MemoryType.FACT)
        pinned = Conditions(MemoryType.FACT, pinned=True)
        found = await self._queries.newest(facts, self._parts.clock(), None, NEWEST_FACTS)
        newest = [id for _, id in found]
        return newest + await self._queries.find(pinned, limit=PINNED_FACTS)


class LoadingSearch(Search):
    """A search after which its results, and the messages around them, are in the index."""

    def __init__(
        self, parts: Parts, listing: Listing, queries: Queries, source: ThinSource
    ) -> None:
        super().__init__(parts, listing)
        self._queries, self._source = queries, source

    async def unasked(self, *args: Any, **options: Any) -> Page:
        page = await super().unasked(*args, **options)
        await self._source.load([hit.memory.id for hit in page.hits])
        await self._load_around(page)
        return page

    async def _load_around(self, page: Page) -> None:
        settings = self._parts.sessions
        before, after = settings.moment_before + 1, settings.moment_after + 1
        asked = []
        for memory in (hit.memory for hit in page.hits):
            if memory.session_id is not None and is_message(memory):
                order = order_of(memory)
                orders = tuple(range(order - before, order + after + 1))
                said = MemoryType.CONVERSATION
                asked.append(Conditions(said, memory.session_id, orders=orders))
        if asked:
            await self._source.load(await self._queries.find(*asked, limit=before + after + 1))
