"""The arithmetic of phases: bounded, monotone, and a factor of 1 changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.engine.sessions.phases import (
    FRESH_DAYS,
    MAX_SHIFT,
    Ranked,
    by_file,
    cited_line,
    freshness,
    mix,
    rank,
    rank_of,
    shared_out,
    usage,
)
from memoryd.model import DAY, Memory, MemoryType
from memoryd.phases import FACTORS, OTHER, PHASES, SHARES, TOKENS
from memoryd.settings import PhaseSettings

UNIT = st.floats(0.0, 1.0)
FACTOR = st.floats(0.0, 4.0)
KINDS = ("gotcha", "error_pattern", "dead_end", None)


def memory(id: str, kind: str | None = None, **more: Any) -> Memory:
    metadata = {} if kind is None else {"kind": kind}
    pinned = more.pop("pinned", False)
    return Memory(
        id=id,
        type=MemoryType.FACT,
        content=f"Text of {id}",
        created_at=0.0,
        pinned=pinned,
        metadata=metadata | more,
    )


@given(UNIT, UNIT, UNIT, FACTOR)
def test_a_rank_is_near_the_relevance(
    relevance: float, fresh: float, use: float, factor: float
) -> None:
    assert abs(rank(relevance, fresh, use, factor) - relevance) <= MAX_SHIFT + 1e-12


@given(UNIT, UNIT, st.tuples(UNIT, UNIT, FACTOR), st.tuples(UNIT, UNIT, FACTOR))
def test_what_is_clearly_more_relevant_comes_first(
    one: float, other: float, of_one: tuple[float, ...], of_other: tuple[float, ...]
) -> None:
    if one > other + 2 * MAX_SHIFT + 1e-12:
        assert rank(one, *of_one) > rank(other, *of_other)


@given(UNIT, UNIT, UNIT, FACTOR, st.integers(0, 3), UNIT)
def test_more_of_anything_never_lowers_the_rank(
    relevance: float, fresh: float, use: float, factor: float, which: int, more: float
) -> None:
    given = [relevance, fresh, use, factor]
    raised = list(given)
    raised[which] = min(4.0 if which == 3 else 1.0, given[which] + more)
    assert rank(*raised) >= rank(*given) - 1e-12


@given(UNIT, st.tuples(UNIT, UNIT, FACTOR), st.tuples(UNIT, UNIT, FACTOR))
def test_where_relevance_is_equal_the_mix_decides(
    relevance: float, one: tuple[float, ...], other: tuple[float, ...]
) -> None:
    if mix(relevance, *one) > mix(relevance, *other) + 1e-6:
        assert rank(relevance, *one) > rank(relevance, *other)


def test_the_mix_has_its_weights() -> None:
    assert mix(1.0, 0.0, 0.0, 1.0) == 0.6
    assert mix(0.0, 1.0, 0.0, 1.0) == 0.25
    assert mix(0.0, 0.0, 1.0, 2.0) == 0.3


@pytest.mark.parametrize("kind", KINDS)
def test_a_factor_of_one_changes_nothing(kind: str | None) -> None:
    one = memory("a", kind)
    plain = rank_of(one, DAY, 0.5, {}, {})
    assert rank_of(one, DAY, 0.5, {"gotcha": 1.0, "dead_end": 1.0}, {}) == plain
    if kind is not None:
        assert rank_of(one, DAY, 0.5, {kind: 1.4}, {}) > plain
        assert rank_of(one, DAY, 0.5, {kind: 0.8}, {}) < plain


def test_trust_and_confidence_count() -> None:
    taught = memory("a", source="user_taught")
    assert rank_of(taught, 0.0, 1.0, {}, {"user_taught": 1.4}) > rank_of(taught, 0.0, 1.0, {}, {})
    sure, unsure = memory("a", confidence=0.9), memory("b", confidence=0.3)
    assert rank_of(sure, 0.0, 1.0, {}, {}) > rank_of(unsure, 0.0, 1.0, {}, {})


def test_freshness_and_use_are_between_0_and_1() -> None:
    assert [freshness(days) for days in (-1, 0, FRESH_DAYS, 2 * FRESH_DAYS)] == [1, 1, 0.5, 0.25]
    assert [usage(uses) for uses in (-1, 0, 7, 63, 1000)] == [0, 0, 0.5, 1, 1]


RANKED = st.lists(st.tuples(st.sampled_from(KINDS), UNIT, st.integers(1, 50)), max_size=40).map(
    lambda made: [
        Ranked(memory(str(n), kind), rank, cost) for n, (kind, rank, cost) in enumerate(made)
    ]
)


@given(RANKED)
def test_sharing_out_loses_nothing_and_keeps_the_order_within_a_kind(ranked: list[Ranked]) -> None:
    shares = {"gotcha": 60.0, "error_pattern": 30.0, OTHER: 10.0}
    taken = shared_out(ranked, shares)
    assert sorted(one.memory.id for one in taken) == sorted(one.memory.id for one in ranked)
    for kind in ("gotcha", "error_pattern"):
        ranks = [one.rank for one in taken if one.memory.metadata.get("kind") == kind]
        assert ranks == sorted(ranks, reverse=True)
    if ranked:
        assert taken[0].rank == max(one.rank for one in ranked)


def test_every_beginning_has_the_shares() -> None:
    ranked = [Ranked(memory(f"g{n}", "gotcha"), 0.1, 10) for n in range(100)]
    ranked += [Ranked(memory(f"e{n}", "error_pattern"), 0.9, 10) for n in range(100)]
    taken = shared_out(ranked, {"gotcha": 75.0, "error_pattern": 25.0})
    for length in (20, 40, 80):
        gotchas = sum(one.memory.id.startswith("g") for one in taken[:length])
        assert gotchas == pytest.approx(0.75 * length, abs=1)


def test_unused_shares_go_to_others_and_kinds_without_a_share_come_last() -> None:
    ranked = [Ranked(memory("plain"), 0.99, 10), Ranked(memory("g", "gotcha"), 0.2, 10)]
    ranked += [Ranked(memory(f"d{n}", "decision"), 0.1, 10) for n in range(5)]
    taken = shared_out(ranked, {"gotcha": 90.0, "decision": 10.0})
    assert [one.memory.id for one in taken] == ["g", "d0", "d1", "d2", "d3", "d4", "plain"]


def test_memories_about_a_file_are_shown_together() -> None:
    a, b = {"related_files": ["a.py"]}, {"related_files": ["b.py"]}
    ranked = [
        Ranked(memory("a1", "gotcha", **a), 0.9, 1),
        Ranked(memory("b1", "gotcha", **b), 0.8, 1),
        Ranked(memory("none"), 0.7, 1),
        Ranked(memory("a2", "gotcha", **a), 0.1, 1),
        Ranked(memory("pinned", "gotcha", pinned=True), 0.0, 1),
    ]
    shown = [one.memory.id for one in by_file(ranked)]
    assert shown == ["pinned", "a1", "a2", "b1", "none"]


def test_a_line_ends_with_its_citation() -> None:
    line = cited_line(memory("x", "gotcha", related_files=["src/a.py"], citation="Gotcha 7"))
    assert line == "- (gotcha, src/a.py) Text of x [Gotcha 7]"
    assert cited_line(memory("x")) == "- Text of x [Text of x]"


def test_the_defaults_are_whole() -> None:
    settings = PhaseSettings()
    assert tuple(TOKENS) == tuple(FACTORS) == tuple(SHARES) == PHASES
    assert all(sum(shares.values()) == 100 for shares in settings.shares.values())
    settings.factors["define"]["gotcha"] = 0.0
    assert PhaseSettings().factors["define"]["gotcha"] == 0.8
