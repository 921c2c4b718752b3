"""The word index: BM25 as it is written down, neighbours counted, nothing left behind."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.engine.index.terms import QUIET, terms
from memoryd.engine.index.words import AFTER, BEFORE, LENGTH, SATURATION, Lookup, WordIndex

VERSIONS = itertools.count()


def links(count: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.full(count, -1, dtype=np.int32)


def scores(
    index: WordIndex, query: str, count: int, before: list[int] | None = None
) -> list[float]:
    prev = links(count) if before is None else np.array(before, dtype=np.int32)
    after = links(count)
    for row, left in enumerate(prev):
        if left >= 0:
            after[left] = row
    found = index.look_up(terms(query), prev, after, 0.2, next(VERSIONS))
    return [float(score) for score in found.scores()]


def by_the_book(texts: list[str], query: str, before: list[int]) -> list[float]:
    """BM25 over each text with its neighbours' words added by their share, the slow way."""
    bags = [Counter(terms(text)) for text in texts]
    whole: list[dict[int, float]] = []
    for row, bag in enumerate(bags):
        mixed: dict[int, float] = {term: float(count) for term, count in bag.items()}
        after = [n for n, left in enumerate(before) if left == row]
        for other, share in [(before[row], BEFORE), *((n, AFTER) for n in after)]:
            if other >= 0:
                for term, count in bags[other].items():
                    mixed[term] = mixed.get(term, 0.0) + share * count
        whole.append(mixed)
    mean = sum(sum(bag.values()) for bag in whole) / len(whole)
    weights = {}
    for term in set(terms(query)):
        holders = sum(term in bag for bag in bags)
        rarity = math.log(1 + (len(bags) - holders + 0.5) / (holders + 0.5))
        weights[term] = rarity * (0.2 if term in QUIET else 1.0)
    found = []
    for mixed in whole:
        norm = SATURATION * (1 - LENGTH + LENGTH * sum(mixed.values()) / mean)
        gains = (
            weight * mixed[term] * (SATURATION + 1) / (mixed[term] + norm)
            for term, weight in weights.items()
            if term in mixed
        )
        found.append(sum(gains) / sum(weights.values()))
    return found


WORDS = st.sampled_from("cat dog tea the robot garden winter bridge".split())
TEXTS = st.lists(st.lists(WORDS, min_size=1, max_size=8).map(" ".join), min_size=1, max_size=12)


@given(TEXTS, st.lists(WORDS, min_size=1, max_size=4).map(" ".join), st.data())
def test_it_is_bm25_over_a_message_and_its_neighbours(
    texts: list[str], query: str, data: st.DataObject
) -> None:
    joined = data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts)))
    before = [n - 1 if n and join else -1 for n, join in enumerate(joined)]
    index = WordIndex()
    for row, text in enumerate(texts):
        index.put(row, terms(text))
    assert scores(index, query, len(texts), before) == pytest.approx(
        by_the_book(texts, query, before), abs=1e-5
    )


def test_rare_words_and_short_texts_count_more() -> None:
    index = WordIndex()
    texts = ["the cat", "the dog", "the zebra", "the cat and a very long tail of other words"]
    for row, text in enumerate(texts):
        index.put(row, terms(text))
    found = scores(index, "the zebra cat", 4)
    assert found[2] > found[0] > found[3] > found[1] > 0


def test_a_text_with_every_word_scores_about_one() -> None:
    index = WordIndex()
    for row, text in enumerate(["green tea at night", "black coffee at dawn", "a walk by the sea"]):
        index.put(row, terms(text))
    assert scores(index, "green tea at night", 3)[0] == pytest.approx(1.0, abs=0.15)


@given(st.lists(st.tuples(st.integers(0, 15), st.booleans(), TEXTS), max_size=40))
@pytest.mark.slow
def test_what_is_removed_leaves_nothing_behind(
    steps: list[tuple[int, bool, list[str]]],
) -> None:
    index, live = WordIndex(), dict[int, list[int]]()
    for row, keep, texts in steps:
        if row in live:
            index.remove(row, live.pop(row))
        if keep:
            live[row] = terms(texts[0])
            index.put(row, live[row])
    fresh = WordIndex()
    for row, found in live.items():
        fresh.put(row, found)
    for word in "cat dog tea the robot garden winter bridge".split():
        assert scores(index, word, 16) == pytest.approx(scores(fresh, word, 16))
    assert (len(index), index.vocabulary) == (len(fresh), fresh.vocabulary)
    for row, found in live.items():
        index.remove(row, found)
    assert (len(index), index.vocabulary) == (0, 0)


def test_a_query_of_many_words_keeps_the_rarest() -> None:
    index = WordIndex()
    for row in range(300):
        index.put(row, terms(f"common word{row}"))
    found = scores(index, "common " + " ".join(f"word{n}" for n in range(300)), 300)
    assert len(found) == 300
    assert 50 <= sum(score > 0 for score in found) < 300


def looked_up(texts: list[str], query: str) -> Lookup:
    index = WordIndex()
    for row, text in enumerate(texts):
        index.put(row, terms(text))
    none = links(len(texts))
    return index.look_up(terms(query), none, none, 0.2, next(VERSIONS))


def test_coverage_is_the_share_of_the_query_however_often_a_word_occurs() -> None:
    found = looked_up(["cat", "cat cat cat", "cat dog", "tea"], "cat dog")
    once, often, both, neither = found.coverage(np.arange(4)).tolist()
    assert 0.0 < once == often < both
    assert both == pytest.approx(1.0)
    assert neither == 0.0


def test_one_shared_word_is_chance_and_several_rare_ones_are_not() -> None:
    """Somebody holds each word, so one word of the query is always covered by chance."""
    noise = [f"cat {n}" for n in range(50)] + [f"dog {n}" for n in range(50)]
    single = looked_up([*noise, "violin"], "violin bridge")
    assert single.coverage(np.arange(101)).max() <= single.chance_coverage() + 0.01
    several = looked_up([*noise, "violin bridge", "violin x", "bridge y"], "violin bridge")
    assert several.coverage(np.arange(103)).max() > several.chance_coverage() + 0.3


@given(TEXTS, st.lists(WORDS, min_size=1, max_size=4).map(" ".join))
def test_coverage_by_chance_is_a_share(texts: list[str], query: str) -> None:
    assert 0.0 <= looked_up(texts, query).chance_coverage() <= 1.0
