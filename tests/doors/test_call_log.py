"""Every call is counted, timed and logged, and nothing of what it said."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from memoryd.doors.calls import LATEST, CallLog, note_steps


def clock(*steps: float) -> Iterator[float]:
    """Each call takes the next of these seconds."""
    now = 0.0
    for step in steps:
        yield now
        now += step
        yield now


def test_a_call_is_one_event_with_its_outcome() -> None:
    calls = CallLog(clock(0.25, 0.5).__next__)
    with capture_logs() as events:
        with calls.timed("search_memories") as call:
            call.counts = {"results": 3}
        with calls.timed("store_memory") as call:
            call.outcome = "content_empty"
    assert events == [
        {"event": "call", "log_level": "info", "tool": "search_memories"}
        | {"ms": 250.0, "outcome": "ok", "results": 3},
        {"event": "call", "log_level": "info", "tool": "store_memory"}
        | {"ms": 500.0, "outcome": "content_empty"},
    ]


def test_the_steps_of_a_search_are_logged_and_counted() -> None:
    """Of the call that takes them, not of the next."""
    calls = CallLog(clock(0.25, 0.25, 0.25).__next__)
    with capture_logs() as events:
        for fuse in (0.002, 0.004):
            with calls.timed("search_memories"):
                note_steps({"embed": 0.1, "fuse": fuse})
        with calls.timed("store_memory"):
            pass
    note_steps({"embed": 9.0})  # of no call: an engine that is used without the doors
    assert [(event.get("embed_ms"), event.get("fuse_ms")) for event in events] == [
        (100.0, 2.0),
        (100.0, 4.0),
        (None, None),
    ]
    found = calls.summary()
    assert found["search_memories"]["steps_p50_ms"] == {"embed": 100.0, "fuse": 4.0}
    assert "steps_p50_ms" not in found["store_memory"]


def test_a_call_that_is_given_up_is_counted() -> None:
    calls = CallLog()
    with pytest.raises(KeyboardInterrupt), calls.timed("search_memories"):
        raise KeyboardInterrupt
    assert calls.summary()["search_memories"]["errors"] == 1


def test_percentiles_are_of_the_latest_calls() -> None:
    slow, fast = [9.0] * 10, [0.001] * (LATEST - 1) + [0.5]
    calls = CallLog(clock(*slow, *fast).__next__)
    for _ in range(len(slow) + len(fast)):
        with calls.timed("search_memories"):
            pass
    found = calls.summary()["search_memories"]
    assert (found["calls"], found["errors"]) == (LATEST + 10, 0)
    assert (found["p50_ms"], found["p99_ms"]) == (1.0, 1.0)


def test_metrics_are_prometheus_text() -> None:
    calls = CallLog(clock(0.25, 0.25).__next__)
    for outcome in ("ok", "not_found"):
        with calls.timed("forget_memory") as call:
            call.outcome = outcome
    lines = list(calls.metrics())
    assert 'memoryd_calls_total{tool="forget_memory",outcome="not_found"} 1' in lines
    assert 'memoryd_call_seconds{tool="forget_memory",quantile="0.5"} 0.250000' in lines
    assert 'memoryd_call_seconds_sum{tool="forget_memory"} 0.500000' in lines
    assert 'memoryd_call_seconds_count{tool="forget_memory"} 2' in lines
