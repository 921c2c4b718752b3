"""The mirror of a real daemon: files follow memories, memories follow edits, nothing stays of what
is forgotten, and a kill leaves whole files."""

from __future__ import annotations

import os
import random
import signal
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from memoryd.formats import memory_md
from tests.daemons import Daemon, ForkedDaemon
from tests.processes import until

SECONDS = 30.0  # for a round in the background, on a busy machine


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "mirror"


@pytest.fixture
def daemon(tmp_path: Path, folder: Path) -> Iterator[Daemon]:
    made = ForkedDaemon(tmp_path / "data", MEMORYD_MIRROR_PATH=str(folder)).start()
    yield made
    made.stop(signal.SIGKILL)


def items(folder: Path) -> set[str]:
    try:
        found = memory_md.parse((folder / "MEMORY.md").read_text())
    except FileNotFoundError:
        return set()
    return {entry.text for entry in found.entries}


def contents(daemon: Daemon) -> set[str]:
    return {memory["content"] for memory in daemon.tool("export_memories")["memories"]}


def wait_for(holds: Callable[[], bool]) -> None:
    anyio.run(until, holds, SECONDS)


@pytest.mark.slow
def test_files_follow_memories_and_memories_follow_edits(daemon: Daemon, folder: Path) -> None:
    """Without any request: the rounds run in the background."""
    texts = {f"Fact {number} of the house." for number in range(4)}
    for text in texts:
        daemon.tool("store_memory", content=text)
    wait_for(lambda: items(folder) == texts)
    path = folder / "MEMORY.md"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text().replace("Fact 1 of", "Fact one of")
    lines = [line for line in text.split("\n") if "Fact 2" not in line]
    path.write_text("\n".join([*lines, "- Written by hand.", ""]))
    edited = {
        "Fact 0 of the house.",
        "Fact one of the house.",
        "Fact 3 of the house.",
        "Written by hand.",
    }
    wait_for(lambda: contents(daemon) == edited)
    done = {"added": 1, "changed": 1, "removed": 1}
    wait_for(lambda: daemon.status()["mirror"]["edits"] == done)
    assert daemon.status()["mirror"]["trouble"] is None
    assert "by hand" not in daemon.log.read_text()


@pytest.mark.slow
def test_forgotten_text_is_in_no_file_when_a_purge_is_answered(
    daemon: Daemon, folder: Path
) -> None:
    kept = "The dock is in the kitchen."
    gone = daemon.tool("store_memory", content="The parcel is under the stairs.")
    daemon.tool("store_memory", content=kept)
    daemon.tool("mirror", run=True)
    assert items(folder) == {"The parcel is under the stairs.", kept}
    daemon.tool("forget_memory", memory_id=gone["id"])
    assert items(folder) == {kept}
    daemon.tool("purge")
    for path in folder.iterdir():
        assert b"parcel" not in path.read_bytes()


@pytest.mark.slow
def test_a_kill_leaves_whole_files(tmp_path: Path, folder: Path) -> None:
    """Whenever it comes, MEMORY.md is an old or a new version, to the letter."""
    daemon = ForkedDaemon(tmp_path / "data", MEMORYD_MIRROR_PATH=str(folder))
    pick = random.Random(7)
    stored: set[str] = set()
    for kill in range(5):
        daemon.start()
        ends = time.monotonic() + pick.uniform(0.1, 1.5)
        number = 0
        while time.monotonic() < ends:
            text = f"Fact {kill}-{number}."
            daemon.tool("store_memory", content=text)
            daemon.tool("mirror", run=True) if number % 3 == 0 else None
            stored.add(text)
            number += 1
        daemon.stop(signal.SIGKILL)
        text = (folder / "MEMORY.md").read_text()
        found = memory_md.parse(text)
        lines = [memory_md.Line(entry.handle or "", entry.text) for entry in found.entries]
        assert found.version is not None
        assert memory_md.render(lines, found.version) == text
    daemon.start()
    try:
        daemon.tool("mirror", run=True)
        assert contents(daemon) == stored
        assert len(os.listdir(folder)) == 1
        assert daemon.tool("mirror")["held"] == []
    finally:
        daemon.stop(signal.SIGKILL)


@pytest.mark.slow
def test_a_block_follows_memories_and_edits_through_kills(daemon: Daemon, tmp_path: Path) -> None:
    """Without any request: the rounds run in the background, and after a kill too. The text of the
    person is the same to the byte after each of them."""
    path = Path(os.path.realpath(tmp_path)) / "AGENTS.md"
    mine = b"# Mine\r\n\r\nNo line end"
    path.write_bytes(mine)
    path.chmod(0o640)
    daemon.tool("mirror", block=str(path), project="me/shop")
    stored: set[str] = set()
    for kill in range(3):
        text = f"Fact {kill} of the shop."
        daemon.tool("store_memory", content=text, metadata={"project": "me/shop"})
        stored.add(f"- {text}")
        wait_for(lambda: stored == {line for line in lines(path) if line.startswith("- ")})
        daemon.stop(signal.SIGKILL)
        assert path.read_bytes().startswith(mine + b"\r\n\r\n<!-- memoryd:begin -->\r\n")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        daemon.start()
    path.write_bytes(path.read_bytes().replace(b"Fact 1", b"Edited") + b"below")
    wait_for(lambda: "- Fact 1 of the shop." in lines(path))
    daemon.tool("forget_where", everything=True)
    assert b"of the shop" not in path.read_bytes()
    daemon.tool("mirror", no_block=str(path))
    assert path.read_bytes() == mine + b"\r\nbelow"
    assert list(tmp_path.glob("*.part")) == []
    assert "of the shop" not in daemon.log.read_text()


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()
