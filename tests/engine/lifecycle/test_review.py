"""Review: a person confirms, corrects or rejects; a flag asks for it, and use may lift it."""

from __future__ import annotations

from typing import Any

import pytest

from memoryd.engine.engine import Engine
from memoryd.engine.lifecycle.decay import confidence_now
from memoryd.errors import InvalidInput, NotFound
from memoryd.model import DAY
from tests.engine.conftest import Clock
from tests.engine.lifecycle.conftest import Pass
from tests.engine.lifecycle.test_uses import field, stored


async def needing(engine: Engine) -> list[str]:
    page = await engine.list_memories(metadata={"needs_review": True})
    return [memory.id for memory in page.memories]


async def test_a_flag_is_listed_with_its_reason(engine: Engine) -> None:
    id = await stored(engine, topic="docks")
    await stored(engine, "the pier")
    done = await engine.review(id, "flag", reason="The dock has moved.")
    assert done.memory is not None
    assert done.memory.metadata["review_reason"] == "The dock has moved."
    assert done.memory.updated_at is None
    assert await needing(engine) == [id]
    await engine.review(id, "flag", reason="It is gone.")
    assert await field(engine, id, "review_reason") == "It is gone."


async def test_to_confirm_verifies_and_lifts_flag_and_deprecation(
    engine: Engine, clock: Clock, passing: Pass
) -> None:
    id = await stored(engine, kind="work_state", confidence=0.3, source="mcp_auto")
    await engine.review(id, "flag", reason="odd")
    await passing(25)
    assert await field(engine, id, "deprecated_at") is not None
    done = await engine.review(id, "confirm")
    assert done.memory is not None
    assert done.memory.metadata == {
        "kind": "work_state",
        "source": "mcp_auto",
        "citation": "the dock",
        "confidence": 0.8,
        "user_verified": True,
        "confirmed_at": clock.now,
    }
    assert (done.action, done.memory.content, done.memory.updated_at) == (
        "confirm",
        "the dock",
        None,
    )
    assert confidence_now(done.memory, clock.now + 7 * DAY) == 0.4
    assert await needing(engine) == []


async def test_to_confirm_keeps_a_higher_confidence_and_gives_a_plain_memory_none(
    engine: Engine,
) -> None:
    sure, plain = await stored(engine, "one", confidence=0.93), await stored(engine, "two")
    for id in (sure, plain):
        await engine.review(id)
    assert await field(engine, sure, "confidence") == 0.93
    assert await field(engine, plain, "confidence") is None
    assert await field(engine, plain, "user_verified") is True


async def test_to_correct_replaces_the_text_and_verifies_it(engine: Engine, clock: Clock) -> None:
    id = await stored(engine, "the dock is red", kind="gotcha")
    await engine.review(id, "flag", reason="colour")
    clock.now += 50 * DAY
    done = await engine.review(id, "correct", content="the dock is blue")
    assert done.memory is not None
    assert (done.memory.id, done.memory.content) == (id, "the dock is blue")
    assert done.memory.updated_at == clock.now
    assert done.memory.metadata["user_verified"] is True
    assert done.memory.metadata["citation"] == "the dock is blue"
    assert await needing(engine) == []
    assert (await engine.search("blue dock")).hits[0].memory.id == id


async def test_a_secret_in_a_correction_or_reason_is_masked(engine: Engine) -> None:
    id = await stored(engine)
    secret = "the password is Tulip" + "-1987"
    done = await engine.review(id, "correct", content=secret)
    assert done.memory is not None
    assert "Tulip" not in done.memory.content
    assert done.warnings
    done = await engine.review(id, "flag", reason=secret)
    assert done.memory is not None
    assert "Tulip" not in done.memory.metadata["review_reason"]


async def test_to_reject_forgets(engine: Engine) -> None:
    id = await stored(engine)
    done = await engine.review(id, "reject", reason="It never was there.")
    assert (done.id, done.memory) == (id, None)
    assert engine.count == 0
    with pytest.raises(NotFound):
        await engine.review(id, "reject")


async def test_ten_uses_without_a_complaint_lift_the_flag(engine: Engine, passing: Pass) -> None:
    id = await stored(engine)
    engine.count_uses([id] * 4)
    await passing()
    engine.count_uses([id] * 3)  # before the flag, and not written yet
    await engine.review(id, "flag", reason="odd")
    engine.count_uses([id] * 9)
    await passing()
    assert await needing(engine) == [id]
    await engine.review(id, "flag", reason="still odd")  # a complaint: from the beginning
    engine.count_uses([id] * 9)
    await passing()
    assert await needing(engine) == [id]
    engine.count_uses([id])
    await passing()
    found = await engine.get(id)
    assert found is not None
    assert set(found.metadata) == {"uses", "last_used_at"}


async def test_another_text_is_neither_verified_nor_flagged(engine: Engine, clock: Clock) -> None:
    """Whoever changes it: what was found out was about the old text."""
    updated = await stored(engine, "the dock is red", kind="gotcha")
    named = (await engine.store("it is here", name="dock", metadata={"kind": "gotcha"})).memory.id
    for id in (updated, named):
        await engine.review(id, "confirm")
        await engine.review(id, "flag", reason="odd")
    clock.now += DAY
    await engine.update_memory(updated, content="the dock is green")
    await engine.store("it is there", name="dock")
    for id in (updated, named):
        found = await engine.get(id)
        assert found is not None
        assert set(found.metadata) == {"kind", "citation", "confirmed_at"}
        assert found.metadata["confirmed_at"] == clock.now


async def test_a_new_confidence_counts_from_now(engine: Engine, clock: Clock) -> None:
    id = await stored(engine, kind="work_state")
    clock.now += 14 * DAY
    updated = await engine.update_memory(id, metadata={"confidence": 0.9})
    assert confidence_now(updated.memory, clock.now) == 0.9
    clock.now += 7 * DAY
    updated = await engine.update_memory(id, metadata={"topic": "docks"})
    assert confidence_now(updated.memory, clock.now) == 0.45


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"action": "approve"}, "action_unknown"),
        ({"action": None}, "action_unknown"),
        ({"action": ["confirm"]}, "action_unknown"),
        ({"action": "correct"}, "content_missing"),
        ({"action": "correct", "content": ""}, "content_empty"),
        ({"action": "confirm", "content": "x"}, "content_unused"),
        ({"action": "reject", "content": "x"}, "content_unused"),
        ({"action": "flag"}, "reason_invalid"),
        ({"action": "flag", "reason": " "}, "reason_invalid"),
        ({"action": "flag", "reason": "x" * 501}, "reason_invalid"),
        ({"action": "flag", "reason": 7}, "reason_invalid"),
        ({"action": "reject", "reason": 7}, "reason_invalid"),
        ({"action": "flag", "reason": "half \ud83d"}, "metadata_invalid"),
    ],
)
async def test_a_wrong_review_is_refused_and_changes_nothing(
    engine: Engine, given: dict[str, Any], code: str
) -> None:
    id = await stored(engine)
    before = await engine.get(id)
    with pytest.raises(InvalidInput) as refused:
        await engine.review(id, **given)
    assert refused.value.code == code
    assert refused.value.hint or code.startswith(("content_empty", "metadata"))
    assert await engine.get(id) == before


async def test_nobody_can_be_reviewed_who_is_not_there(engine: Engine) -> None:
    with pytest.raises(NotFound):
        await engine.review("nobody", "confirm")
