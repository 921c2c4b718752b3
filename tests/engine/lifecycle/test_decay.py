"""Confidence over time: the formula itself, for any memory and any clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.engine.lifecycle import decay
from memoryd.engine.lifecycle.decay import Use, certainty, confidence_now, is_deprecated, used
from memoryd.fields import HALF_LIVES, TRUST
from memoryd.model import DAY, Memory, MemoryType

START = 1_780_000_000.0


def memory(**metadata: Any) -> Memory:
    return Memory("m", MemoryType.FACT, "text", START, metadata=metadata)


@pytest.mark.parametrize(("kind", "half_life"), HALF_LIVES.items())
def test_half_of_the_confidence_is_left_after_a_half_life(
    kind: str, half_life: float | None
) -> None:
    found = memory(kind=kind, confidence=0.6)
    days = half_life or 10_000.0
    left = 0.6 if half_life is None else 0.3
    assert confidence_now(found, START + days * DAY) == left
    assert confidence_now(found, START) == 0.6
    assert confidence_now(found, START - 100 * DAY) == 0.6  # a clock that was set back


@pytest.mark.parametrize("metadata", [{}, {"confidence": 0.9}, {"kind": "my_own"}, {"kind": 7}])
def test_what_has_no_half_life_never_decays(metadata: dict[str, Any]) -> None:
    found = memory(**metadata)
    century = START + 36_500 * DAY
    assert confidence_now(found, century) == metadata.get("confidence", 0.8)
    assert not is_deprecated(found, century)
    assert not is_deprecated(memory(**metadata | {"confidence": 0.0}), century)


def test_the_clock_starts_at_the_last_use_or_confirmation() -> None:
    now = START + 100 * DAY
    for moments in (
        {"last_used_at": now - 60 * DAY},
        {"confirmed_at": now - 60 * DAY, "last_used_at": now - 90 * DAY},
        {"confirmed_at": now - 60 * DAY, "last_used_at": "odd"},
    ):
        assert confidence_now(memory(kind="gotcha", **moments), now) == 0.4


@pytest.mark.parametrize(
    ("confidence", "below", "half_lives", "deprecated"),
    [
        (0.8, 0.1, 2.99, False),
        (0.8, 0.1, 3.01, True),
        (0.95, 0.1, 2.99, False),
        (0.95, 0.1, 3.01, True),  # past three half-lives, however sure it was
        (0.4, 0.1, 1.99, False),
        (0.4, 0.1, 2.01, True),  # below the threshold
        (0.05, 0.1, 0.0, True),
        (0.05, 0.0, 2.9, False),
    ],
)
def test_a_memory_is_deprecated_below_the_threshold_or_past_three_half_lives(
    confidence: float, below: float, half_lives: float, deprecated: bool
) -> None:
    found = memory(kind="gotcha", confidence=confidence)
    assert is_deprecated(found, START + half_lives * 60 * DAY, below) is deprecated


def test_every_fifth_use_raises_the_confidence_up_to_a_limit() -> None:
    found = memory(kind="decision", confidence=0.8)
    seen = []
    for n in range(1, 31):
        found = used(found, Use(1, START + n))
        seen.append(found.metadata["confidence"])
    assert seen[3:5] == [0.8, 0.85]
    assert seen[8:10] == [0.85, 0.9]
    assert seen[13:] == [0.9] + [0.95] * 16
    assert (found.metadata["uses"], found.metadata["last_used_at"]) == (30, START + 30)
    assert used(memory(confidence=0.97), Use(50, START)).metadata["confidence"] == 0.97
    assert used(memory(source="import"), Use(12, START)).metadata["confidence"] == 0.9
    assert used(memory(confidence=0.5, uses=4), Use(7, START)).metadata["confidence"] == 0.6


def test_a_use_of_a_plain_memory_only_counts() -> None:
    found = used(memory(topic="tea", uses=3, last_used_at=START + 9), Use(7, START + 5))
    assert found.metadata == {"topic": "tea", "uses": 10, "last_used_at": START + 9}
    assert replace(found, metadata={}) == replace(memory(), metadata={})


def test_ten_uses_since_the_flag_lift_it() -> None:
    flag = {"needs_review": True, "review_reason": "odd", "review_uses": 7, "uses": 9}
    flagged = memory(**flag)
    assert used(flagged, Use(7, START)).metadata["needs_review"] is True
    lifted = used(flagged, Use(8, START)).metadata
    assert lifted == {"uses": 17, "last_used_at": START}


@given(
    metadata=st.dictionaries(
        st.sampled_from("topic uses last_used_at confirmed_at needs_review tags project".split()),
        st.one_of(st.integers(0, 10**9), st.floats(0, 1e9), st.text(), st.just(True)),
    ),
    now=st.floats(0, 1e11),
)
def test_a_plain_memory_is_exactly_as_sure_as_any_other(
    metadata: dict[str, Any], now: float
) -> None:
    assert certainty(memory(**metadata), now, TRUST) == 0.0


@given(
    kind=st.sampled_from([None, "gotcha", "decision", "work_state"]),
    source=st.sampled_from([None, *TRUST, "other"]),
    confidence=st.one_of(st.none(), st.floats(0, 1)),
    days=st.floats(0, 1000),
)
def test_certainty_is_bounded_and_falls_with_time(
    kind: str | None, source: str | None, confidence: float | None, days: float
) -> None:
    given = {"kind": kind, "source": source, "confidence": confidence}
    found = memory(**{key: value for key, value in given.items() if value is not None})
    at_first, later = (certainty(found, START + d * DAY, TRUST) for d in (0, days))
    assert -1.0 <= later <= at_first <= 1.0
    if is_deprecated(found, START + days * DAY):
        assert later == -1.0


def test_certainty_is_relative_to_what_a_plain_memory_has() -> None:
    def sure(**metadata: Any) -> float:
        return round(certainty(memory(**metadata), START, TRUST), 9)

    assert sure(kind="decision") == sure(source="import") == sure(confidence=0.8) == 0.0
    assert sure(source="user_taught") == 0.4
    assert sure(source="observer_inferred") == -0.15
    assert sure(confidence=0.4) == -0.5
    assert sure(confidence=1.0, source="user_taught") == 0.75


def test_only_what_a_machine_stored_and_nobody_verified_is_deleted() -> None:
    now = START + 400 * DAY
    due = memory(kind="gotcha", source="qa_auto", deprecated_at=now - 30 * DAY)
    rule = (now, 0.1, 30.0)
    assert decay.is_due(due, *rule)
    for change in (
        {"source": "user_taught"},
        {"source": "agent_explicit"},
        {"source": "import"},
        {"source": None},
        {"user_verified": True},
        {"deprecated_at": now - 29 * DAY},
        {"deprecated_at": None},
        {"last_used_at": now - DAY},
        {"kind": "decision"},
        {"kind": None},
    ):
        assert not decay.is_due(replace(due, metadata=dict(due.metadata) | change), *rule), change
    assert not decay.is_due(replace(due, pinned=True), *rule)
    for source in ("qa_auto", "mcp_auto", "commit_auto", "observer_inferred"):
        other = dict(due.metadata) | {"source": source}
        assert decay.is_due(replace(due, metadata=other), *rule)
