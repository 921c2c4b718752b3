"""The notes of both clients, against a real daemon that is killed in between."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from memoryd.client import Client, SyncClient
from memoryd.errors import InvalidInput, NotFound
from tests.daemons import Daemon, ForkedDaemon


def test_every_operation_of_both_clients(tmp_path: Path) -> None:
    daemon = ForkedDaemon(tmp_path / "data").start()
    try:
        with SyncClient(daemon.socket) as memory:
            notes = memory.notes
            added = notes.add("Plan", "one", aliases=["p"], metadata={"tags": ["t"]})
            assert (added["changed"], added["note"]["seq"]) == (True, 1)
            assert notes.read("P")["content"] == "one"
            assert notes.write("p", "two")["note"]["content"] == "two"
            assert notes.rename("p", "Q", keep_alias=True)["note"]["aliases"] == ["p", "Plan"]
            assert notes.alias("q", "r")["note"]["aliases"] == ["p", "Plan", "r"]
            assert notes.unalias("PLAN")["note"]["aliases"] == ["p", "r"]
            notes.add("old talk", "x", kind="archive")
            assert [note["name"] for note in notes.list()["notes"]] == ["Q", "old talk"]
            assert [note["seq"] for note in notes.list(kind="archive")["notes"]] == [2]
            assert [note["seq"] for note in notes.list(limit=1, after=1)["notes"]] == [2]
            with pytest.raises(InvalidInput, match="taken") as refused:
                notes.add("q", "x")
            assert refused.value.code == "name_taken"
            for missing in ("old tlak", ""):
                with pytest.raises(NotFound):
                    notes.read(missing)
            assert memory.search("two", mode="words")["results"][0]["name"] == "Q"
            assert notes.remove("r")["changed"]
            with pytest.raises(NotFound):
                notes.read("q")
        asyncio.run(same_without_waiting(daemon))
    finally:
        assert daemon.stop() == 0, daemon.log.read_text()


async def same_without_waiting(daemon: Daemon) -> None:
    """Of many that want one name at the same time, one gets it."""
    spellings = ("Tea", "TEA", "te\u0301a", " tea ", "t\u00e9a")
    async with Client(daemon.socket) as memory:
        done = await asyncio.gather(
            *(memory.notes.add(name, "x") for name in spellings), return_exceptions=True
        )
        added = [one for one in done if not isinstance(one, BaseException)]
        assert len(added) == 1
        assert all(isinstance(one, InvalidInput) for one in done if one not in added)
        await memory.notes.remove("tea")


def test_a_kill_leaves_every_name_with_one_note(tmp_path: Path) -> None:
    """Names move between notes until the daemon is killed, again and again."""
    daemon = ForkedDaemon(tmp_path / "data").start()
    with SyncClient(daemon.socket) as memory:
        for n in range(4):
            memory.notes.add(f"note {n}", f"text {n}", aliases=[f"alias {n}"])
    for _ in range(3):
        asyncio.run(killed_while_names_move(daemon))
        daemon.start()
        with SyncClient(daemon.socket) as memory:
            found = memory.notes.list()["notes"]
            handles = [name for note in found for name in (note["name"], *note["aliases"])]
            assert len(found) == 4
            assert len({handle.casefold() for handle in handles}) == len(handles)
            for note in found:
                for handle in (note["name"], *note["aliases"]):
                    assert memory.notes.read(handle)["id"] == note["id"]
    assert daemon.stop() == 0, daemon.log.read_text()


async def killed_while_names_move(daemon: Daemon) -> None:
    async def move(memory: Client, turn: int) -> None:
        here, there = f"alias {turn % 4}", f"Alias {(turn + 1) % 4}"
        try:
            await memory.notes.rename(here, f"moved {turn}", keep_alias=turn % 2 == 0)
            await memory.notes.alias(f"moved {turn}", there)
        except (NotFound, InvalidInput):
            pass

    async with Client(daemon.socket) as memory:
        running = [asyncio.create_task(move(memory, turn)) for turn in range(60)]
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        daemon.stop(signal.SIGKILL)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
