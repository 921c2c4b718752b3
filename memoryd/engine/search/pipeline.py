"""A search as a tuple of steps of one type: gather -> fuse -> boost -> rerank -> pack.

Each step reads and writes the `Trail`, and is timed alike. Arithmetic over all memories runs on
threads; what touches memories runs on the event loop.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import anyio.to_thread

from memoryd.engine.index.index import Entry, Index
from memoryd.engine.index.vectors import Floats
from memoryd.engine.index.view import Signals, View
from memoryd.engine.models.previous_model import Former
from memoryd.engine.search import rank
from memoryd.engine.search.fold import Folder, within
from memoryd.engine.search.store_candidates import from_store
from memoryd.errors import EmbedError
from memoryd.model import DAY, Filter, Hit, Why, who
from memoryd.ports import Reranker, Store
from memoryd.settings import SearchSettings

TRIES = 4  # searches that writes overtook, before the answer is taken as it is
SPARE = 3  # candidates for each result: some are folded, some overtaken
MORE, MOST = 8, 10_000  # times the candidates where most were the same; and no more than
FEW = 100  # candidates whose texts are compared at once, without a thread
DIGITS = 4  # of a score, as it is told: what is told can be asked for
CONFIDENCE = "confidence"  # metadata that says how sure a memory is, 0..1


@dataclass(slots=True)
class Candidate:
    """A memory that may be in the answer."""

    slot: int
    entry: Entry
    key: float
    why: Why
    nudge: float = 0.0
    moved: float = 0.0  # by the second look


@dataclass(slots=True)
class Trail:
    """One search on its way through the steps."""

    text: str
    vector: Floats | None
    terms: list[int]
    numbers: set[int]  # those of the terms that have digits
    filter: Filter
    now: float
    count: int
    least: float
    index: Index
    store: Store
    by: SearchSettings
    former: Former | None = None  # whose vector this is, while the new ones are made
    max_tokens: int | None = None
    reranker: Reranker | None = None
    view: View | None = None
    near: Floats | None = None  # by slot, where the index's own vectors do not serve
    signals: Signals | None = None
    tries: int = 0
    enough: int = 0  # candidates that make sure of the results
    candidates: list[Candidate] = field(default_factory=list)
    hits: list[Hit] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    took: dict[str, float] = field(default_factory=dict)


Step = Callable[[Trail], Awaitable[bool | None]]  # true: start again


async def run(trail: Trail, steps: tuple[Step, ...]) -> None:
    """The steps in order, from the first again where one of them asks for it."""
    at = 0
    with trail.index.stamps.watched():
        while at < len(steps):
            started = time.perf_counter()
            again = await steps[at](trail)
            name = getattr(steps[at], "__name__", "step")
            trail.took[name] = trail.took.get(name, 0.0) + time.perf_counter() - started
            at = 0 if again else at + 1


async def gather(trail: Trail) -> None:
    """What there is to search: all that the filter allows, as it is now."""
    trail.view = view = trail.index.view(
        trail.terms, trail.filter, trail.now, trail.by.quiet_weight, trail.numbers
    )
    trail.near = None
    if trail.vector is None:
        return
    if former := trail.former:
        near, owners = former.near, former.owners()
        trail.near = await anyio.to_thread.run_sync(near, trail.vector, owners, view.allowed)
    elif not view.vectors.keep:
        trail.near = await from_store(trail.store, trail.index, view, trail.vector, trail.count)


async def fuse(trail: Trail) -> bool:
    """Both signals over all of it, and one order out of both; true if a write overtook it."""
    view = trail.view
    assert view is not None
    ranked = await anyio.to_thread.run_sync(_ranked, trail, view)
    slots = [int(slot) for slot in ranked.slots]
    seen = [trail.index.as_seen(slot, view) for slot in slots]
    trail.tries += 1
    if trail.tries < TRIES and not all(current for _, current in seen):
        return True
    # Overtaken every time: what was changed is shown as it was, what was forgotten is not.
    trail.candidates = [
        Candidate(slot, entry, float(key), Why(*map(float, parts)))
        for slot, (entry, _), key, parts in zip(slots, seen, ranked.keys, ranked.parts, strict=True)
        if entry is not None
    ]
    return False


def _ranked(trail: Trail, view: View) -> rank.Ranked:
    """Arithmetic alone, for a thread."""
    if not trail.enough:
        trail.enough = trail.count * SPARE + (trail.by.rerank_top if trail.reranker else 10)
    trail.signals = view.signals(trail.vector, trail.near, max(rank.POOL, trail.enough))
    return rank.fuse(view, trail.signals, trail.by, trail.enough)


async def boost(trail: Trail) -> None:
    """New, pinned and sure memories go a little before their equals, never before a clear
    match: each of the three is worth `nudge_weight` points of cosine at most."""
    for found in trail.candidates:
        memory = found.entry.memory
        age = max(0.0, trail.now - memory.created_at)
        doubt = 1.0 - _confidence(memory.metadata.get(CONFIDENCE))
        nudge = trail.by.nudge_weight * (math.exp(-age / (30 * DAY)) + memory.pinned - doubt)
        # What nothing else speaks for stays where it is.
        nudge *= min(1.0, max(0.0, found.key) / rank.ENOUGH)
        found.nudge = nudge
        found.key += nudge
    trail.candidates.sort(key=lambda found: (-found.key, found.slot))
    _keep_near(trail.candidates)


def _keep_near(ordered: list[Candidate]) -> None:
    """Raise the keys of long memories to their cosine, though not above the one before: their
    length costs them places, and must not hide what meaning alone would show."""
    above = math.inf
    for found in ordered:
        more = min(above, found.why.dense) - found.key
        if more > 0.0 and found.why.length < 0.0:
            found.key += more
            found.why = replace(found.why, length=found.why.length + more)
        above = found.key


async def rerank(trail: Trail) -> None:
    """A second look at the first few by a model that reads query and memory together. It changes
    their order; the scores stay, so that they mean the same with it and without."""
    if trail.reranker is None or not trail.candidates:
        return
    top = trail.candidates[: trail.by.rerank_top]
    texts = [_said(trail, found) for found in top]
    try:
        marks = await anyio.to_thread.run_sync(trail.reranker.marks, trail.text, texts)
    except EmbedError as exc:
        trail.warnings.append(f"{exc.message} Results are not reranked.")
        return
    keys = [found.key for found in top]
    for place, at in enumerate(rank.reordered(keys, marks, trail.by.rerank_weight)):
        found, key = top[at], keys[place]
        found.moved, found.key = key - found.key, key
        trail.candidates[place] = found


async def pack(trail: Trail) -> bool:
    """What is good enough, each once, as many as were asked for and fit; true if so many were
    folded that there are more to be looked at."""
    if len(trail.candidates) > FEW:
        hits = await anyio.to_thread.run_sync(_each_once, trail)
    else:
        hits = _each_once(trail)
    is_short = len(hits) < trail.count and len(trail.candidates) >= trail.enough
    if is_short and any(hit.folded for hit in hits) and trail.enough < MOST:
        trail.enough *= MORE
        return True
    if trail.max_tokens is not None:
        hits, missed = within(hits, trail.max_tokens)
        if missed:
            trail.warnings.append(f"{missed} more results did not fit into max_tokens.")
    trail.hits = hits
    return False


def _each_once(trail: Trail) -> list[Hit]:
    """The candidates that are good enough, what says the same folded into the best of them."""
    folder = Folder()
    hits: list[Hit] = []
    for found in trail.candidates:
        score = round(rank.score(found.key), DIGITS)
        if len(hits) == trail.count:
            break
        if score < trail.least or (trail.vector is None and found.why.lexical <= 0.0):
            continue
        memory = found.entry.memory
        twin = folder.twin(len(hits), memory)
        if twin is not None:
            hits[twin] = replace(hits[twin], folded=(*hits[twin].folded, memory.id))
            continue
        passage = _best_text(trail, found) if len(found.entry.rows) > 1 else None
        why = replace(found.why, recency=found.nudge, rerank=found.moved)
        hits.append(Hit(memory.copy(), score, passage, why=why))
    return hits


def _best_text(trail: Trail, found: Candidate) -> str:
    """The passage that speaks most for it."""
    assert trail.signals is not None
    best = trail.signals.best_row(found.entry.rows)
    start, end = found.entry.spans[found.entry.rows.index(best)]
    return found.entry.memory.content[start:end]


def _said(trail: Trail, found: Candidate) -> str:
    """The same with who said it, as a reader would want it."""
    speaker, text = who(found.entry.memory), _best_text(trail, found)
    return f"{speaker}: {text}" if speaker else text


def _confidence(value: object) -> float:
    """How sure a memory says it is, 0..1; 1 if it says nothing."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value == value:
        return min(1.0, max(0.0, float(value)))
    return 1.0


STEPS: tuple[Step, ...] = (gather, fuse, boost, rerank, pack)
