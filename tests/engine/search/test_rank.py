"""The arithmetic of ranking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.engine.index.entries import Entry
from memoryd.engine.search.pipeline import Candidate, _undo_length_cost
from memoryd.engine.search.rank import _session_boost, largest, reordered
from memoryd.model import Memory, MemoryType, Why

KEYS = st.lists(st.floats(0.0, 1.5), min_size=1, max_size=30)


@given(KEYS, st.floats(0.0, 1.0), st.randoms(use_true_random=False))
def test_rerank_scores_reorder_and_lose_nothing(
    keys: list[float], weight: float, pick: object
) -> None:
    keys.sort(reverse=True)
    marks = [pick.random() for _ in keys]  # type: ignore[attr-defined]
    order = reordered(keys, marks, weight)
    assert sorted(order) == list(range(len(keys)))


@given(KEYS)
def test_rerank_scores_without_weight_change_nothing(keys: list[float]) -> None:
    keys.sort(reverse=True)
    marks = [n / len(keys) for n in range(len(keys))]
    assert reordered(keys, marks, 0.0) == list(range(len(keys)))


def test_rerank_scores_with_full_weight_are_the_order() -> None:
    assert reordered([0.9, 0.8, 0.7, 0.6], [0.1, 0.9, 0.0, 1.0], 1.0) == [3, 1, 0, 2]


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=60), st.integers(0, 70))
def test_largest_is_a_stable_sort_cut_off(values: list[float], count: int) -> None:
    made = np.array(values, dtype=np.float32)
    wanted = sorted(range(len(values)), key=lambda n: (-values[n], n))[:count]
    assert largest(made, count).tolist() == wanted


@given(
    st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 1.5, width=32)), max_size=30),
    st.floats(0.0, 1.0),
)
def test_the_session_boost_raises_no_result_above_the_best(
    given: list[tuple[int, float]], share: float
) -> None:
    sessions = np.array([session for session, _ in given], dtype=np.int64)
    keys = np.array([key for _, key in given], dtype=np.float32)
    drawn = _session_boost(sessions, keys, keys, share)
    for session, key, more in zip(sessions, keys, drawn, strict=True):
        best = keys[sessions == session].max()
        assert 0.0 <= more
        assert key + more <= best + 1e-5
        if (
            session == 0 or key == best or key == 0.0
        ):  # none; the best itself; nothing speaks for it
            assert more == 0.0


def candidate(key: float, dense: float, length: float) -> Candidate:
    memory = Memory("m", MemoryType.FACT, "text", 0.0, None)
    why = Why(dense=dense, lexical=0.0, neighbour=0.0, speaker=0.0, length=length)
    return Candidate(0, Entry(memory, [0], [(0, 4)], 0), key, why, row=0)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([(0.6, 0.6, 0.0), (0.2, 0.4, -0.2)], [0.6, 0.4]),  # raised to its cosine
        ([(0.3, 0.3, 0.0), (0.2, 0.4, -0.2)], [0.3, 0.3]),  # but not above the one before
        ([(0.6, 0.6, 0.0), (0.2, 0.4, 0.0)], [0.6, 0.2]),  # something else lowered it
        ([(0.6, 0.3, -0.1), (0.5, 0.2, -0.1)], [0.6, 0.5]),  # words carry it
    ],
)
def test_length_costs_places_and_hides_nothing_near(
    given: list[tuple[float, float, float]], kept: list[float]
) -> None:
    ordered = [candidate(*values) for values in given]
    _undo_length_cost(ordered)
    assert [found.key for found in ordered] == pytest.approx(kept)
    for found, (key, _, length) in zip(ordered, given, strict=True):
        assert found.key - key == pytest.approx(found.why.length - length)  # `why` still adds up
