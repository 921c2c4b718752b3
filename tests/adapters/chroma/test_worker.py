"""The store worker under SIGKILL: nothing acknowledged is lost, and one process owns the store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import numpy as np
import pytest

from memoryd.adapters.chroma.store import open_chroma
from memoryd.errors import StoreBusy, StoreError, StoreUnavailable
from memoryd.model import Memory, MemoryType
from memoryd.ports import Identity, Passage, Record
from memoryd.settings import StoreSettings
from tests.paths import ROOT
from tests.processes import environment, free_port, is_running, until

IDENTITY = Identity("test-model", 8)

# What a daemon does with a store: opens it, prints the worker's pid, writes until it is killed.
OWNER = """
import sys, anyio
from pathlib import Path
from memoryd.adapters.chroma.store import open_chroma
from memoryd.logs import log_to_stderr
from memoryd.settings import LogSettings, StoreSettings
from tests.adapters.chroma.test_worker import IDENTITY, record

async def main(folder, busy):
    async with open_chroma(StoreSettings(), Path(folder), IDENTITY) as store:
        print("open", (await store.status())["pid"], flush=True)
        n = 0
        while busy:
            await store.put(record(f"m{n}"))
            print(f"m{n}", flush=True)
            n += 1
        await anyio.sleep_forever()

log_to_stderr(LogSettings(level="error"))
anyio.run(main, sys.argv[1], sys.argv[2] == "busy")
"""


def record(id: str) -> Record:
    vector = np.random.default_rng(len(id)).normal(size=8).astype(np.float32)
    memory = Memory(id, MemoryType.FACT, f"content of {id}", 1.0)
    return Record(memory, (Passage((0, 3), vector / np.linalg.norm(vector)),))


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    owners: list[subprocess.Popen[str]] = []
    yield owners
    for owner in owners:
        owner.kill()
        owner.communicate()


def start_owner(folder: Path, *, busy: bool = False) -> tuple[subprocess.Popen[str], int]:
    """A process that owns the store, and the pid of its worker."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder), "busy" if busy else "idle"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment(),
    )
    assert owner.stdout is not None
    word, pid = owner.stdout.readline().split()
    assert word == "open"
    return owner, int(pid)


async def pid_of(store: Any) -> int:
    pid: int = (await store.status())["pid"]
    return pid


async def test_a_killed_worker_is_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    async with open_chroma(StoreSettings(), tmp_path, IDENTITY) as store:
        await store.put(record("before"))
        os.kill(await pid_of(store), signal.SIGKILL)
        await store.put(record("after"))
        assert {r.memory.id for r in await store.get(["before", "after"])} == {"before", "after"}
        assert (await store.status())["restarts"] == 1


async def test_writes_in_flight_when_the_worker_dies_are_retried(tmp_path: Path) -> None:
    async with open_chroma(StoreSettings(), tmp_path, IDENTITY) as store:
        pid = await pid_of(store)
        async with anyio.create_task_group() as tasks:
            for n in range(200):
                tasks.start_soon(store.put, record(f"m{n}"))
            await (
                anyio.lowlevel.checkpoint()
            )  # all of them are queued, the first group is on its way
            os.kill(pid, signal.SIGKILL)
        assert await store.count() == 200
        assert await pid_of(store) != pid


@pytest.mark.slow
async def test_a_call_that_kills_every_worker_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_chroma(StoreSettings(), tmp_path, IDENTITY) as store:
        await store.put(record("kept"))
        send = store._worker._send

        async def deadly(process: anyio.abc.Process, message: Any) -> None:
            await send(process, message)
            if isinstance(message, tuple) and message[1] == "write":
                process.kill()

        with monkeypatch.context() as patch:
            patch.setattr(store._worker, "_send", deadly)
            with pytest.raises(StoreUnavailable):
                await store.put(record("lost"))
        await store.put(record("later"))
        assert {r.memory.id for r in await store.get(["kept", "later"])} == {"kept", "later"}


