"""Files that changed: noticed by a sweep, once, with a reason that names the file."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.adapters.git import Git
from memoryd.engine.engine import Engine
from memoryd.engine.lifecycle import staleness
from memoryd.engine.lifecycle.folders import ProjectFolders
from memoryd.engine.lifecycle.staleness import named_file
from memoryd.engine.run import run_engine
from memoryd.model import DAY, Memory
from memoryd.settings import Config
from tests.adapters.test_git import commit, run
from tests.engine.conftest import Clock
from tests.engine.lifecycle.conftest import Pass
from tests.one_task import in_one_task
from tests.ramstore import RamStore

PROJECT = "me/shop"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "shop"
    (made / "src").mkdir(parents=True)
    return made


class AskedGit(Git):
    """Counts the questions."""

    asked = 0

    def changed(self, *given: Any) -> set[str] | None:
        self.asked += 1
        return super().changed(*given)


@pytest.fixture
def git() -> AskedGit:
    return AskedGit()


@pytest.fixture
def config(config: Config, folder: Path) -> Config:
    rules = replace(config.lifecycle, project_folders={PROJECT: str(folder)})
    return replace(config, lifecycle=rules)


@pytest.fixture
async def engine(
    config: Config, store: RamStore, clock: Clock, git: AskedGit
) -> AsyncIterator[Engine]:
    running = run_engine(config, store, HashEncoder(), 384, clock, monotonic=clock, history=git)
    async with in_one_task(running) as engine:
        yield engine


def write(path: Path, at: float, text: str = "x") -> None:
    path.write_text(text)
    os.utime(path, (at, at))


async def stored(engine: Engine, *files: str, **metadata: Any) -> str:
    given = {"project": PROJECT, "related_files": list(files)} | metadata
    text = f"memory {engine.count} about {files}"  # an identical fact would be the same memory
    return (await engine.store(text, metadata=given)).memory.id


async def read(engine: Engine, id: str) -> Memory:
    found = await engine.get(id)
    assert found is not None
    return found


async def reason(engine: Engine, id: str) -> str | None:
    found = (await read(engine, id)).metadata
    assert (found.get("needs_review") is True) == ("review_reason" in found)
    return found.get("review_reason")


async def test_a_file_that_is_gone_lowers_the_confidence_once(
    engine: Engine, folder: Path, clock: Clock, passing: Pass
) -> None:
    write(folder / "src/db.ts", clock.now)
    write(folder / "src/auth.ts", clock.now)
    id = await stored(engine, "src/db.ts", "src/auth.ts", confidence=0.9)
    fine = await stored(engine, "src/auth.ts")
    await passing(2)
    assert await reason(engine, id) is None
    (folder / "src/db.ts").unlink()
    await passing(3)
    assert await reason(engine, id) == "src/db.ts is gone."
    assert await reason(engine, fine) is None
    found = await read(engine, id)
    assert (found.metadata["confidence"], found.updated_at) == (0.63, None)
    await engine.review(id, "confirm")
    await passing(3)
    assert await reason(engine, id) is None  # the person knows
    assert (await read(engine, id)).metadata["confidence"] == 0.8
    (folder / "src/auth.ts").unlink()
    await passing()
    assert await reason(engine, id) == "src/auth.ts is gone."


async def test_a_much_newer_file_is_reported_until_it_is_confirmed(
    engine: Engine, folder: Path, clock: Clock, passing: Pass
) -> None:
    write(folder / "src/db.ts", clock.now)
    id = await stored(engine, "src/db.ts")
    await passing(35)
    write(folder / "src/db.ts", clock.now - 6 * DAY)
    await passing()
    assert await reason(engine, id) is None  # 29 days: not much newer
    write(folder / "src/db.ts", clock.now)
    await passing()
    said = "src/db.ts has changed 35 days after this was stored or confirmed."
    assert await reason(engine, id) == said
    await engine.review(id, "confirm")
    write(folder / "src/db.ts", clock.now + 20 * DAY)
    await passing(25)
    assert await reason(engine, id) is None
    write(folder / "src/db.ts", clock.now + 20 * DAY)
    await passing(25)
    assert await reason(engine, id) is not None


async def test_uses_lift_the_flag_and_the_same_change_does_not_return(
    engine: Engine, folder: Path, clock: Clock, passing: Pass
) -> None:
    write(folder / "src/db.ts", clock.now + 40 * DAY)
    id = await stored(engine, "src/db.ts")
    await passing()
    assert await reason(engine, id) is not None
    engine.count_uses([id] * 10)
    await passing(5)
    assert await reason(engine, id) is None
    assert (await read(engine, id)).metadata["confidence"] == pytest.approx(0.8 * 0.7 + 0.1)
    write(folder / "src/db.ts", clock.now + 50 * DAY)
    await passing()
    assert await reason(engine, id) is not None


async def test_git_knows_better_than_the_time_of_a_file(
    engine: Engine, folder: Path, clock: Clock, passing: Pass, git: AskedGit
) -> None:
    run(folder, "init", "-q")
    sha = commit(folder, src__db_ts="1", src__auth_ts="1")
    for name in ("db.ts", "auth.ts"):
        os.utime(folder / "src" / name, (clock.now, clock.now))
    changes = await stored(engine, "src/db.ts", commit_sha=sha)
    fresh = await stored(engine, "src/auth.ts", commit_sha=sha[:8])
    odd = await stored(engine, "src/auth.ts", commit_sha="0" * 40)
    await passing()
    assert git.asked == 0  # no file is newer than a memory
    commit(folder, src__db_ts="2")
    for name in ("db.ts", "auth.ts"):  # as after a new clone
        os.utime(folder / "src" / name, (clock.now + 100 * DAY, clock.now + 100 * DAY))
    await passing()
    assert await reason(engine, changes) == f"src/db.ts has changed since commit {sha[:12]}."
    assert await reason(engine, fresh) is None
    assert "100 days after" in str(await reason(engine, odd))  # git does not know its commit
    asked = git.asked
    await passing(3)
    assert git.asked == asked == 3  # what git has answered is not asked again
    await engine.review(changes, "confirm")
    await passing(2)
    assert await reason(engine, changes) is None


async def test_a_bare_name_is_gone_only_if_git_knew_it(
    engine: Engine, folder: Path, passing: Pass
) -> None:
    run(folder, "init", "-q")
    sha = commit(folder, a_ts="1", b="1")
    commit(folder, a_ts=None)
    known = await stored(engine, "a.ts", commit_sha=sha)
    loose = await stored(engine, "db.ts", commit_sha=sha)
    without = await stored(engine, "a.ts")
    await passing()
    assert await reason(engine, known) == "a.ts is gone."
    assert await reason(engine, loose) is None
    assert await reason(engine, without) is None


async def test_a_project_named_by_its_path_and_absolute_files(
    engine: Engine, folder: Path, tmp_path: Path, clock: Clock, passing: Pass
) -> None:
    write(folder / "kept", clock.now)
    by_path = await stored(engine, "src/db.ts", project=str(folder))
    absolute = await stored(engine, str(folder / "src/db.ts"))
    without = await stored(engine, str(folder / "src/db.ts"), project=None)
    away = await stored(engine, str(tmp_path / "unmounted" / "db.ts"), project=None)
    unknown = await stored(engine, "src/db.ts", project="someone/else")
    nowhere = await stored(engine, "src/db.ts", project=str(tmp_path / "nowhere"))
    await passing()
    for id in (by_path, absolute, without):
        assert "db.ts is gone." in str(await reason(engine, id))
    for id in (away, unknown, nowhere):
        assert await reason(engine, id) is None


async def test_files_that_are_named_later_are_compared_from_then_on(
    engine: Engine, folder: Path, clock: Clock, passing: Pass
) -> None:
    write(folder / "src/db.ts", clock.now + 50 * DAY)
    id = (await engine.store("close the pool", metadata={"project": PROJECT})).memory.id
    await passing(60)
    await engine.update_memory(id, metadata={"related_files": ["src/db.ts"]})
    await passing(2)
    assert await reason(engine, id) is None
    write(folder / "src/db.ts", clock.now + 50 * DAY)
    await passing()
    assert await reason(engine, id) is not None


async def test_many_files_are_looked_at_over_several_sweeps(
    engine: Engine, folder: Path, passing: Pass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staleness, "CHECKED", 4)
    for n in range(10):
        await stored(engine, f"src/{n}.ts")
    found = [await engine._upkeep._staleness.check_files() for _ in range(4)]
    assert max(found) <= 4
    page = await engine.list_memories(metadata={"needs_review": True})
    assert page.total == 10


async def test_it_can_be_switched_off(
    config: Config, store: RamStore, clock: Clock, folder: Path
) -> None:
    config = replace(config, lifecycle=replace(config.lifecycle, check_files=False))
    async with run_engine(config, store, HashEncoder(), 384, clock) as engine:
        id = await stored(engine, "src/db.ts")
        await engine._upkeep.tick()
        assert await reason(engine, id) is None


def test_no_name_leads_out_of_the_folder(tmp_path: Path, folder: Path) -> None:
    write(tmp_path / "outside", 7)
    write(folder / "src/db.ts", 7)
    (folder / "out").symlink_to(tmp_path)
    (folder / "in").symlink_to(folder / "src")
    for name in ("../outside", "src/../../outside", "out/outside", str(tmp_path / "outside"), "."):
        assert named_file(name, folder) is None, name
    for name in ("src/*.ts", "src/[a].ts", "a\0b", "src\n", "src", "x" * 5000, ""):
        assert named_file(name, folder) is None, name
    for name in ("src/db.ts", "in/db.ts", "./src/db.ts", "src/db.ts:45", "src/db.ts:4-9"):
        found = named_file(name, folder)
        assert found is not None
        assert (found.name, found.path, found.state) == (name, "src/db.ts", 7)
    assert named_file("src/db.ts", None) is None


def test_the_folder_of_a_project(tmp_path: Path, folder: Path) -> None:
    write(folder / "a", 1)
    folders = ProjectFolders({PROJECT: str(folder), "relative": "shop", "gone": "/no/such/folder"})
    (tmp_path / "empty").mkdir()
    assert folders.folder_of(PROJECT) == folder.resolve()
    assert folders.folder_of(str(folder)) == folder.resolve()
    for name in (None, "other/shop", "relative", "gone", str(tmp_path / "empty"), "a\0b", "~"):
        assert folders.folder_of(name) is None, name
