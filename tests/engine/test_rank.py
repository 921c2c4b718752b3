"""The arithmetic of orders."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memoryd.engine.rank import _drawn, largest, reordered

KEYS = st.lists(st.floats(0.0, 1.5), min_size=1, max_size=30)


@given(KEYS, st.floats(0.0, 1.0), st.randoms(use_true_random=False))
def test_marks_reorder_and_lose_nothing(keys: list[float], weight: float, pick: object) -> None:
    keys.sort(reverse=True)
    marks = [pick.random() for _ in keys]  # type: ignore[attr-defined]
    order = reordered(keys, marks, weight)
    assert sorted(order) == list(range(len(keys)))


@given(KEYS)
def test_marks_without_a_say_change_nothing(keys: list[float]) -> None:
    keys.sort(reverse=True)
    marks = [n / len(keys) for n in range(len(keys))]
    assert reordered(keys, marks, 0.0) == list(range(len(keys)))


def test_marks_with_the_only_say_are_the_order() -> None:
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
def test_the_best_of_a_session_draws_the_rest_but_not_beyond_itself(
    given: list[tuple[int, float]], share: float
) -> None:
    sessions = np.array([session for session, _ in given], dtype=np.int64)
    keys = np.array([key for _, key in given], dtype=np.float32)
    drawn = _drawn(sessions, keys, keys, share)
    for session, key, more in zip(sessions, keys, drawn, strict=True):
        best = keys[sessions == session].max()
        assert 0.0 <= more
        assert key + more <= best + 1e-5
        if (
            session == 0 or key == best or key == 0.0
        ):  # none; the best itself; nothing speaks for it
            assert more == 0.0
