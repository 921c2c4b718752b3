"""Fusion: rank memories by meaning and words together. Pure arithmetic on arrays over slots.

Words and meaning disagree, and which is right depends on the query and on the data, so the weight
of words is computed for every query (`trust`). Words weigh

- more, the more of the query one memory covers beyond what chance gives the best memory;
- more, the more the memories nearest by meaning share the query's words, relative to the spread of
  word scores: if they share few, query and answer use different words;
- less where every memory shares words with the query, as long texts about one subject do.

Fixed weights, reciprocal rank fusion and the ratio of the spreads of both signals were measured
and lose to the better single signal on some sets (`scripts/bench/retrieval.py`).

Neighbour boost: a message gets a share of the score by which the message before or after it is
better, and a brief reply gets a share of the score of the brief question before it. Session boost:
raises results from the session of the best match, never above it. Both only raise a message
towards a score that exists, so that memories without neighbours keep their place. A memory with
many passages has many chances of a good one, so the log of their number lowers its key. A query
that names a time raises the memories of that time and lowers no other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.index.rounded import Floats
from memoryd.engine.index.view import ExactSignals, Signals, View
from memoryd.settings import SearchSettings

POOL = 256  # best candidates of each signal, from which `trust` is computed
# Prior of the spread of word scores, and how many memories it counts as.
USUAL_SPREAD, PRIOR = 0.08, 10
ROUNDING = 1e-5  # largest error of a float32 sum
FULL_MATCH = 0.3  # key from which a nudge, speaker or session boost counts in full
# Weights and thresholds of `trust`.
AGREEMENT = 0.4  # weight of the words that the nearest memories share, beside coverage
NAMED = 0.3  # added for a query that names a speaker
NEAREST = 4  # the nearest memories: this many times the square root of the allowed ones
FULL_EVIDENCE = 0.18  # evidence from which words have full weight; 0: none
# A memory with nearly all words of the query, with far more of them than chance gives, or with a
# rare number of the query gives words at least `SURE_TRUST`, whatever the evidence is.
SURE_COVERAGE, SURE_BEYOND_CHANCE, SURE_TRUST = 0.9, 0.4, 0.5
CROWD = 0.05  # average word score of all memories above which words weigh less
REFERENCE = 100  # a question passes on its lead over the candidate at this place


@dataclass(frozen=True, slots=True)
class Ranked:
    """Slots in order, with the parts of their keys."""

    slots: NDArray[np.intp]
    keys: Floats
    parts: Floats  # a row each: meaning, words, neighbours, speaker, length, time
    rows: NDArray[np.intp]  # the row of each slot that matches best


def fuse(view: View, signals: Signals, settings: SearchSettings, count: int) -> Ranked:
    """Rank the allowed slots by both signals; the best `count`, best first."""
    by_meaning = _best(view, signals.meaning, max(POOL, count), signals.min_meaning)
    by_words = _best(view, signals.words, max(POOL, count))
    slots = _candidates(view, by_meaning, by_words, _best_in_time(view, signals, count))
    exact = view.exact(signals, _with_neighbours(view, slots))
    weight = np.float32(1.0)
    if signals.meaning.any():
        weight = np.float32(
            settings.words_weight * trust(view, signals, by_meaning[:POOL], by_words[:POOL])
        )
    meaning, words = exact.meaning(slots), weight * signals.words[slots]
    own = meaning + words
    boost = _neighbour_boost(view, exact, signals.words, slots, own, weight, settings)
    # At most half of its own key, so that an exact match in a long text is still found.
    length = -np.minimum(np.float32(settings.length_weight) * view.layout.spread[slots], own / 2)
    speaker = np.zeros_like(own)
    if view.meant:
        # In proportion to its own key: a name alone finds nothing.
        named = view.said_by_meant(slots)
        speaker[named] = np.float32(settings.speaker_weight) * np.minimum(
            1.0, own[named] / FULL_MATCH
        )
    time = _time_boost(view, slots, own, settings.time_weight)
    keys = own + boost + length + speaker + time
    raised = _session_boost(view.layout.sessions[slots], keys, own, settings.session_weight)
    boost, keys = boost + raised, keys + raised
    best = largest(keys, count)
    columns = (meaning, words, boost, speaker, length, time)
    parts = np.stack([column[best] for column in columns], axis=1)
    return Ranked(slots[best], keys[best], parts, exact.best_rows(slots[best]))


def by_words(view: View, count: int) -> Ranked:
    """Rank the allowed slots by their words alone, without any boost; the best `count` of those
    that have a word of the query."""
    signals = view.signals(None)
    slots = np.flatnonzero((signals.words > 0.0) & view.allowed)
    best = slots[largest(signals.words[slots], count)]
    keys = signals.words[best]
    parts = np.zeros((len(best), 6), dtype=np.float32)
    parts[:, 1] = keys
    exact = view.exact(signals, np.sort(best))
    return Ranked(best, keys, parts, exact.best_rows(best) if best.size else best)


def _best(view: View, signal: Floats, count: int, least: float = 0.0) -> NDArray[np.intp]:
    """The `count` allowed slots with the highest values, highest first. At least `count` values
    must be above `least`, unless it is 0."""
    found = np.flatnonzero((signal > np.float32(least - ROUNDING)) & (signal > 0.0) & view.allowed)
    best: NDArray[np.intp] = found[largest(signal[found], count)]
    if len(best) < count:
        others = view.allowed & (signal == 0.0)
        rest = np.flatnonzero(others[: 4 * count])  # usually enough, and cheaper than all
        if len(best) + len(rest) < count:
            rest = np.flatnonzero(others)
        best = np.concatenate([best, rest[: count - len(best)]])
    return best


def _best_in_time(view: View, signals: Signals, count: int) -> NDArray[np.intp]:
    """The best slots of the time that the query names."""
    if view.in_time is None:
        return np.zeros(0, dtype=np.intp)
    found = np.flatnonzero(view.in_time)
    best: NDArray[np.intp] = found[
        largest(signals.meaning[found] + signals.words[found], max(POOL, count))
    ]
    return best


def _candidates(
    view: View,
    by_meaning: NDArray[np.intp],
    by_words: NDArray[np.intp],
    by_time: NDArray[np.intp],
) -> NDArray[np.intp]:
    """The best of each kind and their neighbours; no other slot can rank first."""
    every = _with_neighbours(view, np.union1d(np.union1d(by_meaning, by_words), by_time))
    usable: NDArray[np.intp] = every[view.allowed[every]]
    return usable


def _with_neighbours(view: View, slots: NDArray[np.intp]) -> NDArray[np.intp]:
    """These sorted slots and their neighbours, sorted."""
    beside = np.concatenate([view.layout.before[slots], view.layout.after[slots]])
    beside = beside[beside >= 0]
    return np.union1d(slots, beside) if beside.size else slots


def trust(
    view: View, signals: Signals, by_meaning: NDArray[np.intp], by_words: NDArray[np.intp]
) -> float:
    """The weight of words for this query, 0..1, from the best slots of each signal."""
    coverage = view.best_coverage(by_words)
    spread = _spread(signals.words[np.union1d(by_meaning, by_words)])
    memories = view.population or int(np.count_nonzero(view.allowed))
    # Not a fixed number: in a small store that would be half of all memories.
    nearest = by_meaning[: math.ceil(NEAREST * math.sqrt(memories))]
    shared = float(signals.words[nearest].mean()) if by_meaning.size else 0.0
    beyond_chance = coverage - view.words.chance_coverage()
    evidence = beyond_chance + AGREEMENT * math.log(max(shared, 1e-3) / spread)
    evidence += NAMED * view.names_speaker
    known = evidence / FULL_EVIDENCE
    # With a prior of memories that share no word, so that a store of one memory is no crowd.
    average = view.average_words
    if average is None:
        average = float(np.dot(signals.words, view.allowed)) / (memories + PRIOR)
    known = min(1.0, known) * min(1.0, CROWD / max(average, 1e-6))
    sure = max((coverage - SURE_COVERAGE) / 0.1, (beyond_chance - SURE_BEYOND_CHANCE) / 0.1)
    return max(0.0, known, SURE_TRUST * min(1.0, max(sure, float(view.names_number))))


def _spread(values: Floats) -> float:
    """The standard deviation, with `USUAL_SPREAD` as a prior."""
    total = float(values.var()) * len(values) + USUAL_SPREAD * USUAL_SPREAD * PRIOR
    return float(np.sqrt(total / (len(values) + PRIOR)))


def _neighbour_boost(
    view: View,
    exact: ExactSignals,
    words: Floats,
    slots: NDArray[np.intp],
    own: Floats,
    weight: np.float32,
    settings: SearchSettings,
) -> Floats:
    """Neighbour boost, by slot: a share of the lead that the messages before and after have over
    the message. A brief reply also gets a share of the lead that the brief question before it has
    over the candidate at `REFERENCE`."""
    layout, boost = view.layout, np.zeros(len(slots), dtype=np.float32)
    if settings.neighbour_weight == settings.answer_weight == 0.0 or not len(slots):
        return boost
    place = max(0, len(own) - 1 - REFERENCE)
    reference = np.partition(own, place)[place]
    for links in (layout.before, layout.after):
        beside = links[slots]
        there = np.flatnonzero(beside >= 0)
        there = there[view.allowed[beside[there]]]
        neighbours = beside[there]
        theirs = exact.meaning(neighbours) + weight * words[neighbours]
        boost[there] += np.float32(settings.neighbour_weight) * np.maximum(theirs - own[there], 0.0)
        if links is layout.before:
            answers = layout.asks[neighbours] * layout.brief[slots[there]]
            # Scaled by the weight of words: this boost is meant for a query that repeats them.
            shares = np.float32(settings.answer_weight) * min(weight, np.float32(1.0)) * answers
            boost[there] += shares * np.maximum(theirs - reference, 0.0)
    return boost


def _time_boost(view: View, slots: NDArray[np.intp], own: Floats, share: float) -> Floats:
    """By slot: `share` for a memory of the time that the query names, in proportion to its own
    key. A query that names only a time is answered by what is of that time."""
    boost = np.zeros_like(own)
    if view.in_time is not None:
        there = view.in_time[slots]
        if view.asks_time_only:
            boost[there] = 1.0  # like a memory with all words of a query
        else:
            boost[there] = np.float32(share) * np.clip(
                own[there] / np.float32(FULL_MATCH), 0.0, 1.0
            )
    return boost


def _session_boost(sessions: NDArray[np.int64], keys: Floats, own: Floats, share: float) -> Floats:
    """Session boost, by slot: a share of the distance to the best key of the session, never above
    it, and in proportion to the memory's own key."""
    if not share or not sessions.any():
        return np.zeros_like(keys)
    _, places = np.unique(sessions, return_inverse=True)
    best = np.zeros(len(keys), dtype=np.float32)
    np.maximum.at(best, places, keys)
    behind = np.maximum(best[places] - keys, 0.0) * np.clip(own / np.float32(FULL_MATCH), 0.0, 1.0)
    behind[sessions == 0] = 0.0
    boost: Floats = np.float32(share) * behind
    return boost


