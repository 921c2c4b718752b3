"""The weight of words for a query (`trust`), on an index with hand-made vectors."""

from __future__ import annotations

import numpy as np

from memoryd.engine.filters import Filter
from memoryd.engine.index.index import Index
from memoryd.engine.index.terms import terms
from memoryd.engine.index.view import Signals, View
from memoryd.engine.search.rank import POOL, fuse, largest, trust
from memoryd.model import Memory, MemoryType
from memoryd.ports import Passage, Record
from memoryd.settings import SearchSettings

DIMENSION = 8
QUERY = np.eye(DIMENSION, dtype=np.float32)[0]
QUIET = SearchSettings().quiet_weight


def filled(memories: list[tuple[str, float]]) -> Index:
    """Facts, each with its cosine to the query."""
    index = Index(DIMENSION)
    for number, (text, cosine) in enumerate(memories):
        vector = np.zeros(DIMENSION, dtype=np.float32)
        vector[0], vector[1] = cosine, np.sqrt(1 - cosine**2)
        memory = Memory(f"m{number}", MemoryType.FACT, text, 1.0)
        index.put(Record(memory, (Passage((0, len(text)), vector),), number + 1))
    return index


def asked(index: Index, query: str) -> tuple[View, Signals]:
    view = index.view(terms(query), Filter(), 0.0, QUIET)
    return view, view.signals(QUERY)


def trusted(index: Index, query: str) -> float:
    view, signals = asked(index, query)
    near, said = largest(signals.meaning, POOL), largest(signals.words, POOL)
    return trust(view, signals, near, said)


def test_a_rare_word_beside_a_common_one_is_no_more_than_chance() -> None:
    """Some memory has to have the only "plumber", and one in three has "spare" as well."""
    texts = [f"note {n} {'spare' if n % 3 == 0 else 'other'}" for n in range(300)]
    texts[30] = "note 30 spare plumber"
    index = filled([(text, 0.1) for text in texts])
    view, _ = asked(index, "spare plumber")
    best = view.best_coverage(np.arange(300))
    assert best > 0.95
    assert view.words.chance_coverage() > 0.9
    # Two words that only one memory has do not meet there by chance.
    texts[30] = "note 30 tap plumber"
    view, _ = asked(filled([(text, 0.1) for text in texts]), "tap plumber")
    assert view.words.chance_coverage() < 0.6


def test_the_nearest_memories_are_few_of_a_small_store() -> None:
    """Of 300 memories the nearest 70 share words with the query; the nearest 256 would say of
    it no more than all of them do."""
    near = [(f"harbour {'crane' if n % 2 else 'walk'} {n}", 0.5) for n in range(70)]
    far = [(f"letter {n} about something else", 0.1) for n in range(229)]
    index = filled([*near, *far, ("the crane harbour inspector left a blue folder", 0.3)])
    query = "what did the harbour inspector say about his folder"
    assert trusted(index, query) == 1.0
    view, signals = asked(index, query)
    assert fuse(view, signals, SearchSettings(), 1).slots.tolist() == [299]


def test_words_have_no_weight_where_the_nearest_share_none() -> None:
    near = [(f"boat moored at pier {n}", 0.5) for n in range(70)]
    far = [(f"letter {n} about the vessel", 0.1) for n in range(229)]
    index = filled([*near, *far, ("the vessel in the letter", 0.2)])
    assert trusted(index, "where is the sailing vessel kept") == 0.0
