"""Task groups: which error leaves them."""

from __future__ import annotations

import anyio
import pytest

from memoryd.errors import StoreError
from memoryd.tasks import task_group


async def fail(error: Exception, together: anyio.Event) -> None:
    """Both tasks are past the wait before the first one fails, so both errors are raised."""
    await together.wait()
    raise error


async def failing(errors: list[Exception]) -> None:
    """Run a task group in which each task fails with one of the errors."""
    together = anyio.Event()
    async with task_group() as tasks:
        for error in errors:
            tasks.start_soon(fail, error, together)
        await anyio.wait_all_tasks_blocked()
        together.set()


@pytest.mark.parametrize(
    ("errors", "raised"),
    [
        ([KeyError("a")], KeyError),
        ([StoreError("full"), StoreError("full")], StoreError),
        ([StoreError("full"), KeyError("a")], ExceptionGroup),
    ],
)
async def test_errors_of_a_failing_store_are_one_error(
    errors: list[Exception], raised: type[Exception]
) -> None:
    with pytest.raises(raised):
        await failing(errors)


async def test_the_cause_of_an_error_is_kept() -> None:
    error = StoreError("full")
    error.__cause__ = OSError(28, "no space")
    with pytest.raises(StoreError) as caught:
        await failing([error])
    assert isinstance(caught.value.__cause__, OSError)
