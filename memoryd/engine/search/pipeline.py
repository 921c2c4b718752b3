"""A search as a tuple of steps of one type: gather -> fuse -> boost -> rerank -> pack.

Each step reads and writes one `SearchState`, and `run` times every step. Arithmetic over all
memories runs on threads; code that touches memories runs on the event loop.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import anyio.to_thread

from memoryd.engine.filters import Filter
from memoryd.engine.index.entries import Entry
from memoryd.engine.index.index import Index
from memoryd.engine.index.rounded import Floats
from memoryd.engine.index.view import View
from memoryd.engine.lifecycle.decay import certainty, is_deprecated
from memoryd.engine.models.reranking import Reranking
from memoryd.engine.search import rank
from memoryd.engine.search.dates import NO_TIMES, AskedTimes
from memoryd.engine.search.fold import Folder, did_not_fit, within
from memoryd.engine.search.store_candidates import from_store
from memoryd.errors import EmbedError, StoreOffline
from memoryd.fields import project_of
from memoryd.model import DAY, Hit, Why, who
from memoryd.ports import Store
from memoryd.settings import LifecycleSettings, SearchSettings

MAX_TRIES = 4  # start again after a concurrent write, up to this many tries
SPARE = 3  # candidates for each result: some are folded, some change during the search
RETRY_FACTOR = 8  # fetch this many times more candidates when most were folded
MAX_CANDIDATES = 10_000
FEW = 100  # up to this many candidates are folded on the event loop, without a thread
DIGITS = 4  # of a score: rounded before the min_score test, so a shown score can be asked for


@dataclass(slots=True)
class Candidate:
    """A memory that may be in the answer."""

    slot: int
    entry: Entry
    key: float
    why: Why
    row: int  # of the passage that matches best
    nudge: float = 0.0
    trust: float = 0.0
    rerank_change: float = 0.0


@dataclass(slots=True)
class SearchState:
    """The input, intermediate results and output of one search."""

    text: str
    vector: Floats | None
    terms: list[int]
    numbers: set[int]  # the terms that contain digits
    filter: Filter
    now: float
    limit: int
    min_score: float
    index: Index
    store: Store
    settings: SearchSettings
    lifecycle: LifecycleSettings = field(default_factory=LifecycleSettings)
    times: AskedTimes = NO_TIMES
    words_only: bool = False  # rank by words alone
    max_tokens: int | None = None
    own_project: str | None = None
    reranking: Reranking | None = None
    view: View | None = None
    slot_cosines: Floats | None = None  # computed outside of the index; None: use its vectors
    tries: int = 0
    candidate_count: int = 0  # how many to rank
    candidates: list[Candidate] = field(default_factory=list)
    hits: list[Hit] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)  # step: seconds


BY_WORDS = "Results are by words only."
Step = Callable[[SearchState], Awaitable[bool | None]]  # true: run all steps again


async def run(state: SearchState, steps: tuple[Step, ...]) -> None:
    """Run the steps in order; from the first again when one of them returns true."""
    at = 0
    with state.index.slot_versions.watched():
        while at < len(steps):
            with timed(state.timings, getattr(steps[at], "__name__", "step")):
                again = await steps[at](state)
            at = 0 if again else at + 1


@contextmanager
def timed(timings: dict[str, float], step: str) -> Iterator[None]:
    """Add the seconds that the block takes to those of `step`."""
    started = time.perf_counter()
    try:
        yield
    finally:
        timings[step] = timings.get(step, 0.0) + time.perf_counter() - started


async def gather(state: SearchState) -> None:
    """Take a view of the index under the filter; get cosines that are not in the index."""
    state.view = view = state.index.view(
        state.terms,
        state.filter,
        state.now,
        state.settings.quiet_weight,
        state.numbers,
        state.times.spans,
        state.times.is_all,
    )
    state.slot_cosines = None
    if state.filter.where.others:
        selection = state.index.selection(state.filter, state.now)  # of the view's moment
        allowed = await anyio.to_thread.run_sync(selection.mask)
        in_time = None if view.in_time is None else view.in_time & allowed
        state.view = view = replace(view, allowed=allowed, in_time=in_time)
    if state.vector is not None and not view.vectors.keep:
        try:
            state.slot_cosines = await from_store(
                state.store, state.index, view, state.vector, state.limit
            )
        except StoreOffline as exc:
            state.vector = None
            state.warnings.append(f"{exc.message} {BY_WORDS}")


async def fuse(state: SearchState) -> bool:
    """Rank by meaning and words; true if a candidate was changed or removed meanwhile."""
    view = state.view
    assert view is not None
    if not state.candidate_count:
        spare = state.settings.rerank_top if state.reranking else 10
        state.candidate_count = state.limit * SPARE + spare
    ranked = await anyio.to_thread.run_sync(_ranked, state, view)
    slots = [int(slot) for slot in ranked.slots]
    seen = [state.index.as_seen(slot, view) for slot in slots]
    state.tries += 1
    if state.tries < MAX_TRIES and not all(current for _, current in seen):
        return True
    # After the last try, changed memories are returned as the view saw them; forgotten ones never.
    state.candidates = [
        Candidate(slot, entry, float(key), Why(*map(float, parts)), int(row))
        for slot, (entry, _), key, parts, row in zip(
            slots, seen, ranked.keys, ranked.parts, ranked.rows, strict=True
        )
        if entry is not None
    ]
    return False


def _ranked(state: SearchState, view: View) -> rank.Ranked:
    """Compute both signals and fuse them. Runs on a thread."""
    if state.words_only:
        return rank.by_words(view, state.candidate_count)
    pool = max(rank.POOL, state.candidate_count)
    signals = view.signals(state.vector, state.slot_cosines, pool)
    return rank.fuse(view, signals, state.settings, state.candidate_count)


async def boost(state: SearchState) -> None:
    """Raise new and pinned memories a little, and raise or lower others by how sure they are. Each
    of the three changes the key by at most `nudge_weight` points of cosine, so none can overtake a
    clearly better match."""
    rules = (state.now, state.lifecycle.trust, state.lifecycle.deprecated_below)
    for candidate in state.candidates:
        memory = candidate.entry.memory
        age = max(0.0, state.now - (memory.updated_at or memory.created_at))
        # In proportion to the key: a memory that matches nothing is not raised.
        share = min(1.0, max(0.0, candidate.key) / rank.FULL_MATCH)
        nudge = state.settings.nudge_weight * (math.exp(-age / (30 * DAY)) + memory.pinned)
        candidate.nudge = nudge * share
        candidate.trust = state.settings.nudge_weight * certainty(memory, *rules) * share
        candidate.key += candidate.nudge + candidate.trust + _project_boost(candidate, state)
    state.candidates.sort(key=lambda candidate: (-candidate.key, candidate.slot))
    _undo_length_cost(state.candidates)


def _project_boost(candidate: Candidate, state: SearchState) -> float:
    """What raises a memory of the caller's own project: at most `project_weight`, so it changes the
    order of near ties only. In proportion to the key, as the nudges are."""
    if state.own_project is None or project_of(candidate.entry.memory) != state.own_project:
        return 0.0
    share = min(1.0, max(0.0, candidate.key) / rank.FULL_MATCH)
    boost = state.settings.project_weight * share
    candidate.why = replace(candidate.why, project=boost)
    return boost


def _undo_length_cost(ordered: list[Candidate]) -> None:
    """Raise the keys of long memories to their cosine, but not above the candidate before them.
    Length may lower the place of a memory; it must not push its score below `min_score`."""
    above = math.inf
    for candidate in ordered:
        more = min(above, candidate.why.dense) - candidate.key
        if more > 0.0 and candidate.why.length < 0.0:
            candidate.key += more
            candidate.why = replace(candidate.why, length=candidate.why.length + more)
        above = candidate.key


async def rerank(state: SearchState) -> None:
    """Reorder the top candidates with a model that reads query and memory together. The places
    keep their scores, so that a score means the same with and without a reranker."""
    if state.reranking is None or not state.candidates:
        return
    top = state.candidates[: state.settings.rerank_top]
    texts = [_rerank_text(candidate) for candidate in top]
    try:
        marks = await state.reranking.marks(state.text, texts)
    except EmbedError as exc:
        state.warnings.append(f"{exc.message} Results are not reranked.")
        return
    keys = [candidate.key for candidate in top]
    for place, at in enumerate(rank.reordered(keys, marks, state.settings.rerank_weight)):
        candidate, key = top[at], keys[place]
        candidate.rerank_change, candidate.key = key - candidate.key, key
        state.candidates[place] = candidate


async def pack(state: SearchState) -> bool:
    """Fold duplicates, apply `min_score`, `limit` and `max_tokens`; true if folding left too few
    results and more candidates have to be ranked."""
    if len(state.candidates) > FEW:
        hits = await anyio.to_thread.run_sync(_folded, state)
    else:
        hits = _folded(state)
    is_short = len(hits) < state.limit and len(state.candidates) >= state.candidate_count
    if is_short and any(hit.folded for hit in hits) and state.candidate_count < MAX_CANDIDATES:
        state.candidate_count *= RETRY_FACTOR
        return True
    if state.max_tokens is not None:
        hits, missed = within(hits, state.max_tokens)
        if missed:
            state.warnings.append(did_not_fit(missed))
    state.hits = hits
    return False


def _folded(state: SearchState) -> list[Hit]:
    """The hits that reach `min_score`; near-identical ones are folded into the best of them."""
    folder = Folder()
    hits: list[Hit] = []
    for candidate in state.candidates:
        score = round(rank.score(candidate.key), DIGITS)
        if len(hits) == state.limit:
            break
        if score < state.min_score or (state.vector is None and candidate.why.lexical <= 0.0):
            continue
        memory = candidate.entry.memory
        twin = folder.twin(len(hits), memory)
        if twin is not None:
            hits[twin] = replace(hits[twin], folded=(*hits[twin].folded, memory.id))
            continue
        passage = _best_text(candidate) if len(candidate.entry.rows) > 1 else None
        why = replace(
            candidate.why,
            recency=candidate.nudge,
            trust=candidate.trust,
            rerank=candidate.rerank_change,
        )
        old = is_deprecated(memory, state.now, state.lifecycle.deprecated_below)
        hits.append(Hit(memory.copy(), score, passage, why=why, deprecated=old))
    return hits


def _best_text(candidate: Candidate) -> str:
    """The text of its best-matching passage."""
    start, end = candidate.entry.spans[candidate.entry.rows.index(candidate.row)]
    return candidate.entry.memory.content[start:end]


def _rerank_text(candidate: Candidate) -> str:
    """The best passage, with the speaker before it."""
    speaker, text = who(candidate.entry.memory), _best_text(candidate)
    return f"{speaker}: {text}" if speaker else text


STEPS: tuple[Step, ...] = (gather, fuse, boost, rerank, pack)
WORD_STEPS: tuple[Step, ...] = (gather, fuse, pack)