def largest(values: Floats, count: int) -> NDArray[np.intp]:
    """The positions of the highest values, highest first; equal values in their order."""
    if 0 < count < len(values):
        least = np.partition(values, len(values) - count)[len(values) - count]
        above, even = np.flatnonzero(values > least), np.flatnonzero(values == least)
        some = np.concatenate([above, even[: count - len(above)]])
    else:
        some = np.arange(len(values) if count else 0)
    order: NDArray[np.intp] = some[np.lexsort((some, -values[some]))]
    return order


def reordered(keys: Sequence[float], marks: Sequence[float], weight: float) -> list[int]:
    """The order of the keys when the reranker's marks, 0..1, count with `weight`. Marks cluster
    near 0 and 1, so their log odds are compared, scaled to the spread of the keys."""
    ours, odds = np.array(keys), np.clip(np.array(marks, dtype=np.float64), 1e-6, 1 - 1e-6)
    theirs = np.log(odds / (1 - odds))
    scaled = (theirs - theirs.mean()) * (ours.std() / max(float(theirs.std()), 1e-6))
    joined = (1 - weight) * (ours - ours.mean()) + weight * scaled
    return [int(at) for at in np.argsort(-joined, kind="stable")]


def score(key: float) -> float:
    """A key as a score, 0..1: nearly the key itself while it is small, never above 1."""
    key = max(0.0, key)
    return float(key / (1.0 + key**8) ** 0.125)
