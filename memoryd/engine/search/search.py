"""Search: what may be asked for, and what is said about the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memoryd.engine import checks
from memoryd.engine.checks import asked_filter
from memoryd.engine.index.terms import numbers, terms
from memoryd.engine.index.vectors import Floats
from memoryd.engine.models.previous_model import Former
from memoryd.engine.parts import Parts
from memoryd.engine.search.pipeline import STEPS, Trail, run
from memoryd.errors import EmbedError, InvalidInput
from memoryd.fair import in_thread, turn
from memoryd.model import Filter, Page

NO_WORDS = "There is no word in the query to search for."
UNKNOWN = "The embedding model does not know most of these words."
BY_WORDS = "Results are by words only."
LONG = 2_000  # characters of a query from which its words are worth a thread


class Recall:
    """Find memories by meaning and by words."""

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
        max_tokens: int | None = None,
        explain: bool = False,
    ) -> Page:
        """The best matches, best first; never an expired memory.

        `since` and `until` bound the time of creation: since <= created_at < until.
        `max_tokens` bounds the whole answer; `explain` adds what each score is made of.
        """
        settings, parts = self._parts.search, self._parts
        text = checks.query(query)
        count = checks.limit(settings.limit if limit is None else limit)
        least = checks.min_score(settings.min_score if min_score is None else min_score)
        budget = None if max_tokens is None else checks.count(max_tokens, "max_tokens")
        explain = checks.flag(explain, "explain")
        zone = parts.lifetimes.zone
        filter = asked_filter(zone, memory_type, session_id, metadata, since, until)
        _check_order(filter)
        words, digits = await in_thread(_read, text) if len(text) > LONG else _read(text)
        vector, warnings = None, [NO_WORDS]
        former = parts.embedding.former
        if words:
            vector, warnings = await self._vector(text, former)
        async with turn():  # before anything is gathered, or writes would overtake it
            if words and former is not parts.embedding.former:  # it has gone meanwhile
                former = parts.embedding.former
                vector, warnings = await self._vector(text, former)
            trail = Trail(
                text=text,
                vector=vector,
                terms=words,
                numbers=digits,
                filter=filter,
                now=parts.clock(),  # after all waiting: what expired meanwhile is out
                count=count,
                least=least,
                index=parts.index,
                store=parts.store,
                by=settings,
                former=former,
                max_tokens=budget,
                reranker=parts.embedding.reranker,
                warnings=warnings,
            )
            await run(trail, STEPS)
        hits = trail.hits if explain else [replace(hit, why=None) for hit in trail.hits]
        return Page(tuple(hits), tuple(dict.fromkeys(trail.warnings)))  # a step may run again

    async def _vector(self, text: str, former: Former | None) -> tuple[Floats | None, list[str]]:
        """The query's vector by the model that searches, and what is missing for a full answer."""
        index, embedding = self._parts.index, self._parts.embedding
        vector, warnings, model = None, [], former or embedding
        try:
            if not model.knows(text):
                return None, [f"{UNKNOWN} {BY_WORDS}"]
            vector = await model.query(text)
            waiting = former.waiting(index) if former else index.pending
            if vector is None:
                warnings.append(f"{embedding.trouble()} {BY_WORDS}")
            elif waiting:
                warnings.append(f"{waiting} memories wait for their vectors: found by words only.")
        except EmbedError as exc:
            warnings.append(f"{exc.message} {BY_WORDS}")
        if embedding.rerank_trouble:
            warnings.append(f"{embedding.rerank_trouble} Results are not reranked.")
        return vector, warnings


def _read(text: str) -> tuple[list[int], set[int]]:
    """The terms of a query, and those of them that have digits."""
    return terms(text), numbers(text)


def _check_order(filter: Filter) -> None:
    if filter.since is not None and filter.until is not None and filter.since >= filter.until:
        raise InvalidInput(
            "since must lie before until.", code="since_invalid", hint="Swap the two."
        )
