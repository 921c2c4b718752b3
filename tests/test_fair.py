"""Turns between callers: queues and limiters."""

from __future__ import annotations

import itertools
import os
import sys
import threading

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from memoryd.fair import (
    BULK,
    BULK_NICE,
    CALLER,
    FairLimiter,
    FairQueue,
    Portion,
    in_background,
    in_bulk,
    lower_priority,
    paced,
)
from tests.processes import until


def test_callers_take_turns_and_each_keeps_its_order() -> None:
    queue: FairQueue[str] = FairQueue()
    for item in ("a1", "a2", "a3", "b1", "c1", "c2"):
        queue.push(item, item[0])
    assert (len(queue), queue.callers) == (6, 3)
    found = []
    while queue:
        assert queue.peek() in list(queue)
        found.append(queue.pop())
        if found[-1] == "a2":
            queue.push("b2", "b")
    assert found == ["a1", "b1", "c1", "a2", "c2", "a3", "b2"]


def test_what_was_taken_back_does_not_come() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push("a", "one")
    queue.push("b", "other")
    queue.remove("a", "one")
    queue.remove("c", "other")  # never pushed
    queue.remove("d", "nobody")
    assert [queue.pop()] == ["b"]
    assert not queue
    assert queue.callers == 0


async def test_who_waits_at_a_limiter_gets_in_by_turns() -> None:
    limiter, order = FairLimiter(1), []

    async def work(caller: str, number: int) -> None:
        CALLER.set(caller)
        async with limiter:
            order.append(f"{caller}{number}")
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(work, "a", number)
        tasks.start_soon(work, "b", 0)
    assert order.index("b0") <= 2
    assert [name for name in order if name != "b0"] == [f"a{n}" for n in range(5)]


async def test_a_limiter_lets_nobody_in_for_those_who_went_away() -> None:
    """Whether they still waited, or had just been let in."""
    limiter = FairLimiter(1)

    async def wait() -> None:
        async with limiter:
            await anyio.lowlevel.checkpoint()  # where it is cancelled, if it came so far

    for inside in (False, True):
        async with anyio.create_task_group() as tasks:
            async with limiter:
                tasks.start_soon(wait)
                await until(lambda: len(limiter.waiting) == 1)
                if not inside:
                    tasks.cancel_scope.cancel()
                    with anyio.CancelScope(shield=True):
                        await until(lambda: len(limiter.waiting) == 0)
            tasks.cancel_scope.cancel()
        with anyio.fail_after(60):
            async with limiter:
                pass


async def test_work_in_bulk_is_known_as_such_also_on_its_threads() -> None:
    with in_bulk():
        assert await anyio.to_thread.run_sync(BULK.get)
    assert not BULK.get()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a priority for each thread")
def test_only_the_thread_that_asks_gets_a_lower_priority() -> None:
    found: list[int] = []

    def run() -> None:
        lower_priority()
        found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    before = os.getpriority(os.PRIO_PROCESS, 0)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [max(before, BULK_NICE)]
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_a_portion_follows_what_was_measured() -> None:
    portion = Portion(least=4, most=100)
    assert portion.fitting(1.0) == 4  # nothing is known yet
    portion.took(10, 0.1)
    assert portion.fitting(0.25) == 25
    assert (portion.fitting(0.001), portion.fitting(9.0)) == (4, 100)
    for _ in range(20):
        portion.took(10, 0.5)  # it became slower
    assert 4 <= portion.fitting(0.25) <= 6


async def test_a_loop_in_the_background_ends_with_its_caller() -> None:
    """Otherwise a stop would wait for a sweep over a million memories."""
    began, ended = threading.Event(), threading.Event()

    def work() -> None:
        try:
            for _ in paced(itertools.count(), burst=1):
                began.set()
        finally:
            ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(in_background, work)
        await until(began.is_set)
        tasks.cancel_scope.cancel()
    await until(ended.is_set)
