"""Several batches of an import on their way at once."""

from __future__ import annotations

import anyio
import pytest

from memoryd.errors import StoreError
from memoryd.imports.in_flight import in_flight
from tests.processes import until


async def test_answers_are_taken_in_order_and_the_number_of_batches_is_bounded() -> None:
    running, most = 0, 0
    taken: list[tuple[int, str]] = []
    let_go = [anyio.Event() for _ in range(12)]

    async def send(batch: int) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await let_go[batch].wait()
        running -= 1
        return f"answer {batch}"

    async def answer() -> None:
        """The later one first, of each two."""
        for number in (1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10):
            await until(lambda: running > 0)
            let_go[number].set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            async with in_flight(send, lambda *one: taken.append(one), 4) as put:
                for batch in range(12):
                    await put(batch)
    assert taken == [(number, f"answer {number}") for number in range(12)]
    assert most == 4


async def test_an_error_ends_the_block_and_cancels_what_is_under_way() -> None:
    cancelled: list[int] = []
    taken: list[int] = []

    async def send(batch: int) -> None:
        if batch == 2:
            raise StoreError("The disk is full.")
        if batch > 0:
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.append(batch)

    async def send_all() -> None:
        async with in_flight(send, lambda batch, _: taken.append(batch), 3) as put:
            for batch in range(9):
                await put(batch)

    with anyio.fail_after(60), pytest.raises(StoreError):
        await send_all()
    assert cancelled[0] == 1
    assert taken == [0]
