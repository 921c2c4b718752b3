"""How two signals become one order. Pure arithmetic on arrays over slots.

Words and meaning disagree, and which is right depends on the query and on the data: so their
weight is not fixed. Each signal is trusted as far as it tells memories apart: the words' weight
is the ratio of the two spreads among the best candidates. Where every memory shares some words
with the query, words say little and their spread is wide for nothing; where few do, it is
narrow and a match stands out. Measured in `scripts/bench/retrieval.py`.

A message also gets a share of what stands out in the messages next to it. One with many
passages has had many chances for a good one, so the log of their number is held against it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memoryd.engine.vectors import Floats
from memoryd.engine.view import Signals, View
from memoryd.settings import SearchSettings

POOL = 256  # candidates of each signal that the spreads are taken over
# What the spreads are taken to be while there are few candidates to tell by.
USUAL_MEANING, USUAL_WORDS, PRIOR = 0.12, 0.08, 10
ENOUGH = 0.3  # points that must speak for a memory before a nudge counts in full
LEAST, MOST = 0.7, 4.0  # bounds of the trust in words


@dataclass(frozen=True, slots=True)
class Ranked:
    """Slots in order, and what each of them got from where; by slot but for `slots`."""

    slots: NDArray[np.intp]
    keys: Floats
    meaning: Floats
    words: Floats  # already weighed
    neighbours: Floats
    speaker: Floats
    length: Floats


def fuse(view: View, signals: Signals, by: SearchSettings, count: int) -> Ranked:
    """The best `count` of the allowed slots, best first."""
    meaning = signals.meaning
    picked = np.flatnonzero(view.allowed)
    weight = by.words_weight * trust(meaning[picked], signals.words[picked])
    words = signals.words * np.float32(weight if meaning.any() else 1.0)
    own = meaning + words
    lent = _lent(view, own, picked, by.neighbour_weight)
    length = np.float32(-by.length_weight) * view.spread
    keys = own + lent + length
    speaker = np.zeros_like(keys)
    if view.meant:
        # Only where something else speaks for it: a name alone finds nothing.
        said = view.spoken()
        speaker[said] = np.float32(by.speaker_weight) * np.minimum(1.0, own[said] / ENOUGH)
        keys += speaker
    best = largest(keys[picked], count)
    return Ranked(picked[best], keys, meaning, words, lent, speaker, length)


def trust(meaning: Floats, words: Floats) -> float:
    """What a point of words is worth in points of meaning, judged by their spreads."""
    pool = np.union1d(largest(meaning, POOL), largest(words, POOL))
    if not pool.size:
        return 1.0
    wide = _spread(meaning[pool], USUAL_MEANING)
    narrow = _spread(words[pool], USUAL_WORDS)
    return float(np.clip(wide / narrow, LEAST, MOST))


def _spread(values: Floats, usual: float) -> float:
    """The standard deviation, drawn towards what is usual while there are few values."""
    total = float(values.var()) * len(values) + usual * usual * PRIOR
    return float(np.sqrt(total / (len(values) + PRIOR)))


def _lent(view: View, own: Floats, picked: NDArray[np.intp], share: float) -> Floats:
    """What neighbours lend: a share of what is above the average of all."""
    lent = np.zeros(len(own), dtype=np.float32)
    if not picked.size or share == 0.0:
        return lent
    above = np.where(view.allowed, np.maximum(own - own[picked].mean(), 0.0), 0.0)
    for neighbours in (view.before, view.after):
        there = np.flatnonzero(neighbours >= 0)
        lent[there] += np.float32(share) * above[neighbours[there]]
    return lent


def largest(values: Floats, count: int) -> NDArray[np.intp]:
    """Where the highest values are, highest first; equal ones in the order they come."""
    if count < len(values):
        some = np.argpartition(-values, count)[:count]
    else:
        some = np.arange(len(values))
    order: NDArray[np.intp] = some[np.lexsort((some, -values[some]))]
    return order


def score(key: float) -> float:
    """A key as a score in 0..1: about the key itself while small, never above 1."""
    key = max(0.0, key)
    return float(key / (1.0 + key**8) ** 0.125)
