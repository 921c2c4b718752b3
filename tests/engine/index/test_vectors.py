"""The first pass over rounded vectors misses nothing that exact vectors would find."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.engine.filters import Filter
from memoryd.engine.index import view as views
from memoryd.engine.index.index import Index
from memoryd.engine.index.rounded import Floats, Rounded
from memoryd.engine.index.vectors import BLOCK, VectorTable
from memoryd.engine.search import rank
from memoryd.model import Memory, MemoryType
from memoryd.ports import Passage, Record
from memoryd.settings import SearchSettings

DIMENSION = 48


def unit(vectors: Floats) -> Floats:
    made: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return made.astype(np.float32)


def cloud(count: int, seed: int, width: float = 1.0) -> Floats:
    """Unit vectors around one centre: the narrower, the harder to tell apart."""
    pick = np.random.default_rng(seed)
    centre = pick.standard_normal(DIMENSION, dtype=np.float32)
    return unit(centre + width * pick.standard_normal((count, DIMENSION), dtype=np.float32))


def index_of(vectors: Floats, passages: int = 1) -> Index:
    """Facts and conversations in turn, each with some of the vectors in order."""
    index = Index(DIMENSION)
    for number in range(0, len(vectors), passages):
        types = (MemoryType.FACT, MemoryType.CONVERSATION)
        memory = Memory(
            id=f"{number:020x}",
            type=types[number // passages % 2],
            content="a" * passages,
            created_at=1.0,
            session_id="s",
        )
        parts = vectors[number : number + passages]
        made = tuple(Passage((n, n + 1), part) for n, part in enumerate(parts))
        index.put(Record(memory, made))
    return index


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    width=st.sampled_from([0.0, 1e-4, 0.02, 0.3, 3.0]),
    spiky=st.booleans(),
)
def test_rounding_is_never_farther_off_than_it_says(seed: int, width: float, spiky: bool) -> None:
    vectors = cloud(200, seed, width)
    if spiky:  # one large number takes all of the precision
        vectors[:, 0] += 20.0
        vectors = unit(vectors)
    table = VectorTable(DIMENSION)
    table.add(list(vectors), 0)
    table.round_new_rows()
    query = cloud(1, seed + 1)[0]
    about, errors = table.approximate_cosines(query, np.ones(200, dtype=np.bool_))
    exact = np.clip(vectors.astype(np.float64) @ query.astype(np.float64), 0.0, 1.0)
    assert (np.abs(about - exact) <= errors).all()
    assert (np.abs(table.cosines_of(query, np.arange(200)) - exact) < 1e-5).all()


@pytest.mark.parametrize("passages", [1, 3])
@pytest.mark.parametrize("width", [1e-4, 0.3, 3.0])
@pytest.mark.parametrize("filter", [Filter(), Filter(type=MemoryType.FACT)])
@pytest.mark.slow
def test_a_first_look_changes_no_answer(
    passages: int, width: float, filter: Filter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MIN_ROWS", 0)  # also in a small table
    monkeypatch.setattr(views, "FEW_ROWS", 0)
    monkeypatch.setattr(rank, "POOL", 40)
    index = index_of(cloud(3000, 1, width), passages)
    looks = 0
    for number, query in enumerate(cloud(20, 2, width)):
        view = index.view([], filter, now=2.0, quiet=0.2)
        first, plain = view.signals(query, None, 40), view.signals(query)
        looks += first.approximate is not None
        ours, exact = (
            rank.fuse(view, signals, SearchSettings(), 25 + number) for signals in (first, plain)
        )
        # The average is approximate, so the neighbour boost differs a little.
        np.testing.assert_allclose(ours.keys, exact.keys, atol=2e-3)
        there = dict(zip(exact.slots.tolist(), exact.parts.tolist(), strict=True))
        both = [
            (part, there[s]) for s, part in zip(ours.slots, ours.parts, strict=True) if s in there
        ]
        assert len(both) >= len(there) - 1 or width < 1e-3
        for ours_of, exact_of in both:
            np.testing.assert_allclose(ours_of, exact_of, atol=2e-3)
            assert abs(ours_of[0] - exact_of[0]) < 1e-5, "its own meaning is exact"
    assert looks == (20 if width > 1e-3 else 0), "a crowd is compared exactly at once"


@pytest.mark.parametrize("passages", [1, 3])
def test_signals_do_not_change_once_they_are_made(
    passages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ranking that makes some of them exact returns what it computed beside them."""
    monkeypatch.setattr(views, "MIN_ROWS", 0)
    monkeypatch.setattr(rank, "POOL", 40)
    index = index_of(cloud(3000, 1), passages)
    (query,) = cloud(1, 2)
    view = index.view([], Filter(), now=2.0, quiet=0.2)
    signals, plain = view.signals(query, None, 40), view.signals(query)
    names = ("meaning", "words", "row_meaning", "row_words", "approximate")
    before = {name: getattr(signals, name).copy() for name in names}
    ranked = rank.fuse(view, signals, SearchSettings(), 25)
    for name in names:
        np.testing.assert_array_equal(getattr(signals, name), before[name], strict=True)
        with pytest.raises(ValueError, match="read-only"):
            getattr(signals, name)[0] = 1.0
    for slot, row in zip(ranked.slots, ranked.rows, strict=True):
        rows = np.flatnonzero(view.layout.owners == slot)
        assert row == rows[plain.row_meaning[rows].argmax()], "its best passage"


def test_a_filter_that_matches_a_few_of_many_finds_them() -> None:
    """Most blocks of vectors have no row that matches."""
    table = VectorTable(DIMENSION)
    vectors = cloud(3 * BLOCK, 1)
    table.add(list(vectors), 0)
    table.round_new_rows()
    wanted = np.zeros(3 * BLOCK, dtype=np.bool_)
    wanted[[5, 2 * BLOCK + 7]] = True
    (query,) = cloud(1, 2)
    exact = np.where(wanted, np.clip(vectors @ query, 0.0, 1.0), 0.0)
    np.testing.assert_allclose(table.cosines(query, wanted), exact, atol=1e-5)
    about, errors = table.approximate_cosines(query, wanted)
    assert (np.abs(about - exact) <= errors).all()


def test_room_is_found_before_it_is_needed() -> None:
    table = VectorTable(DIMENSION)
    table.reserve(3 * BLOCK)
    blocks = len(table._blocks)
    table.add(list(cloud(3 * BLOCK, 1)), 0)
    assert len(table._blocks) == blocks == 3
    table.reserve(1)
    assert len(table._blocks) == 4
    table.remove([0])
    table.reserve(1)
    assert len(table._blocks) == 4


def test_a_freed_row_leaves_nothing_in_the_rounded_vectors() -> None:
    table = VectorTable(DIMENSION)
    vectors = cloud(2, 1)
    rows = table.add(list(vectors), 0)
    table.round_new_rows()
    table.remove([rows[0]])
    about, _ = table.approximate_cosines(vectors[0], np.ones(2, dtype=np.bool_))
    assert about[0] == 0.0
    assert about[1] > 0.0


def test_a_zero_vector_is_rounded_to_itself() -> None:
    made = Rounded.of(np.zeros((2, DIMENSION), dtype=np.float32))
    assert not made.values.any()
    assert not made.error.any()
