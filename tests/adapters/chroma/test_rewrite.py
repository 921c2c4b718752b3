"""The rewrite: after a kill one store is whole; the new one has no byte of a deleted memory."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from memoryd.adapters.chroma.store import open_chroma
from memoryd.errors import StoreError
from memoryd.settings import StoreSettings
from tests.adapters.chroma.test_contract import IDENTITY, all_of, assert_same, record
from tests.adapters.chroma.worker_stores import COUNT
from tests.paths import ROOT
from tests.processes import environment

pytestmark = pytest.mark.slow

CANARY = "canary-of-forgotten-things"


def holds(folder: Path, word: str) -> list[str]:
    """The files under `folder` that have the word in their raw bytes, in either encoding."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    needles = [word.encode(), word.encode("utf-16-le")]
    return [str(file) for file in files if any(n in file.read_bytes() for n in needles)]


def killed_everywhere(folder: Path, what: str) -> list[dict[str, Any]]:
    """What a new process found after a kill at each point; all memories are always there."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.adapters.chroma.worker_stores", str(folder), what],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    wanted = {f"m{n}": f"content of m{n} {1 + n % 3}" for n in range(1, COUNT, 2)}
    results: list[dict[str, Any]] = json.loads(done.stdout)
    for result in results:
        assert (result["killed"], result["start"]) == (-signal.SIGKILL, 0), result
        assert result["found"] == wanted, result["point"]
        assert result["rewritten"] == wanted, result["point"]
    return results


@pytest.mark.parametrize("where", ["rewrite", "process"])
def test_killed_at_any_step_the_old_or_the_new_store_is_whole_and_it_goes_on(
    tmp_path: Path, where: str
) -> None:
    for result in killed_everywhere(tmp_path, where):
        assert result["left"] == ["store", "store.made"], result["point"]
        if result["point"] not in ("begin 1", "replace 1"):  # there was nothing to go on with
            assert result["since_by"] == "purge", result["point"]


async def test_a_rewrite_keeps_every_memory_and_drops_the_dead_rows(tmp_path: Path) -> None:
    kept = [record("a", 3, name="n", metadata={"k": [1, 2], "x": None, "t": True}), record("b", 0)]
    async with open_chroma(StoreSettings(), tmp_path, IDENTITY) as store:
        for item in (*kept, record("gone", 2)):
            await store.put(item)
        await store.delete(["gone"])
        assert (await store.status())["dead_rows"] == 2
        await store.purge()
        status = await store.status()
        assert (status["dead_rows"], status["restarts"]) == (0, 0)
        assert status["since_by"] == "purge"
        found = await all_of(store)
        assert set(found) == {"a", "b"}
        for item in kept:
            assert_same(found[item.memory.id], item)
        await store.put(record("later"))
    async with open_chroma(StoreSettings(), tmp_path, IDENTITY) as store:
        assert set(await all_of(store)) == {"a", "b", "later"}


async def test_a_purge_leaves_no_byte_of_what_was_deleted_or_replaced(tmp_path: Path) -> None:
    secret: dict[str, Any] = {"metadata": {f"key-{CANARY}": CANARY}, "name": CANARY}
    async with open_chroma(StoreSettings(sync_threshold=3), tmp_path, IDENTITY) as store:
        for n in range(8):
            await store.put(record(f"m{n}"))
        await store.put(record("gone", content=f"said {CANARY}", **secret))
        await store.put(record("changed", content=f"was {CANARY}", **secret))
        await store.put(record("changed", content="is harmless"))
        await store.delete(["gone"])
        assert holds(tmp_path, CANARY) != []  # or this test could not fail
        await store.purge()
        assert holds(tmp_path, CANARY) == []
        assert len(await all_of(store)) == 9
    assert holds(tmp_path, CANARY) == []


async def test_writes_during_a_rewrite_are_in_the_new_store(tmp_path: Path) -> None:
    async with open_chroma(StoreSettings(), tmp_path, IDENTITY) as store:
        async with anyio.create_task_group() as tasks:
            for n in range(1300):
                tasks.start_soon(store.put, record(f"m{n}", 1 + n % 2))

        async def write() -> None:
            for n in range(40):
                await store.put(record(f"new{n}", 2))
                await store.put(record(f"m{n}", 1 + n % 3, content=f"changed {n}"))
                await store.delete([f"m{1299 - n}"])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.purge)
            tasks.start_soon(write)
        found = await all_of(store)
        assert len(found) == 1300
        for n in range(40):
            assert_same(found[f"m{n}"], record(f"m{n}", 1 + n % 3, content=f"changed {n}"))
            assert f"m{1299 - n}" not in found
        rows = sum(len(item.passages) for item in found.values())
        assert (await store.status())["rows"] == rows


async def test_it_compacts_when_dead_rows_outnumber_live_ones(tmp_path: Path) -> None:
    settings = StoreSettings(compact_rows=10)
    async with open_chroma(settings, tmp_path, IDENTITY) as store:
        for n in range(30):
            await store.put(record(f"m{n}"))
        assert not await store.compact()
        await store.delete([f"m{n}" for n in range(14)])
        assert not await store.compact()  # 14 dead, 16 alive
    async with open_chroma(settings, tmp_path, IDENTITY) as store:
        await store.delete([f"m{n}" for n in range(14, 18)])
        assert await store.compact()  # counted over the restart
        assert not await store.compact()
        assert len(await all_of(store)) == 12


async def test_any_dead_row_is_gone_after_some_hours(tmp_path: Path) -> None:
    settings = StoreSettings(compact_hours=1e-9)
    async with open_chroma(settings, tmp_path, IDENTITY) as store:
        await store.put(record("a"))
        assert not await store.compact()  # nothing is dead
        await store.put(record("gone"))
        await store.delete(["gone"])
        assert await store.compact()


async def test_a_worker_killed_during_a_rewrite_is_replaced_without_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_chroma(StoreSettings(), tmp_path, IDENTITY) as store:
        for n in range(5):
            await store.put(record(f"m{n}"))
        await store.delete(["m0"])
        send, killed = store._worker._send, anyio.Event()

        async def deadly(process: anyio.abc.Process, message: object) -> None:
            await send(process, message)
            finishes = isinstance(message, tuple) and message[1] == "finish"
            if finishes and not killed.is_set():
                killed.set()
                process.kill()

        monkeypatch.setattr(store._worker, "_send", deadly)
        await store.purge()
        assert set(await all_of(store)) == {f"m{n}" for n in range(1, 5)}


async def test_a_server_cannot_be_rewritten_and_says_so(tmp_path: Path, chroma_server: int) -> None:
    settings = StoreSettings(mode="http", port=chroma_server, collection="test-rewrite")
    async with open_chroma(settings, tmp_path, IDENTITY) as store:
        assert not await store.compact()
        with pytest.raises(StoreError) as refused:
            await store.purge()
        assert refused.value.code == "not_embedded"


@pytest.mark.parametrize("job", ["purge", "backup"])
async def test_files_of_a_cancelled_job_are_removed_at_the_next_sweep(
    tmp_path: Path, job: str
) -> None:
    """The caller was killed during the job."""
    data, files = tmp_path / "data", tmp_path / "files"
    async with open_chroma(StoreSettings(), data, IDENTITY) as store:
        for n in range(3):
            await store.put(record(f"m{n}"))
        call = store._worker.call
        with anyio.CancelScope() as caller:

            async def dying(name: str, *args: Any) -> Any:
                if name == "step":
                    caller.cancel()
                return await call(name, *args)

            store._worker.call = dying  # type: ignore[method-assign]
            await (store.purge() if job == "purge" else store.backup(files, keep=1))
        store._worker.call = call  # type: ignore[method-assign]
        left = [*data.glob("store.new"), *files.glob("*.part")]
        assert len(left) == 1
        assert await store.compact() is False
        assert not left[0].exists()
        assert set(await all_of(store)) == {"m0", "m1", "m2"}
        await store.purge()
