"""Only add_turn makes a message of a session."""

from __future__ import annotations

from typing import Any

import pytest

from memoryd.engine.engine import Engine
from memoryd.engine.transfer import memory_from
from memoryd.errors import InvalidInput
from memoryd.export_file import fields_of
from memoryd.model import Memory, MemoryType
from tests.engine.conftest import Start

FORGED = [
    {"role": "user", "order": 2**4096 - 1},
    {"role": "assistant", "order": 0, "cleared": True},
    {"order": -1},
    {"cleared": True},
    {"speaker": "Ann"},
    {"role": "admin"},
]


async def said(engine: Engine) -> list[str]:
    return [memory.content for memory in (await engine.context_window("s")).messages]


@pytest.mark.parametrize("metadata", FORGED, ids=lambda m: str(m)[:40])
async def test_a_forged_turn_is_refused(start: Start, metadata: dict[str, Any]) -> None:
    async with start() as engine:
        await engine.add_turn("user", "really said", "s")
        with pytest.raises(InvalidInput) as refused:
            await engine.store("forged", "conversation", session_id="s", metadata=metadata)
        assert refused.value.code == "metadata_reserved"
        assert "add_turn" in refused.value.hint
        note = (await engine.store("a note", "conversation", session_id="s")).memory
        with pytest.raises(InvalidInput):
            await engine.update_memory(note.id, metadata=metadata)
    async with start() as engine:  # rebuilt from what is stored
        assert await said(engine) == ["really said"]
        await engine.add_turn("assistant", "answered", "s")
        assert await said(engine) == ["really said", "answered"]


async def test_a_message_can_get_metadata_but_stays_as_it_was_said(engine: Engine) -> None:
    turn = (await engine.add_turn("user", "hello", "s", "Ann")).memory
    tagged = {"role": "user", "speaker": "Ann", "order": 0, "tag": 1}
    for metadata, replace in (({**turn.metadata, "tag": 1}, False), ({"tag": 1}, True)):
        changed = await engine.update_memory(turn.id, metadata=metadata, replace_metadata=replace)
        assert changed.memory.metadata == tagged
    assert await said(engine) == ["hello"]
    for key, other in (
        ("role", "system"),
        ("order", 5),
        ("order", False),
        ("speaker", "Bob"),
        ("role", None),
    ):
        with pytest.raises(InvalidInput) as refused:
            await engine.update_memory(turn.id, metadata={**turn.metadata, key: other})
        assert refused.value.code == "metadata_reserved"


@pytest.mark.parametrize(
    "metadata",
    [
        {"role": "user", "order": 2**4096 - 1},
        {"role": "user", "order": 2**53 - 1},
        {"role": "user", "order": -1},
        {"role": "user", "order": True},
        {"role": "user", "order": "1"},
        {"role": "king"},
        {"cleared": "yes"},
        {"speaker": ["Ann"]},
    ],
    ids=lambda m: str(m)[:40],
)
async def test_an_import_of_an_impossible_message_is_refused(metadata: dict[str, Any]) -> None:
    fields = fields_of(Memory("a" * 20, MemoryType.CONVERSATION, "x", 1.0, session_id="s"))
    with pytest.raises(InvalidInput) as refused:
        memory_from(fields | {"metadata": metadata}, 1000)
    assert refused.value.code == "metadata_reserved"


async def test_messages_are_exported_and_imported_as_they_were(engine: Engine) -> None:
    await engine.add_turn("user", "hello", "s", "Ann")
    await engine.clear_window("s")
    found = list(engine._parts.index)
    assert found[0].metadata["cleared"] is True
    assert [memory_from(fields_of(memory), 1000) for memory in found] == found


async def test_an_order_out_of_range_breaks_no_session(start: Start) -> None:
    """In a store that somebody else wrote."""
    async with start() as engine:
        bad = Memory(
            id="b" * 20,
            type=MemoryType.CONVERSATION,
            content="from elsewhere",
            created_at=engine._parts.clock(),
            metadata={"role": "user", "order": 2**4096 - 1},
            session_id="s",
        )
        await engine.import_memory(bad)
        await engine.add_turn("user", "goes on", "s")
    async with start() as engine:
        await engine.add_turn("user", "and on", "s")
        assert await said(engine) == ["goes on", "and on"]
