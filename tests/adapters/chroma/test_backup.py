"""Backup and restore: of one moment, verified, refused when damaged, rotated by day."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from memoryd.adapters.backup_file import BackupWriter, all_in, open_backup, rotate, verify
from memoryd.adapters.chroma.backup import Restore
from memoryd.adapters.chroma.store import open_chroma
from memoryd.cli.main import main
from memoryd.errors import InvalidInput, StoreError
from memoryd.ports import Identity
from memoryd.settings import BackupSettings, StoreSettings
from tests.adapters.chroma.test_contract import (
    FAITHFUL,
    IDENTITY,
    all_of,
    assert_same,
    record,
)
from tests.daemons import Daemon, ForkedDaemon

pytestmark = pytest.mark.usefixtures("forked_worker")

SETTINGS = StoreSettings(sync_threshold=10)


async def backed_up(data: Path, folder: Path) -> Path:
    async with open_chroma(SETTINGS, data, IDENTITY) as store:
        for n in range(20):
            await store.put(record(f"m{n}", 1 + n % 3))
        await store.put(
            record(
                "rich", 2, metadata=FAITHFUL, name="n", expires_at=7.5, pinned=True, updated_at=8.25
            )
        )
        await store.put(record("none", 0))
        made = await store.backup(folder, keep=3)
        assert made is not None
        assert made.memories == 22
    return Path(made.path)


async def test_what_was_backed_up_comes_back_whole(tmp_path: Path) -> None:
    path = await backed_up(tmp_path / "a", tmp_path / "files")
    assert path.stat().st_mode & 0o777 == 0o600
    assert verify(path) == 22
    asked = Restore(path)
    async with open_chroma(SETTINGS, tmp_path / "b", IDENTITY, asked) as store:
        found = await all_of(store)
        rich = record(
            "rich", 2, metadata=FAITHFUL, name="n", expires_at=7.5, pinned=True, updated_at=8.25
        )
        wanted = [record(f"m{n}", 1 + n % 3) for n in range(20)] + [rich, record("none", 0)]
        assert len(found) == 22
        for item in wanted:
            assert_same(found[item.memory.id], item)


async def test_a_store_that_holds_something_is_replaced_only_if_asked(tmp_path: Path) -> None:
    path = await backed_up(tmp_path / "a", tmp_path / "files")
    data = tmp_path / "b"
    async with open_chroma(SETTINGS, data, IDENTITY) as store:
        await store.put(record("mine"))
    with pytest.raises(StoreError) as refused:
        async with open_chroma(SETTINGS, data, IDENTITY, Restore(path)):
            pass
    assert refused.value.code == "store_not_empty"
    async with open_chroma(SETTINGS, data, IDENTITY) as store:
        assert set(await all_of(store)) == {"mine"}
    async with open_chroma(SETTINGS, data, IDENTITY, Restore(path, replace=True)) as store:
        assert len(await all_of(store)) == 22
        assert (data / "store.old").exists()  # until the next good start
    async with open_chroma(SETTINGS, data, IDENTITY) as store:
        assert len(await all_of(store)) == 22
        assert not (data / "store.old").exists()


async def test_a_broken_store_is_replaced_by_a_backup(tmp_path: Path) -> None:
    path = await backed_up(tmp_path / "a", tmp_path / "files")
    (tmp_path / "a" / "store" / "chroma.sqlite3").write_bytes(b"noise" * 1000)
    asked = Restore(path, replace=True)
    async with open_chroma(SETTINGS, tmp_path / "a", IDENTITY, asked) as store:
        assert len(await all_of(store)) == 22


async def test_another_models_vectors_are_left_out(tmp_path: Path) -> None:
    path = await backed_up(tmp_path / "a", tmp_path / "files")
    other = Identity("other", 16)
    async with open_chroma(SETTINGS, tmp_path / "b", other, Restore(path)) as store:
        found = await all_of(store)
        assert len(found) == 22
        assert all(item.passages == () for item in found.values())


@pytest.mark.parametrize("damage", ["cut", "flipped", "no end", "a line less", "text", "missing"])
@pytest.mark.slow
async def test_a_damaged_file_is_refused_and_nothing_changed(tmp_path: Path, damage: str) -> None:
    path = await backed_up(tmp_path / "a", tmp_path / "files")
    data, lines = path.read_bytes(), gzip.decompress(path.read_bytes()).splitlines(True)
    middle = len(data) // 2
    damaged = {
        "cut": data[:-200],
        "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "no end": gzip.compress(b"".join(lines[:-1])),
        "a line less": gzip.compress(b"".join(lines[:5] + lines[6:])),
        "text": b"hello",
    }
    path.unlink()
    if damage in damaged:
        path.write_bytes(damaged[damage])
    asked = Restore(path, replace=True)
    with pytest.raises(InvalidInput) as refused:
        async with open_chroma(SETTINGS, tmp_path / "a", IDENTITY, asked):
            pass
    assert refused.value.code == ("file_unreadable" if damage == "missing" else "file_damaged")
    assert str(path) in refused.value.message
    async with open_chroma(SETTINGS, tmp_path / "a", IDENTITY) as store:
        assert len(await all_of(store)) == 22


async def test_a_backup_is_of_one_moment(tmp_path: Path) -> None:
    """What is changed, added or deleted while it is written is in it as it was."""
    async with open_chroma(StoreSettings(), tmp_path, IDENTITY) as store:
        async with anyio.create_task_group() as tasks:
            for n in range(1200):
                tasks.start_soon(store.put, record(f"m{n}"))
        made: list[Any] = []

        async def back_up() -> None:
            made.append(await store.backup(tmp_path / "files", keep=1))

        call = store._worker.call

        async def busy(name: str, *args: Any) -> Any:
            answer = await call(name, *args)
            if name == "begin":
                await call("write", [record("new")], [record("m1199", content="other")], ["m1198"])
            return answer

        store._worker.call = busy  # type: ignore[method-assign]
        await back_up()
    found = [json.loads(line) for line in gzip.open(made[0].path)][1:-1]
    contents = {line["id"]: line["content"] for line in found}
    assert contents == {f"m{n}": f"content of m{n}" for n in range(1200)}


async def test_old_backups_are_deleted_and_an_unchanged_store_makes_none(tmp_path: Path) -> None:
    files = tmp_path / "files"
    async with open_chroma(SETTINGS, tmp_path / "a", IDENTITY) as store:
        assert await store.backup(files, keep=2, if_changed=True) is None  # empty
        for n in range(4):
            await store.put(record(f"m{n}"))
            last = await store.backup(files, keep=2, if_changed=True)
            assert last is not None
            made = last
            assert await store.backup(files, keep=2, if_changed=True) is None
        assert [str(path) for path in all_in(files)][-1] == made.path
        assert len(all_in(files)) == 2
    async with open_chroma(SETTINGS, tmp_path / "a", IDENTITY) as store:
        assert await store.backup(files, keep=2, if_changed=True) is None
        newest = await store.newest_backup(files)
        assert newest is not None
        assert replace(made, memories=None) == newest


NOON = datetime(2026, 7, 1, 12).timestamp()
DAY = 86_400.0


def made_at(folder: Path, at: float, keep: int) -> Path:
    """An empty backup of that time, with rotation."""
    path = Path(BackupWriter(folder, IDENTITY, "v", at).finish().path)
    rotate(folder, keep, path)
    return path


async def test_a_backup_just_made_outlives_those_dated_in_the_future(tmp_path: Path) -> None:
    files = tmp_path / "files"
    async with open_chroma(SETTINGS, tmp_path / "a", IDENTITY) as store:
        for n in range(3):
            await store.put(record(f"m{n}"))
            await store.backup(files, keep=3, at=NOON + (40 + n) * DAY)
        await store.put(record("last"))
        made = await store.backup(files, keep=3, at=NOON)
        assert made is not None
        assert verify(Path(made.path)) == 4
        assert len(all_in(files)) == 3
        newest = await store.newest_backup(files)
        assert newest is not None
        assert newest.path == made.path, "the last one made, not the one with the latest date"
        assert await store.backup(files, keep=3, if_changed=True) is None


def test_many_backups_in_a_day_leave_those_of_the_days_before(tmp_path: Path) -> None:
    week = [made_at(tmp_path, NOON + n * DAY, keep=7) for n in range(6)]
    today = [made_at(tmp_path, NOON + 6 * DAY + n * 60, keep=7) for n in range(10)]
    assert all_in(tmp_path) == [*week, today[-1]]
    later = [made_at(tmp_path, NOON + (7 + n) * DAY, keep=7) for n in range(2)]
    assert all_in(tmp_path) == [*week[2:], today[-1], *later]


@pytest.mark.slow
@pytest.mark.parametrize("clock", ["Europe/Berlin", "America/New_York", "UTC"])
def test_over_a_year_the_last_of_each_of_the_last_seven_days_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: str
) -> None:
    """Whatever the number of backups a day, and over both changes of the clock; days without one
    do not count. This is what README promises, by the default settings."""
    monkeypatch.setenv("TZ", clock)
    time.tzset()
    try:
        keep = BackupSettings().keep
        assert keep == 7
        last_of: dict[str, Path] = {}
        for day in range(365):
            for n in range((0, 1, 3)[day % 3]):  # every third day nothing changed
                at = NOON + day * DAY + n * 3600
                made = made_at(tmp_path, at, keep)
                last_of[time.strftime("%Y-%m-%d", time.localtime(at))] = made
            left = all_in(tmp_path)
            assert len(left) <= keep
            assert set(list(last_of.values())[-keep:]) <= set(left)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert sorted(last_of.values())[-keep:] == all_in(tmp_path)


def test_few_days_are_filled_up_with_the_newest(tmp_path: Path) -> None:
    made = [made_at(tmp_path, NOON + n * 60, keep=4) for n in range(6)]
    assert all_in(tmp_path) == made[-4:]


def test_what_counts_is_which_was_made_later_not_what_its_clock_said(tmp_path: Path) -> None:
    ahead = made_at(tmp_path, NOON + 900 * DAY, keep=9)
    right = [made_at(tmp_path, NOON - n * 60, keep=9) for n in range(3)]
    assert all_in(tmp_path) == [ahead, *right]
    for n, path in enumerate(right):
        with open_backup(path) as (_, header):
            assert header.created_at == NOON - n * 60


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = ForkedDaemon(tmp_path / "data").start()
    yield made
    made.stop()


@pytest.mark.slow
def test_the_verbs_back_up_purge_and_restore(
    daemon: Daemon, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setenv("MEMORYD_EMBEDDING_BACKEND", "hash")
    where = ["--data-dir", str(daemon.folder), "--socket", str(daemon.socket)]

    def run(*words: str, code: int = 0) -> str:
        assert main([*words, *where]) == code
        said = capsys.readouterr()
        return said.err if code else said.out

    daemon.tool("store_memory", content="the first", name="first")
    made = json.loads(run("backup", str(tmp_path / "copy"), "--json"))
    assert made["memories"] == 1
    assert Path(made["path"]).parent == tmp_path / "copy"
    assert "Backed up 1 memory (" in run("backup")
    daemon.tool("store_memory", content="a canary-6d1", name="second")
    daemon.tool("forget_memory", memory_id="second")
    run("purge")
    files = [file for file in daemon.folder.rglob("*") if file.is_file()]
    assert [file for file in files if b"canary-6d1" in file.read_bytes()] == []
    status = daemon.status()
    assert status["store"]["since_by"] == "purge"
    assert status["store"]["backup"].startswith(str(daemon.folder / "backups"))
    daemon.tool("store_memory", content="the third")
    assert "--replace" in run("restore", made["path"], code=1)
    assert daemon.process is not None
    assert daemon.process.poll() is None  # refused before anything was stopped
    before = os.umask(0o022)
    said = run("restore", made["path"], "--replace")
    os.umask(before)
    assert said.startswith("Restored 1 memory from")
    assert "the next call starts it" in said
    daemon.process.wait(60)
    loose = [file for file in (daemon.folder / "store").rglob("*") if file.stat().st_mode & 0o077]
    assert loose == [], "also where the umask is loose"
    daemon.start()
    assert daemon.status()["memories"]["fact"] == 1
    found = daemon.tool("search_memories", query="the first")["results"]
    assert found[0]["content"] == "the first"
    assert "is not an export or a backup" in run("restore", str(daemon.log), "--replace", code=1)
    where = ["--data-dir", str(tmp_path / "typo"), "--socket", str(tmp_path / "nobody")]
    for verb in ("backup", "purge", "export", "forget x", "forget --everything --yes"):
        assert "There are no memories in" in run(*verb.split(), code=1)
    assert not (tmp_path / "typo").exists()
