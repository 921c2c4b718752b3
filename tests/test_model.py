"""The rules: types, lifetimes, expiry. Pure functions, so the tests are tables."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.errors import InvalidInput
from memoryd.model import (
    DAY,
    Lifetimes,
    Memory,
    MemoryType,
    end_of_day,
    expiry,
    is_expired,
    parse_type,
)

ZONES = ["Europe/Vienna", "America/New_York", "Asia/Tokyo", "Pacific/Apia", "America/Sao_Paulo"]


def at(text: str, zone: str) -> float:
    """Epoch seconds of a local time."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("word", "type"),
    [
        ("fact", MemoryType.FACT),
        (" Conversation ", MemoryType.CONVERSATION),
        ("CONTEXT", MemoryType.CONTEXT),
        (MemoryType.FACT, MemoryType.FACT),
        ("observation", MemoryType.CONVERSATION),
        ("preference", MemoryType.FACT),
        ("event", MemoryType.CONTEXT),
        ("Task", MemoryType.CONTEXT),
    ],
)
def test_types_and_older_names_are_understood(word: str, type: MemoryType) -> None:
    assert parse_type(word) is type


@pytest.mark.parametrize("word", ["facts", "", None, 3, ["fact"]])
def test_other_words_are_refused_with_a_code_and_a_hint(word: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_type(word)
    assert refused.value.code == "type_unknown"
    assert "conversation" in refused.value.hint


@pytest.mark.parametrize(
    ("now", "zone", "end"),
    [
        ("2026-07-01T12:00", "Europe/Vienna", "2026-07-02T00:00"),
        ("2026-07-01T00:00", "Europe/Vienna", "2026-07-02T00:00"),
        ("2026-07-01T23:59:59.999", "Europe/Vienna", "2026-07-02T00:00"),
        ("2026-12-31T23:00", "Asia/Tokyo", "2027-01-01T00:00"),
        # The night in which clocks go forward, and the one in which they go back.
        ("2026-03-29T00:30", "Europe/Vienna", "2026-03-30T00:00"),
        ("2026-10-25T00:30", "Europe/Vienna", "2026-10-26T00:00"),
        # Midnight itself is skipped: the day ends with the skip, at 01:00 on the new clock.
        ("2018-11-03T12:00", "America/Sao_Paulo", "2018-11-04T01:00"),
        # The whole of 30 December 2011 was skipped.
        ("2011-12-29T12:00", "Pacific/Apia", "2011-12-31T00:00"),
    ],
)
def test_context_ends_with_the_local_day(now: str, zone: str, end: str) -> None:
    assert end_of_day(at(now, zone), ZoneInfo(zone)) == at(end, zone)


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29T00:00", 23), ("2026-10-25T00:00", 25), ("2026-06-01T00:00", 24)]
)
def test_days_of_23_and_25_hours_are_whole(day: str, hours: int) -> None:
    start = at(day, "Europe/Vienna")
    assert end_of_day(start, ZoneInfo("Europe/Vienna")) - start == hours * 3600


def test_midnight_that_comes_twice_ends_the_day_the_first_time() -> None:
    zone = ZoneInfo("America/Havana")  # 2026-11-01 01:00 goes back to 00:00
    end = end_of_day(at("2026-10-31T20:00", "America/Havana"), zone)
    assert end == datetime(2026, 11, 1, tzinfo=zone, fold=0).timestamp()


@given(st.floats(0, 4e9), st.sampled_from(ZONES))
def test_the_day_ends_after_now_and_within_two_days(now: float, zone: str) -> None:
    assert now < end_of_day(now, ZoneInfo(zone)) <= now + 26 * 3600


def test_without_a_zone_the_system_clock_decides() -> None:
    now = datetime(2026, 7, 1, 12).timestamp()
    assert end_of_day(now) == datetime(2026, 7, 2).timestamp()


def test_lifetimes_by_type() -> None:
    rules = Lifetimes(zone=timezone(timedelta(hours=2)))
    assert expiry(MemoryType.FACT, 1000.0, rules) is None
    assert expiry(MemoryType.CONVERSATION, 1000.0, rules) == 1000.0 + 30 * DAY
    assert expiry(MemoryType.CONTEXT, 1000.0, rules) == 22 * 3600


def test_a_pin_beats_the_override_and_the_override_beats_the_type() -> None:
    rules = Lifetimes()
    assert expiry(MemoryType.FACT, 0.0, rules, override=5.0) == 5.0
    assert expiry(MemoryType.CONVERSATION, 0.0, rules, override=5.0) == 5.0
    assert expiry(MemoryType.CONTEXT, 0.0, rules, override=5.0, pinned=True) is None


def test_expiry_is_from_the_very_instant_on() -> None:
    memory = Memory("a", MemoryType.CONTEXT, "x", created_at=0.0, expires_at=10.0)
    assert not is_expired(memory, 9.999)
    assert is_expired(memory, 10.0)
    assert not is_expired(Memory("a", MemoryType.FACT, "x", 0.0), 1e12)
    assert not is_expired(Memory("a", MemoryType.CONTEXT, "x", 0.0, 10.0, pinned=True), 11.0)


def test_a_copy_does_not_share_metadata() -> None:
    memory = Memory("a", MemoryType.FACT, "x", 0.0, metadata={"tags": ["one"]})
    memory.copy().metadata["tags"].append("two")
    assert memory.metadata == {"tags": ["one"]}
