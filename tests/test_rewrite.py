"""A purge of a real daemon that is stopped or killed in the middle: the next start goes on with it,
nothing acknowledged is lost, and nothing forgotten comes back."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from memoryd.adapters.chroma.rewrite import SMALL
from memoryd.adapters.chroma.swap import CLEAN, COPYING
from scripts.bench.scale import fill
from tests.adapters.chroma.test_rewrite import CANARY, holds
from tests.daemons import Daemon

pytestmark = pytest.mark.slow

COUNT = 2 * SMALL + 500  # more than the store worker copies by itself
WITNESS = "witness"  # a file in the copy: after the swap it shows that the copy was not begun anew
WAIT = 120.0


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with many memories."""
    folder = tmp_path_factory.mktemp("rewrite") / "data"
    folder.mkdir(mode=0o700)
    fill(folder, COUNT)
    return folder


@pytest.fixture
def daemon(filled: Path, tmp_path: Path) -> Iterator[Daemon]:
    shutil.copytree(filled, tmp_path / "data")
    made = Daemon(tmp_path / "data", MEMORYD_BACKUP_EVERY_HOURS="0")
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait()


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def purge(daemon: Daemon) -> threading.Thread:
    """A client that asks for a purge, and may never get an answer."""

    def ask() -> None:
        with suppress(OSError, ValueError, AssertionError):
            daemon.call("tools/call", name="purge", arguments={})

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    return asking


def wait_for_copy(daemon: Daemon, share: float) -> Path:
    """Wait until the database of the copy has this share of the size of the live one's, and leave a
    file in the copy."""
    copy, name = daemon.folder / "store.new", "chroma.sqlite3"
    whole = size(daemon.folder / "store" / name)
    until(lambda: (copy / COPYING).exists())
    until(lambda: size(copy / name) + size(copy / f"{name}-wal") >= share * whole)
    (copy / WITNESS).touch()
    return copy


def processes_of(daemon: Daemon) -> list[int]:
    """The daemon's process and its descendants."""
    assert daemon.process is not None
    found = [daemon.process.pid]
    for pid in found:
        with suppress(OSError):
            found += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return found


def forget_and_store(daemon: Daemon, kept: str = "the lamp is red") -> tuple[str, str]:
    """Ids of a memory that is forgotten again, and of one that stays."""
    gone = daemon.tool("store_memory", content=f"said {CANARY}")["id"]
    assert daemon.tool("forget_memory", memory_id=gone)["success"]
    return gone, daemon.tool("store_memory", content=kept)["id"]


def check_finished(daemon: Daemon, memories: int) -> None:
    """Wait until a rewrite is finished; then everything is there and nothing is left over."""
    until(lambda: not (daemon.folder / "store.new").exists())
    status = daemon.status()
    assert status["store"]["since_by"] == "purge"
    assert (sum(status["memories"].values()), status["store"]["rows"]) == (memories, memories)
    until(lambda: not (daemon.folder / "store.trash").exists())
    assert holds(daemon.folder, CANARY) == []


@pytest.mark.parametrize("share", [0.0, 0.6])
def test_a_stop_during_a_purge_is_clean_and_the_next_start_goes_on(
    daemon: Daemon, share: float
) -> None:
    daemon.start()
    forget_and_store(daemon)
    assert holds(daemon.folder / "store", CANARY) != []  # or this test could not fail
    purge(daemon)
    copy = wait_for_copy(daemon, share)
    assert daemon.stop() == 0
    assert (daemon.folder / "store" / CLEAN).exists()
    assert (copy / COPYING).exists()
    daemon.start()
    check_finished(daemon, COUNT + 1)
    assert (daemon.folder / "store" / WITNESS).exists()
    assert daemon.stop() == 0


@pytest.mark.parametrize(("killed", "share"), [(1, 0.3), (2, 0.6), (3, 0.8)])
def test_a_kill_during_a_purge_loses_nothing_and_the_next_start_goes_on(
    daemon: Daemon, killed: int, share: float
) -> None:
    """The daemon, with its worker, with the process that writes the copy."""
    daemon.start()
    forget_and_store(daemon)
    purge(daemon)
    wait_for_copy(daemon, share)
    gone, kept = forget_and_store(daemon, "the kettle is blue")
    for pid in processes_of(daemon)[:killed]:
        os.kill(pid, signal.SIGKILL)
    assert daemon.process is not None
    daemon.process.wait(60)
    daemon.start()
    until(lambda: not (daemon.folder / "store.new").exists())
    status = daemon.status()
    assert (sum(status["memories"].values()), status["store"]["rows"]) == (COUNT + 2, COUNT + 2)
    assert status["store"]["since_by"] == "purge"
    found = daemon.tool("search_memories", query="the kettle is blue", limit=5)["results"]
    assert kept in {hit["id"] for hit in found}
    assert gone not in {hit["id"] for hit in found}
    assert daemon.stop() == 0


def test_a_copying_process_that_is_killed_is_replaced(daemon: Daemon) -> None:
    daemon.start()
    forget_and_store(daemon)
    asking = purge(daemon)
    wait_for_copy(daemon, 0.4)
    *_, copier = processes_of(daemon)
    os.kill(copier, signal.SIGKILL)
    asking.join(WAIT)
    assert not asking.is_alive()
    check_finished(daemon, COUNT + 1)
    assert daemon.stop() == 0
