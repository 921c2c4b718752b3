"""Search: exact filters, cosine in RAM, words for what has no vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoryd.engine import checks
from memoryd.engine.parts import Parts
from memoryd.errors import EmbedError, InvalidInput
from memoryd.metadata import check_metadata
from memoryd.model import Filter, Page, parse_type

BY_WORDS = "Results are by words only."


class Recall:
    """Find memories by meaning."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def search(
        self,
        query: str,
        memory_type: str | None = None,
        limit: int | None = None,
        min_score: float | None = None,
        *,
        session_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        since: object = None,
        until: object = None,
    ) -> Page:
        """The best matches, best first; never an expired memory.

        `since` and `until` bound the time of creation: since <= created_at < until.
        """
        settings = self._parts.search
        text = checks.query(query)
        count = checks.limit(settings.limit if limit is None else limit)
        least = checks.min_score(settings.min_score if min_score is None else min_score)
        filter = self._filter(memory_type, session_id, metadata, since, until)
        return await self._matches(text, filter, count, least)

    async def _matches(self, text: str, filter: Filter, count: int, least: float) -> Page:
        index, warnings = self._parts.index, []
        try:
            vector = await self._parts.embedding.query(text)
        except EmbedError as exc:
            vector = None
            warnings.append(f"{exc.message} {BY_WORDS}")
        now = self._parts.clock()  # after the wait for the model: what expired meanwhile is out
        if vector is None:
            warnings = warnings or [f"{self._parts.embedding.trouble()} {BY_WORDS}"]
            hits = await index.search_words(text, filter, now, count, least, all=True)
        else:
            hits = await index.search(vector, filter, now, count, least)
        if vector is not None and index.pending:
            warnings.append(
                f"{index.pending} memories wait for their vectors: found by words only."
            )
            hits += await index.search_words(text, filter, now, count, least, all=False)
            hits.sort(key=lambda hit: -hit.score)
        return Page(tuple(hits[:count]), tuple(warnings))

    def _filter(
        self,
        memory_type: str | None,
        session_id: str | None,
        metadata: Mapping[str, Any] | None,
        since: object,
        until: object,
    ) -> Filter:
        zone = self._parts.lifetimes.zone
        found = Filter(
            type=None if memory_type in (None, "") else parse_type(memory_type),
            session_id=checks.label(session_id, "session_id"),
            metadata=check_metadata(metadata),
            since=checks.moment(since, "since", zone),
            until=checks.moment(until, "until", zone),
        )
        if found.since is not None and found.until is not None and found.since >= found.until:
            raise InvalidInput(
                "since must lie before until.", code="since_invalid", hint="Swap the two."
            )
        return found
