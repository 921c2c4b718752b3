"""Fairness between callers: they take turns at scarce resources, however much each asks for.

A caller is a connection. Its door sets `CALLER`, a context variable that the tasks and threads of
a call inherit; background work of the daemon counts as one caller. Shared queues are `FairQueue`s,
so the code in between does not pass the caller on.

Work on very many memories, as of an import, is marked with `in_bulk`, in the same way. It gets what
others leave: its queues are served last, and its threads run at a lower priority.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Generic, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
from anyio.lowlevel import RunVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")
One = TypeVar("One")

CALLER: ContextVar[Hashable] = ContextVar("caller", default=None)
# Threads that compute for callers at the same time. More threads than cores would only make each
# of them slower.
THREADS = max(2, min(4, os.cpu_count() or 1))
PACE = 0.0002  # seconds of the sleeps in `paced`
BULK: ContextVar[bool] = ContextVar("bulk", default=False)
IN_BACKGROUND: ContextVar[bool] = ContextVar("in_background", default=False)
BULK_NICE = 19  # the lowest priority: a thread of it gets little of a core that others want


@contextmanager
def in_bulk() -> Iterator[None]:
    """Work inside the block gives way to that of others."""
    token = BULK.set(True)
    try:
        yield
    finally:
        BULK.reset(token)


def lower_priority() -> None:
    """Lower the priority of this thread, for good. Only Linux has one for each thread."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BULK_NICE)


class Portion:
    """How many units of work take about so long, as measured until now."""

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most
        self._each = 0.0  # seconds for one; 0: not measured yet

    def fitting(self, seconds: float) -> int:
        """As many as take so long."""
        fitting = int(seconds / self._each) if self._each else 0
        return min(max(fitting, self._least), self._most)

    def took(self, units: int, seconds: float) -> None:
        """So many units took so long."""
        each = seconds / max(units, 1)
        self._each = (3 * self._each + each) / 4 if self._each else each


class FairQueue(Generic[Item]):
    """First in, first out for each caller; round robin between callers."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, deque[Item]] = (
            OrderedDict()
        )  # in the order of their turns

    def push(self, item: Item, caller: Hashable) -> None:
        self._waiting.setdefault(caller, deque()).append(item)

    def peek(self) -> Item:
        """What `pop` would return."""
        return next(iter(self._waiting.values()))[0]

    def pop(self) -> Item:
        """The next item of the caller whose turn it is, which then goes to the end of the line."""
        caller, items = self._waiting.popitem(last=False)
        item = items.popleft()
        if items:
            self._waiting[caller] = items
        return item

    def remove(self, item: Item, caller: Hashable) -> None:
        """Remove an item, if it is still in the queue."""
        items = self._waiting.get(caller, deque())
        if item in items:
            items.remove(item)
        if not items:
            self._waiting.pop(caller, None)

    @property
    def callers(self) -> int:
        """How many callers wait."""
        return len(self._waiting)

    def __iter__(self) -> Iterator[Item]:
        for items in self._waiting.values():
            yield from items

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))


class FairLimiter:
    """Lets at most `most` tasks in at a time; waiting callers take turns."""

    def __init__(self, most: int) -> None:
        self._free = most
        self.waiting: FairQueue[anyio.Event] = FairQueue()

    async def __aenter__(self) -> None:
        if self._free:
            self._free -= 1
            return
        caller, turn = CALLER.get(), anyio.Event()
        self.waiting.push(turn, caller)
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self._leave()
            else:
                self.waiting.remove(turn, caller)
            raise

    async def __aexit__(self, *exc: object) -> None:
        self._leave()

    def _leave(self) -> None:
        if self.waiting:
            self.waiting.pop().set()
        else:
            self._free += 1


_turns: RunVar[FairLimiter] = RunVar("turns")


def turn() -> FairLimiter:
    """The limiter for work on threads: `async with turn():`. Turns do not nest."""
    try:
        return _turns.get()
    except LookupError:
        _turns.set(FairLimiter(THREADS))
        return _turns.get()


async def in_thread(work: Callable[..., Answer], *args: object) -> Answer:
    """Run `work` on a thread when it is the caller's turn; its result."""
    async with turn():
        return await anyio.to_thread.run_sync(work, *args)


async def in_background(work: Callable[..., Answer], *args: object) -> Answer:
    """Run `work` on a thread, outside of all turns; its result. It must only read: a caller that is
    cancelled, such as at a stop, does not wait for it, and its `paced` loops end."""
    token = IN_BACKGROUND.set(True)
    try:
        return await anyio.to_thread.run_sync(work, *args, abandon_on_cancel=True)
    finally:
        IN_BACKGROUND.reset(token)


async def in_turns(items: Iterable[One], burst: int) -> AsyncIterator[One]:
    """The items; after each `burst` of them other tasks run. For a long loop on the event loop."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % burst == 0:
            await anyio.lowlevel.checkpoint()


def paced(items: Iterable[One], burst: int, pause: float = PACE) -> Iterator[One]:
    """The items, with a sleep after each `burst` of them. For a long loop on a thread: who
    waits for the interpreter lock gets it at once, not after the 5 ms that Python lets it wait."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % burst == 0:
            time.sleep(pause)
            if IN_BACKGROUND.get():
                anyio.from_thread.check_cancelled()
