"""When a round is due: after changes, but not for each of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from memoryd.engine.mirror.timer import MAX_WAIT, RETRY, Timer
from memoryd.engine.parts import Parts
from memoryd.settings import MemorySettings

START = (1, 0)


@dataclass
class Times:
    """What a timer reads of the parts."""

    now: float = 1000.0
    memory: MemorySettings = field(default_factory=MemorySettings)

    def monotonic(self) -> float:
        return self.now

    clock = monotonic


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def timer(times: Times) -> Timer:
    made = Timer(cast(Parts, cast(Any, times)))
    assert made.is_due(START, None)
    made.done(START, failed=False)
    return made


def test_nothing_is_due_without_a_change_until_the_upkeep(timer: Timer, times: Times) -> None:
    assert not timer.is_due(START, None)
    times.now += times.memory.cleanup_interval
    assert timer.is_due(START, None)


def test_a_change_is_due_once_no_more_come(timer: Timer) -> None:
    assert not timer.is_due((1, 1), None)
    assert not timer.is_due((1, 2), None)
    assert timer.is_due((1, 2), None)


def test_changes_without_end_are_due_after_a_while(timer: Timer, times: Times) -> None:
    due = []
    for number in range(1, 30):
        times.now += 1
        due.append(timer.is_due((1, number), None))
    assert due.index(True) == pytest.approx(MAX_WAIT, abs=1)


def test_an_expiry_is_due_at_its_time(timer: Timer, times: Times) -> None:
    assert not timer.is_due(START, times.now + 1)
    times.now += 1
    assert timer.is_due(START, times.now)


def test_a_failure_is_tried_again_after_a_while(timer: Timer, times: Times) -> None:
    timer.done(START, failed=True)
    assert not timer.is_due((1, 1), None)
    assert not timer.is_due((1, 1), None)
    times.now += RETRY
    assert timer.is_due((1, 1), None)
