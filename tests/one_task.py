"""Contexts of anyio in fixtures: opened and closed in one task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


@asynccontextmanager
async def in_one_task(context: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """Hold a context open in a task of its own.

    pytest-asyncio runs the setup and the teardown of a fixture in two tasks, but a task group of
    anyio must be left by the task that entered it.
    """
    opened: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    release = asyncio.Event()

    async def hold() -> None:
        async with context as value:
            opened.set_result(value)
            await release.wait()

    task = asyncio.create_task(hold())
    either: set[asyncio.Future[Any]] = {task, opened}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if not opened.done():
        await task  # raises why it did not open
    try:
        yield opened.result()
    finally:
        release.set()
        await task
