"""How two signals become one order. Pure arithmetic on arrays over slots.

Words and meaning disagree, and which is right depends on the query and on the data, so the weight
of words is judged for every query (`trust`). Words count

- as far as a memory covers more of the query than chance would give some memory anyway;
- as far as the memories near by meaning share the query's words, measured by how much word scores
  vary: where they do not, the question is asked in other words than the answer;
- less where every memory shares words with the query, as long texts about one subject do.

Fixed weights, reciprocal rank fusion and the ratio of the spreads of both signals were measured
and lose to the better single signal on some sets (`scripts/bench/retrieval.py`).

Neighbour boost: a message is drawn towards the better of the messages before and after it, and a
brief reply gets a share of the brief question before it. Session boost: the rest of a session is
drawn towards its best match. Both raise a message towards what is there, so that memories without
neighbours keep their place. One with many passages has had many chances for a good one, so the log
of their number is held against it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.index.vectors import Floats
from memoryd.engine.index.view import Signals, View
from memoryd.settings import SearchSettings

POOL = 256  # candidates of each signal, by which both are judged
# The usual spread of word scores, and how many memories it counts as while there are few.
USUAL_SPREAD, PRIOR = 0.08, 10
LESS = 1e-5  # what a sum of float32 can be off
ENOUGH = 0.3  # points that must speak for a memory before a nudge counts in full
# When words are trusted; see `trust`.
AGREEMENT = 0.4  # what the words of memories near by meaning count beside coverage
NAMED = 0.3  # the same for a query that names a speaker
NEAREST = 4  # how many are near: so many times the root of how many there are
FULL_EVIDENCE = 0.18  # words are silent without any, and have full weight from here on
# A memory with nearly all words of the query, with far more of them than chance gives, or with a
# rare number of the query is taken at its word, whatever else is known.
SURE_COVERAGE, SURE_BEYOND_CHANCE, SURE_TRUST = 0.9, 0.4, 0.5
CROWD = 0.05  # average word score of all memories above which words say less
REFERENCE = 100  # a question lends what it has above the candidate at this place


@dataclass(frozen=True, slots=True)
class Ranked:
    """Slots in order, and what each of them got from where."""

    slots: NDArray[np.intp]
    keys: Floats
    parts: Floats  # a row each: meaning, words, neighbours, speaker, length


def fuse(view: View, signals: Signals, by: SearchSettings, count: int) -> Ranked:
    """The best `count` of the allowed slots, best first."""
    near = _best(view, signals.meaning, max(POOL, count), signals.least)
    said = _best(view, signals.words, max(POOL, count))
    slots = _candidates(view, near, said)
    view.sharpen(signals, _and_beside(view, slots))
    weight = np.float32(1.0)
    if signals.meaning.any():
        weight = np.float32(by.words_weight * trust(view, signals, near[:POOL], said[:POOL]))
    own = signals.meaning[slots] + weight * signals.words[slots]
    boost = _neighbour_boost(view, signals, slots, own, weight, by)
    # At most half of what speaks for it: an exact match in a long text is still one.
    length = -np.minimum(np.float32(by.length_weight) * view.layout.spread[slots], own / 2)
    speaker = np.zeros_like(own)
    if view.meant:
        # Only where something else speaks for it: a name alone finds nothing.
        named = view.spoken(slots)
        speaker[named] = np.float32(by.speaker_weight) * np.minimum(1.0, own[named] / ENOUGH)
    keys = own + boost + length + speaker
    drawn = _session_boost(view.layout.sessions[slots], keys, own, by.session_weight)
    boost, keys = boost + drawn, keys + drawn
    best = largest(keys, count)
    columns = (signals.meaning[slots], weight * signals.words[slots], boost, speaker, length)
    return Ranked(slots[best], keys[best], np.stack([column[best] for column in columns], axis=1))


def _best(view: View, signal: Floats, count: int, least: float = 0.0) -> NDArray[np.intp]:
    """The allowed slots with the highest values, highest first; at least so many are over
    `least`, or it is 0."""
    found = np.flatnonzero((signal > np.float32(least - LESS)) & (signal > 0.0) & view.allowed)
    best: NDArray[np.intp] = found[largest(signal[found], count)]
    if len(best) < count:
        others = view.allowed & (signal == 0.0)
        rest = np.flatnonzero(others[: 4 * count])  # mostly enough
        if len(best) + len(rest) < count:
            rest = np.flatnonzero(others)
        best = np.concatenate([best, rest[: count - len(best)]])
    return best


def _candidates(view: View, near: NDArray[np.intp], said: NDArray[np.intp]) -> NDArray[np.intp]:
    """The best of either signal and their neighbours: nothing else can come out first."""
    every = _and_beside(view, np.union1d(near, said))
    usable: NDArray[np.intp] = every[view.allowed[every]]
    return usable


def _and_beside(view: View, slots: NDArray[np.intp]) -> NDArray[np.intp]:
    """These slots, which are in order, and their neighbours."""
    beside = np.concatenate([view.layout.before[slots], view.layout.after[slots]])
    beside = beside[beside >= 0]
    return np.union1d(slots, beside) if beside.size else slots


def trust(view: View, signals: Signals, near: NDArray[np.intp], said: NDArray[np.intp]) -> float:
    """How far words are trusted for this query, 0..1. `near` and `said` are the best by meaning
    and by words."""
    coverage = view.best_coverage(said)
    spread = _spread(signals.words[np.union1d(near, said)])
    memories = int(np.count_nonzero(view.allowed))
    # A fixed number would be half of a small store, and say of it no more than the average.
    nearest = near[: math.ceil(NEAREST * math.sqrt(memories))]
    shared = float(signals.words[nearest].mean()) if near.size else 0.0
    beyond_chance = coverage - view.words.chance_coverage()
    evidence = beyond_chance + AGREEMENT * math.log(max(shared, 1e-3) / spread)
    evidence += NAMED * view.names_speaker
    known = evidence / FULL_EVIDENCE
    # As if a few more memories shared no word: the only memory there is has no crowd about it.
    average = float(np.dot(signals.words, view.allowed)) / (memories + PRIOR)
    known = min(1.0, known) * min(1.0, CROWD / max(average, 1e-6))
    sure = max((coverage - SURE_COVERAGE) / 0.1, (beyond_chance - SURE_BEYOND_CHANCE) / 0.1)
    return max(0.0, known, SURE_TRUST * min(1.0, max(sure, float(view.names_number))))


def _spread(values: Floats) -> float:
    """The standard deviation, drawn towards what is usual while there are few values."""
    total = float(values.var()) * len(values) + USUAL_SPREAD * USUAL_SPREAD * PRIOR
    return float(np.sqrt(total / (len(values) + PRIOR)))


def _neighbour_boost(
    view: View,
    signals: Signals,
    slots: NDArray[np.intp],
    own: Floats,
    weight: np.float32,
    by: SearchSettings,
) -> Floats:
    """What the messages before and after add: a share of what they have more than the message
    itself; and to a brief reply, a share of what the brief question before it has more than the
    candidate at `REFERENCE`."""
    layout, boost = view.layout, np.zeros(len(slots), dtype=np.float32)
    if by.neighbour_weight == by.answer_weight == 0.0 or not len(slots):
        return boost
    place = max(0, len(own) - 1 - REFERENCE)
    reference = np.partition(own, place)[place]
    for links in (layout.before, layout.after):
        beside = links[slots]
        there = np.flatnonzero(beside >= 0)
        there = there[view.allowed[beside[there]]]
        found = beside[there]
        theirs = signals.meaning[found] + weight * signals.words[found]
        boost[there] += np.float32(by.neighbour_weight) * np.maximum(theirs - own[there], 0.0)
        if links is layout.before:
            answers = layout.asks[found] * layout.brief[slots[there]]
            # As far as words are trusted: a question in other words meets no reply by this.
            shares = np.float32(by.answer_weight) * min(weight, np.float32(1.0)) * answers
            boost[there] += shares * np.maximum(theirs - reference, 0.0)
    return boost


def _session_boost(sessions: NDArray[np.int64], keys: Floats, own: Floats, share: float) -> Floats:
    """How far the best of its session draws a memory towards itself: never beyond, and only where
    something else speaks for it."""
    if not share or not sessions.any():
        return np.zeros_like(keys)
    _, places = np.unique(sessions, return_inverse=True)
    best = np.zeros(len(keys), dtype=np.float32)
    np.maximum.at(best, places, keys)
    behind = np.maximum(best[places] - keys, 0.0) * np.clip(own / np.float32(ENOUGH), 0.0, 1.0)
    behind[sessions == 0] = 0.0
    drawn: Floats = np.float32(share) * behind
    return drawn


def largest(values: Floats, count: int) -> NDArray[np.intp]:
    """Where the highest values are, highest first; equal ones in the order they come."""
    if 0 < count < len(values):
        least = np.partition(values, len(values) - count)[len(values) - count]
        above, even = np.flatnonzero(values > least), np.flatnonzero(values == least)
        some = np.concatenate([above, even[: count - len(above)]])
    else:
        some = np.arange(len(values) if count else 0)
    order: NDArray[np.intp] = some[np.lexsort((some, -values[some]))]
    return order


def reordered(keys: Sequence[float], marks: Sequence[float], weight: float) -> list[int]:
    """The order of keys when marks, 0..1, have so much of a say. Marks crowd at their ends, so
    they are taken apart there, and made to spread as the keys do."""
    ours, odds = np.array(keys), np.clip(np.array(marks, dtype=np.float64), 1e-6, 1 - 1e-6)
    theirs = np.log(odds / (1 - odds))
    apart = (theirs - theirs.mean()) * (ours.std() / max(float(theirs.std()), 1e-6))
    joined = (1 - weight) * (ours - ours.mean()) + weight * apart
    return [int(at) for at in np.argsort(-joined, kind="stable")]


def score(key: float) -> float:
    """A key as a score in 0..1: about the key itself while small, never above 1."""
    key = max(0.0, key)
    return float(key / (1.0 + key**8) ** 0.125)
