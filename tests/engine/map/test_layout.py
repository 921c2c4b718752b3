"""The layout: what is alike lies together, and what comes later moves nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from memoryd.engine.map.layout import LANDMARKS, Floats, lay_out

DIMENSION = 64
Themes = NDArray[np.int64]


def themes(count: int, of: int, seed: int = 1) -> tuple[Floats, Themes]:
    """Unit vectors around `of` themes, and the theme of each."""
    pick = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((of, DIMENSION))
    theme = np.arange(count, dtype=np.int64) % of
    made = centres[theme] + 0.7 * pick.standard_normal((count, DIMENSION))
    unit = made / np.linalg.norm(made, axis=1, keepdims=True)
    return unit.astype(np.float32), theme


def purity(places: NDArray[Any], theme: Themes, nearest: int = 10) -> float:
    """The share of the nearest points on the plane that are of the same theme."""
    squares = ((places[:, None, :] - places[None, :, :]) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    around = np.argsort(squares, axis=1)[:, :nearest]
    return float((theme[around] == theme[:, None]).mean())


def test_themes_lie_apart_where_two_main_axes_mix_them() -> None:
    vectors, theme = themes(600, of=12)
    layout = lay_out(vectors)
    plain = (vectors - layout.mean) @ layout.axes[:, :2]
    ours = purity(layout.place(vectors), theme)
    assert ours > 0.95
    assert ours > purity(plain, theme) + 0.2


def test_points_that_are_no_landmarks_join_their_theme() -> None:
    vectors, theme = themes(LANDMARKS + 600, of=12)
    layout = lay_out(vectors)
    places = layout.place(vectors)
    assert purity(places[-600:], theme[-600:]) > 0.95


def test_a_place_depends_on_the_vector_alone() -> None:
    """A point that comes later is placed without moving another."""
    vectors, _ = themes(300, of=5)
    layout = lay_out(vectors)
    before = layout.place(vectors)
    more, _ = themes(50, of=5, seed=9)
    after = layout.place(np.concatenate([vectors, more]))
    assert np.allclose(before, after[:300], atol=1e-3)


def test_the_same_vectors_give_the_same_layout() -> None:
    vectors, _ = themes(200, of=4)
    first, second = lay_out(vectors), lay_out(vectors.copy())
    assert np.array_equal(first.places, second.places)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 20])
def test_few_vectors_have_places(count: int) -> None:
    vectors, _ = themes(count, of=2)
    assert np.isfinite(lay_out(vectors).place(vectors)).all()


@pytest.mark.parametrize("count", [1, 3, 50])
def test_equal_vectors_have_places(count: int) -> None:
    vectors = np.repeat(themes(1, of=1)[0], count, axis=0)
    assert np.isfinite(lay_out(vectors).place(vectors)).all()
