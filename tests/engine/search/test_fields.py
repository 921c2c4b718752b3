"""Fields of a memory count as words, and are read by the model before the text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memoryd.adapters.embed.hash import HashEncoder
from memoryd.engine.engine import Engine
from memoryd.errors import InvalidInput
from memoryd.lead import DEFAULT, read_text
from memoryd.model import Memory
from tests.engine.conftest import Start

TEXT = "close every handle before a fork"


async def best(engine: Engine, query: str) -> str | None:
    page = await engine.search(query, min_score=0.0, limit=1)
    return page.hits[0].memory.id if page.hits else None


@pytest.mark.parametrize(
    ("metadata", "query"),
    [
        ({"related_files": ["src/db.ts"]}, "db.ts"),
        ({"related_files": ["src/db.ts"]}, "src/db.ts"),
        ({"related_modules": ["authentication"]}, "authentication"),
        ({"kind": "error_pattern"}, "error pattern"),
        ({"tags": ["plumbing", "pipes"]}, "pipes"),
        ({"category": "user_profile"}, "user_profile"),
        ({"kind": "workflow_recipe", "steps": ["run the linter"]}, "linter"),
        ({"kind": "dead_end", "tried": "x", "why_failed": "quota"}, "quota"),
    ],
)
@pytest.mark.parametrize("has_model", [True, False])
async def test_a_field_finds_its_memory(
    start: Start, metadata: dict[str, Any], query: str, has_model: bool
) -> None:
    async with start(HashEncoder() if has_model else None) as engine:
        wanted = (await engine.store(TEXT, metadata=metadata)).memory
        await engine.store("the moon is bright tonight")
        assert await best(engine, query) == wanted.id
        await engine.forget(wanted.id)
        page = await engine.search(query, min_score=0.0)
        assert wanted.id not in [hit.memory.id for hit in page.hits]


def assert_embedded_as_read(engine: Engine, memory: Memory) -> None:
    record = engine._parts.index.record(memory.id)
    assert record is not None
    expected = HashEncoder().encode([read_text(memory, DEFAULT)])[0]
    np.testing.assert_allclose(record.passages[0].vector, expected, atol=1e-6)


async def test_a_changed_field_is_embedded_again(engine: Engine) -> None:
    """By an update, by storing under a name again, and by an identical fact."""
    made = (await engine.store(TEXT, name="fork", metadata={"tags": ["posix"]})).memory
    assert_embedded_as_read(engine, made)
    made = (await engine.update_memory(made.id, metadata={"tags": ["unix"]})).memory
    assert_embedded_as_read(engine, made)
    made = (await engine.store(f"{TEXT}!", name="fork", metadata={"kind": "gotcha"})).memory
    assert made.metadata["tags"] == ["unix"]  # kept, so read
    assert_embedded_as_read(engine, made)
    made = (await engine.store(f"{TEXT}!", metadata={"category": "processes"})).memory
    assert (made.name, made.metadata["kind"]) == ("fork", "gotcha")
    assert_embedded_as_read(engine, made)
    assert await best(engine, "processes unix gotcha") == made.id


async def test_wrong_fields_are_refused_when_stored_and_updated(engine: Engine) -> None:
    for call in (
        engine.store(TEXT, metadata={"kind": "No!"}),
        engine.update_memory((await engine.store(TEXT)).memory.id, metadata={"confidence": 2}),
    ):
        with pytest.raises(InvalidInput) as caught:
            await call
        assert caught.value.code == "field_invalid"


async def test_an_update_checks_only_what_it_changes(engine: Engine) -> None:
    """A memory that came with a wrong value can still be changed, and its kind is known."""
    made = (await engine.store(TEXT, metadata={"kind": "dead_end", "tried": "x"})).memory
    with pytest.raises(InvalidInput):
        await engine.update_memory(made.id, metadata={"why_failed": 5})
    odd = Memory("b" * 20, made.type, "odd", made.created_at, metadata={"tags": "tea"})
    await engine.import_memory(odd)
    done = await engine.update_memory(odd.id, metadata={"tags": "tea", "category": "drink"})
    assert done.memory.metadata == {"tags": "tea", "category": "drink"}


async def test_a_citation_is_made_and_follows_the_text(engine: Engine) -> None:
    made = (await engine.store(TEXT, metadata={"kind": "gotcha"})).memory
    assert made.metadata["citation"] == TEXT
    done = await engine.update_memory(made.id, content="close the pool")
    assert done.memory.metadata["citation"] == "close the pool"
    assert "citation" not in (await engine.store("no kind")).memory.metadata
