"""A disk that is full, read-only or limited: a clear error, reads go on, and it recovers itself."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.adapters.chroma.store import ChromaStore, open_chroma
from memoryd.errors import StoreError
from memoryd.settings import StoreSettings
from tests.adapters.chroma.test_contract import IDENTITY, all_of, record
from tests.daemons import Daemon

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="limits of other processes"),
]
SETTINGS = StoreSettings(sync_threshold=5)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("may not mount here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def remount(folder: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(folder)], check=True)


def room(folder: Path, leave: int) -> Path:
    """A file that takes all room but `leave` bytes."""
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(shutil.disk_usage(folder).free - leave))
    return ballast


async def fill(store: ChromaStore, prefix: str, count: int) -> tuple[set[str], list[StoreError]]:
    """Put records; the ids that were acknowledged and the refusals."""
    kept, refused = set(), []
    for n in range(count):
        try:
            await store.put(record(f"{prefix}{n}", content=f"{n} " * 2000), new=n % 2 == 0)
            kept.add(f"{prefix}{n}")
        except StoreError as exc:
            refused.append(exc)
        assert len(await store.get(["first"])) == 1  # reading goes on
    return kept, refused


async def test_a_full_disk_refuses_writes_until_there_is_room(small: Path) -> None:
    async with open_chroma(SETTINGS, small, IDENTITY) as store:
        await store.put(record("first"))
        ballast = room(small, leave=900_000)
        kept, refused = await fill(store, "a", 5)
        assert {exc.code for exc in refused} == {"store_full"}
        assert await store.delete(["a0"]) == kept.intersection({"a0"})  # forgetting goes on
        kept.discard("a0")
        with pytest.raises(StoreError) as full:
            await store.purge()
        assert full.value.code == "store_full"
        ballast.unlink()
        more, refused = await fill(store, "b", 6)
        assert (len(more), refused) == (6, [])
        assert set(await all_of(store)) == {"first"} | kept | more
    async with open_chroma(SETTINGS, small, IDENTITY) as store:
        assert set(await all_of(store)) == {"first"} | kept | more


async def test_a_full_disk_at_start_is_not_taken_for_a_broken_store(small: Path) -> None:
    async with open_chroma(SETTINGS, small, IDENTITY) as store:
        await store.put(record("first"))
    ballast = room(small, leave=0)
    with pytest.raises(StoreError) as refused:
        async with open_chroma(SETTINGS, small, IDENTITY):
            pass
    assert refused.value.code == "store_full"
    assert "start again" in refused.value.hint
    ballast.unlink()
    async with open_chroma(SETTINGS, small, IDENTITY) as store:
        assert set(await all_of(store)) == {"first"}
        assert (await store.status())["set_aside"] == []


async def test_a_read_only_disk_is_a_clear_error_and_harms_nothing(small: Path) -> None:
    async with open_chroma(SETTINGS, small, IDENTITY) as store:
        await store.put(record("first"))
    remount(small, "ro")
    with pytest.raises(StoreError) as refused:
        async with open_chroma(SETTINGS, small, IDENTITY):
            pass
    assert refused.value.code == "store_unwritable"
    remount(small, "rw")
    async with open_chroma(SETTINGS, small, IDENTITY) as store:
        assert set(await all_of(store)) == {"first"}


async def test_too_few_open_files_are_named_and_waited_out(tmp_path: Path) -> None:
    async with open_chroma(SETTINGS, tmp_path, IDENTITY) as store:
        await store.put(record("first"))
        pid: Any = (await store.status())["pid"]
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        taken = len(os.listdir(f"/proc/{pid}/fd"))  # enough to read with, not to write
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (taken + 5, hard))
        kept, refused = await fill(store, "a", 3)
        assert (kept, {exc.code for exc in refused}) == (set(), {"store_files"})
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))
        more, refused = await fill(store, "b", 6)
        assert (len(more), refused) == (6, [])
        assert set(await all_of(store)) == {"first"} | more
        assert (await store.status())["pid"] == pid


def test_a_daemon_on_a_full_disk_goes_on_reading_and_recovers(small: Path) -> None:
    daemon = Daemon(small / "data")
    daemon.log = small.parent / "daemon.log"
    daemon.start()
    try:
        daemon.tool("store_memory", content="tea is at four", name="tea")
        ballast = room(small, leave=900_000)
        codes = set()
        for n in range(5):
            text = f"{n} " * 3000
            answer = daemon.call("tools/call", name="store_memory", arguments={"content": text})
            if answer.get("isError"):
                codes.add(answer["_meta"]["memoryd/error"]["code"])
            assert daemon.tool("search_memories", query="when is tea?")["results"]
        assert codes == {"store_full"}
        ballast.unlink()
        assert daemon.tool("store_memory", content="coffee is at ten")["id"]
    finally:
        daemon.stop()
