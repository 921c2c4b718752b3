"""Task groups that raise the error itself instead of a group of errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc

from memoryd.errors import MemorydError


@asynccontextmanager
async def task_group() -> AsyncIterator[anyio.abc.TaskGroup]:
    """anyio's task group, but a single exception is raised bare, so callers can catch its type. If
    several tasks fail with errors of ours, as when the store fails, the first is raised."""
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        errors = list(_leaves(group))
        if len(errors) > 1 and not all(isinstance(error, MemorydError) for error in errors):
            raise
        raise errors[0] from errors[0].__cause__


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
