"""Labels: the words that tell a group from the others, and never a secret."""

from __future__ import annotations

import numpy as np
import pytest

from memoryd.engine.map.labels import (
    MAX_GROUPS,
    centres_of,
    group_count,
    nearest_centre,
    words_of_groups,
)

COOKING = [f"The recipe of the soup needs {n} onions and an oven." for n in range(6)]
CODE = [f"The docker build of service {n} fails on the cache." for n in range(6)]


def test_a_label_has_the_words_that_only_its_group_has() -> None:
    cooking, code = words_of_groups([COOKING, CODE])
    assert set(cooking.split()) <= {"recipe", "soup", "needs", "onions", "oven"}
    assert set(code.split()) <= {"docker", "build", "service", "fails", "cache"}
    assert 2 <= len(cooking.split()) <= 3


def test_words_of_other_languages_are_labels_and_their_small_words_are_not() -> None:
    french = [f"Nous avons choisi la bibliothèque numéro {n} pour le jardin." for n in range(5)]
    chinese = ["我们喜欢爬山和露营", "周末去爬山", "爬山路线"]
    of_french, of_chinese, _ = words_of_groups([french, chinese, CODE])
    assert {"bibliothèque", "jardin"} <= set(of_french.split())
    assert "爬山" in of_chinese


def test_a_word_of_one_text_is_no_label() -> None:
    label = words_of_groups([["Only xylophone here", "nothing there", "nor here", "at all"]])[0]
    assert "xylophone" not in label


@pytest.mark.parametrize(
    "secret", ["sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD", "[secret removed: api key]"]
)
def test_a_secret_is_never_a_label(secret: str) -> None:
    label = words_of_groups([[f"garden {secret} {n}" for n in range(5)]])[0]
    assert label == "garden"


def test_groups_without_words_have_no_label() -> None:
    assert words_of_groups([["1 2 3", "4 5 6"], []]) == ["", ""]


def test_groups_are_of_what_lies_together() -> None:
    pick = np.random.default_rng(1)
    spots = np.array([[0, 0], [10, 0], [0, 10], [10, 10]], dtype=np.float32)
    places = (spots[np.arange(400) % 4] + 0.1 * pick.standard_normal((400, 2))).astype(np.float32)
    groups = nearest_centre(places, centres_of(places))
    for spot in range(4):  # no group has points of two spots
        others = groups[np.arange(400) % 4 != spot]
        assert not set(groups[spot::4]) & set(others)


def test_the_number_of_groups_stays_readable() -> None:
    assert [group_count(n) for n in (1, 2, 5)] == [1, 1, 1]
    assert 8 <= group_count(400) <= MAX_GROUPS
    assert group_count(1_000_000) == MAX_GROUPS <= 24
