"""MemoryManager against a real daemon: what it stores, finds, forgets, and keeps in its window."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from memoryd import Memory, MemoryManager, MemoryType, SearchResult
from memoryd.cli.main import main as memoryd
from memoryd.client import SyncClient
from memoryd.errors import InvalidInput
from tests.paths import ROOT
from tests.processes import environment

AGENT = ROOT / "config" / "clients" / "agent_loop.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data directory whose daemon is started by whoever asks first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMORYD_EMBEDDING_BACKEND", "hash")
        path = tmp_path_factory.mktemp("memory") / "data"
        yield path
        memoryd(["stop", "--data-dir", str(path)])


async def test_a_memory_is_stored_found_and_forgotten(folder: Path) -> None:
    async with MemoryManager(persist_path=folder) as manager:
        made = await manager.store("The dock is in the hall.", MemoryType.FACT, {"room": "hall"})
        assert isinstance(made, Memory)
        assert (made.memory_type, made.expires_at) == (MemoryType.FACT, None)
        assert made.metadata == {"room": "hall"}
        assert made.created_at.tzinfo is not None
        (found,) = await manager.search("where is the dock?", MemoryType.FACT, 3)
        assert isinstance(found, SearchResult)
        assert found.memory == made
        assert 0.3 <= found.score <= 1.0
        assert await manager.search("where is the dock?", "conversation") == []
        assert await manager.forget(made.id) is True
        assert await manager.forget(made.id) is False
        assert await manager.search("where is the dock?", min_score=0.0) == []


async def test_it_works_without_a_context_manager(folder: Path) -> None:
    manager = MemoryManager(str(folder))
    said = await manager.remember_conversation("We spoke about the roof.", topic="roof")
    assert said.expires_at is not None
    assert said.expires_at - said.created_at == timedelta(days=30)
    assert said.metadata == {"topic": "roof"}
    fact = await manager.remember_fact("The roof is red.", colour="red")
    assert fact.expires_at is None
    assert await manager.cleanup_expired() == 0
    await manager.close()
    assert (await manager.search("roof is red"))[0].memory == fact  # connects again
    await manager.close()


def test_it_works_in_one_event_loop_after_another(folder: Path) -> None:
    """A program that calls `asyncio.run` for every call; the window stays."""
    manager = MemoryManager(folder)
    manager.add_to_context_window("user", "hello")
    made = asyncio.run(manager.remember_fact("The lamp is in the attic."))
    assert asyncio.run(manager.search("lamp attic"))[0].memory == made
    assert asyncio.run(manager.forget(made.id))
    assert [said["content"] for said in manager.get_context_window()] == ["hello"]


async def test_a_context_has_a_key(folder: Path) -> None:
    async with MemoryManager(folder) as manager:
        assert await manager.get_context("current_task") is None
        await manager.set_context("current_task", "Water the plants.")
        made = await manager.set_context("current_task", "Feed the cat.")
        assert made.memory_type is MemoryType.CONTEXT
        assert made.expires_at is not None
        assert await manager.get_context("current_task") == "Feed the cat."
        with pytest.raises(InvalidInput, match="key"):
            await manager.get_context(" ")


async def test_bad_input_is_refused_with_a_code(folder: Path) -> None:
    async with MemoryManager(folder) as manager:
        with pytest.raises(InvalidInput) as refused:
            await manager.store("x", "dream")
        assert refused.value.code == "type_unknown"
    with pytest.raises(InvalidInput, match="at least 1"):
        MemoryManager(folder, context_window_size=0)


def test_the_context_window_keeps_the_last_turns() -> None:
    """Without a daemon: it is in RAM, and a caller cannot change it from outside."""
    manager = MemoryManager(context_window_size=2)
    for number in range(6):
        manager.add_to_context_window(("user", "assistant")[number % 2], f"message {number}")
    window = manager.get_context_window()
    assert [said["content"] for said in window] == [f"message {n}" for n in range(2, 6)]
    assert {said["role"] for said in window} == {"user", "assistant"}
    assert all(said["timestamp"].tzinfo for said in window)
    window[0]["content"] = "changed"
    assert manager.get_context_window()[0]["content"] == "message 2"
    manager.clear_context_window()
    assert manager.get_context_window() == []


def test_arguments_in_the_order_in_which_one_writes_them(folder: Path) -> None:
    """Of the plain client: by position, and an answer that is true if something was forgotten."""
    with SyncClient(data_dir=folder, start=True) as memory:
        made = memory.store("Green tea in the morning.", "fact", {"category": "taste"})
        assert made["metadata"] == {"category": "taste"}
        page = memory.search("green tea", "fact", 3)
        assert [hit["id"] for hit in page["results"]] == [made["id"]]
        assert memory.search("green tea", "fact", 3, 1.0)["results"] == []
        assert memory.forget(made["id"])
        assert not memory.forget(made["id"])
        assert memory.remember_fact("Tea.", call="x")["metadata"] == {"call": "x"}
        memory.set_context("mood", "good")
        assert memory.get_context("mood") == "good"
        assert memory.get_context("weather") is None  # not the window of a session


def test_the_package_stays_light() -> None:
    """`import memoryd` loads no client; the names are there all the same."""
    code = (
        "import sys, memoryd; assert not [m for m in sys.modules if m.startswith('memoryd.')];"
        "from memoryd import MemoryManager, Memory, MemoryType, SearchResult;"
        "heavy = {'mcp', 'anyio', 'numpy', 'yaml', 'chromadb', 'structlog', 'pydantic'};"
        "assert heavy.isdisjoint(sys.modules);"
        "assert not hasattr(memoryd, 'Nothing')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_agent_loop_builds_its_prompt_from_memory(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(AGENT), "--path", str(folder), "What tea in the morning?", "And now?"],
        capture_output=True,
        text=True,
        check=True,
        env=environment(MEMORYD_EMBEDDING_BACKEND="hash"),
    )
    first, second = done.stdout.strip().split("\n\n")
    assert "- The user drinks green tea in the morning." in first
    assert "Plan the week." in first
    assert first.endswith("user: What tea in the morning?")
    assert "user: What tea in the morning?\nassistant: (the model's answer" in second


async def test_a_memory_is_reviewed(folder: Path) -> None:
    async with MemoryManager(folder) as manager:
        made = await manager.remember_fact("The reviewed lamp is in the attic.")
        confirmed = await manager.review(made.id, "confirm")
        assert confirmed is not None
        assert confirmed.metadata["user_verified"] is True
        (found,) = await manager.search("reviewed lamp", MemoryType.FACT, 1)
        assert (found.memory.id, found.deprecated) == (made.id, False)
        assert await manager.review(made.id, "reject") is None
