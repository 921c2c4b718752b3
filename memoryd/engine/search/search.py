"""The search operation: checks the arguments, embeds the query, runs the pipeline."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import Any

from memoryd.engine import checks
from memoryd.engine.checks import asked_filter, without_records
from memoryd.engine.filters import Filter, parse_where
from memoryd.engine.index.rounded import Floats
from memoryd.engine.index.terms import numbers, terms
from memoryd.engine.lifecycle.decay import is_deprecated
from memoryd.engine.listing import Listing
from memoryd.engine.parts import Parts
from memoryd.engine.project_rules import narrowed
from memoryd.engine.search.dates import NO_TIMES, asked_times
from memoryd.engine.search.fold import did_not_fit, within
from memoryd.engine.search.pipeline import BY_WORDS, STEPS, WORD_STEPS, SearchState, run, timed
from memoryd.engine.source import SearchNeed
from memoryd.errors import EmbedError, InvalidInput
from memoryd.fair import in_thread, turn
from memoryd.fields import KIND, PROJECT, SUPERSEDED_BY
from memoryd.model import Hit, MemoryType, Page

BOTH, WORDS = "both", "words"  # modes: by meaning and words, by words alone
NO_WORDS = "The query contains no word to search for."
UNKNOWN = "The embedding model does not know most words of the query."
LONG = 2_000  # characters of a query from which its terms are computed on a thread


class Search:
    """Find memories by meaning and by words."""

    def __init__(self, parts: Parts, listing: Listing) -> None:
        self._parts = parts
        self._listing = listing

    async def search(
        self,
        query: str | None = None,
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
        include_superseded: bool = False,
        project: str | None = None,
        own_project: str | None = None,
        pinned: bool | None = None,
        mode: str = BOTH,
    ) -> Page:
        """The best matches, best first; never an expired memory, and a superseded one only with
        `include_superseded` or a filter on `superseded_by`. Without a query, but with a filter: the
        newest that match it, each with the score 1.

        `since` and `until` bound the time of creation: since <= created_at < until.
        `max_tokens` bounds the whole answer; `explain` adds the parts of each score. `project`
        finds only memories of this project, `pinned` only such ones, or only others; those of
        `own_project`, the caller's, get a small boost. `mode` `words`: by words alone (BM25), and
        all that have one unless `min_score` is given. Raises InvalidInput.
        """
        settings = self._parts.search
        limit = checks.limit(settings.limit if limit is None else limit)
        least = 0.0 if _checked_mode(mode) == WORDS else settings.min_score
        min_score = checks.min_score(least if min_score is None else min_score)
        budget = None if max_tokens is None else checks.count(max_tokens, "max_tokens")
        explain = checks.flag(explain, "explain")
        where = narrowed(metadata, project)
        filter = asked_filter(self._zone, memory_type, session_id, where, since, until, pinned)
        own = checks.label(own_project, PROJECT)
        _check_order(filter)
        is_filtered = filter != Filter()
        filter = without_records(filter)
        asked = checks.flag(include_superseded, "include_superseded")
        if not asked and not filter.where.names(SUPERSEDED_BY):
            filter = replace(filter, hides_superseded=True)
        if is_filtered and (query is None or query == "" or query.isspace()):
            return await self._newest(filter, limit, budget)
        bounds = (limit, min_score, budget, own)
        state = await self._best(checks.query(query), filter, *bounds, words_only=mode == WORDS)
        return _page(state, explain=explain)

    async def unasked(
        self,
        query: str,
        limit: int,
        own_project: str | None,
        *,
        session_id: str | None = None,
        without: Iterable[str] = (),
        kinds: Sequence[str] = (),
        type: MemoryType | None = None,
        explain: bool = False,
    ) -> Page:
        """The best matches for a prompt that did not ask for them: of the own project or shared,
        and none of `without`, which are ids; with `kinds` or `type`, only of these. `explain` adds
        the parts of each score."""
        of_kinds = parse_where({KIND: {"$in": list(kinds)}} if kinds else None)
        filter = Filter(
            type=type,
            where=of_kinds,
            session_id=session_id,
            hides_superseded=True,
            hides_records=True,
            projects=(None,) if own_project is None else (None, own_project),
            without=frozenset(without),
        )
        bounds = (limit, self._parts.search.min_score, None, own_project)
        state = await self._best(checks.query(query), filter, *bounds, words_only=False)
        return _page(state, explain=explain)

    async def _best(
        self,
        text: str,
        filter: Filter,
        limit: int,
        min_score: float,
        budget: int | None,
        own_project: str | None,
        *,
        words_only: bool,
    ) -> SearchState:
        """The finished search for a query."""
        parts = self._parts
        words, digits = await in_thread(_read, text) if len(text) > LONG else _read(text)
        vector, warnings = None, [NO_WORDS]
        timings: dict[str, float] = {}
        async with parts.gate.passing():
            if words:
                vector, warnings = (None, []) if words_only else await self._vector(text, timings)
            if (trouble := parts.store_trouble()) and parts.source.finds_here:
                warnings = [*warnings, trouble]
            elif trouble:
                vector, warnings = None, [*warnings, f"{trouble} {BY_WORDS}"]
            now, times = parts.clock(), NO_TIMES
            if not words_only:
                times = asked_times(text, now, self._zone)
            need = SearchNeed(text, words, vector, filter, times, limit, now)
            began = time.perf_counter()
            # Wait before the view is taken, not after: fewer writes come in between.
            async with parts.source.searched(parts.index, need) as index, turn():
                if index is not parts.index:
                    timings["candidates"] = time.perf_counter() - began
                now = parts.clock()  # read after all waiting: nothing that expired is returned
                state = SearchState(
                    text=text,
                    vector=vector,
                    terms=words,
                    numbers=digits,
                    times=times,
                    words_only=words_only,
                    filter=filter,
                    now=now,
                    limit=limit,
                    min_score=min_score,
                    index=index,
                    store=parts.store,
                    settings=parts.search,
                    lifecycle=parts.lifecycle,
                    max_tokens=budget,
                    own_project=own_project,
                    reranking=parts.reranking if parts.reranking.reranker else None,
                    warnings=warnings,
                    timings=timings,
                )
                await run(state, WORD_STEPS if words_only else STEPS)
        return state

    @property
    def _zone(self) -> tzinfo | None:
        return self._parts.lifetimes.zone

    async def _newest(self, filter: Filter, limit: int, budget: int | None) -> Page:
        now, below = self._parts.clock(), self._parts.lifecycle.deprecated_below
        found = await self._listing.newest(filter, limit)
        hits = [Hit(memory, 1.0, deprecated=is_deprecated(memory, now, below)) for memory in found]
        warnings: tuple[str, ...] = ()
        if budget is not None:
            hits, missed = within(hits, budget)
            warnings = (did_not_fit(missed),) if missed else ()
        return Page(tuple(hits), warnings, {})

    async def _vector(
        self, text: str, timings: dict[str, float]
    ) -> tuple[Floats | None, list[str]]:
        """The query's vector, None without a model; and warnings."""
        index, embedding = self._parts.index, self._parts.embedding
        vector, warnings = None, []
        try:
            if not embedding.knows(text):
                return None, [f"{UNKNOWN} {BY_WORDS}"]
            with timed(timings, "embed"):
                vector = await embedding.query(text)
            if vector is None:
                warnings.append(f"{embedding.trouble()} {BY_WORDS}")
            elif index.pending:
                warnings.append(
                    f"{index.pending} memories have no vector yet: found by words only."
                )
        except EmbedError as exc:
            warnings.append(f"{exc.message} {BY_WORDS}")
        if trouble := self._parts.reranking.trouble:
            warnings.append(f"{trouble} Results are not reranked.")
        return vector, warnings


def _read(text: str) -> tuple[list[int], set[int]]:
    """The terms of a query, and the ones that contain digits."""
    return terms(text), numbers(text)


def _page(state: SearchState, *, explain: bool) -> Page:
    warnings = tuple(dict.fromkeys(state.warnings))  # a step may run again
    hits = state.hits if explain else [replace(hit, why=None) for hit in state.hits]
    return Page(tuple(hits), warnings, state.timings)


def _checked_mode(mode: object) -> str:
    if mode not in (BOTH, WORDS):
        raise InvalidInput(
            f"There is no mode {str(mode)[:50]!r}.",
            code="mode_unknown",
            hint=f"Use {BOTH}, which is the default, or {WORDS}.",
        )
    return str(mode)


def _check_order(filter: Filter) -> None:
    if filter.since is not None and filter.until is not None and filter.since >= filter.until:
        raise InvalidInput(
            "since must be earlier than until.", code="since_invalid", hint="Swap the two."
        )
