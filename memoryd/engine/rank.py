"""How two signals become one order. Pure arithmetic on arrays over slots.

Words and meaning disagree, and which is right depends on the query and on the data: so their
weight is not fixed. Each signal is trusted as far as it tells memories apart: the words' weight
is the ratio of the two spreads among the best candidates. Where every memory shares some words
with the query, words say little and their spread is wide for nothing; where few do, it is
narrow and a match stands out. Measured in `scripts/bench/retrieval.py`.

A message also gets a share of what stands out in the messages next to it, and is drawn towards the
best of its session: talk has a topic, and the best match shows which. One with many
passages has had many chances for a good one, so the log of their number is held against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.vectors import Floats
from memoryd.engine.view import Signals, View
from memoryd.settings import SearchSettings

POOL = 256  # candidates of each signal; the spreads are taken over them
# What the spreads are taken to be while there are few candidates to tell by.
USUAL_MEANING, USUAL_WORDS, PRIOR = 0.12, 0.08, 10
LESS = 1e-5  # what a sum of float32 can be off
ENOUGH = 0.3  # points that must speak for a memory before a nudge counts in full
LEAST, MOST = 0.7, 4.0  # bounds of the trust in words


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
        weight = np.float32(by.words_weight * trust(signals, near[:POOL], said[:POOL]))
    own = signals.meaning[slots] + weight * signals.words[slots]
    lent = _lent(view, signals, slots, weight, by)
    # At most half of what speaks for it: an exact match in a long text is still one.
    length = -np.minimum(np.float32(by.length_weight) * view.layout.spread[slots], own / 2)
    speaker = np.zeros_like(own)
    if view.meant:
        # Only where something else speaks for it: a name alone finds nothing.
        named = view.spoken(slots)
        speaker[named] = np.float32(by.speaker_weight) * np.minimum(1.0, own[named] / ENOUGH)
    keys = own + lent + length + speaker
    drawn = _drawn(view.layout.sessions[slots], keys, own, by.session_weight)
    lent, keys = lent + drawn, keys + drawn
    best = largest(keys, count)
    columns = (signals.meaning[slots], weight * signals.words[slots], lent, speaker, length)
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


def trust(signals: Signals, near: NDArray[np.intp], said: NDArray[np.intp]) -> float:
    """What a point of words is worth in points of meaning, judged by their spreads."""
    pool = np.union1d(near, said)
    wide = _spread(signals.meaning[pool], USUAL_MEANING)
    narrow = _spread(signals.words[pool], USUAL_WORDS)
    return float(np.clip(wide / narrow, LEAST, MOST))


def _spread(values: Floats, usual: float) -> float:
    """The standard deviation, drawn towards what is usual while there are few values."""
    total = float(values.var()) * len(values) + usual * usual * PRIOR
    return float(np.sqrt(total / (len(values) + PRIOR)))


def _lent(
    view: View, signals: Signals, slots: NDArray[np.intp], weight: np.float32, by: SearchSettings
) -> Floats:
    """What neighbours lend: a share of what is above the average of all; more where one is a brief
    question and the next a brief reply, which says little by itself."""
    layout, share = view.layout, np.float32(by.neighbour_weight)
    lent = np.zeros(len(slots), dtype=np.float32)
    allowed = int(np.count_nonzero(view.allowed))
    if not allowed or by.neighbour_weight == by.answer_weight == 0.0:
        return lent
    totals = [float(np.dot(signal, view.allowed)) for signal in (signals.meaning, signals.words)]
    average = (totals[0] + float(weight) * totals[1]) / allowed
    for links in (layout.before, layout.after):
        beside = links[slots]
        there = np.flatnonzero(beside >= 0)
        there = there[view.allowed[beside[there]]]
        found = beside[there]
        own = signals.meaning[found] + weight * signals.words[found]
        shares = np.full(len(found), share)
        if links is layout.before:
            answers = layout.asks[found] * layout.brief[slots[there]]
            shares += np.float32(by.answer_weight) * answers
        lent[there] += shares * np.maximum(own - np.float32(average), 0.0)
    return lent


def _drawn(sessions: NDArray[np.int64], keys: Floats, own: Floats, share: float) -> Floats:
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