@pytest.mark.slow
async def test_two_processes_never_have_one_store_open(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    owner, _ = start_owner(tmp_path)
    started.append(owner)
    with pytest.raises(StoreBusy) as refused:
        async with open_chroma(StoreSettings(), tmp_path, IDENTITY):
            pass
    assert str(owner.pid) in refused.value.message
    assert str(tmp_path) in refused.value.message


@pytest.mark.slow
async def test_the_worker_ends_with_its_killed_daemon(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    owner, worker = start_owner(tmp_path)
    started.append(owner)
    owner.kill()
    await until(lambda: not is_running(worker))
    async with open_chroma(StoreSettings(), tmp_path, IDENTITY) as store:
        assert await store.count() == 0


@pytest.mark.slow
async def test_a_daemon_killed_while_writing_ends_its_worker_and_loses_nothing_acknowledged(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    owner, worker = start_owner(tmp_path, busy=True)
    started.append(owner)
    assert owner.stdout is not None
    acknowledged = [owner.stdout.readline().strip() for _ in range(50)]
    owner.kill()
    acknowledged += [line.strip() for line in owner.stdout if line.endswith("\n")]
    async with open_chroma(StoreSettings(), tmp_path, IDENTITY) as store:
        assert not is_running(worker)  # the lock was free only once it had gone
        found = {r.memory.id for r in await store.get(acknowledged)}
        assert found == set(acknowledged)


@pytest.mark.slow
async def test_an_orphaned_worker_that_cannot_end_keeps_the_lock(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    """Daemon killed, worker stopped: the lock is still held, so nobody else opens the store."""
    owner, worker = start_owner(tmp_path)
    started.append(owner)
    os.kill(worker, signal.SIGSTOP)
    try:
        owner.kill()
        owner.wait()
        with pytest.raises(StoreBusy):
            async with open_chroma(StoreSettings(lock_wait=1.0), tmp_path, IDENTITY):
                pass
        assert is_running(worker)
    finally:
        os.kill(worker, signal.SIGCONT)
    async with open_chroma(StoreSettings(), tmp_path, IDENTITY) as store:
        assert not is_running(worker)
        assert await store.count() == 0


@pytest.mark.slow
async def test_a_killed_worker_frees_the_store_for_a_new_daemon(
    tmp_path: Path, started: list[subprocess.Popen[str]]
) -> None:
    """The worker is killed first, then the daemon, which cannot start another worker."""
    owner, worker = start_owner(tmp_path)
    started.append(owner)
    os.kill(worker, signal.SIGKILL)
    owner.kill()
    owner.wait()
    async with open_chroma(StoreSettings(), tmp_path, IDENTITY) as store:
        await store.put(record("a"))


async def test_the_worker_ignores_the_terminals_interrupt(tmp_path: Path) -> None:
    async with open_chroma(StoreSettings(), tmp_path, IDENTITY) as store:
        pid = await pid_of(store)
        for name in (signal.SIGINT, signal.SIGTERM):
            os.kill(pid, name)
        await store.put(record("a"))
        assert await pid_of(store) == pid


async def test_a_cancelled_caller_leaves_no_half_frame_on_the_pipe(tmp_path: Path) -> None:
    async with open_chroma(StoreSettings(), tmp_path, IDENTITY) as store:
        for n in range(20):
            with anyio.move_on_after(0.001 * (n % 5)):
                await store.put(record(f"m{n}"))
        await store.put(record("last"))
        assert [r.memory.id for r in await store.get(["last"])] == ["last"]


async def test_the_data_directory_is_ours_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with open_chroma(StoreSettings(), folder, IDENTITY) as store:
        await store.put(record("a"))
        assert folder.stat().st_mode & 0o777 == 0o700
        assert (folder / "store").stat().st_mode & 0o777 == 0o700
        assert (folder / "lock").stat().st_mode & 0o777 == 0o600


async def test_the_journal_is_a_write_ahead_log(tmp_path: Path) -> None:
    async with open_chroma(StoreSettings(), tmp_path, IDENTITY) as store:
        await store.put(record("a"))
        assert (tmp_path / "store" / "chroma.sqlite3-wal").exists()


async def test_a_directory_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError) as refused:
        async with open_chroma(StoreSettings(), tmp_path / "file", IDENTITY):
            pass
    assert str(tmp_path / "file") in refused.value.message


async def test_a_broken_database_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "chroma.sqlite3").write_bytes(b"this is not a database" * 100)
    with pytest.raises(StoreError) as refused:
        async with open_chroma(StoreSettings(), tmp_path, IDENTITY):
            pass
    assert refused.value.code == "store_corrupt"


async def test_a_server_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    settings = StoreSettings(mode="http", port=free_port())
    with pytest.raises(StoreUnavailable) as refused:
        async with open_chroma(settings, tmp_path, IDENTITY):
            pass
    assert f"127.0.0.1:{settings.port}" in refused.value.message


async def test_a_dotenv_in_the_working_directory_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Importing chromadb reads ./.env: started in a project folder it would crash or obey."""
    project = tmp_path / "project"
    project.mkdir()
    (project / ".env").write_text("CHROMA_SERVER_HTTP_PORT=not-a-number\nANYTHING=1\n")
    monkeypatch.chdir(project)
    monkeypatch.setenv("CHROMA_SERVER_HTTP_PORT", "not-a-number")
    async with open_chroma(StoreSettings(), tmp_path / "data", IDENTITY) as store:
        await store.put(record("a"))
