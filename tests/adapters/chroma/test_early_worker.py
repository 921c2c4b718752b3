"""A store worker that is started before the daemon is imported."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memoryd.adapters.chroma import early_worker, worker_process
from memoryd.adapters.chroma.early_worker import opening_of, start_early
from memoryd.adapters.chroma.store import open_chroma
from memoryd.errors import StoreMismatch
from memoryd.ports import Identity
from memoryd.settings import StoreSettings
from tests.adapters.chroma.test_contract import IDENTITY, record

SETTINGS = StoreSettings()
EXIT_WAIT = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A data directory. A worker that no test has taken is ended."""
    made = tmp_path / "data"
    made.mkdir(mode=0o700)
    yield made
    if (left := early_worker.take_early()) is not None:
        _end_input(left.process)


def _started() -> subprocess.Popen[bytes]:
    assert early_worker._early is not None
    return early_worker._early.process


def _end_input(process: subprocess.Popen[bytes]) -> int:
    """Close its input, as the end of the daemon does; its exit code."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    code = process.wait(EXIT_WAIT)
    process.stdout.close()
    return code


async def test_the_first_opening_takes_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_early(folder, opening_of(SETTINGS, folder, IDENTITY))
    process = _started()
    monkeypatch.setattr(early_worker, "WORKER", ["/nothing/to/start"])
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        assert process.poll() is None
        await store.put(record("m1"))
        assert [found.memory.id for found in await store.get(["m1"])] == ["m1"]
    assert process.returncode == 0
    assert (folder / "store" / "clean").exists()


async def test_an_opening_may_come_later(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_early(folder, None)
    process = _started()
    monkeypatch.setattr(early_worker, "WORKER", ["/nothing/to/start"])
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        assert process.poll() is None
        assert await store.count() == 0


async def test_frames_that_are_larger_than_a_pipe_arrive(folder: Path) -> None:
    start_early(folder, opening_of(SETTINGS, folder, IDENTITY))
    text = "a long memory " * 100_000
    made = record("m1")
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        await store.put(replace(made, memory=replace(made.memory, content=text)))
        assert (await store.get(["m1"]))[0].memory.content == text


async def test_another_opening_ends_it_and_starts_its_own(folder: Path) -> None:
    start_early(folder, opening_of(SETTINGS, folder, IDENTITY))
    process = _started()
    other = replace(SETTINGS, collection="other")
    async with open_chroma(other, folder, IDENTITY) as store:
        assert process.returncode == 0
        await store.put(record("m1"))


async def test_its_error_is_that_of_the_opening(folder: Path) -> None:
    async with open_chroma(SETTINGS, folder, IDENTITY):
        pass
    another = Identity("another", IDENTITY.dimension)
    start_early(folder, opening_of(SETTINGS, folder, another))
    with pytest.raises(StoreMismatch):
        async with open_chroma(SETTINGS, folder, another):
            pass


async def test_one_that_has_died_is_replaced(folder: Path) -> None:
    start_early(folder, opening_of(SETTINGS, folder, IDENTITY))
    process = _started()
    process.kill()
    process.wait(EXIT_WAIT)
    async with open_chroma(SETTINGS, folder, IDENTITY) as store:
        assert await store.count() == 0


@pytest.mark.parametrize("was_sent", [True, False])
def test_it_ends_with_its_daemon(folder: Path, was_sent: bool) -> None:
    """In order, so that the next start need not check every row."""
    start_early(folder, opening_of(SETTINGS, folder, IDENTITY) if was_sent else None)
    taken = early_worker.take_early()
    assert taken is not None
    assert _end_input(taken.process) == 0
    assert early_worker.take_early() is None


async def test_without_one_a_worker_is_started(folder: Path) -> None:
    process, was_sent = await worker_process.start_process(opening_of(SETTINGS, folder, IDENTITY))
    assert not was_sent
    assert process.stdin is not None
    await process.stdin.aclose()
    assert await process.wait() == 0
