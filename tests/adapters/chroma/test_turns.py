"""Commits of several callers are fair to each, on a real ChromaDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from memoryd.adapters.chroma.store import ChromaStore
from memoryd.adapters.chroma.write_queue import GROUP_ROWS, SHARED_ROWS
from memoryd.fair import CALLER, in_bulk
from memoryd.settings import StoreSettings
from tests.adapters.chroma.test_contract import Place, record
from tests.processes import until

pytestmark = pytest.mark.usefixtures("forked_worker")

FLOOD, ROWS = 20, 100


async def test_a_short_write_does_not_wait_for_the_long_ones_of_another(tmp_path: Path) -> None:
    commits: list[list[str]] = []
    async with Place(StoreSettings(sync_threshold=10), tmp_path).open() as store:
        link, asked = store._worker, store._worker.call

        async def call(name: str, *args: Any) -> Any:
            if name == "write":
                commits.append([r.memory.id for r in (*args[0], *args[1])])
            return await asked(name, *args)

        link.call = call  # type: ignore[method-assign]
        done: list[str] = []

        async def put(caller: str, id: str, passages: int) -> None:
            CALLER.set(caller)
            await store.put(record(id, passages, content="x" * 200), new=True)
            done.append(id)

        with anyio.fail_after(120):
            async with anyio.create_task_group() as tasks:
                for n in range(FLOOD):
                    tasks.start_soon(put, "flooding", f"long-{n}", ROWS)
                tasks.start_soon(put, "other", "short", 1)
        assert len(done) == await store.count() == FLOOD + 1
    assert next(n for n, ids in enumerate(commits) if "short" in ids) <= 2
    assert ["short"] in commits  # and not in one commit with a hundred rows of another
    assert [ids for ids in commits if ids != ["short"]] == [[f"long-{n}"] for n in range(FLOOD)]


async def test_short_writes_of_several_callers_share_commits(tmp_path: Path) -> None:
    sizes: list[int] = []
    async with Place(StoreSettings(sync_threshold=10), tmp_path).open() as store:
        await _put_many(store, sizes, callers=4, each=20)
    assert len(sizes) <= 8
    assert max(sizes) <= SHARED_ROWS


async def _put_many(store: ChromaStore, sizes: list[int], callers: int, each: int) -> None:
    asked = store._worker.call

    async def call(name: str, *args: Any) -> Any:
        sizes.append(len(args[0]))
        return await asked(name, *args)

    store._worker.call = call  # type: ignore[method-assign]

    async def put(caller: int, id: str) -> None:
        CALLER.set(caller)
        await store.put(record(id), new=True)

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            for n in range(callers * each):
                tasks.start_soon(put, n % callers, f"m{n}")
    store._worker.call = asked  # type: ignore[method-assign]


async def test_a_single_write_goes_ahead_of_bulk_writes_and_does_not_stop_them(
    tmp_path: Path,
) -> None:
    """Of several that wait, every second commit is one of bulk writes."""
    commits: list[str] = []
    let_go = anyio.Event()
    async with Place(StoreSettings(sync_threshold=10), tmp_path).open() as store:
        asked = store._worker.call

        async def call(name: str, *args: Any) -> Any:
            commits.append(args[0][0].memory.id.partition("-")[0])
            await let_go.wait()
            return await asked(name, *args)

        store._worker.call = call  # type: ignore[method-assign]

        async def load(number: int) -> None:
            with in_bulk():
                rows = [record(f"bulk-{number}-{n}") for n in range(SHARED_ROWS)]
                await store.put_all(rows, new=True)

        async def put(number: int) -> None:
            await store.put(record(f"single-{number}", GROUP_ROWS, content="x" * 200), new=True)

        with anyio.fail_after(120):
            async with anyio.create_task_group() as tasks:
                for number in range(4):
                    tasks.start_soon(load, number)
                await until(lambda: len(commits) == 1)
                for number in range(4):
                    tasks.start_soon(put, number)
                await until(lambda: len(store._waiting) == 7)
                let_go.set()
        store._worker.call = asked  # type: ignore[method-assign]
        assert await store.count() == 4 * SHARED_ROWS + 4
    assert commits == ["bulk", *["single", "bulk"] * 3, "single"]
