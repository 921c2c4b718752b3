"""Batches of an import, several on their way: while one is written, the next is embedded."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import anyio

from memoryd.tasks import task_group

Batch = TypeVar("Batch")
Answer = TypeVar("Answer")
# Some of them are embedded together, sorted by length, while earlier ones are written.
IN_FLIGHT = 8


@dataclass(slots=True)
class _Sent(Generic[Batch, Answer]):
    batch: Batch
    answers: list[Answer] = field(default_factory=list)  # one, when it is done
    done: anyio.Event = field(default_factory=anyio.Event)


@asynccontextmanager
async def in_flight(
    send: Callable[[Batch], Awaitable[Answer]],
    take: Callable[[Batch, Answer], None],
    most: int = IN_FLIGHT,
) -> AsyncIterator[Callable[[Batch], Awaitable[None]]]:
    """Yields a function that sends a batch, and returns once another one may be sent. `take` gets
    each batch and its answer, in the order in which they were sent; at the end of the block it has
    got all. Raises what `send` raises; then the others are cancelled."""
    waiting: deque[_Sent[Batch, Answer]] = deque()

    async def run(one: _Sent[Batch, Answer]) -> None:
        one.answers.append(await send(one.batch))
        one.done.set()

    async def take_first() -> None:
        await waiting[0].done.wait()
        one = waiting.popleft()
        take(one.batch, one.answers[0])

    async with task_group() as tasks:

        async def put(batch: Batch) -> None:
            waiting.append(_Sent(batch))
            tasks.start_soon(run, waiting[-1])
            if len(waiting) >= most:
                await take_first()

        yield put
        while waiting:
            await take_first()
